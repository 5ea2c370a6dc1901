//! What a connection does when nothing comes.

use super::{Connection, Finish, Short, State, TIMEOUTS_LAST_WORD, TIMEOUTS_PERSISTENT};
use crate::event::Reason;
use crate::recovery::PROBES;
use crate::time::{Time, earliest};
use std::time::Duration;

/// How long a hello waits for its answer at first.
pub(super) const HELLO_WAIT: Duration = Duration::from_millis(250);
/// How long an accepted client may take to be heard: at 30 % loss one in some hundred thousand
/// takes more than ten seconds.
pub(super) const ACCEPT_LASTS: Duration = Duration::from_secs(20);

impl Connection {
    /// When [`Connection::handle_timeout`] and [`Connection::write_datagram`] are to be called
    /// though nothing came.
    pub(crate) fn timeout_at(&self) -> Option<Time> {
        match self.state {
            State::Connecting { asks_at, until, .. } => Some(asks_at.min(until)),
            State::Accepting { until, .. } => Some(until),
            State::Open => earliest([
                Some(self.heard_at + self.idle),
                self.asks_at(),
                self.recovery.timeout_at(),
                self.received.due(),
                self.released_at,
                match self.short {
                    Short::WaitsUntil(at) => Some(at),
                    Short::Waits | Short::MayGo => None,
                },
            ]),
            State::Lingering {
                until,
                abort: Some(_),
                ..
            } => Some(until),
            State::Lingering { until, .. } => earliest([Some(until), self.received.due()]),
            State::Drained => None,
        }
    }

    /// When the other end is asked whether it is there.
    fn asks_at(&self) -> Option<Time> {
        let keep_alive = self.config.keep_alive?;
        Some(self.heard_at.max(self.asked_at) + keep_alive)
    }

    /// The time that was waited for has come, or not yet: then nothing happens but what was put off.
    pub(crate) fn handle_timeout(&mut self, now: Time) {
        self.catch_up();
        match self.state {
            State::Connecting { until, .. } if now >= until => {
                self.end(Reason::TimedOut);
                self.state = State::Drained;
            }
            State::Accepting { until, .. } | State::Lingering { until, .. } if now >= until => {
                self.state = State::Drained;
            }
            State::Open => self.handle_timeout_open(now),
            _ => {}
        }
    }

    fn handle_timeout_open(&mut self, now: Time) {
        if now >= self.heard_at + self.idle {
            let has_all = self.has_only_finish_open();
            self.end(if has_all {
                Reason::Finished
            } else {
                Reason::TimedOut
            });
            self.state = State::Drained;
            return;
        }
        if self.asks_at().is_some_and(|at| now >= at) {
            self.asked_at = now;
            self.is_ping_due = true;
        }
        if matches!(self.short, Short::WaitsUntil(at) if now >= at) {
            self.short = Short::MayGo;
        }
        if self.recovery.timeout(now, &mut self.outcome) {
            self.probes = PROBES;
            self.stats.probe_timeouts += 1;
            self.marking.doubt();
            let timeouts = self.recovery.timeouts();
            if timeouts == TIMEOUTS_PERSISTENT {
                self.controller.persistent();
                self.marking.stop();
            }
            if self.has_only_finish_open() {
                // The probes say it again, and those before it was first said do not count.
                self.finish = Finish::NotSent;
                self.last_words = timeouts.min(self.last_words + 1);
                if self.last_words >= TIMEOUTS_LAST_WORD {
                    self.end(Reason::Finished);
                    self.linger(now, None);
                }
            }
        }
        self.apply_outcome(now);
    }
}
