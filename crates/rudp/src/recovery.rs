//! Which packets are in flight, which have arrived, and which are declared lost (RFC 9002 section
//! 6).
//!
//! Each transmission has its own packet number, so an acknowledgement shows which one arrived.
//! Round trips are never ambiguous, and the loss of a retransmission is detected as soon as packets
//! sent after it arrive. A packet that was declared lost is remembered for a round trip: if it
//! arrives after all, the thresholds grow.
//!
//! The probe timeout differs from RFC 9002: the first one is repeated once before it doubles,
//! because at 30 % loss in both directions every second probe is lost without any congestion. While
//! acknowledgements arrive, it does not grow at all.

mod sent;
mod thresholds;

use crate::outcome::{Carried, Delivery, Outcome};
use crate::received::MAX_ACK_DELAY;
use crate::rtt::{GRANULARITY, Rtt};
use crate::send::Part;
use crate::time::{Time, earliest};
use sent::{Sent, State};
use std::collections::VecDeque;
use std::ops::RangeInclusive;
use std::time::Duration;
use thresholds::Thresholds;

/// How many packets one probe timeout sends (RFC 9002 section 6.2.4).
pub(crate) const PROBES: u32 = 2;
/// No probe timeout grows beyond this.
const MAX_PROBE_TIMEOUT: Duration = Duration::from_secs(4);

#[derive(Debug, Default)]
pub(crate) struct Recovery {
    pub(crate) rtt: Rtt,
    /// The sent packets, from the lowest that still matters.
    sent: VecDeque<Sent>,
    base: u64,
    /// The parts that those packets carried.
    parts: VecDeque<Part>,
    parts_base: u64,
    /// No packet below this one is in flight.
    lowest_in_flight: u64,
    bytes_in_flight: u64,
    packets_in_flight: u64,
    largest_acknowledged: Option<u64>,
    /// When the next packet is declared lost.
    loss_at: Option<Time>,
    last_sent_at: Time,
    timeouts: u32,
    thresholds: Thresholds,
    delivered: u64,
    delivered_at: Time,
    first_sent_at: Time,
    /// Packets that were sent before this much was delivered do not show the capacity of the path.
    app_limited_until: u64,
}

impl Recovery {
    pub(crate) fn next_number(&self) -> u64 {
        self.base + self.sent.len() as u64
    }

    /// The lowest number whose acknowledgement still matters.
    pub(crate) fn least_unacked(&self) -> u64 {
        self.base
    }

    pub(crate) fn bytes_in_flight(&self) -> u64 {
        self.bytes_in_flight
    }

    pub(crate) fn packets_in_flight(&self) -> u64 {
        self.packets_in_flight
    }

    pub(crate) fn delivered(&self) -> u64 {
        self.delivered
    }

    /// How many packets are remembered.
    pub(crate) fn remembered(&self) -> usize {
        self.sent.len()
    }

    /// A packet that will not be acknowledged was sent.
    pub(crate) fn sent_non_eliciting(&mut self, now: Time) {
        self.remember(now, 0, State::Done, Carried::default(), 0);
        self.forget_done(now);
    }

    /// A packet that will be acknowledged was sent.
    pub(crate) fn sent(&mut self, now: Time, bytes: usize, carried: Carried, parts: &[Part]) {
        if self.packets_in_flight == 0 {
            self.first_sent_at = now;
            self.delivered_at = now;
            self.lowest_in_flight = self.next_number();
        }
        self.parts.extend(parts);
        self.remember(now, bytes as u32, State::InFlight, carried, parts.len() as u32);
        self.bytes_in_flight += bytes as u64;
        self.packets_in_flight += 1;
        self.last_sent_at = now;
    }

    /// The same for a packet whose contents are all in another packet too: if it is lost, nothing
    /// is sent again.
    pub(crate) fn sent_copy(&mut self, now: Time, bytes: usize, parts: &[Part]) {
        self.sent(now, bytes, Carried::default(), parts);
        if let Some(sent) = self.sent.back_mut() {
            sent.is_retransmitted = true;
        }
    }

