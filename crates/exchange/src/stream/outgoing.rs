//! What the sender of a stream has sent, and how much of it has arrived.

use super::{HEADER_BYTES, MIN_MESSAGE_BYTES};
use crate::content::numbered::NUMBER_BYTES;
use crate::progress::{Checkpoint, Checkpoints};
use costof_os::cpu::clock::{ClockId, now_ns};
use costof_os::memory::pattern::pattern;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The latency from which a message is starved, in nanoseconds: the study's retry.
const STARVED_NS: u64 = rudp::study::RETRY.as_nanos() as u64;
/// The latencies of so many messages are kept, the first ones: a million.
const LATENCIES_MAX: u64 = 1 << 20;

/// What to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Order {
    /// Bytes of a message.
    pub size: usize,
    /// How many messages may be in flight; `None` if the transport decides, and the sender does not learn
    /// which messages have arrived.
    pub window: Option<u64>,
    /// How long the part of the transfer that counts lasts.
    pub duration: Duration,
    /// The sender continues for this much longer, so that everything has arrived when the receiver stops.
    pub grace: Duration,
    /// Nothing more is sent after this many messages; `None` if only the time ends the transfer.
    pub messages: Option<u64>,
    /// Whether messages begin with a header, from which the receiver learns the duration.
    pub has_header: bool,
}

/// The messages of one transfer, at the sender.
#[derive(Debug)]
pub struct Outgoing {
    /// What is to be sent.
    pub order: Order,
    message: Vec<u8>,
    /// How much of it is still to be written to a stream of bytes.
    unwritten: usize,
    /// How many messages were handed out.
    pub sent: u64,
    /// When the messages from `first_in_flight` on were sent; `None` for those that have arrived.
    in_flight: VecDeque<Option<u64>>,
    first_in_flight: u64,
    /// How many messages are known to have arrived.
    pub arrived: u64,
    last_arrival_ns: u64,
    counts: Counts,
    /// The latency of each message that has arrived, in nanoseconds; of a long transfer, those of its first
    /// million.
    pub latencies_ns: Vec<u64>,
    /// How many of those that have arrived took long.
    starved: u64,
    checkpoints: Checkpoints,
    started_ns: u64,
    now_ns: u64,
    /// Ends it before everything has arrived.
    stop: Option<&'static AtomicBool>,
}

impl Outgoing {
    /// Nothing sent so far.
    pub fn new(order: Order) -> Outgoing {
        let min_bytes = if order.has_header { MIN_MESSAGE_BYTES } else { 0 };
        let mut message = pattern(order.size.max(min_bytes));
        if order.has_header {
            let duration_ns = order.duration.as_nanos() as u64;
            message[NUMBER_BYTES..HEADER_BYTES].copy_from_slice(&duration_ns.to_le_bytes());
        }
        let timed = order.messages.unwrap_or(0).min(LATENCIES_MAX) as usize;
        Outgoing {
            order,
            message,
            unwritten: 0,
            sent: 0,
            in_flight: VecDeque::with_capacity(order.window.unwrap_or(0) as usize),
            first_in_flight: 0,
            arrived: 0,
            last_arrival_ns: 0,
            counts: Counts::default(),
            latencies_ns: Vec::with_capacity(timed),
            starved: 0,
            checkpoints: Checkpoints::default(),
            started_ns: 0,
            now_ns: 0,
            stop: None,
        }
    }

    /// Also ends the transfer when `stop` is set. Nothing more is sent then, or when the time is
    /// over; messages in flight when the time is over have `order.grace` to arrive.
    pub fn end_by(&mut self, stop: &'static AtomicBool) {
        self.stop = Some(stop);
    }

    /// Starts the clock, once the connection is established.
    pub fn start(&mut self) {
        self.started_ns = self.checkpoints.record(0);
        self.now_ns = self.started_ns;
    }

    /// The next message, if one may be sent.
    #[inline]
    pub fn next_message(&mut self) -> Option<&[u8]> {
        self.advance().then_some(&self.message[..])
    }

    #[inline]
    fn advance(&mut self) -> bool {
        let is_late = self.stop.is_some() && self.elapsed() >= self.order.duration;
        if self.order.messages == Some(self.sent) || is_late {
            return false;
        }
        if let Some(window) = self.order.window {
            if self.in_flight.len() as u64 >= window {
                return false;
            }
            self.in_flight.push_back(Some(now_ns(ClockId::MonotonicRaw)));
        }
        if self.order.has_header {
            self.message[..NUMBER_BYTES].copy_from_slice(&self.sent.to_le_bytes());
        }
        self.sent += 1;
        true
    }

    /// The first byte of a stream: whether the receiver should send counts of the messages back.
    pub fn preamble(&self) -> [u8; 1] {
        [u8::from(self.order.window.is_some())]
    }

    /// What to write to a stream of bytes next: the rest of a message, or the next one. `None` while the
    /// window is full.
    #[inline]
    pub fn to_write(&mut self) -> Option<&[u8]> {
        if self.unwritten == 0 && self.advance() {
            self.unwritten = self.message.len();
        }
        let written = self.message.len() - self.unwritten;
        (self.unwritten > 0).then_some(&self.message[written..])
    }

