//! How far an end of a flow was, from time to time.

use costof_os::cpu::clock::{ClockId, now_ns};

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
    look_calls: u32,
    /// What went since then, in bytes and in calls.
    bytes: u64,
    calls: u32,
}

/// After so many bytes or calls the time is looked at.
const LOOK_BYTES: u64 = 32 << 10;
const LOOK_CALLS: u32 = 16;
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
            bytes: 0,
            calls: 0,
        }
    }

    /// Another call went, of so many bytes: whether that makes it time to [`Marks::note`] how far it is.
    #[inline]
    pub fn is_due_after(&mut self, bytes: u64) -> bool {
        self.bytes += bytes;
        self.calls += 1;
        self.bytes >= LOOK_BYTES || self.calls >= self.look_calls
    }

    /// Notes how far it is if it is time to, and returns the time.
    #[inline]
    pub fn note(&mut self, bytes: u64) -> u64 {
        let at_ns = now_ns(ClockId::MonotonicRaw);
        // Where little goes, whatever goes is noted.
        let is_slow = at_ns - self.looked_ns > MARK_EVERY_NS;
        self.look_calls = if is_slow { 1 } else { LOOK_CALLS };
        self.looked_ns = at_ns;
        (self.bytes, self.calls) = (0, 0);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_time_to_look_after_so_many_bytes_or_calls() {
        let due_after = |bytes| {
            let mut marks = Marks::new();
            (1..=100).find(|_| marks.is_due_after(bytes))
        };
        assert_eq!(due_after(0), Some(LOOK_CALLS));
        assert_eq!(due_after(LOOK_BYTES / 4), Some(4));
        assert_eq!(due_after(LOOK_BYTES), Some(1));
        let mut marks = Marks::new();
        marks.is_due_after(LOOK_BYTES);
        marks.note(LOOK_BYTES);
        assert_eq!((marks.bytes, marks.calls), (0, 0));
        // It was never looked before, which is a long time.
        assert!(marks.is_due_after(1));
    }
}
