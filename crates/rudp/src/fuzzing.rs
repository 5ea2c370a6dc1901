//! What the fuzz targets in `fuzz/` do with their bytes. The tests here do it too, with
//! bytes drawn from seeds, so that the targets cannot rot.

use crate::ecn::Ecn;
use crate::event::Event;
use crate::frame::{self, Frame};
use crate::packet::{self, Data, HANDSHAKE_SEED, Handshake};
use crate::range_set::RangeSet;
use crate::wire::{Reader, VARINT_MAX};
use crate::{Accept, Config, ConnectionId, Control, Endpoint, Time};
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

/// Reads the bytes as a datagram and as frames; what is read is the same when it was
/// written again.
pub fn codec(bytes: &[u8]) {
    let mut sealed = bytes.to_vec();
    packet::put_tag(&mut sealed, 0, HANDSHAKE_SEED);
    let (handshake, data) = (Handshake::read(&sealed), Data::read(&sealed));
    assert!(handshake.is_none() || data.is_none());
    if let Some(packet) = handshake {
        let mut written = Vec::new();
        packet.write(&mut written);
        assert_eq!(Handshake::read(&written), Some(packet));
    }
    let mut reader = Reader(bytes);
    while let Some(read) = Frame::read(&mut reader) {
        let mut written = Vec::new();
        let is_same = write(&read, &mut written);
        let mut again = Reader(&written);
        let found = Frame::read(&mut again);
        assert!(again.is_empty(), "{read:?}");
        match (read, found) {
            // Ranges are written as short as they can be; they may have come longer.
            (Frame::Ack(read), Some(Frame::Ack(found))) => {
                assert_eq!(read.largest, found.largest);
                assert!(read.ranges().eq(found.ranges()));
                assert!(!is_same || read.delay == found.delay);
            }
            (read, found) => assert_eq!(Some(read), found),
        }
    }
}

/// Writes the frame. Whether nothing about it had to be bounded.
fn write(frame: &Frame<'_>, out: &mut Vec<u8>) -> bool {
    match frame {
        Frame::Padding => frame::put_padding(out, 1),
        Frame::Ping => frame::put_ping(out),
        Frame::Credit(credit) => frame::put_credit(out, *credit),
        Frame::Finish { messages } => frame::put_finish(out, *messages),
        Frame::Abort { code } => frame::put_abort(out, *code),
        Frame::Message(piece) => frame::put_message(out, piece),
        Frame::EcnCounts(marks) => assert!(frame::put_ecn_counts(out, *marks, usize::MAX)),
        Frame::Ack(ack) => {
            let mut came = RangeSet::new();
            for range in ack.ranges() {
                came.insert(*range.start()..range.end() + 1);
            }
            let has_room = frame::put_ack(out, &came, ack.delay, usize::MAX, usize::MAX);
            assert!(has_room);
            return ack.delay <= Duration::from_micros(1 << 30);
        }
    }
    true
}

/// Takes the bytes for a script: what two ends send and are sent, what is lost, damaged and
/// forged on the way, and how time passes. Whatever happens, nobody panics, holds more than
/// its window, hands over what was not sent (unless packets were forged), or stays for ever.
pub fn connections(script: &[u8]) {
    let mut script = Script(script);
    let mut world = World::new(&mut script);
    while let Some(what) = script.u8() {
        world.act(what, &mut script);
        world.check();
    }
    world.end();
}

struct Script<'a>(&'a [u8]);

impl Script<'_> {
    fn u8(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    /// Zero at the end.
    fn any(&mut self) -> u8 {
        self.u8().unwrap_or(0)
    }

    fn bytes(&mut self) -> Vec<u8> {
        let count = usize::from(self.any()).min(self.0.len());
        let (these, rest) = self.0.split_at(count);
        self.0 = rest;
        these.to_vec()
    }
}

/// The client, then the server.
struct World {
    now: u64,
    ends: [Endpoint; 2],
    configs: [Config; 2],
    /// Of each end; the client's comes first.
    connections: [Vec<ConnectionId>; 2],
    /// What each end sent last.
    last: [Vec<u8>; 2],
    buffer: Vec<u8>,
    is_forged: bool,
}

const ADDRESSES: [SocketAddr; 2] = [
    SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)), 1),
    SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::new(192, 0, 2, 2)), 2),
];
/// More datagrams than any window has, from one end at one time.
const DATAGRAMS_MAX: usize = 100_000;
/// More timers than run before the last connection has timed out.
const TIMERS_MAX: usize = 100_000;

