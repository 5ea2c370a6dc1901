//! What the end that sends has sent, and what of it the other end has.

use super::axes::MESSAGE_LEAST_BYTES;
use costof_exchange::transfer::{Mark, Marks};
use costof_os::cpu::clock::{ClockId, now_ns};
use costof_os::memory::pattern::pattern;
use std::collections::VecDeque;
use std::time::Duration;

/// Bytes of a message's number, and of how long the transfer lasts, which follows it.
pub(super) const NUMBER_BYTES: usize = 8;
pub(super) const HEADER_BYTES: usize = 16;

/// What is to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Order {
    pub(super) size: usize,
    /// How many messages may be under way; none where that is the stack's affair, and nobody is told
    /// of a message that it has arrived.
    pub(super) window: Option<u64>,
    /// The share of the time that counts ends after so long.
    pub(super) lasts: Duration,
    /// What is sent goes on for so much longer, so that it has arrived when the receiver is stopped.
    pub(super) longer: Duration,
    /// Nothing more is sent after so many; none where the time alone ends it.
    pub(super) messages: Option<u64>,
    /// Whether the other end knows without being told how long it lasts: no message has a header then.
    pub(super) is_known: bool,
}

/// The messages of one transfer, from the sender's side.
#[derive(Debug)]
pub(super) struct Outgoing {
    order: Order,
    block: Vec<u8>,
    given: u64,
    /// Since when the messages from `first_open` on are under way; none of those that have arrived.
    under_way: VecDeque<Option<u64>>,
    first_open: u64,
    arrived: u64,
    latencies_ns: Vec<u64>,
    marks: Marks,
    begun_ns: u64,
    now_ns: u64,
}

impl Outgoing {
    pub(super) fn new(order: Order) -> Outgoing {
        let mut block = match order.is_known {
            true => pattern(order.size),
            false => pattern(order.size.max(MESSAGE_LEAST_BYTES)),
        };
        if !order.is_known {
            let lasts_ns = order.lasts.as_nanos() as u64;
            block[NUMBER_BYTES..HEADER_BYTES].copy_from_slice(&lasts_ns.to_le_bytes());
        }
        let most = order.messages.unwrap_or(0).min(1 << 20) as usize;
        Outgoing {
            order,
            block,
            given: 0,
            under_way: VecDeque::with_capacity(order.window.unwrap_or(0) as usize),
            first_open: 0,
            arrived: 0,
            latencies_ns: Vec::with_capacity(most),
            marks: Marks::new(),
            begun_ns: 0,
            now_ns: 0,
        }
    }

    /// Whether the other end says which messages it has.
    pub(super) fn is_answered(&self) -> bool {
        self.order.window.is_some()
    }

    pub(super) fn order(&self) -> Order {
        self.order
    }

    pub(super) fn size(&self) -> usize {
        self.order.size
    }

    /// The ends have found each other: the time begins.
    pub(super) fn begin(&mut self) {
        self.begun_ns = self.marks.note(0);
        self.now_ns = self.begun_ns;
    }

    /// The next message, if one may go.
    #[inline]
    pub(super) fn next(&mut self) -> Option<&[u8]> {
        if self.order.messages == Some(self.given) {
            return None;
        }
        if let Some(window) = self.order.window {
            if self.under_way.len() as u64 >= window {
                return None;
            }
            self.under_way
                .push_back(Some(now_ns(ClockId::MonotonicRaw)));
        }
        if !self.order.is_known {
            self.block[..NUMBER_BYTES].copy_from_slice(&self.given.to_le_bytes());
        }
        self.given += 1;
        Some(&self.block)
    }

    /// How many messages were given out.
    pub(super) fn given(&self) -> u64 {
        self.given
    }

    /// The message that was given out last, again.
    pub(super) fn last(&self) -> &[u8] {
        &self.block
    }

    /// The other end has all messages before this one.
    pub(super) fn arrived_before(&mut self, number: u64) {
        while self.first_open < number.min(self.given) {
            self.arrived(self.first_open);
        }
    }

