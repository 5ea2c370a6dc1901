//! One seed: what is sent over which network, and what must hold of what arrives.

use crate::counters::counters;
use crate::network::{Faults, Path};
use crate::world::{CLIENT, SERVER, World};
use fastrand::Rng;
use rudp::{Accept, Config, ConnectionId, Control, Event, Reason, SendError, Stats};
use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

counters! {
    /// What a seed, or many, add up to.
    Totals {
        seeds,
        connections,
        messages,
        bytes,
        aborted,
        undeliverable,
        steps,
        rejected,
        duplicates,
        taken_for_lost,
        spurious,
        timeouts,
    }
}

/// No more steps than these, and no more virtual time, for so few messages.
const MAX_STEPS: u64 = 300_000;
const MAX_TIME_NS: u64 = 900_000_000_000;
/// A message's first bytes say which one it is; the shortest has none and counts alike.
const LABEL: usize = 4;

/// One end of one connection.
#[derive(Default)]
struct End {
    random: Rng,
    /// How many messages it is to send; the rest of them are not sent yet.
    to_send: u32,
    sent: u32,
    sent_empty: u32,
    next: Option<Vec<u8>>,
    acknowledged: BTreeSet<u64>,
    undeliverable: BTreeSet<u64>,
    /// What the other end sent.
    received: BTreeSet<u32>,
    received_empty: u32,
    last_received: Option<u32>,
    closed: Option<Reason>,
    max_window: u64,
    /// As it was counted last.
    stats: Stats,
}

pub(crate) struct Scenario {
    world: World,
    random: Rng,
    configs: [Config; 2],
    sides: BTreeMap<(usize, ConnectionId), End>,
    /// Which of the server's connections belongs to which of the client's: they become
    /// known in any order, so by what the first message says. `None` until then.
    connections: usize,
    aborts: bool,
    closer: usize,
    totals: Totals,
}

fn pick<T: Copy>(random: &mut Rng, from: &[T]) -> T {
    from[random.usize(..from.len())]
}

fn path(random: &mut Rng) -> Path {
    let delay_ns = pick(random, &[20_000, 200_000, 2_000_000, 20_000_000, 95_000_000]);
    let is_limited = random.u32(..4) == 0;
    let path = Path {
        delay_ns,
        jitter_ns: pick(random, &[0, 0, delay_ns / 10, delay_ns]),
        stall_ns: 0,
        loss: pick(random, &[0.0, 0.01, 0.05, 0.1, 0.2, 0.3]),
        loses_late: random.bool(),
        duplicate: pick(random, &[0.0, 0.01, 0.1]),
        reorder: pick(random, &[0.0, 0.02, 0.2]),
        overtakes: pick(random, &[0.0, 0.0, 0.02]),
        corrupt: pick(random, &[0.0, 0.01, 0.1]),
        truncate: pick(random, &[0.0, 0.01, 0.05]),
        rate: is_limited.then(|| pick(random, &[50e3, 500e3, 5e6])),
        queue: pick(random, &[5, 20, 100]),
    };
    // Drawn once for marks of congestion: so a seed is still the network that it was.
    for values in [3, 10, 20] {
        let _ = random.u32(..values);
    }
    path
}

fn config(random: &mut Rng) -> Config {
    let message_bytes = 20_000;
    Config {
        control: match random.u32(..4) {
            0 => Control::Fixed { messages: pick(random, &[1, 2, 8, 64]) },
            1 => Control::Rate,
            _ => Control::Cubic,
        },
        is_ordered: random.bool(),
        datagram_bytes: pick(random, &[200, 576, 1200, 1452, 1452, 9000]),
        message_bytes,
        window_bytes: message_bytes as u64 + random.u64(0..100_000),
        window_messages: pick(random, &[1, 3, 10, 1000]),
        queue_bytes: pick(random, &[1, 30_000, 1_000_000]),
        queue_messages: pick(random, &[1, 5, 1000]),
        idle_timeout: Duration::from_secs(120),
        keep_alive: pick(random, &[None, Some(Duration::from_secs(5))]),
    }
}

impl End {
    fn new(seed: u64, to_send: u32) -> End {
        End { random: Rng::with_seed(seed), to_send, ..End::default() }
    }

    fn message(&mut self) -> Vec<u8> {
        let random = &mut self.random;
        let len = match random.u32(..100) {
            0..5 => 0,
            5..55 => random.usize(LABEL..200),
            55..90 => random.usize(200..2_000),
            _ => random.usize(2_000..=20_000),
        };
        fill(self.sent, len)
    }
}