    /// This many bytes of that were written.
    #[inline]
    pub fn handle_written(&mut self, bytes: usize) {
        self.unwritten -= bytes;
        if self.unwritten == 0 {
            self.record_if_due(self.bytes());
        }
    }

    /// Bytes arrived from the receiver: how many messages it has.
    #[inline]
    pub fn handle_counts(&mut self, bytes: &[u8]) {
        if let Some(count) = self.counts.read(bytes) {
            self.handle_arrived_before(count);
        }
        self.record_if_due(self.bytes());
    }

    /// The receiver has all messages before this one.
    fn handle_arrived_before(&mut self, number: u64) {
        while self.first_in_flight < number.min(self.sent) {
            self.handle_arrived(self.first_in_flight);
        }
    }

    /// The receiver has this message. One that was never sent, or that arrived before, changes nothing.
    pub fn handle_arrived(&mut self, number: u64) {
        if self.order.window.is_none() {
            self.arrived += 1;
            return;
        }
        let Some(at) = number.checked_sub(self.first_in_flight) else {
            return;
        };
        let Some(since) = self.in_flight.get_mut(at as usize).and_then(Option::take) else {
            return;
        };
        let now = now_ns(ClockId::MonotonicRaw);
        let latency_ns = now.saturating_sub(since);
        if self.latencies_ns.len() < self.latencies_ns.capacity() {
            self.latencies_ns.push(latency_ns);
        }
        self.starved += u64::from(latency_ns >= STARVED_NS);
        self.arrived += 1;
        while self.in_flight.front().is_some_and(Option::is_none) {
            self.in_flight.pop_front();
            self.first_in_flight += 1;
        }
        self.last_arrival_ns = now;
    }

    /// Records the progress from time to time; `bytes` were taken by the transport or, if it reports that,
    /// have arrived.
    #[inline]
    pub fn record_if_due(&mut self, bytes: u64) {
        if self.checkpoints.is_due_after(self.order.size as u64) {
            self.record(bytes);
        }
    }

    /// Records the progress at once, when nothing has happened for a while.
    pub fn record(&mut self, bytes: u64) {
        self.now_ns = self.checkpoints.record(bytes);
    }

    /// Bytes of messages that are known to have arrived or, if that is not known, that were sent.
    #[inline]
    pub fn bytes(&self) -> u64 {
        let size = self.order.size as u64;
        if self.order.window.is_some() {
            self.arrived * size
        } else {
            self.sent * size - self.unwritten as u64
        }
    }

    /// Whether the time is over, or everything has arrived.
    pub fn is_over(&self) -> bool {
        let elapsed = self.elapsed();
        let is_ended = self.stop.is_some_and(|stop| {
            let is_late = elapsed >= self.order.duration;
            stop.load(Ordering::Acquire) || is_late && self.arrived >= self.sent
        });
        self.have_all_arrived() || is_ended || elapsed >= self.order.duration + self.order.grace
    }

    fn have_all_arrived(&self) -> bool {
        self.order.messages.is_some_and(|all| self.arrived >= all)
    }

    fn elapsed(&self) -> Duration {
        Duration::from_nanos(self.now_ns.saturating_sub(self.started_ns))
    }

    /// Its progress, recorded from time to time.
    pub fn checkpoints(&self) -> &[Checkpoint] {
        self.checkpoints.as_slice()
    }

    /// How many messages took a second or more, those that have not arrived among them.
    pub fn starved(&self) -> u64 {
        let waiting = self.waiting_ns().filter(|ns| *ns >= STARVED_NS);
        self.starved + waiting.count() as u64
    }

    /// How long each message that has not arrived has been in flight, in nanoseconds.
    pub fn waiting_ns(&self) -> impl Iterator<Item = u64> {
        let since = self.in_flight.iter().flatten();
        since.map(|since| self.now_ns.saturating_sub(*since))
    }

    /// From the start until the last of all messages was known to have arrived, in nanoseconds; `None` if some
    /// have not.
    pub fn completed_in_ns(&self) -> Option<u64> {
        self.have_all_arrived().then(|| self.last_arrival_ns.saturating_sub(self.started_ns))
    }
}

/// Counts of messages, which the receiver sends back as a stream of bytes and which arrive in pieces of any
/// size.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    part: [u8; NUMBER_BYTES],
    have: usize,
}