    fn remember(&mut self, at: Time, bytes: u32, state: State, carried: Carried, parts: u32) {
        self.sent.push_back(Sent {
            at,
            bytes,
            state,
            is_retransmitted: false,
            carried,
            parts,
            parts_end: self.parts_base + self.parts.len() as u64,
            delivered: self.delivered,
            delivered_at: self.delivered_at,
            first_sent_at: self.first_sent_at,
            is_app_limited: self.app_limited_until > self.delivered,
        });
    }

    /// There is nothing to send, although more could be sent.
    pub(crate) fn is_app_limited(&mut self) {
        self.app_limited_until = (self.delivered + self.bytes_in_flight).max(1);
    }

    /// Whether that was so when the packets that are acknowledged now were sent.
    pub(crate) fn was_app_limited(&self) -> bool {
        self.app_limited_until > self.delivered
    }

    /// Whether no packet was acknowledged that was sent after that. The last packet before it does
    /// not test the window either.
    pub(crate) fn was_window_unused(&self) -> bool {
        self.app_limited_until >= self.delivered
    }

    /// Whether these are all the packets that still matter, so that an acknowledgement of them
    /// cannot show any loss.
    pub(crate) fn is_all_in_flight(&self, numbers: &RangeInclusive<u64>) -> bool {
        *numbers.start() <= self.base && *numbers.end() + 1 == self.next_number()
    }

    /// Handles an acknowledgement of these packets, from the highest range to the lowest, which its
    /// sender delayed by this time. It names only packets that were sent; the caller has checked
    /// that.
    pub(crate) fn acknowledge(
        &mut self,
        now: Time,
        ranges: impl Iterator<Item = RangeInclusive<u64>>,
        delay: Duration,
        outcome: &mut Outcome,
    ) {
        let mut newest: Option<Sent> = None;
        let mut largest = None;
        let mut is_largest_new = false;
        for range in ranges {
            let largest = *largest.get_or_insert(*range.end());
            if *range.end() < self.base {
                break;
            }
            let low = (*range.start()).max(self.base);
            // In descending order, so that the newest comes first.
            for number in (low..=*range.end()).rev() {
                let at = (number - self.base) as usize;
                let sent = self.sent[at];
                if sent.state == State::Done {
                    continue;
                }
                self.sent[at].state = State::Done;
                self.arrived(number, &sent, outcome);
                is_largest_new |= number == largest && sent.state == State::InFlight;
                if sent.state == State::InFlight && newest.is_none() {
                    newest = Some(sent);
                }
            }
        }
        if let Some(newest) = newest {
            self.timeouts = 0;
            outcome.acknowledged_sent_at = Some(newest.at);
            outcome.prior_delivered = newest.delivered;
            if is_largest_new {
                outcome.has_rtt = true;
                self.rtt.sample(now.since(newest.at), delay.min(MAX_ACK_DELAY));
            }
            self.delivered_at = now;
            self.first_sent_at = newest.at;
            outcome.delivery = self.delivery(now, &newest);
        }
        self.largest_acknowledged = self.largest_acknowledged.max(largest);
        self.detect_lost(now, outcome);
        self.forget_done(now);
    }

    fn arrived(&mut self, number: u64, sent: &Sent, outcome: &mut Outcome) {
        outcome.acknowledged.extend(self.parts_of(sent));
        outcome.carried_acknowledged.add(sent.carried);
        self.delivered += u64::from(sent.bytes);
        if sent.state == State::InFlight {
            self.leave_flight(sent);
            outcome.acknowledged_bytes += u64::from(sent.bytes);
            return;
        }
        // It was declared lost too early.
        outcome.spurious_packets += 1;
        outcome.spurious_bytes += u64::from(sent.bytes);
        let largest = self.largest_acknowledged.unwrap_or(number);
        self.thresholds.grow(largest.saturating_sub(number));
    }