/// A message of this length that says which one it is, and whose other bytes follow from
/// that.
fn fill(label: u32, len: usize) -> Vec<u8> {
    let mut message = vec![0; len];
    if len > 0 {
        Rng::with_seed(u64::from(label) << 32 | len as u64).fill(&mut message);
        message[..LABEL].copy_from_slice(&label.to_be_bytes());
    }
    message
}

impl Scenario {
    pub(crate) fn new(seed: u64) -> Scenario {
        let mut random = Rng::with_seed(seed);
        let paths = [path(&mut random), path(&mut random)];
        let configs = [config(&mut random), config(&mut random)];
        let mut world = World::new(seed, paths, Accept::from(configs[SERVER].clone()));
        world.batch = pick(&mut random, &[1, 2, 16]);
        // Who does not fetch all that happened at once answers before it is worked out.
        world.events = pick(&mut random, &[1, 2, usize::MAX, usize::MAX]);
        let connections = pick(&mut random, &[1, 1, 1, 2]);
        Scenario {
            world,
            configs,
            sides: BTreeMap::new(),
            connections,
            aborts: random.u32(..50) == 0,
            closer: random.usize(..2),
            totals: Totals { seeds: 1, connections: connections as u64, ..Totals::default() },
            random,
        }
    }

    /// Runs to the end. Where it stood, if it panicked.
    pub(crate) fn run(mut self) -> Result<(Totals, Faults), String> {
        match catch_unwind(AssertUnwindSafe(|| self.run_to_the_end())) {
            Ok(()) => Ok((self.totals, self.world.network.faults)),
            Err(_) => Err(format!("panicked, see above\n{}", self.standing())),
        }
    }

    fn run_to_the_end(&mut self) {
        for _ in 0..self.connections {
            let id = self.world.connect(self.configs[CLIENT].clone());
            self.add_end(CLIENT, id);
        }
        let mut happened = Vec::new();
        loop {
            let may_be_more =
                self.world.take_events(|end, id, event| happened.push((end, id, event)));
            for (end, id, event) in happened.drain(..) {
                self.handle(end, id, event);
            }
            self.send();
            let is_more = if may_be_more {
                self.world.transmit_all();
                true
            } else {
                self.world.advance()
            };
            self.totals.steps += 1;
            self.check_bounds();
            if !is_more {
                break;
            }
            let (steps, now_ns) = (self.totals.steps, self.world.now);
            let has_ended_in_time = steps <= MAX_STEPS && now_ns <= MAX_TIME_NS;
            assert!(has_ended_in_time, "no end: {steps} steps, {now_ns} ns");
        }
        self.check_end();
        for side in self.sides.values() {
            self.totals.rejected += side.stats.packets_rejected;
            self.totals.duplicates += side.stats.packets_duplicate;
            self.totals.taken_for_lost += side.stats.packets_lost;
            self.totals.spurious += side.stats.packets_spuriously_lost;
            self.totals.timeouts += side.stats.probe_timeouts;
        }
    }

    fn add_end(&mut self, end: usize, id: ConnectionId) {
        // At least 20 messages for each connection, both ends together.
        let (least, most) = if end == CLIENT { (20, 24) } else { (0, 12) };
        let to_send = self.random.u32(least..=most);
        self.sides.insert((end, id), End::new(self.random.u64(..), to_send));
    }

    fn handle(&mut self, end: usize, id: ConnectionId, event: Event) {
        if event == Event::Connected && end == SERVER {
            self.add_end(end, id);
        }
        let is_ordered = self.configs[end].is_ordered;
        let side = self.sides.get_mut(&(end, id)).expect("events are of known connections");
        assert_eq!(side.closed, None, "{event:?} after the end");
        match event {
            Event::Connected => {}
            Event::Message(message) => {
                self.totals.messages += 1;
                self.totals.bytes += message.len() as u64;
                let Some((label, _)) = message.split_first_chunk::<LABEL>() else {
                    side.received_empty += 1;
                    return;
                };
                let label = u32::from_be_bytes(*label);
                let is_whole = message == fill(label, message.len());
                assert!(is_whole, "message {label} is not what was sent");
                let is_first = side.received.insert(label);
                assert!(is_first, "message {label} received twice");
                let last = side.last_received.replace(label);
                let is_next = last.is_none_or(|last| last <= label);
                assert!(is_next || !is_ordered, "message {label} after {last:?}");
            }
            Event::Acknowledged(id) => {
                let is_first = side.acknowledged.insert(id);
                assert!(is_first, "message {id} acknowledged twice");
            }
            Event::Undeliverable(id) => {
                self.totals.undeliverable += 1;
                let is_first = !side.acknowledged.contains(&id) && side.undeliverable.insert(id);
                assert!(is_first, "message {id} reported twice");
            }
            Event::Closed(reason) => side.closed = Some(reason),
        }
    }

