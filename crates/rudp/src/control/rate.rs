//! A model of the path: how fast it delivers, how long a round trip takes without queues, and which share of
//! the packets it loses regardless of the rate.
//!
//! Packets leave at the delivery rate divided by the share that arrives. So a link that loses 30 % at random
//! is filled: the sending rate exceeds the delivery rate by what is lost. As in BBR (draft-ietf-ccwg-bbr),
//! the rate is the highest of the last rounds, and every few rounds a higher one is tried.
//!
//! These rules keep it from flooding a link if it causes the loss itself:
//! - A growing round trip means that a queue grows; it then sends less than is delivered.
//! - It compensates for the *lowest* loss of the last rounds, one of which sends less on purpose: loss that
//!   disappears in that round is not compensated for.
//! - If the queue overflows or doubles the round trip, the link has changed: then only the rates of the last
//!   two rounds count.

use super::{Acknowledged, INITIAL_PACKETS};
use crate::time::Time;
use std::time::Duration;

/// For how many rounds the highest rate and the lowest loss count.
const ROUNDS: usize = 10;
/// A loss is measured over at least this many packets.
const LOSS_PACKETS: f64 = 128.0;
/// If the loss exceeds the lowest by this much while there is a queue, the queue overflows.
const LOSS_OVERFLOW: f64 = 0.1;
/// At most this much loss is compensated for.
const MAX_LOSS: f64 = 0.6;
/// The window, as a multiple of what the rate delivers in a round trip.
const WINDOW_GAIN: f64 = 2.0;
/// The smallest window: loss must be seen without a timeout.
const MIN_WINDOW_PACKETS: f64 = 8.0;
/// The window before anything is known, in bytes, if ten packets are fewer: 64 packets of an Ethernet, which
/// a link of 10 Mb/s carries in 75 ms. A thousand small messages leave at once in it; in the 32 packets of
/// Chromium's QUIC or the ten of RFC 9002, the last would wait for one or two round trips.
const INITIAL_BYTES: f64 = 64.0 * 1452.0;
/// By how much the rate grows at first, in each round trip.
const START_GAIN: f64 = 2.0;
/// The start is over when the rate has not grown by this factor in this many rounds.
const START_GROWTH: f64 = 1.25;
const START_ROUNDS: u32 = 3;
/// Rounds with fewer packets than this are too noisy to judge, so it waits for this many more.
const START_PACKETS: f64 = 64.0;
const START_ROUNDS_SMALL: u32 = 9;
/// The search for a higher rate continues while the rate grows by this factor in a round. At 30 % loss it
/// grows by 1.08 to 1.17 there, as the lowest loss of the last rounds compensates for a part of it only.
const UP_GROWTH: f64 = 1.05;
/// A rate that still grew in this round of the search is far from that of the link: it starts again.
const UP_ROUNDS: u32 = 3;
/// From this round on, more than the initial window has been acknowledged.
const INITIAL_ROUNDS: u32 = 2;
/// Rounds at a constant rate between two searches for a higher one.
const CRUISE_ROUNDS: u32 = 5;
const UP_GAIN: f64 = 1.25;
const DOWN_GAIN: f64 = 0.75;
/// After this time, the shortest round trip is measured again.
const MIN_RTT_EXPIRY: Duration = Duration::from_secs(10);
/// A queue of up to this share of the shortest round trip, or up to this time, is left alone.
const QUEUE_SHARE: f64 = 0.1;
const MIN_QUEUE: Duration = Duration::from_millis(2);
/// The median of this many round trips counts: neither one that is longer by chance nor a packet that
/// overtook all others shows how long it takes without a queue.
const QUEUE_SAMPLES: usize = 16;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    #[default]
    Start,
    /// Sends less until the queue has drained.
    Drain,
    Cruise,
    Up,
    Down,
}

#[derive(Debug, Default)]
pub(crate) struct Rate {
    packet: f64,
    /// The window while no rate is known.
    initial_window: f64,
    phase: Phase,
    /// Rounds in this phase.
    rounds: u32,
    round_end: u64,
    /// The highest delivered rate of each of the last rounds, in bytes per second.
    rates: [f64; ROUNDS],
    has_rate: bool,
    rate: f64,
    /// The rate when it last grew, and for how many rounds it has not.
    grown_rate: f64,
    level_rounds: u32,
    round_bytes: f64,
    /// The loss of each of the last rounds, and the lowest of them.
    losses: Vec<f64>,
    loss: f64,
    acknowledged_bytes: f64,
    lost_bytes: f64,
    /// The shortest round trip, and when it was last seen; the shortest of the medians, once there is one.
    min_rtt: Option<(Duration, Time)>,
    has_middle: bool,
    /// The last few round trips, and how many they are.
    recent: [Duration; QUEUE_SAMPLES],
    samples: usize,
    /// By how much their median exceeds the shortest.
    queue: Duration,
}

