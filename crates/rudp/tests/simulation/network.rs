//! A network in virtual time that damages what it carries, as its seed says.

use crate::counters::counters;
use crate::world::SECOND;
use fastrand::Rng;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::net::SocketAddr;

/// What one direction does to datagrams.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Path {
    pub(crate) delay_ns: u64,
    /// The most additional delay of a packet, without overtaking.
    pub(crate) jitter_ns: u64,
    /// It stands still for up to so long, up to twice a second, as a relay does whose CPU is taken away.
    pub(crate) stall_ns: u64,
    /// The share that is lost.
    pub(crate) loss: f64,
    /// Whether what is lost has passed the line before.
    pub(crate) loses_late: bool,
    pub(crate) duplicate: f64,
    /// The share that is held up for up to two more delays, so that others overtake.
    pub(crate) reorder: f64,
    /// The share that is not held up at all, and overtakes everything in flight.
    pub(crate) overtakes: f64,
    /// The share in which bits are turned over.
    pub(crate) corrupt: f64,
    /// The share of which the end is missing.
    pub(crate) truncate: f64,
    /// Bytes per second, with 28 bytes of headers for each; none where all pass.
    pub(crate) rate: Option<f64>,
    /// How many wait for the rate; more are dropped.
    pub(crate) queue: usize,
}

impl Path {
    /// Does nothing to them.
    pub(crate) const IDEAL: Path = Path {
        delay_ns: 0,
        jitter_ns: 0,
        stall_ns: 0,
        loss: 0.0,
        loses_late: false,
        duplicate: 0.0,
        reorder: 0.0,
        overtakes: 0.0,
        corrupt: 0.0,
        truncate: 0.0,
        rate: None,
        queue: 0,
    };
}

counters! {
    /// What happened to how many datagrams.
    Faults {
        carried,
        lost,
        duplicated,
        reordered,
        corrupted,
        truncated,
        overflowed,
    }
}

/// Datagrams in flight, in both directions.
#[derive(Default)]
pub(crate) struct Network {
    pub(crate) paths: [Path; 2],
    pub(crate) faults: Faults,
    /// Everything that was sent, if it is recorded.
    pub(crate) record: Option<Vec<Datagram>>,
    lines: [Line; 2],
    random: Rng,
    /// When it arrives, its turn among those, and where it is kept.
    in_flight: BinaryHeap<Reverse<(u64, u64, usize)>>,
    sent: u64,
    datagrams: Vec<Datagram>,
    free: Vec<usize>,
}

#[derive(Default)]
struct Line {
    free_ns: f64,
    starts_ns: VecDeque<u64>,
    last_ns: u64,
    stalls_at_ns: u64,
}

#[derive(Clone)]
pub(crate) struct Datagram {
    pub(crate) from: SocketAddr,
    pub(crate) to: SocketAddr,
    pub(crate) bytes: Vec<u8>,
}

impl Network {
    pub(crate) fn new(seed: u64, paths: [Path; 2]) -> Network {
        Network { paths, random: Rng::with_seed(seed), ..Network::default() }
    }

    pub(crate) fn send(
        &mut self,
        now: u64,
        way: usize,
        from: SocketAddr,
        to: SocketAddr,
        bytes: &[u8],
    ) {
        if let Some(record) = &mut self.record {
            record.push(Datagram { from, to, bytes: bytes.to_vec() });
        }
        let path = self.paths[way];
        self.faults.carried += 1;
        if self.random.f64() < path.loss {
            self.faults.lost += 1;
            if path.loses_late {
                self.pass_line(now, way, bytes.len());
            }
            return;
        }
        let copies = 1 + usize::from(self.random.f64() < path.duplicate);
        for copy in 0..copies {
            let Some(through) = self.pass_line(now, way, bytes.len()) else {
                self.faults.overflowed += 1;
                return;
            };
            self.faults.duplicated += copy as u64;
            let at = self.keep(from, to, bytes);
            self.damage(&path, at);
            let arrives = self.arrival(&path, way, through);
            self.sent += 1;
            self.in_flight.push(Reverse((arrives, self.sent, at)));
        }
    }

    fn keep(&mut self, from: SocketAddr, to: SocketAddr, bytes: &[u8]) -> usize {
        let at = self.free.pop().unwrap_or_else(|| {
            self.datagrams.push(Datagram { from, to, bytes: Vec::new() });
            self.datagrams.len() - 1
        });
        let datagram = &mut self.datagrams[at];
        (datagram.from, datagram.to) = (from, to);
        datagram.bytes.clear();
        datagram.bytes.extend_from_slice(bytes);
        at
    }

    fn damage(&mut self, path: &Path, at: usize) {
        let bytes = &mut self.datagrams[at].bytes;
        if self.random.f64() < path.corrupt {
            self.faults.corrupted += 1;
            for _ in 0..self.random.u32(1..=4) {
                let byte = self.random.usize(..bytes.len());
                bytes[byte] ^= 1 << self.random.u32(..8);
            }
        }
        if self.random.f64() < path.truncate {
            self.faults.truncated += 1;
            bytes.truncate(self.random.usize(..bytes.len()));
        }
    }

    fn arrival(&mut self, path: &Path, way: usize, through: u64) -> u64 {
        // Not sampled where nothing overtakes, so that the networks of the other seeds stay what they were.
        if path.overtakes > 0.0 && self.random.f64() < path.overtakes {
            self.faults.reordered += 1;
            return through;
        }
        let arrives = through + path.delay_ns;
        if self.random.f64() < path.reorder {
            self.faults.reordered += 1;
            return arrives + self.random.u64(0..=2 * path.delay_ns);
        }
        let mut held_up = arrives + self.random.u64(0..=path.jitter_ns);
        let line = &mut self.lines[way];
        if path.stall_ns > 0 && arrives >= line.stalls_at_ns {
            held_up += self.random.u64(0..=path.stall_ns);
            line.stalls_at_ns = arrives + self.random.u64(SECOND / 2..2 * SECOND);
        }
        line.last_ns = held_up.max(line.last_ns);
        line.last_ns
    }

    /// When it has passed the line; `None` if the queue was full.
    fn pass_line(&mut self, now: u64, way: usize, bytes: usize) -> Option<u64> {
        let path = &self.paths[way];
        let Some(rate) = path.rate else {
            return Some(now);
        };
        let line = &mut self.lines[way];
        while line.starts_ns.front().is_some_and(|start| *start <= now) {
            line.starts_ns.pop_front();
        }
        if line.starts_ns.len() >= path.queue {
            return None;
        }
        let start = line.free_ns.max(now as f64);
        line.starts_ns.push_back(start as u64);
        line.free_ns = start + (bytes + 28) as f64 / rate * 1e9;
        Some(line.free_ns as u64)
    }

    /// When something arrives next.
    pub(crate) fn next_ns(&self) -> Option<u64> {
        self.in_flight.peek().map(|Reverse((at, _, _))| *at)
    }

    /// What has arrived by now.
    pub(crate) fn receive(&mut self, now: u64) -> Option<&Datagram> {
        self.next_ns().filter(|at| *at <= now)?;
        let Reverse((_, _, at)) = self.in_flight.pop()?;
        self.free.push(at);
        Some(&self.datagrams[at])
    }
}