impl World {
    fn new(script: &mut Script<'_>) -> World {
        let config = |choice: u8| Config {
            control: match choice % 4 {
                0 => Control::Fixed { messages: 3 },
                1 => Control::Rate,
                _ => Control::Cubic,
            },
            is_ordered: choice & 4 == 0,
            datagram_bytes: [200, 1452][usize::from(choice >> 3 & 1)],
            message_bytes: 5000,
            window_bytes: 20_000,
            window_messages: 20,
            ..Config::default()
        };
        let configs = [config(script.any()), config(script.any())];
        let accept = Accept::from(configs[1].clone());
        let ends = [None, Some(accept)].map(|accept| {
            let secret = [1 + u8::from(accept.is_some()); 16];
            Endpoint::new(secret, accept).expect("the configuration is sound")
        });
        let mut world = World {
            now: 1_000_000_000,
            ends,
            configs,
            connections: Default::default(),
            last: Default::default(),
            buffer: Vec::new(),
            is_forged: false,
        };
        let (now, config) = (Time::from_nanos(world.now), world.configs[0].clone());
        let id = world.ends[0].connect(now, ADDRESSES[1], config);
        world.connections[0].push(id.expect("the configuration is sound"));
        world
    }

    fn act(&mut self, what: u8, script: &mut Script<'_>) {
        let end = usize::from(what >> 7);
        match what & 0x0f {
            0..4 => self.exchange(None, script),
            4 => self.exchange(Some(end), script),
            5 => self.pass(1 << (script.any() % 36)),
            // Time must not go backwards; where it does nothing breaks.
            6 => self.now = self.now.saturating_sub(1 << (script.any() % 30)),
            7 => {
                if let Some(at) = self.ends[end].poll_timeout() {
                    self.pass(at.as_nanos().saturating_sub(self.now));
                }
            }
            8..10 => self.send(end, usize::from(script.any()) * 20),
            10 => self.tell(),
            11 => {
                let datagram = script.bytes();
                self.deliver(end, None, &datagram);
            }
            12 => {
                let datagram = self.last[1 - end].clone();
                self.deliver(end, None, &datagram);
            }
            13 => self.forge(end, script),
            14 => self.with_connection(end, |connection, now| connection.close(now)),
            _ => {
                let code = script.any().into();
                if code > 200 {
                    self.with_connection(end, |connection, now| connection.abort(now, code));
                }
            }
        }
    }

    fn time(&self) -> Time {
        Time::from_nanos(self.now)
    }

    fn pass(&mut self, ns: u64) {
        self.now = self.now.saturating_add(ns);
        let now = self.time();
        for end in &mut self.ends {
            end.handle_timeout(now);
        }
    }

    fn with_connection(&mut self, end: usize, what: impl FnOnce(&mut crate::Connection, Time)) {
        let now = self.time();
        if let Some(id) = self.connections[end].first().copied()
            && let Some(connection) = self.ends[end].connection(id)
        {
            what(connection, now);
        }
    }

    fn send(&mut self, end: usize, bytes: usize) {
        // What came unchanged is known by its length.
        self.with_connection(end, |connection, _| {
            let _ = connection.send(vec![bytes as u8; bytes]);
        });
    }

    fn deliver(&mut self, to: usize, ecn: Option<Ecn>, datagram: &[u8]) {
        let now = self.time();
        self.ends[to].handle_marked_datagram(now, ADDRESSES[1 - to], ecn, datagram);
    }

    /// Carries what both ends have to send; of what this one sends a part is lost, damaged or
    /// marked.
    fn exchange(&mut self, damaged: Option<usize>, script: &mut Script<'_>) {
        self.now += 1000;
        let now = self.time();
        for from in [0, 1] {
            let mut buffer = std::mem::take(&mut self.buffer);
            for count in 0.. {
                assert!(count < DATAGRAMS_MAX, "it sends without end");
                let Some(transmit) = self.ends[from].poll_transmit(now, 4, 9000, &mut buffer)
                else {
                    break;
                };
                assert_eq!(transmit.to, ADDRESSES[1 - from]);
                for datagram in buffer.chunks(transmit.datagram_bytes) {
                    assert!(datagram.len() <= self.configs[from].datagram_bytes);
                    let mut datagram = datagram.to_vec();
                    let mut ecn = transmit.ecn;
                    if damaged == Some(from) {
                        match script.any() {
                            0..50 => continue,
                            50..100 => {
                                let at = usize::from(script.any()) % datagram.len();
                                datagram[at] ^= script.any().max(1);
                            }
                            100..150 => ecn = Ecn::from_bits(script.any()),
                            150..170 => datagram.truncate(script.any().into()),
                            _ => {}
                        }
                    }
                    self.deliver(1 - from, ecn, &datagram);
                    self.last[from] = datagram;
                }
            }
            self.buffer = buffer;
        }
    }