    fn delivery(&self, now: Time, newest: &Sent) -> Option<Delivery> {
        let sending = newest.at.since(newest.first_sent_at);
        let arriving = now.since(newest.delivered_at);
        let interval = sending.max(arriving);
        // Over less than a round trip, it would be the rate of a burst.
        if interval.is_zero() || interval < self.rtt.min? {
            return None;
        }
        let bytes = self.delivered - newest.delivered;
        Some(Delivery {
            rate: bytes as f64 / interval.as_secs_f64(),
            is_app_limited: newest.is_app_limited,
        })
    }

    /// How much later than the packets after it a packet may arrive.
    fn loss_delay(&self) -> Duration {
        let round = self.rtt.smoothed.max(self.rtt.latest);
        (round + round * self.thresholds.eighths / 8).max(GRANULARITY)
    }

    fn detect_lost(&mut self, now: Time, outcome: &mut Outcome) {
        self.loss_at = None;
        let Some(largest) = self.largest_acknowledged else {
            return;
        };
        let delay = self.loss_delay();
        let mut number = self.lowest_in_flight.max(self.base);
        while number <= largest {
            let at = (number - self.base) as usize;
            let Some(sent) = self.sent.get(at).copied() else {
                break;
            };
            if sent.state == State::InFlight {
                let is_overtaken = number + self.thresholds.packets <= largest;
                if !is_overtaken && now < sent.at + delay {
                    // The packets after it were sent later, and fewer packets overtook them.
                    self.loss_at = Some(sent.at + delay);
                    break;
                }
                self.sent[at].state = State::Lost(now);
                self.mark_lost(&sent, outcome);
            }
            number += 1;
        }
        self.lowest_in_flight = number;
    }

    fn mark_lost(&mut self, sent: &Sent, outcome: &mut Outcome) {
        self.leave_flight(sent);
        outcome.lost_packets += 1;
        outcome.lost_bytes += u64::from(sent.bytes);
        outcome.lost_sent_at = outcome.lost_sent_at.max(Some(sent.at));
        if !sent.is_retransmitted {
            self.retransmit(sent, outcome);
        }
    }

    fn retransmit(&self, sent: &Sent, outcome: &mut Outcome) {
        outcome.lost.extend(self.parts_of(sent));
        outcome.carried_lost.add(sent.carried);
    }

    /// The parts of messages that a packet carried.
    fn parts_of(&self, sent: &Sent) -> impl Iterator<Item = &Part> {
        let end = (sent.parts_end - self.parts_base) as usize;
        self.parts.range(end - sent.parts as usize..end)
    }

    /// A packet is not in flight any more.
    fn leave_flight(&mut self, sent: &Sent) {
        self.bytes_in_flight -= u64::from(sent.bytes);
        self.packets_in_flight -= 1;
    }

    /// Forgets the lowest packets that no longer matter.
    fn forget_done(&mut self, now: Time) {
        while let Some(sent) = self.sent.front() {
            let is_over = match sent.state {
                State::InFlight => false,
                State::Done => true,
                State::Lost(at) => now.since(at) > self.rtt.smoothed,
            };
            if !is_over {
                return;
            }
            for _ in 0..sent.parts {
                self.parts.pop_front();
            }
            self.parts_base += u64::from(sent.parts);
            self.sent.pop_front();
            self.base += 1;
        }
    }

    /// When [`Recovery::timeout`] is to be called.
    pub(crate) fn timeout_at(&self) -> Option<Time> {
        let probe = (self.packets_in_flight > 0).then(|| self.last_sent_at + self.probe_timeout());
        self.loss_at.or(earliest([probe]))
    }

    /// How long to wait for an acknowledgement before a probe is sent (PTO, RFC 9002 section 6.2).
    pub(crate) fn probe_timeout(&self) -> Duration {
        let doublings = self.timeouts.saturating_sub(1).min(8);
        let once = self.rtt.probe_timeout(MAX_ACK_DELAY);
        (once * (1 << doublings)).min(MAX_PROBE_TIMEOUT.max(once))
    }

    /// How many probe timeouts there were since the last acknowledgement.
    pub(crate) fn timeouts(&self) -> u32 {
        self.timeouts
    }

