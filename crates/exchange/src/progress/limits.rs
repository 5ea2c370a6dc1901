//! When a flow ends.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::{POLL_INTERVAL, Progress, STALLED, no_answer};

/// The longest duration of a flow, in nanoseconds, and the least number of checkpoints that it should have.
const MAX_DURATION_NS: u64 = 15_000_000_000;
const MIN_CHECKPOINTS: usize = 16;

/// When a flow ends, if not by its time alone: at the first of these.
#[derive(Clone, Copy, Debug)]
pub struct Ending {
    /// After this many messages.
    pub messages: u64,
    /// Soon after this is set.
    pub stop: &'static AtomicBool,
}

impl Ending {
    pub(crate) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// When a running flow ends.
#[derive(Clone, Debug, Default)]
pub(crate) struct Limits {
    /// It ends at this time if it has made enough checkpoints, and at `last_ns` at the latest.
    pub(crate) end_ns: u64,
    last_ns: u64,
    min_checkpoints: usize,
    /// The most messages that it may send.
    pub(crate) messages: u64,
    pub(crate) stop: Option<&'static AtomicBool>,
}

impl Limits {
    /// For a flow that began at this time. Without an ending, it lasts longer than asked until it has made sixteen
    /// checkpoints, but for at most fifteen seconds.
    pub(crate) fn new(begin_ns: u64, duration: Duration, ending: Option<&Ending>) -> Limits {
        let duration_ns = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        let end_ns = begin_ns.saturating_add(duration_ns);
        match ending {
            Some(ending) => Limits {
                end_ns,
                last_ns: end_ns,
                min_checkpoints: 0,
                messages: ending.messages,
                stop: Some(ending.stop),
            },
            None => Limits {
                end_ns,
                last_ns: begin_ns + MAX_DURATION_NS,
                min_checkpoints: MIN_CHECKPOINTS,
                messages: u64::MAX,
                stop: None,
            },
        }
    }

    /// Whether it is over at this time, with this progress.
    #[inline]
    pub(crate) fn is_over(&self, at_ns: u64, progress: &Progress) -> bool {
        (at_ns >= self.end_ns && progress.checkpoints().len() >= self.min_checkpoints)
            || at_ns >= self.last_ns
            || self.is_stopped()
    }

    /// Whether it was stopped.
    #[inline]
    pub(crate) fn is_stopped(&self) -> bool {
        self.stop.is_some_and(|stop| stop.load(Ordering::Relaxed))
    }
}

/// Consecutive waits of [`POLL_INTERVAL`] in which nothing arrived.
#[derive(Default)]
pub(crate) struct Waits(u32);

impl Waits {
    /// Counts another one. False if the flow is stopped, and nothing has arrived for as long as data may be
    /// in flight.
    ///
    /// # Errors
    ///
    /// `TimedOut` if nothing has arrived for [`STALLED`].
    pub(crate) fn go_on(&mut self, limits: &Limits, patience: Duration) -> io::Result<bool> {
        self.0 += 1;
        let waited = self.0 * POLL_INTERVAL;
        if limits.is_stopped() {
            Ok(waited < patience)
        } else if waited > STALLED {
            Err(no_answer())
        } else {
            Ok(true)
        }
    }
}
