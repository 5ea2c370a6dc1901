//! What an acknowledgement or a timeout changes for a connection.

use super::{Connection, Finish, Nagle, State};
use crate::control::Acknowledged;
use crate::event::{Event, Reason};
use crate::outcome::Outcome;
use crate::time::Time;
use std::time::Duration;

impl Connection {
    pub(super) fn apply_deferred_ack(&mut self) {
        if let Some(ack) = self.deferred_ack.take() {
            let (now, numbers) = (ack.received_at, std::iter::once(ack.numbers));
            self.recovery.acknowledge(now, numbers, ack.delay, &mut self.outcome);
            self.apply_outcome(now);
        }
    }

    /// Acts on what an acknowledgement or a timeout has changed.
    pub(super) fn apply_outcome(&mut self, now: Time) {
        let mut outcome = std::mem::take(&mut self.outcome);
        for part in &outcome.acknowledged {
            if let Some(id) = self.sending.acknowledge(*part) {
                self.events.push_back(Event::Acknowledged(id));
            }
        }
        for part in &outcome.lost {
            self.sending.retransmit(*part);
        }
        self.is_credit_due |= outcome.carried_lost.credit;
        if outcome.carried_lost.finish && self.finish == Finish::Sent {
            self.finish = Finish::NotSent;
        }
        if outcome.carried_acknowledged.finish {
            self.finish = Finish::Acknowledged;
        }
        self.update_controller(now, &outcome);
        outcome.clear();
        self.outcome = outcome;
        self.finish_if_done(now);
    }

    fn update_controller(&mut self, now: Time, outcome: &Outcome) {
        let rtt = &self.recovery.rtt;
        if let Some(sent_at) = outcome.lost_sent_at {
            self.controller.lost(now, outcome.lost_bytes, sent_at);
            self.stats.packets_lost += outcome.lost_packets;
            let min = rtt.min.unwrap_or(rtt.smoothed);
            if rtt.smoothed > min + min / 8 + Duration::from_millis(2) {
                self.stats.packets_lost_in_queue += outcome.lost_packets;
            }
        }
        if outcome.spurious_packets > 0 {
            self.controller.spurious(outcome.spurious_bytes);
            self.stats.packets_spuriously_lost += outcome.spurious_packets;
        }
        if let Some(sent_at) = outcome.acknowledged_sent_at {
            if let Nagle::DelayUntil(_) = self.nagle {
                self.nagle = Nagle::Send;
            }
            self.controller.acknowledged(&Acknowledged {
                now,
                bytes: outcome.acknowledged_bytes,
                sent_at,
                prior_delivered: outcome.prior_delivered,
                delivered: self.recovery.delivered(),
                rtt,
                has_rtt: outcome.has_rtt,
                delivery: outcome.delivery,
                is_app_limited: self.recovery.was_app_limited(),
                is_window_unused: self.recovery.was_window_unused(),
            });
        }
    }

    pub(super) fn finish_if_done(&mut self, now: Time) {
        let is_over = self.finish == Finish::Acknowledged && self.peer_finished.is_some();
        if is_over && matches!(self.state, State::Open) {
            self.end(Reason::Finished);
            self.linger(now);
        }
    }
}