    /// Handles the time of [`Recovery::timeout_at`]. Returns whether it was a probe timeout, after
    /// which [`PROBES`] packets leave regardless of the window. The outcome lists as lost what they
    /// should carry.
    pub(crate) fn timeout(&mut self, now: Time, outcome: &mut Outcome) -> bool {
        if self.timeout_at().is_none_or(|at| now < at) {
            return false;
        }
        if self.loss_at.is_some() {
            self.detect_lost(now, outcome);
            self.forget_done(now);
            return false;
        }
        self.timeouts += 1;
        let start = (self.lowest_in_flight.max(self.base) - self.base) as usize;
        let mut probes = 0;
        for at in start..self.sent.len() {
            let sent = self.sent[at];
            if sent.state == State::InFlight && !sent.is_retransmitted {
                self.sent[at].is_retransmitted = true;
                self.retransmit(&sent, outcome);
                probes += 1;
                if probes == PROBES {
                    break;
                }
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{self, Frame};
    use crate::range_set::RangeSet;
    use crate::wire::Reader;

    const MS: Duration = Duration::from_millis(1);
    const ROUND: Duration = Duration::from_millis(100);

    fn at(ms: u32) -> Time {
        Time::from_nanos(1_000_000_000) + MS * ms
    }

    fn part(id: u64) -> Part {
        Part { id, offset: 0, len: 100 }
    }

    /// A recovery whose packet n was sent after n milliseconds and carried message n.
    fn with_sent(packets: u32) -> Recovery {
        let mut recovery = Recovery::default();
        for number in 0..packets {
            send(&mut recovery, number, number.into());
        }
        recovery
    }

    fn send(recovery: &mut Recovery, ms: u32, id: u64) {
        recovery.sent(at(ms), 1000, Carried::default(), &[part(id)]);
    }

    fn acknowledge(recovery: &mut Recovery, now: Time, numbers: &[u64]) -> Outcome {
        let mut received = RangeSet::new();
        for number in numbers {
            received.insert(*number..number + 1);
        }
        let mut out = Vec::new();
        assert!(frame::put_ack(&mut out, &received, Duration::ZERO, 99, 999));
        let Some(Frame::Ack(ack)) = Frame::read(&mut Reader(&out)) else {
            panic!("{out:?}");
        };
        let mut outcome = Outcome::default();
        recovery.acknowledge(now, ack.ranges(), ack.delay, &mut outcome);
        outcome
    }

    fn timeout(recovery: &mut Recovery) -> (Time, Outcome) {
        let now = recovery.timeout_at().expect("something is in flight");
        let mut outcome = Outcome::default();
        recovery.timeout(now, &mut outcome);
        (now, outcome)
    }

    #[test]
    fn a_packet_that_three_later_ones_overtook_is_lost() {
        let mut recovery = with_sent(5);
        let outcome = acknowledge(&mut recovery, at(100), &[1, 2]);
        assert_eq!(outcome.acknowledged, [part(2), part(1)]);
        assert_eq!(outcome.lost, []);
        let outcome = acknowledge(&mut recovery, at(103), &[1, 2, 3]);
        assert_eq!(outcome.acknowledged, [part(3)]);
        assert_eq!((outcome.lost, outcome.lost_bytes), (vec![part(0)], 1000));
        assert_eq!((recovery.packets_in_flight(), recovery.bytes_in_flight()), (1, 1000));
    }

    #[test]
    fn a_packet_is_lost_an_eighth_of_a_round_trip_after_one_that_was_sent_later() {
        let mut recovery = with_sent(2);
        let outcome = acknowledge(&mut recovery, at(101), &[1]);
        assert_eq!(outcome.lost, []);
        let (now, outcome) = timeout(&mut recovery);
        assert_eq!(now, at(0) + ROUND + ROUND / 8);
        assert_eq!(outcome.lost, [part(0)]);
        assert_eq!(recovery.timeouts(), 0, "not a probe timeout");
    }

    #[test]
    fn probe_timeouts_are_repeated_once_and_double_then_until_something_is_acknowledged() {
        let mut recovery = with_sent(1);
        acknowledge(&mut recovery, at(100), &[0]);
        send(&mut recovery, 200, 1);
        send(&mut recovery, 200, 2);
        send(&mut recovery, 200, 3);
        let once = recovery.probe_timeout();
        let mut sent_at = at(200);
        let mut waits = Vec::new();
        for probe in 0..5 {
            let (now, outcome) = timeout(&mut recovery);
            waits.push(now.since(sent_at).as_nanos() / once.as_nanos());
            let carried = if probe == 0 { vec![part(1), part(2)] } else { outcome.lost.clone() };
            assert_eq!(outcome.lost, carried);
            assert_eq!(outcome.lost_packets, 0, "a probe is not a loss");
            sent_at = now;
            recovery.sent(now, 1000, Carried::default(), &outcome.lost);
        }
        assert_eq!(waits, [1, 1, 2, 4, 8]);
        acknowledge(&mut recovery, sent_at + ROUND, &[4]);
        assert_eq!(recovery.timeouts(), 0);
    }

    #[test]
    fn what_was_probed_for_is_not_sent_a_third_time_when_it_is_lost() {
        let mut recovery = with_sent(1);
        let (now, outcome) = timeout(&mut recovery);
        assert_eq!(outcome.lost, [part(0)]);
        recovery.sent(now, 1000, Carried::default(), &outcome.lost);
        for id in [8, 9, 10] {
            recovery.sent(now, 1000, Carried::default(), &[part(id)]);
        }
        let outcome = acknowledge(&mut recovery, now + ROUND, &[1, 2, 3, 4]);
        assert_eq!((outcome.lost_packets, outcome.lost), (1, vec![]));
    }

    #[test]
    fn one_that_was_taken_for_lost_and_arrives_makes_later_ones_wait_longer() {
        let mut recovery = with_sent(10);
        let outcome = acknowledge(&mut recovery, at(105), &[1, 2, 3, 4, 5]);
        assert_eq!(outcome.lost, [part(0)]);
        let outcome = acknowledge(&mut recovery, at(106), &[0, 1, 2, 3, 4, 5]);
        assert_eq!((outcome.spurious_packets, outcome.acknowledged), (1, vec![part(0)]));
        let outcome = acknowledge(&mut recovery, at(109), &[0, 1, 2, 3, 4, 5, 9]);
        assert_eq!(outcome.lost, [], "4 later packets no longer mean a loss");
    }

    #[test]
    fn a_round_trip_is_that_of_the_newest_packet_alone() {
        let mut recovery = with_sent(3);
        assert!(acknowledge(&mut recovery, at(102), &[2]).has_rtt);
        // A late acknowledgement of an older packet gives no sample of the round trip.
        assert!(!acknowledge(&mut recovery, at(150), &[1, 2]).has_rtt);
        assert_eq!(recovery.rtt.latest, ROUND);
    }

    #[test]
    fn what_can_teach_nothing_more_is_forgotten() {
        let mut recovery = with_sent(200);
        assert_eq!((recovery.least_unacked(), recovery.remembered()), (0, 200));
        let all: Vec<u64> = (1..200).collect();
        acknowledge(&mut recovery, at(300), &all);
        assert_eq!((recovery.least_unacked(), recovery.remembered()), (0, 200));
        recovery.sent_non_eliciting(at(900));
        assert_eq!((recovery.least_unacked(), recovery.remembered()), (201, 0));
        assert_eq!(recovery.next_number(), 201);
    }

    #[test]
    fn the_delivered_rate_is_that_of_the_path() {
        let mut recovery = Recovery::default();
        let mut outcome = Outcome::default();
        // Each arrives 100 ms after it was sent: 1000 bytes in a millisecond.
        for number in 0..500 {
            send(&mut recovery, number, number.into());
            if let Some(arrives) = number.checked_sub(100) {
                outcome = acknowledge(&mut recovery, at(number), &[arrives.into()]);
            }
        }
        let delivery = outcome.delivery.expect("a round trip is over");
        assert!((0.95e6..1.05e6).contains(&delivery.rate), "{delivery:?}");
    }
}