    /// Sends what may be sent; when all is sent, one end closes.
    fn send(&mut self) {
        let now = self.world.time();
        let mut is_all_sent = self.sides.len() == 2 * self.connections;
        for ((end, id), side) in &mut self.sides {
            let Some(connection) = self.world.connection(*end, *id) else {
                continue;
            };
            while side.sent < side.to_send && side.closed.is_none() {
                let message = match side.next.take() {
                    Some(message) => message,
                    None => side.message(),
                };
                match connection.send(message.clone()) {
                    Ok(_) => {
                        side.sent += 1;
                        side.sent_empty += u32::from(message.is_empty());
                    }
                    Err(SendError::Full | SendError::NotConnected) => {
                        side.next = Some(message);
                        break;
                    }
                    Err(SendError::Closed) if self.aborts => break,
                    Err(error) => panic!("send: {error}"),
                }
            }
            if self.aborts && self.totals.messages > 10 && *end == self.closer {
                connection.abort(now, 7);
            }
            is_all_sent &= side.sent == side.to_send;
        }
        if is_all_sent {
            for (end, id) in self.sides.keys() {
                if *end == self.closer
                    && let Some(connection) = self.world.connection(*end, *id)
                {
                    connection.close(now);
                }
            }
        }
    }

    fn check_bounds(&mut self) {
        for ((end, id), side) in &mut self.sides {
            let Some(connection) = self.world.connection(*end, *id) else {
                continue;
            };
            let stats = connection.stats();
            let config = &self.configs[*end];
            side.max_window = side.max_window.max(stats.window_bytes);
            side.stats = stats;
            // Probes leave whatever the window says: two each time.
            let slack = (3 + 2 * stats.probe_timeouts) * config.datagram_bytes as u64;
            let bounds = [
                ("held bytes", stats.held_bytes, config.window_bytes),
                ("queued bytes", stats.queued_bytes, config.queue_bytes.max(20_000)),
                ("queued messages", stats.queued_messages, config.queue_messages.into()),
                ("bytes in flight", stats.bytes_in_flight, side.max_window.saturating_add(slack)),
                ("packets remembered", stats.packets_remembered as u64, 5_000),
                ("ranges remembered", stats.ranges_remembered as u64, 4_096),
            ];
            for (what, is, most) in bounds {
                assert!(is <= most, "{what}: {is} of {most}: {stats:?}");
            }
        }
    }

    fn check_end(&mut self) {
        // One that is given up early is never known to the server.
        if !self.aborts {
            assert_eq!(self.sides.len(), 2 * self.connections, "ends");
        }
        let (mut sent, mut received) = ([Vec::new(), Vec::new()], [Vec::new(), Vec::new()]);
        for ((end, id), side) in &self.sides {
            match side.closed {
                Some(Reason::Finished) => {}
                Some(_) if self.aborts => self.totals.aborted += 1,
                other => panic!("{id:?} of end {end} ended by {other:?}"),
            }
            let reported = side.acknowledged.len() + side.undeliverable.len();
            assert_eq!(reported, side.sent as usize, "messages reported and sent");
            sent[*end].push((side.sent, side.sent_empty));
            received[*end]
                .push((side.received.len() as u32 + side.received_empty, side.received_empty));
        }
        for way in [CLIENT, SERVER] {
            let (sent, received) = (&mut sent[way], &mut received[1 - way]);
            sent.sort_unstable();
            received.sort_unstable();
            if !self.aborts {
                assert_eq!(sent, received, "sent by end {way}, and received");
            }
        }
        for end in &self.world.ends {
            assert_eq!(end.endpoint.connections(), 0, "a connection is left");
        }
    }

    fn standing(&mut self) -> String {
        let mut text = format!("{:?}\n", self.world.network.paths);
        for ((end, id), side) in &self.sides {
            let connection = self.world.connection(*end, *id);
            let stats = connection.map(|connection| connection.stats());
            text += &format!(
                "end {end} {id:?} at {} ms: sent {} of {}, received {}, closed {:?}, {:?}, {stats:?}\n",
                self.world.now / 1_000_000,
                side.sent,
                side.to_send,
                side.received.len(),
                side.closed,
                self.configs[*end],
            );
        }
        text
    }
}
