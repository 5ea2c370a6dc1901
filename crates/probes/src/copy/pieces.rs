//! The pieces of sending and receiving a message: the terms of which `copy.send` and `copy.receive`
//! add up their predictions. A piece that was not measured is derived from a simpler cost. Nothing
//! here is fitted to what it predicts.

use super::by_size::{along, fields_ns, first, memcpy_ns, sized};
use super::parts::{Part, Parts};
use crate::cpu::memcpy::Source;
use crate::memory::bandwidth::{Bandwidth, Op};
use crate::net::rtt::Rtt;
use crate::os::pin::{self, Pin};
use crate::os::timer::{Slack, Timer};
use crate::prelude::*;
use crate::two_ends::{Over, Wait};

/// The probes that measure them.
pub(super) const AFTER: &[&str] = &[
    "os.syscall",
    "memory.bandwidth",
    "cpu.memcpy",
    "copy.parts",
    "os.pin",
    "os.timer",
    "net.rtt",
];

/// The largest packet that TCP passes to the device layer within a machine.
const PACKET_BYTES: f64 = 65_536.0;
/// Each end's work for a packet, in reads of one byte, where no round trip was measured: what
/// `net.rtt` predicts for TCP one way. Most of it is the sender's.
const SENDER_READS: Range = Range(6.0, 25.0);
const RECEIVER_READS: Range = Range(1.0, 12.5);
/// A socket call without its packets, in such reads: locking and memory accounting.
const CALL_READS: Range = Range(1.0, 5.0);

#[derive(Clone, Copy)]
pub(super) struct Pieces<'a> {
    measured: MeasuredRows<'a>,
    facts: &'a Facts,
    /// A read of one byte, the cheapest call that does something.
    pub(super) read_ns: f64,
    /// Uncached copying, in bytes per nanosecond.
    copy: f64,
}

