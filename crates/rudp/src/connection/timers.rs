//! What a connection does when nothing arrives.

use super::{Connection, Finish, MAX_FINISH_TIMEOUTS, Nagle, State};
use crate::event::Reason;
use crate::recovery::PROBES;
use crate::time::{Time, earliest};

/// After this many probe timeouts without an answer, the network counts as persistently congested
/// (RFC 9002 section 7.6).
const PERSISTENT_CONGESTION_TIMEOUTS: u32 = 3;

impl Connection {
    /// When to call [`Connection::handle_timeout`] and [`Connection::write_datagram`] if nothing is
    /// received.
    pub(crate) fn timeout_at(&self) -> Option<Time> {
        match &self.state {
            State::Connecting(hello) => Some(hello.next_at.min(self.deadline)),
            State::Accepting { .. } | State::Aborting { .. } => Some(self.deadline),
            State::Lingering => earliest([Some(self.deadline), self.received.due()]),
            State::Open => earliest([
                Some(self.last_received_at + self.idle_timeout),
                self.keep_alive_at(),
                self.recovery.timeout_at(),
                self.received.due(),
                self.paced_until,
                match self.nagle {
                    Nagle::DelayUntil(at) => Some(at),
                    Nagle::Delay | Nagle::Send => None,
                },
            ]),
            State::Drained => None,
        }
    }

    fn keep_alive_at(&self) -> Option<Time> {
        let keep_alive = self.config.keep_alive?;
        Some(self.last_received_at.max(self.last_ping_at) + keep_alive)
    }

    /// Acts at the time of [`Connection::timeout_at`]. Before that, it does only what was deferred.
    pub(crate) fn handle_timeout(&mut self, now: Time) {
        self.apply_deferred_ack();
        match self.state {
            State::Open => self.handle_timeout_open(now),
            State::Drained => {}
            _ if now < self.deadline => {}
            State::Connecting(_) => self.drop_as(Reason::TimedOut),
            _ => self.state = State::Drained,
        }
    }

    fn handle_timeout_open(&mut self, now: Time) {
        if now >= self.last_received_at + self.idle_timeout {
            self.drop_as(if self.has_only_finish_unacked() {
                Reason::Finished
            } else {
                Reason::TimedOut
            });
            return;
        }
        if self.keep_alive_at().is_some_and(|at| now >= at) {
            self.last_ping_at = now;
            self.is_ping_due = true;
        }
        if matches!(self.nagle, Nagle::DelayUntil(at) if now >= at) {
            self.nagle = Nagle::Send;
        }
        if self.recovery.timeout(now, &mut self.outcome) {
            self.handle_probe_timeout(now);
        }
        self.apply_outcome(now);
    }

    fn handle_probe_timeout(&mut self, now: Time) {
        self.probes = PROBES;
        self.stats.probe_timeouts += 1;
        let timeouts = self.recovery.timeouts();
        if timeouts == PERSISTENT_CONGESTION_TIMEOUTS {
            self.controller.persistent_congestion();
        }
        if self.has_only_finish_unacked() {
            // The probes repeat it. Those before it was first sent do not count.
            self.finish = Finish::NotSent;
            self.finish_timeouts = timeouts.min(self.finish_timeouts + 1);
            if self.finish_timeouts >= MAX_FINISH_TIMEOUTS {
                self.end(Reason::Finished);
                self.linger(now);
            }
        }
    }
}