impl Counts {
    /// The last count that is complete with these bytes.
    fn read(&mut self, bytes: &[u8]) -> Option<u64> {
        let mut last = None;
        for byte in bytes {
            self.part[self.have] = *byte;
            self.have += 1;
            if self.have == NUMBER_BYTES {
                self.have = 0;
                last = Some(u64::from_le_bytes(self.part));
            }
        }
        last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outgoing(window: Option<u64>, messages: Option<u64>) -> Outgoing {
        let mut outgoing = Outgoing::new(Order {
            size: 64,
            window,
            duration: Duration::from_secs(3600),
            grace: Duration::ZERO,
            messages,
            has_header: true,
        });
        outgoing.start();
        outgoing
    }

    fn number(message: Option<&[u8]>) -> Option<u64> {
        let number = message?.first_chunk().expect("a number is in front");
        Some(u64::from_le_bytes(*number))
    }

    #[test]
    fn no_more_are_in_flight_than_the_window() {
        let mut outgoing = outgoing(Some(2), None);
        assert_eq!(number(outgoing.next_message()), Some(0));
        assert_eq!(number(outgoing.next_message()), Some(1));
        assert_eq!(outgoing.next_message(), None);
        // The second message has arrived, the first has not.
        outgoing.handle_arrived(1);
        assert_eq!(outgoing.next_message(), None);
        outgoing.handle_arrived(0);
        assert_eq!(number(outgoing.next_message()), Some(2));
        assert_eq!(outgoing.bytes(), 128);
    }

    #[test]
    fn what_was_never_sent_has_not_arrived() {
        let mut outgoing = outgoing(Some(4), Some(3));
        for _ in 0..2 {
            outgoing.next_message();
        }
        for _ in 0..2 {
            outgoing.handle_arrived(7);
            outgoing.handle_arrived(0);
        }
        assert_eq!((outgoing.bytes(), outgoing.latencies_ns.len()), (64, 1));
        outgoing.handle_counts(&u64::MAX.to_le_bytes());
        assert_eq!((outgoing.bytes(), outgoing.latencies_ns.len()), (128, 2));
        assert!(!outgoing.is_over());
        outgoing.next_message();
        assert_eq!(outgoing.next_message(), None);
        assert_eq!(outgoing.waiting_ns().count(), 1);
        assert_eq!(outgoing.completed_in_ns(), None);
        outgoing.handle_arrived(2);
        assert!(outgoing.is_over());
        // The last message was sent after the start.
        assert!(outgoing.completed_in_ns() >= outgoing.latencies_ns.last().copied());
    }

    #[test]
    fn messages_after_those_whose_latencies_are_kept_count_too() {
        let mut outgoing = outgoing(Some(2), Some(u64::MAX));
        for number in 0..LATENCIES_MAX + 2 {
            outgoing.next_message();
            if number >= LATENCIES_MAX - 1 {
                // It was sent long ago.
                outgoing.in_flight[0] = Some(0);
            }
            outgoing.handle_arrived(number);
        }
        outgoing.next_message();
        outgoing.in_flight[0] = Some(0);
        outgoing.record(0);
        assert_eq!(outgoing.latencies_ns.len() as u64, LATENCIES_MAX);
        assert_eq!(outgoing.arrived, LATENCIES_MAX + 2);
        assert_eq!(outgoing.starved(), 4, "three that arrived, and one that waits");
    }

    #[test]
    fn a_transport_with_a_window_of_its_own_gets_what_it_takes() {
        let mut outgoing = outgoing(None, None);
        for expected in 0..5000 {
            assert_eq!(number(outgoing.next_message()), Some(expected));
        }
        assert_eq!(outgoing.bytes(), 5000 * 64);
    }

    #[test]
    fn one_that_people_end_waits_for_what_is_in_flight() {
        let mut outgoing = Outgoing::new(Order {
            duration: Duration::ZERO,
            grace: Duration::from_secs(3600),
            ..outgoing(Some(2), Some(u64::MAX)).order
        });
        outgoing.next_message();
        let stop: &'static AtomicBool = Box::leak(Box::default());
        outgoing.end_by(stop);
        outgoing.start();
        assert_eq!(outgoing.next_message(), None);
        assert!(!outgoing.is_over());
        outgoing.handle_arrived(0);
        assert!(outgoing.is_over());
        let mut stopped = self::outgoing(None, None);
        stopped.end_by(stop);
        assert!(!stopped.is_over());
        stop.store(true, Ordering::Release);
        assert!(stopped.is_over());
    }

    #[test]
    fn a_stream_may_take_a_message_in_any_pieces() {
        for piece in [1, 7, 64] {
            let mut outgoing = outgoing(None, None);
            let mut written = Vec::new();
            while written.len() < 640 {
                let bytes = outgoing.to_write().expect("no window holds it back");
                let bytes = &bytes[..piece.min(bytes.len())];
                written.extend_from_slice(bytes);
                let length = bytes.len();
                outgoing.handle_written(length);
                assert_eq!(outgoing.bytes(), written.len() as u64);
            }
            for (expected, message) in (0..10).zip(written.chunks(64)) {
                assert_eq!(number(Some(message)), Some(expected));
            }
        }
    }

    #[test]
    fn counts_may_come_in_any_pieces() {
        let sent: Vec<u8> = (1..=9_u64).flat_map(u64::to_le_bytes).collect();
        for piece in [1, 3, 8, 11, 72] {
            let mut counts = Counts::default();
            let read = sent.chunks(piece).filter_map(|piece| counts.read(piece));
            assert_eq!(read.last(), Some(9), "{piece}");
        }
    }
}