impl<'a> Pieces<'a> {
    /// None without the measured cost of a call and of a copy.
    pub(super) fn new(measured: &MeasuredRows<'a>, facts: &'a Facts) -> Option<Pieces<'a>> {
        let copy = bandwidth(measured, facts, Op::Copy);
        let any_copy = || first(measured, |point: &Bandwidth| point.op == Op::Copy);
        Some(Pieces {
            measured: *measured,
            facts,
            read_ns: syscall::one_thread_ns(measured, syscall::Call::Read)?,
            copy: copy.or_else(any_copy)? / 1e9,
        })
    }

    /// The part's cost by size, from `copy.parts`.
    /// Copying to a destination that is not cached: the bytes at the bandwidth of writes.
    fn write_ns(&self, bytes: f64) -> f64 {
        let write = bandwidth(&self.measured, self.facts, Op::Write);
        bytes / write.map_or(self.copy, |write| write / 1e9)
    }

    /// A copy from `source` to a cached destination.
    fn memcpy_ns(&self, bytes: f64, source: Source) -> f64 {
        let usual = bytes / self.copy;
        memcpy_ns(&self.measured, bytes, source).unwrap_or_else(|| match source {
            // A cached source is copied up to four times as fast.
            Source::Hot => usual / 4.0,
            Source::Cold => usual / 1.5,
        })
    }

    /// A copy into the kernel's buffers, which may be cached or not.
    pub(super) fn copy_in(&self, bytes: f64, is_cached: bool) -> Range {
        let (hot, cold) = (self.memcpy_ns(bytes, Source::Hot), self.memcpy_ns(bytes, Source::Cold));
        let write_ns = self.write_ns(bytes);
        if !is_cached {
            Range(hot.max(cold), hot.max(cold) + write_ns)
        } else if self.fits(bytes) {
            Range(hot, hot + write_ns)
        } else {
            Range(hot, hot.max(cold) + write_ns)
        }
    }

    /// Whether twice as many bytes fit into the CPU's private caches.
    fn fits(&self, bytes: f64) -> bool {
        sizes::fit_into_level(2 * bytes as u64, self.facts, 2)
    }

    /// A copy out of the kernel's buffers. Another CPU wrote them: they are in its cache, in a
    /// shared one or in memory.
    pub(super) fn copy_out(&self, bytes: f64) -> Range {
        let (hot, cold) = (self.memcpy_ns(bytes, Source::Hot), self.memcpy_ns(bytes, Source::Cold));
        Range(hot.max(0.5 * cold), hot.max(cold) + self.write_ns(bytes))
    }

    pub(super) fn serialise(&self, bytes: f64, fields: f64, is_cached: bool) -> Range {
        let hot = fields_ns(&self.measured, bytes, fields)
            .unwrap_or_else(|| self.memcpy_ns(bytes, Source::Hot));
        let cold = hot.max(self.memcpy_ns(bytes, Source::Cold));
        if !is_cached {
            // The CPU fetches several fields at a time.
            Range(0.9 * cold, 1.5 * cold)
        } else if self.fits(bytes) {
            Range(0.9 * hot, 1.3 * hot)
        } else {
            Range(0.9 * hot, 1.3 * cold)
        }
    }

    pub(super) fn entries(&self, bytes: f64, fields: f64) -> Range {
        /// The number that copy.parts measures.
        const MEASURED: f64 = 8.0;
        let points = sized(&self.measured, None, |point: &Parts| {
            (point.part == Part::Iovec).then_some(point.size)
        });
        let measured = match *points {
            // The cost hardly depends on the size.
            [(_, ns)] => Some(ns),
            _ => along(&points, bytes),
        };
        match measured.map(|ns| ns.max(0.0)) {
            Some(ns) => Range(0.7 * ns, 1.3 * ns) * (fields / MEASURED),
            None => Range(0.05, 0.5) * self.read_ns * fields,
        }
    }

    /// Taking and dropping page references, as vmsplice does for a pipe.
    pub(super) fn references(&self, pieces: f64, pages: Pages) -> Range {
        let pinned = |pages: Pages| {
            first(&self.measured, |point: &Pin| {
                point.how == pin::How::Vmsplice && point.pages == pages
            })
        };
        match pinned(pages).or_else(|| pinned(Pages::Base)) {
            Some(ns) => Range(0.7, 1.5) * ns * pieces,
            // Two updates of a counter that CPUs share.
            None => Range(0.05, 1.0) * self.read_ns * pieces,
        }
    }

    /// Reading the completions of `batch` sends from the error queue, per send.
    pub(super) fn reap(&self, batch: u64) -> Range {
        let measured = |batch| {
            first(&self.measured, |point: &Parts| point.part == Part::Reap && point.batch == batch)
        };
        // Larger batches are cheaper: the neighbours are the bounds.
        match (measured(2 * batch), measured(batch / 2)) {
            (Some(one), Some(other)) => Range(0.7 * one.min(other), 1.3 * one.max(other)),
            _ => Range(2.0, 10.0) * (self.read_ns / batch as f64),
        }
    }

    /// The median round trip of a message of this size. A spinning wait keeps CPUs awake, a
    /// blocking one does not.
    fn round_trip_ns(&self, link: &str, over: Over, wait: Wait, bytes: f64) -> Option<Range> {
        let points = |wake| {
            sized(&self.measured, Some(link), |point: &Rtt| {
                let is_it = point.over == over.below()
                    && point.wait == wait
                    && point.cpus == Cpus::Cross
                    && point.rate == 0
                    && point.wake == wake;
                is_it.then_some(point.size)
            })
        };
        let at = |points: &[(f64, f64)], bytes: f64| match *points {
            // Another size adds two copies each way.
            [(size, ns)] => {
                let more = (bytes - size).max(0.0);
                let copies = self.copy_in(more, true) + self.copy_out(more);
                Some(Range::from(ns) + copies * 2.0)
            }
            _ => along(points, bytes).map(Range::from),
        };
        let (awake, idle) = (points(Wake::Awake), points(Wake::Idle));
        let Some(usual) = at(&awake, bytes) else {
            return at(&idle, bytes);
        };
        let later =
            idle.first().and_then(|(size, ns)| Some(ns - at(&awake, *size)?.0)).unwrap_or(0.0);
        Some(Range(usual.0 + later.min(0.0), usual.1 + later.max(0.0)))
    }

    /// A message of this size each way, with blocking waits (`net.rtt`).
    pub(super) fn echo(&self, link: &str, over: Over, bytes: f64) -> Option<Range> {
        self.round_trip_ns(link, over, Wait::Block, bytes)
    }

    /// Socket calls.
    pub(super) fn calls(&self, calls: Range) -> Range {
        CALL_READS * calls * self.read_ns
    }

    /// What the sender and the receiver do for a packet, without its copy. Half of a round trip is
    /// one packet's work at both ends. Most of it is the sender's, up to the receiver's queue. A
    /// sleeping receiver must also be woken: if that takes an interrupt to another CPU, at most the
    /// whole wake-up is the sender's work too.
    pub(super) fn packet(&self, link: &str, over: Over) -> (Range, Range, &'static str) {
        const SMALL: f64 = 56.0;
        let half = |wait| Some(self.round_trip_ns(link, over, wait, SMALL)? * 0.5);
        match (half(Wait::Spin), half(Wait::Block)) {
            (Some(spin), block) => {
                let woken = block.map_or(2.0 * spin.1, |block| block.0);
                (
                    Range(0.5 * spin.0, spin.1.max(woken)),
                    Range(0.1 * spin.0, spin.1),
                    "of half of net.rtt's round trip",
                )
            }
            _ => (SENDER_READS * self.read_ns, RECEIVER_READS * self.read_ns, "like 6 to 25 reads"),
        }
    }

    /// A packet that nobody receives takes half of the sender's path.
    pub(super) fn packet_into_sink(&self) -> Range {
        SENDER_READS * self.read_ns * 0.5
    }

    /// What a pacing congestion control (BBR) adds: it may delay each packet by a timer, or not at
    /// all. None where the control paces and no timer was measured.
    pub(super) fn pacing(&self, control: Option<&str>, bytes: f64) -> Option<Cost> {
        let usual = self.facts.kernel.sysctls.get("net.ipv4.tcp_congestion_control");
        let control = control.or(usual.map(String::as_str)).unwrap_or_default();
        if !control.starts_with("bbr") {
            return Some(Cost::default());
        }
        let late = |slack| {
            let with = |wake| {
                first(&self.measured, |point: &Timer| point.slack == slack && point.wake == wake)
            };
            with(Wake::Awake).or_else(|| with(Wake::Idle))
        };
        // Kernel timers have no slack; the measured lateness of a process's timers includes it.
        let slack_ns = self.facts.inherited.timer_slack_ns;
        let less_slack = || Some((late(Slack::Default)? - slack_ns? as f64).max(0.0));
        let late = late(Slack::Least).or_else(less_slack)?;
        // Small messages that queue up in the meantime share a packet.
        let added = Range(0.0, late) * (bytes / PACKET_BYTES);
        let name = format!("as {control} may have each 64 KiB wait for a timer (os.timer)");
        Some(Cost::new(added, name))
    }
}

