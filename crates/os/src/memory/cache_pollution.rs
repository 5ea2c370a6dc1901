//! Measured: how much of a cache others have evicted. An array fills the cache; the time to read it
//! again shows what is missing. This needs no hardware counter.
//!
//! The array's cache lines are read in an order in which neighbours are far apart, so that no
//! prefetcher fetches them. No read waits for the one before.

use std::hint::black_box;
use std::io;

use crate::cpu::clock::{ClockId, now_ns};
use crate::memory::arena::{Arena, PageSize};
use crate::memory::copies::step_through;

const LINE_BYTES: usize = 64;
/// How many lines are read: of a larger array a sample, since reading all takes longer than what is to be
/// observed.
const READ_MOST: usize = 1 << 16;

/// Which lines of a large array are read. A line that has just been read is the last one to be thrown
/// out, so those that are read before are others than those that are read afterwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Those that are read while all are in the cache.
    Before,
    /// Those that are read afterwards.
    After,
}

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
        Ok(Self {
            arena,
            lines,
            step: step_through(lines),
        })
    }

    /// Reads a word of each line, one behind the other, so that they are in the cache.
    pub fn fill(&self) {
        let words = self.arena.as_slice().iter().step_by(LINE_BYTES);
        black_box(words.map(|word| u64::from(*word)).sum::<u64>());
    }

    /// The line with which a part begins, and how many it has: all of a small array.
    fn part(&self, part: Part) -> (usize, usize) {
        if self.lines <= READ_MOST {
            return (0, self.lines);
        }
        let read = READ_MOST.min(self.lines / 2);
        match part {
            Part::Before => (0, read),
            Part::After => ((read * self.step) % self.lines, read),
        }
    }

    /// Reads a word of each line, or of those of a part: how long all of them take at that rate, in
    /// nanoseconds.
    #[inline]
    pub fn read_ns(&self, part: Part) -> u64 {
        let bytes = self.arena.as_slice();
        let (mut line, read) = self.part(part);
        let mut sum = 0_u64;
        let begin_ns = now_ns(ClockId::MonotonicRaw);
        for _ in 0..read {
            sum = sum.wrapping_add(u64::from(bytes[line * LINE_BYTES]));
            line += self.step;
            if line >= self.lines {
                line -= self.lines;
            }
        }
        black_box(sum);
        let ns = now_ns(ClockId::MonotonicRaw) - begin_ns;
        (ns as f64 * self.lines as f64 / read as f64) as u64
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
            victim.fill();
            victim.read_ns(Part::Before);
        }
    }

    #[test]
    fn of_a_large_array_other_lines_are_read_afterwards() {
        for lines in [READ_MOST, READ_MOST + 1, 3 * READ_MOST, 6 * READ_MOST + 5] {
            let victim = Victim::new(lines * LINE_BYTES).unwrap();
            let of = |part| -> Vec<usize> {
                let (first, read) = victim.part(part);
                let lines = (0..read).map(|nth| (first + nth * victim.step) % victim.lines);
                lines.collect()
            };
            let (before, after) = (of(Part::Before), of(Part::After));
            assert_eq!(before.len(), after.len());
            let mut all = [before, after].concat();
            all.sort_unstable();
            all.dedup();
            let expected = if lines <= READ_MOST {
                lines
            } else {
                2 * READ_MOST.min(lines / 2)
            };
            assert_eq!(all.len(), expected);
        }
    }
}