impl Rate {
    pub(crate) fn new(packet: usize) -> Rate {
        let packet = packet as f64;
        Rate {
            packet,
            initial_window: (INITIAL_PACKETS * packet).max(INITIAL_BYTES),
            losses: Vec::with_capacity(ROUNDS),
            ..Rate::default()
        }
    }

    /// How many bytes in flight just fill the path.
    fn full(&self) -> f64 {
        self.rate / (1.0 - self.loss)
    }

    pub(crate) fn pacing(&self) -> Option<f64> {
        let first = if self.is_initial_window() {
            self.initial_window / self.min_rtt_s().unwrap_or(1.0)
        } else {
            0.0
        };
        (self.rate > 0.0).then(|| (self.full().max(first) * self.gain()).max(self.packet))
    }

    pub(crate) fn window(&self) -> u64 {
        // And what leaves or is acknowledged at once.
        let in_one_go = 0.005;
        let gain = if self.phase == Phase::Start { 1.5 * WINDOW_GAIN } else { WINDOW_GAIN };
        let window = self.full() * (gain * self.min_rtt_s().unwrap_or(0.0) + in_one_go);
        let floor = if self.is_initial_window() {
            self.initial_window
        } else {
            MIN_WINDOW_PACKETS * self.packet
        };
        window.max(floor) as u64
    }

    fn min_rtt(&self) -> Duration {
        self.min_rtt.map_or(Duration::ZERO, |(min_rtt, _)| min_rtt)
    }

    /// The shortest round trip in seconds, above zero.
    fn min_rtt_s(&self) -> Option<f64> {
        self.min_rtt.map(|(min_rtt, _)| min_rtt.as_secs_f64().max(1e-6))
    }

    /// Whether at most the initial window has been acknowledged, which left at once: its first packets show
    /// only a part of it, and a rate that is far too low.
    fn is_initial_window(&self) -> bool {
        self.phase == Phase::Start && self.rounds < INITIAL_ROUNDS
    }

    fn gain(&self) -> f64 {
        match self.phase {
            Phase::Start => START_GAIN,
            Phase::Drain => 1.0 / START_GAIN,
            Phase::Up => UP_GAIN,
            Phase::Down => DOWN_GAIN,
            Phase::Cruise => {
                // Less by as much as lets the queue drain in two round trips.
                let min_rtt = self.min_rtt_s().unwrap_or(1.0);
                let excess = self.queue.saturating_sub(self.slack()).as_secs_f64();
                (1.0 - excess / (2.0 * min_rtt)).max(0.5)
            }
        }
    }

    fn slack(&self) -> Duration {
        self.min_rtt().mul_f64(QUEUE_SHARE).max(MIN_QUEUE)
    }

    pub(crate) fn acknowledged(&mut self, what: &Acknowledged<'_>) {
        self.acknowledged_bytes += what.bytes as f64;
        self.round_bytes += what.bytes as f64;
        if what.has_rtt {
            self.measure_queue(what.now, what.rtt.latest);
        }
        if let Some(delivery) = what.delivery
            && (!delivery.is_app_limited || delivery.rate > self.rate)
        {
            self.has_rate = true;
            self.rates[0] = self.rates[0].max(delivery.rate);
            self.rate = self.rates.iter().copied().fold(0.0, f64::max);
        }
        let is_round = what.prior_delivered >= self.round_end;
        if is_round {
            self.round_end = what.delivered;
            self.rounds += 1;
            self.measure_loss();
            self.forget_rates_of_a_faster_link();
        }
        self.next_phase(is_round, what);
        if is_round && self.has_rate {
            self.rates.rotate_right(1);
            self.rates[0] = 0.0;
            self.has_rate = false;
        }
    }

    pub(crate) fn lost(&mut self, bytes: u64) {
        self.lost_bytes += bytes as f64;
    }

    pub(crate) fn spurious(&mut self, bytes: u64) {
        self.lost_bytes = (self.lost_bytes - bytes as f64).max(0.0);
        self.acknowledged_bytes += bytes as f64;
    }