    /// A packet of any frames, as only who reads the packets could make one.
    fn forge(&mut self, to: usize, script: &mut Script<'_>) {
        let number = u64::from(script.any());
        let number = if number > 250 { VARINT_MAX } else { number };
        let least_unacked = number.saturating_sub(script.any().into());
        let ecn = Ecn::from_bits(script.any());
        let frames = script.bytes();
        let mut datagram = Vec::new();
        self.with_connection(to, |connection, _| {
            let ids = connection.ids();
            packet::put_header(&mut datagram, ids.own, number, least_unacked);
            datagram.extend_from_slice(&frames);
            packet::put_tag(&mut datagram, 0, ids.seed);
        });
        self.is_forged = true;
        self.deliver(to, ecn, &datagram);
    }

    fn tell(&mut self) {
        for end in [0, 1] {
            while let Some((id, event)) = self.ends[end].poll_event() {
                match event {
                    Event::Connected if end == 1 => self.connections[1].push(id),
                    Event::Message(message) if !self.is_forged => {
                        let is_known = message.iter().all(|byte| *byte == message.len() as u8);
                        assert!(is_known, "a message of {} bytes changed", message.len());
                    }
                    _ => {}
                }
            }
        }
    }

    fn check(&mut self) {
        for end in [0, 1] {
            for id in &self.connections[end] {
                let Some(connection) = self.ends[end].connection(*id) else {
                    continue;
                };
                let stats = connection.stats();
                assert!(stats.held_bytes <= self.configs[end].window_bytes);
                assert!(stats.ranges_remembered <= 4096);
            }
        }
    }

    /// Nothing more is carried: both ends give up in time.
    fn end(&mut self) {
        self.tell();
        for count in 0.. {
            assert!(count < TIMERS_MAX, "it waits without end");
            let now = self.time();
            for end in &mut self.ends {
                let mut sent = 0;
                while end.poll_transmit(now, 4, 9000, &mut self.buffer).is_some() {
                    sent += 1;
                    assert!(sent < DATAGRAMS_MAX, "it sends without end");
                }
            }
            self.tell();
            let timers = self.ends.iter().filter_map(Endpoint::poll_timeout);
            let Some(next) = timers.min() else {
                break;
            };
            self.pass(next.as_nanos().saturating_sub(self.now));
        }
        for end in &self.ends {
            assert_eq!(end.connections(), 0, "a connection stays");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_codec_reads_what_it_writes(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            codec(&bytes);
        }

        #[test]
        fn connections_bear_whatever_happens(script in prop::collection::vec(any::<u8>(), 0..600)) {
            connections(&script);
        }
    }

    #[test]
    fn frames_of_small_numbers_are_read_back() {
        let mut random = fastrand::Rng::with_seed(1);
        let mut bytes = [0; 100];
        for _ in 0..100_000 {
            random.fill(&mut bytes);
            for byte in &mut bytes {
                // Small numbers are what frames are made of.
                if random.bool() {
                    *byte %= 9;
                }
            }
            codec(&bytes[..random.usize(..bytes.len())]);
        }
    }

    #[test]
    fn handshakes_are_read_back() {
        let mut random = fastrand::Rng::with_seed(2);
        let mut bytes = [0; 120];
        for _ in 0..100_000 {
            random.fill(&mut bytes);
            bytes[0] = random.u8(0x11..0x14);
            // Where a hello or an acceptance has its window, which is below 2^40.
            let window = if bytes[0] == 0x11 { 23 } else { 39 };
            bytes[window..window + 4].fill(0);
            if bytes[0] == 0x11 {
                // A token or none.
                bytes[39] = [0, 24][random.usize(..2)];
            }
            codec(&bytes[..random.usize(80..bytes.len())]);
        }
    }
}