/// Bytes per second of an operation on uncached memory, by one thread.
fn bandwidth(measured: &MeasuredRows<'_>, facts: &Facts, op: Op) -> Option<f64> {
    let beyond = sizes::beyond(facts);
    first(measured, |point: &Bandwidth| {
        point.op == op && point.size == beyond && point.threads == 1
    })
}

/// Packets per message, which consists of `pieces` page fragments at most. Small messages do not
/// share a packet as long as the sender is the bottleneck.
pub(super) fn packets(bytes: f64, pieces: f64) -> Range {
    /// Fragments per packet, `MAX_SKB_FRAGS`. Source: include/linux/skbuff.h.
    const PIECES: f64 = 17.0;
    let least = (bytes / PACKET_BYTES).max(1.0);
    Range(least, least.max(pieces / PIECES))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{at, measured, read_and_copy};
    use costof_model::rows::PointRow;

    #[test]
    fn pages_cost_what_pinning_does() {
        let [read, copy] = read_and_copy();
        let rows = [
            read,
            copy,
            measured(at::<Pin>("how=vmsplice pages=4KiB"), 60.0),
            measured(at::<Pin>("how=vmsplice pages=2MiB"), 40.0),
        ];
        let facts = Facts::default();
        let of = |rows: &[PointRow], pages| {
            let range = Pieces::new(&MeasuredRows::new(rows), &facts).unwrap();
            let Range(low, high) = range.references(10.0, pages);
            (low.round(), high.round())
        };
        assert_eq!(of(&rows, Pages::Base), (420.0, 900.0));
        assert_eq!(of(&rows, Pages::Huge), (280.0, 600.0));
        assert_eq!(of(&rows[..2], Pages::Base), (50.0, 1000.0));
        assert!(Pieces::new(&MeasuredRows::new(&rows[..1]), &facts).is_none());
    }

    #[test]
    fn completions_are_between_neighbouring_batches() {
        let [read, copy] = read_and_copy();
        let rows = [
            read,
            copy,
            measured(at::<Parts>("part=reap batch=16"), 80.0),
            measured(at::<Parts>("part=reap batch=64"), 20.0),
        ];
        let facts = Facts::default();
        let of =
            |rows: &[PointRow]| Pieces::new(&MeasuredRows::new(rows), &facts).unwrap().reap(32);
        assert_eq!(of(&rows), Range(0.7 * 20.0, 1.3 * 80.0));
        assert_eq!(of(&rows[..2]), Range(200.0 / 32.0, 1000.0 / 32.0));
    }
}