    /// The path may have changed.
    pub(crate) fn persistent_congestion(&mut self) {
        *self = Rate::new(self.packet as usize);
        self.initial_window = INITIAL_PACKETS * self.packet;
    }

    fn measure_queue(&mut self, now: Time, latest: Duration) {
        self.recent[self.samples] = latest;
        self.samples += 1;
        if !self.has_middle && self.min_rtt.is_none_or(|(min_rtt, _)| latest < min_rtt) {
            self.min_rtt = Some((latest, now));
        }
        if self.samples < QUEUE_SAMPLES {
            return;
        }
        self.samples = 0;
        self.recent.sort_unstable();
        let middle = self.recent[QUEUE_SAMPLES / 2];
        match &mut self.min_rtt {
            Some((min_rtt, at)) if self.has_middle => {
                // A round trip that is nearly as short confirms it.
                let is_over = now.since(*at) > MIN_RTT_EXPIRY;
                if middle <= *min_rtt + *min_rtt / 50 || is_over {
                    *min_rtt = if is_over { middle } else { middle.min(*min_rtt) };
                    *at = now;
                }
            }
            min_rtt => *min_rtt = Some((middle, now)),
        }
        self.has_middle = true;
        self.queue = middle.saturating_sub(self.min_rtt());
    }

    fn measure_loss(&mut self) {
        let bytes = self.acknowledged_bytes + self.lost_bytes;
        if bytes < LOSS_PACKETS * self.packet {
            return;
        }
        if self.losses.len() == ROUNDS {
            self.losses.remove(0);
        }
        self.losses.push(self.lost_bytes / bytes);
        (self.acknowledged_bytes, self.lost_bytes) = (0.0, 0.0);
        self.loss = self.losses.iter().copied().fold(MAX_LOSS, f64::min);
    }

    fn forget_rates_of_a_faster_link(&mut self) {
        let is_doubled = self.queue > self.min_rtt().max(10 * MIN_QUEUE);
        let last = self.losses.last().copied().unwrap_or(0.0);
        let overflows = self.queue > self.slack() && last > self.loss + LOSS_OVERFLOW;
        if is_doubled || overflows {
            self.rates[2..].fill(0.0);
            self.rate = self.rates[0].max(self.rates[1]);
        }
    }

    fn next_phase(&mut self, is_round: bool, what: &Acknowledged<'_>) {
        let has_queue = self.queue > self.slack();
        let next = match self.phase {
            Phase::Start => {
                if is_round && !what.is_app_limited {
                    self.has_grown(START_GROWTH);
                }
                let is_small = self.round_bytes < START_PACKETS * self.packet;
                let most = if is_small { START_ROUNDS_SMALL } else { START_ROUNDS };
                (has_queue || self.level_rounds >= most).then_some(Phase::Drain)
            }
            // What was sent since the start shows only now. A queue that is gone before was a stall of
            // the path, or another's.
            Phase::Drain if !has_queue && self.rounds == 0 && self.level_rounds < START_ROUNDS => {
                Some(Phase::Start)
            }
            Phase::Drain => (!has_queue || self.rounds > 4).then_some(Phase::Cruise),
            Phase::Cruise => (self.rounds > CRUISE_ROUNDS && !has_queue).then_some(Phase::Up),
            Phase::Up => {
                let is_over = is_round && self.rounds > 1 && !self.has_grown(UP_GROWTH);
                if is_over || has_queue {
                    Some(Phase::Down)
                } else {
                    (self.rounds >= UP_ROUNDS).then_some(Phase::Start)
                }
            }
            Phase::Down => (self.rounds > 1 && !has_queue).then_some(Phase::Cruise),
        };
        if let Some(next) = next {
            self.phase = next;
            self.rounds = match next {
                Phase::Start => INITIAL_ROUNDS,
                _ => 0,
            };
            self.grown_rate = self.rate;
            if next == Phase::Drain {
                // A round trip from now on.
                self.round_end = what.delivered;
            }
        }
        if is_round {
            self.round_bytes = 0.0;
        }
    }

    /// A round is over. Returns whether the rate exceeds its value at the last growth by this factor.
    fn has_grown(&mut self, factor: f64) -> bool {
        let has_grown = self.rate >= self.grown_rate * factor;
        self.level_rounds = if has_grown { 0 } else { self.level_rounds + 1 };
        if has_grown {
            self.grown_rate = self.rate;
        }
        has_grown
    }
}
