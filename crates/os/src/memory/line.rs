//! Measured: a cache line that goes to another CPU and comes back.
//!
//! One word has a cache line to itself. One side writes an odd number and polls until the word is
//! even; the other polls until it is odd and writes the next even number. So the line moves twice
//! in each direction: the polling side fetches a copy of what the other has written. It then takes
//! ownership of the line to write, which invalidates the other's copy. Neither side uses a spin
//! hint (`pause`) between two polls, since on some cores the hint takes as long as the transfer:
//! each loop is a load, a comparison and a branch (checked in the disassembly, x86-64).
//!
//! Source: D. Molka et al., "Cache Coherence Protocol and Memory Performance of the Intel
//! Haswell-EP Architecture", ICPP 2015.

use std::sync::atomic::{AtomicU64, Ordering};

/// A word that two threads pass to each other. It has 128 bytes to itself, since adjacent lines
/// are fetched in pairs on many CPUs.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Line {
    word: AtomicU64,
}

impl Line {
    /// Sends the line away and waits until it is back, `n` times. Returns only if another thread makes as
    /// many [`answer`](Line::answer)s meanwhile.
    pub fn send(&self, n: u64) {
        let mut word = self.word.load(Ordering::Relaxed);
        for _ in 0..n {
            self.word.store(word + 1, Ordering::Release);
            word += 2;
            while self.word.load(Ordering::Acquire) != word {}
        }
    }

    /// Waits for the line and sends it back, `n` times.
    pub fn answer(&self, n: u64) {
        // The first may have arrived already: then the word is odd.
        let mut word = self.word.load(Ordering::Acquire) & !1;
        for _ in 0..n {
            while self.word.load(Ordering::Acquire) != word + 1 {}
            word += 2;
            self.word.store(word, Ordering::Release);
        }
    }

    /// The number of completed round trips.
    pub fn round_trips(&self) -> u64 {
        self.word.load(Ordering::Acquire) / 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    #[test]
    fn both_sides_end_after_as_many_round_trips() {
        let line = Line::default();
        // Few, since on a single CPU each direction takes a time slice.
        for (n, all) in [(0, 0), (1, 1), (2, 3)] {
            thread::scope(|scope| {
                scope.spawn(|| line.answer(n));
                line.send(n);
            });
            assert_eq!(line.round_trips(), all);
        }
    }
}