    /// The other end has this message. What was never sent, or is said twice, changes nothing.
    pub(super) fn arrived(&mut self, number: u64) {
        let Some(at) = number.checked_sub(self.first_open) else {
            return;
        };
        let Some(since) = self.under_way.get_mut(at as usize).and_then(Option::take) else {
            return;
        };
        let now = now_ns(ClockId::MonotonicRaw);
        if self.order.messages.is_some() {
            self.latencies_ns.push(now.saturating_sub(since));
        }
        self.arrived += 1;
        while self.under_way.front().is_some_and(Option::is_none) {
            self.under_way.pop_front();
            self.first_open += 1;
        }
    }

    /// Notes how far it is, now and then; `bytes` are those that the stack has taken or, where it
    /// says so, that have arrived.
    #[inline]
    pub(super) fn note(&mut self, bytes: u64) {
        if self.marks.is_due_after(self.order.size as u64) {
            self.look(bytes);
        }
    }

    /// The same whenever it is asked.
    pub(super) fn look(&mut self, bytes: u64) {
        self.now_ns = self.marks.note(bytes);
    }

    /// Bytes of messages that are known to have arrived, or else were given out.
    pub(super) fn bytes(&self) -> u64 {
        let messages = match self.is_answered() {
            true => self.arrived,
            false => self.given,
        };
        messages * self.order.size as u64
    }

    /// Whether the time is over, or all has arrived.
    pub(super) fn is_over(&self) -> bool {
        let lasts = self.order.lasts + self.order.longer;
        let all = self.order.messages.is_some_and(|all| self.arrived >= all);
        all || self.now_ns.saturating_sub(self.begun_ns) >= lasts.as_nanos() as u64
    }

    /// How far it was, from time to time.
    pub(super) fn marks(&self) -> &[Mark] {
        self.marks.marks()
    }

    /// How long each message that has arrived took, in nanoseconds.
    pub(super) fn latencies_ns(&self) -> &[u64] {
        &self.latencies_ns
    }

    /// How long those have been under way that have not arrived, in nanoseconds.
    pub(super) fn waiting_ns(&self) -> impl Iterator<Item = u64> {
        let since = self.under_way.iter().flatten();
        since.map(|since| self.now_ns.saturating_sub(*since))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outgoing(window: Option<u64>, messages: Option<u64>) -> Outgoing {
        let mut outgoing = Outgoing::new(Order {
            size: 64,
            window,
            lasts: Duration::from_secs(3600),
            longer: Duration::ZERO,
            messages,
            is_known: false,
        });
        outgoing.begin();
        outgoing
    }

    fn number(message: Option<&[u8]>) -> Option<u64> {
        let number = message?.first_chunk().expect("a number is in front");
        Some(u64::from_le_bytes(*number))
    }

    #[test]
    fn no_more_are_under_way_than_the_window() {
        let mut outgoing = outgoing(Some(2), None);
        assert_eq!(number(outgoing.next()), Some(0));
        assert_eq!(number(outgoing.next()), Some(1));
        assert_eq!(outgoing.next(), None);
        // The second has arrived, the first has not: both still take their place.
        outgoing.arrived(1);
        assert_eq!(outgoing.next(), None);
        outgoing.arrived(0);
        assert_eq!(number(outgoing.next()), Some(2));
        assert_eq!(outgoing.bytes(), 128);
    }

    #[test]
    fn what_was_never_sent_has_not_arrived() {
        let mut outgoing = outgoing(Some(4), Some(3));
        for _ in 0..2 {
            outgoing.next();
        }
        for _ in 0..2 {
            outgoing.arrived(7);
            outgoing.arrived(0);
        }
        assert_eq!((outgoing.bytes(), outgoing.latencies_ns().len()), (64, 1));
        outgoing.arrived_before(u64::MAX);
        assert_eq!((outgoing.bytes(), outgoing.latencies_ns().len()), (128, 2));
        assert!(!outgoing.is_over());
        outgoing.next();
        assert_eq!(outgoing.next(), None);
        assert_eq!(outgoing.waiting_ns().count(), 1);
        outgoing.arrived(2);
        assert!(outgoing.is_over());
    }

    #[test]
    fn a_stack_with_a_window_of_its_own_is_given_what_it_takes() {
        let mut outgoing = outgoing(None, None);
        for expected in 0..5000 {
            assert_eq!(number(outgoing.next()), Some(expected));
        }
        assert_eq!(outgoing.bytes(), 5000 * 64);
    }
}
