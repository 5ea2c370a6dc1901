//! How far an end of a flow was, from time to time.

use super::LOOK_CALLS;
use crate::clock::{ClockId, now_ns};

/// How far an end was at a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mark {
    /// `CLOCK_MONOTONIC_RAW`, in nanoseconds.
    pub at_ns: u64,
    /// Processor time of the thread, in nanoseconds.
    pub cpu_ns: u64,
    /// Payload until then, in bytes.
    pub bytes: u64,
}

/// Marks, in the order of time, a quarter of a millisecond apart or more. Where they become too
/// many, every second one goes.
#[derive(Debug)]
pub struct Marks {
    pub(super) marks: Vec<Mark>,
    pub(super) every_ns: u64,
    pub(super) next_ns: u64,
    /// When the time was looked at last, and after how many calls it is to be again.
    looked_ns: u64,
    pub(crate) look_calls: u32,
}

/// The most marks.
pub(super) const MARKS: usize = 1024;
/// How far they are apart at first.
pub(super) const MARK_EVERY_NS: u64 = 250_000;

impl Default for Marks {
    fn default() -> Self {
        Self::new()
    }
}

impl Marks {
    /// None so far; none of those to come allocates.
    pub fn new() -> Self {
        Self {
            marks: Vec::with_capacity(MARKS),
            every_ns: MARK_EVERY_NS,
            next_ns: 0,
            looked_ns: 0,
            look_calls: LOOK_CALLS,
        }
    }

    /// Notes how far it is if it is time to, and returns the time.
    #[inline]
    pub fn note(&mut self, bytes: u64) -> u64 {
        let at_ns = now_ns(ClockId::MonotonicRaw);
        // Where little goes, whatever goes is noted.
        let is_slow = at_ns - self.looked_ns > MARK_EVERY_NS;
        self.look_calls = if is_slow { 1 } else { LOOK_CALLS };
        self.looked_ns = at_ns;
        if at_ns >= self.next_ns {
            self.add(Mark {
                at_ns,
                cpu_ns: now_ns(ClockId::ThreadCpu),
                bytes,
            });
        }
        at_ns
    }

    /// Notes how far it is, however soon after the last time.
    pub(crate) fn end(&mut self, bytes: u64) {
        self.next_ns = 0;
        self.note(bytes);
    }

    /// Those there are.
    pub fn marks(&self) -> &[Mark] {
        &self.marks
    }

    pub(super) fn add(&mut self, mark: Mark) {
        if self.marks.len() == MARKS {
            for kept in 0..MARKS / 2 {
                self.marks[kept] = self.marks[2 * kept];
            }
            self.marks.truncate(MARKS / 2);
            self.every_ns *= 2;
        }
        self.marks.push(mark);
        self.next_ns = mark.at_ns + self.every_ns;
    }
}
