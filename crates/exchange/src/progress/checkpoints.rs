//! The progress of one end of a stream, recorded from time to time.

use costof_os::cpu::clock::{ClockId, now_ns};
use costof_os::memory::allocator::allocations;

/// The progress of an end at one time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Checkpoint {
    /// `CLOCK_MONOTONIC_RAW`, in nanoseconds.
    pub at_ns: u64,
    /// CPU time of the thread, in nanoseconds.
    pub cpu_ns: u64,
    /// Payload until then, in bytes.
    pub bytes: u64,
}

/// Checkpoints in chronological order, at least a quarter of a millisecond apart. If there are too many,
/// every second one is removed.
#[derive(Debug)]
pub struct Checkpoints {
    all: Vec<Checkpoint>,
    interval_ns: u64,
    next_ns: u64,
    /// When the clock was last read, and after how many calls it is read again.
    read_ns: u64,
    max_calls: u32,
    /// Since then, in bytes and in calls.
    bytes: u64,
    calls: u32,
}

/// The clock is read after this many bytes or calls.
const CLOCK_BYTES: u64 = 32 << 10;
const CLOCK_CALLS: u32 = 16;
/// The most checkpoints.
const MAX_CHECKPOINTS: usize = 1024;
/// The least interval between two of them, at first.
const MIN_INTERVAL_NS: u64 = 250_000;

/// Without checkpoints. Adding them later does not allocate.
impl Default for Checkpoints {
    fn default() -> Self {
        Self {
            all: Vec::with_capacity(MAX_CHECKPOINTS),
            interval_ns: MIN_INTERVAL_NS,
            next_ns: 0,
            read_ns: 0,
            max_calls: CLOCK_CALLS,
            bytes: 0,
            calls: 0,
        }
    }
}

impl Checkpoints {
    /// Counts a call that transferred this many bytes. Returns whether it is time to
    /// [`record`](Checkpoints::record).
    #[inline]
    pub fn is_due_after(&mut self, bytes: u64) -> bool {
        self.bytes += bytes;
        self.calls += 1;
        self.bytes >= CLOCK_BYTES || self.calls >= self.max_calls
    }

    /// Reads the clock, adds a checkpoint if the last one is long enough ago, and returns the time.
    #[inline]
    pub fn record(&mut self, bytes: u64) -> u64 {
        let at_ns = now_ns(ClockId::MonotonicRaw);
        // If little is transferred, the clock is read after every call.
        let is_slow = at_ns - self.read_ns > MIN_INTERVAL_NS;
        self.max_calls = if is_slow { 1 } else { CLOCK_CALLS };
        self.read_ns = at_ns;
        (self.bytes, self.calls) = (0, 0);
        if at_ns >= self.next_ns {
            self.add(Checkpoint { at_ns, cpu_ns: now_ns(ClockId::ThreadCpu), bytes });
        }
        at_ns
    }

    /// The checkpoints so far.
    pub fn as_slice(&self) -> &[Checkpoint] {
        &self.all
    }

    fn add(&mut self, checkpoint: Checkpoint) {
        if self.all.len() == MAX_CHECKPOINTS {
            for at in 0..MAX_CHECKPOINTS / 2 {
                self.all[at] = self.all[2 * at];
            }
            self.all.truncate(MAX_CHECKPOINTS / 2);
            self.interval_ns *= 2;
        }
        self.all.push(checkpoint);
        self.next_ns = checkpoint.at_ns + self.interval_ns;
    }
}

/// What an end of a flow has done so far.
#[derive(Debug, Default)]
pub struct Progress {
    checkpoints: Checkpoints,
    /// Payload so far, in bytes.
    pub bytes: u64,
    /// Memory allocations during the flow.
    pub allocations: u64,
}

impl Progress {
    /// Adds bytes and records the progress. Returns the time.
    #[inline]
    pub(crate) fn add(&mut self, bytes: u64) -> u64 {
        self.bytes += bytes;
        self.checkpoints.record(self.bytes)
    }

    /// As [`Progress::add`], if a record is due.
    #[inline]
    pub(crate) fn add_one_of_many(&mut self, bytes: u64) -> Option<u64> {
        self.bytes += bytes;
        let is_due = self.checkpoints.is_due_after(bytes);
        is_due.then(|| self.checkpoints.record(self.bytes))
    }

    /// Adds bytes, and a record if one is due and there are at least `unrecorded` bytes.
    #[inline]
    pub(crate) fn add_after(&mut self, bytes: u64, unrecorded: u64) {
        self.bytes += bytes;
        if self.checkpoints.is_due_after(bytes) && self.bytes >= unrecorded {
            self.checkpoints.record(self.bytes);
        }
    }

    /// Adds the last checkpoint, however soon after the previous one.
    pub(crate) fn end(&mut self) {
        self.checkpoints.next_ns = 0;
        self.checkpoints.record(self.bytes);
    }

    /// Counts the allocations of this thread since there were so many.
    pub(crate) fn count_allocations_since(&mut self, before: u64) {
        self.allocations += allocations() - before;
    }

    /// The record so far.
    pub fn checkpoints(&self) -> &[Checkpoint] {
        self.checkpoints.as_slice()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_is_read_after_so_many_bytes_or_calls() {
        let due_after = |bytes| {
            let mut checkpoints = Checkpoints::default();
            (1..=100).find(|_| checkpoints.is_due_after(bytes))
        };
        assert_eq!(due_after(0), Some(CLOCK_CALLS));
        assert_eq!(due_after(CLOCK_BYTES / 4), Some(4));
        assert_eq!(due_after(CLOCK_BYTES), Some(1));
        let mut checkpoints = Checkpoints::default();
        checkpoints.is_due_after(CLOCK_BYTES);
        checkpoints.record(CLOCK_BYTES);
        assert_eq!((checkpoints.bytes, checkpoints.calls), (0, 0));
        // It was never read before, which is a long time.
        assert!(checkpoints.is_due_after(1));
    }

    #[test]
    fn checkpoints_thin_out_where_they_become_many() {
        let mut checkpoints = Checkpoints::default();
        for at_ns in (0..5000).map(|number| number * MIN_INTERVAL_NS) {
            if at_ns >= checkpoints.next_ns {
                checkpoints.add(Checkpoint { at_ns, ..Checkpoint::default() });
            }
        }
        let all = checkpoints.as_slice();
        assert!((MAX_CHECKPOINTS / 2..=MAX_CHECKPOINTS).contains(&all.len()));
        assert!(all.is_sorted_by_key(|checkpoint| checkpoint.at_ns));
        assert_eq!(all[0].at_ns, 0);
        assert_eq!(checkpoints.interval_ns, 8 * MIN_INTERVAL_NS);
    }
}
