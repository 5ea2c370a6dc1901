//! Measured: what others have thrown out of a cache, as the time that an array takes to be read again
//! which had filled it. It needs no counter.
//!
//! The array's cache lines are read in an order in which neighbours are far apart, so that no
//! prefetcher fetches them, and none waits for the one before.

use std::hint::black_box;
use std::io;

use crate::arena::{Arena, PageSize};
use crate::clock::{ClockId, now_ns};

const LINE_BYTES: usize = 64;

/// An array that fills a cache.
#[derive(Debug)]
pub struct Victim {
    arena: Arena,
    lines: usize,
    /// How many lines lie between two that are read one after the other: it meets all of them.
    step: usize,
}

impl Victim {
    /// An array of so many bytes, on huge pages where there are any, so that the TLB has little part
    /// in it.
    ///
    /// # Errors
    ///
    /// Those of [`Arena::map`] and [`Arena::populate`].
    pub fn new(bytes: usize) -> io::Result<Self> {
        let arena = Arena::map(bytes, PageSize::Huge);
        let mut arena = arena.or_else(|_| Arena::map(bytes, PageSize::Base))?;
        arena.populate()?;
        let lines = (bytes / LINE_BYTES).max(1);
        // About the golden ratio of all: neighbours are as far apart as can be.
        let mut step = (lines as f64 * 0.618) as usize;
        while greatest_common_divisor(step.max(1), lines) > 1 {
            step += 1;
        }
        Ok(Self {
            arena,
            lines,
            step: step.max(1),
        })
    }

    /// Reads a word of each line, and says how long that took, in nanoseconds.
    #[inline]
    pub fn read_ns(&self) -> u64 {
        let bytes = self.arena.as_slice();
        let begin_ns = now_ns(ClockId::MonotonicRaw);
        let (mut line, mut sum) = (0, 0_u64);
        for _ in 0..self.lines {
            sum = sum.wrapping_add(u64::from(bytes[line * LINE_BYTES]));
            line += self.step;
            if line >= self.lines {
                line -= self.lines;
            }
        }
        black_box(sum);
        now_ns(ClockId::MonotonicRaw) - begin_ns
    }
}

fn greatest_common_divisor(one: usize, other: usize) -> usize {
    match other {
        0 => one,
        other => greatest_common_divisor(other, one % other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_read_once() {
        for lines in [1, 2, 3, 8, 384, 512, 1000] {
            let victim = Victim::new(lines * LINE_BYTES).unwrap();
            assert_eq!(victim.lines, lines);
            let mut seen = vec![false; lines];
            let mut line = 0;
            for _ in 0..lines {
                assert!(!seen[line], "{lines}");
                seen[line] = true;
                line = (line + victim.step) % lines;
            }
            // The step is one that reading can make by taking away all lines once.
            assert!(victim.step <= lines, "{lines}");
            victim.read_ns();
        }
    }
}
