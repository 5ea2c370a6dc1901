//! Two endpoints, what happens between them and how time passes, as bytes say: for the fuzz target
//! `rudp_peers`, and for the test beside this file.

use rudp::{Accept, Config, Connection, ConnectionId, Control, Endpoint, Event, Time};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use twox_hash::XxHash3_64;

/// Takes the bytes as a script: what two endpoints send and receive, what is lost, damaged and forged on
/// the way, and how time passes. Whatever happens, nothing panics, holds more than its window, delivers
/// what was not sent (unless packets were forged), or stays for ever.
pub(crate) fn run(script: &[u8]) {
    let mut script = Script(script);
    let mut world = World::new(&mut script);
    while let Some(action) = script.u8() {
        world.act(action, &mut script);
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
    /// The last datagram of each end.
    last: [Vec<u8>; 2],
    /// Of each end, once they are known: the id that it gave its connection.
    ids: [u64; 2],
    /// The id and the nonce of the client's last hello.
    hello: [u8; 16],
    /// Of the tags of the connection's packets.
    seed: u64,
    buffer: Vec<u8>,
    is_forged: bool,
}

const ADDRESSES: [SocketAddr; 2] = [
    SocketAddr::new(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)), 1),
    SocketAddr::new(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 2)), 2),
];
/// The kinds of packets, the seed of the handshake's tags and the largest packet number: see `packet.rs`.
const HELLO: u8 = 0x11;
const ACCEPT: u8 = 0x13;
const DATA: u8 = 0x14;
const HANDSHAKE_SEED: u64 = 0x7275_6470_0000_0001;
const MAX_NUMBER: u64 = (1 << 62) - 1;
/// More datagrams than any window has, from one end at one time.
const MAX_DATAGRAMS: usize = 100_000;
/// More timers than run before the last connection has timed out.
const MAX_TIMERS: usize = 100_000;

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
            ids: [0; 2],
            hello: [0; 16],
            seed: 0,
            buffer: Vec::new(),
            is_forged: false,
        };
        let (now, config) = (Time::from_nanos(world.now), world.configs[0].clone());
        let id = world.ends[0].connect(now, ADDRESSES[1], config);
        world.connections[0].push(id.expect("the configuration is sound"));
        world
    }

    fn act(&mut self, action: u8, script: &mut Script<'_>) {
        let end = usize::from(action >> 7);
        match action & 0x0f {
            0..4 => self.exchange(None, script),
            4 => self.exchange(Some(end), script),
            5 => self.advance(1 << (script.any() % 36)),
            // Time must not go backwards; where it does nothing breaks.
            6 => self.now = self.now.saturating_sub(1 << (script.any() % 30)),
            7 => {
                if let Some(at) = self.ends[end].poll_timeout() {
                    self.advance(at.as_nanos().saturating_sub(self.now));
                }
            }
            8..10 => self.send(end, usize::from(script.any()) * 20),
            10 => self.take_events(),
            11 => {
                let mut datagram = script.bytes();
                if action & 0x10 != 0 {
                    self.make_handshake(&mut datagram);
                }
                self.deliver(end, &datagram);
            }
            12 => {
                let datagram = self.last[1 - end].clone();
                self.deliver(end, &datagram);
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

    fn advance(&mut self, ns: u64) {
        self.now = self.now.saturating_add(ns);
        let now = self.time();
        for end in &mut self.ends {
            end.handle_timeout(now);
        }
    }

    fn with_connection(&mut self, end: usize, what: impl FnOnce(&mut Connection, Time)) {
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

    fn deliver(&mut self, to: usize, datagram: &[u8]) {
        let now = self.time();
        self.ends[to].handle_datagram(now, ADDRESSES[1 - to], datagram);
    }

    /// Carries what both ends have to send; of what this one sends a part is lost or damaged.
    fn exchange(&mut self, damaged: Option<usize>, script: &mut Script<'_>) {
        self.now += 1000;
        let now = self.time();
        for from in [0, 1] {
            let mut buffer = std::mem::take(&mut self.buffer);
            for count in 0.. {
                assert!(count < MAX_DATAGRAMS, "it sends without end");
                let Some(transmit) = self.ends[from].poll_transmit(now, 4, 9000, &mut buffer)
                else {
                    break;
                };
                assert_eq!(transmit.to, ADDRESSES[1 - from]);
                for datagram in buffer.chunks(transmit.datagram_bytes) {
                    self.eavesdrop(datagram);
                    assert!(datagram.len() <= self.configs[from].datagram_bytes);
                    let mut datagram = datagram.to_vec();
                    if damaged == Some(from) {
                        match script.any() {
                            0..50 => continue,
                            50..100 => {
                                let at = usize::from(script.any()) % datagram.len();
                                datagram[at] ^= script.any().max(1);
                            }
                            100..120 => datagram.truncate(script.any().into()),
                            _ => {}
                        }
                    }
                    self.deliver(1 - from, &datagram);
                    self.last[from] = datagram;
                }
            }
            self.buffer = buffer;
        }
    }

    /// Learns what an attacker who reads the packets learns of the connection, by its hello and acceptance.
    fn eavesdrop(&mut self, datagram: &[u8]) {
        if let Some((&HELLO, fields)) = datagram.split_first()
            && let Some(hello) = fields.first_chunk()
        {
            self.hello = *hello;
        }
        if let Some((&ACCEPT, fields)) = datagram.split_first()
            && let Some((fields, _)) = fields.split_first_chunk::<32>()
        {
            let field = |at: usize| *fields[8 * at..].first_chunk().expect("eight bytes");
            self.ids = [field(0), field(2)].map(u64::from_be_bytes);
            let nonces = [field(1), field(3)].concat();
            self.seed = XxHash3_64::oneshot_with_seed(HANDSHAKE_SEED, &nonces);
        }
    }

    /// A packet of any frames, as only an attacker who reads the packets could make one.
    fn forge(&mut self, to: usize, script: &mut Script<'_>) {
        let number = u64::from(script.any());
        let number = if number > 250 { MAX_NUMBER } else { number };
        let unacked = number - number.min(script.any().into());
        let mut datagram = vec![DATA];
        datagram.extend(self.ids[to].to_be_bytes());
        datagram.extend(number.to_be_bytes());
        // A variable-length integer of eight bytes.
        datagram.extend((3 << 62 | (number - unacked)).to_be_bytes());
        datagram.extend(script.bytes());
        let tag = XxHash3_64::oneshot_with_seed(self.seed, &datagram);
        datagram.extend(tag.to_be_bytes());
        self.is_forged = true;
        self.deliver(to, &datagram);
    }

    /// Makes these bytes a packet of the client's handshake, with any parameters.
    fn make_handshake(&mut self, datagram: &mut Vec<u8>) {
        let Some((kind, fields)) = datagram.split_first_mut() else {
            return;
        };
        *kind = HELLO + *kind % 3;
        // Where a hello has its window, which is below 2^40, and the length of its token.
        let window = if *kind == HELLO { 22 } else { 38 };
        if let Some((hello, _)) = fields.split_first_chunk_mut() {
            *hello = self.hello;
        }
        if let Some(window) = fields.get_mut(window..window + 4) {
            window.fill(0);
        }
        if let Some(token) = fields.get_mut(38).filter(|_| *kind == HELLO) {
            *token = *token % 2 * 24;
        }
        let tag = XxHash3_64::oneshot_with_seed(HANDSHAKE_SEED, datagram);
        datagram.extend(tag.to_be_bytes());
        self.is_forged = true;
        self.eavesdrop(datagram);
    }

    fn take_events(&mut self) {
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
        self.take_events();
        for count in 0.. {
            assert!(count < MAX_TIMERS, "it waits without end");
            let now = self.time();
            for end in &mut self.ends {
                let mut sent = 0;
                while end.poll_transmit(now, 4, 9000, &mut self.buffer).is_some() {
                    sent += 1;
                    assert!(sent < MAX_DATAGRAMS, "it sends without end");
                }
            }
            self.take_events();
            let timers = self.ends.iter().filter_map(Endpoint::poll_timeout);
            let Some(next) = timers.min() else {
                break;
            };
            self.advance(next.as_nanos().saturating_sub(self.now));
        }
        for end in &self.ends {
            assert_eq!(end.connections(), 0, "a connection stays");
        }
    }
}

#[test]
fn a_forged_packet_is_believed() {
    // Two configurations; the packet number, what is unacknowledged, and a ping.
    let mut script = Script(&[0, 0, 99, 0, 1, 1]);
    let mut world = World::new(&mut script);
    for _ in 0..10 {
        world.exchange(None, &mut Script(&[]));
    }
    world.take_events();
    let received = |world: &mut World| {
        let mut received = 0;
        world.with_connection(1, |connection, _| {
            received = connection.stats().packets_received;
        });
        received
    };
    let before = received(&mut world);
    world.forge(1, &mut script);
    assert_eq!(received(&mut world), before + 1);
}
