//! Measured: how much of a cache some work evicts. An array fills the cache; the time to read it
//! again shows how much is missing. This needs no hardware counter.
//!
//! Each line holds the position of the next, so that each read waits for the one before:
//! overlapping reads would hide almost all of the cost of an L1 miss. Successive lines are far
//! apart, so that no prefetcher fetches them.
//!
//! The time of one reading also depends on how well the array filled the cache, on the core's
//! clock, and on whether this code was cached. So two readings are compared, each after the same
//! passes through the array: one with nothing in between, one with the work.

use std::arch::asm;
use std::hint::black_box;
use std::io;

use crate::cpu::clock::{ClockId, now_ns};
use crate::memory::arena::{Arena, PageSize};
use crate::memory::copies::step_through;

const LINE_BYTES: usize = 64;
/// How many lines are read at most. A larger array is sampled, because reading all of it would take
/// longer than the work.
const READ_MAX: usize = 1 << 15;
/// How often an array is read to fill its cache. Caches do not always evict the oldest line first,
/// so one pass leaves a part of the array outside.
const PASSES: usize = 8;
const PASSES_OF_LARGE: usize = 2;
/// A cache holds the array if reading it takes at most this share of reading it from main memory.
const HELD: f64 = 0.75;
/// An interrupt may make a single try fail.
const HELD_TRIES: u32 = 5;

/// An array that fills a cache.
#[derive(Debug)]
pub struct Victim {
    arena: Arena,
    lines: usize,
    read: usize,
}

impl Victim {
    /// An array of this size, on huge pages if possible, so that TLB misses matter little.
    pub fn new(bytes: usize) -> io::Result<Self> {
        let mut arena =
            Arena::map(bytes, PageSize::Huge).or_else(|_| Arena::map(bytes, PageSize::Base))?;
        arena.populate()?;
        let lines = (bytes / LINE_BYTES).max(1);
        let step = step_through(lines);
        let all = arena.as_mut_slice().chunks_exact_mut(LINE_BYTES);
        for (number, line) in all.take(lines).enumerate() {
            let next = (number + step) % lines * LINE_BYTES;
            line[..size_of::<usize>()].copy_from_slice(&next.to_ne_bytes());
        }
        let read = lines.min(READ_MAX);
        Ok(Self { arena, lines, read })
    }

    /// How much longer it takes to read the array, after it has filled its cache, if `work` is done
    /// in between, in nanoseconds. Negative only by chance.
    ///
    /// # Errors
    ///
    /// The error of `work`.
    pub fn more_ns<E>(&self, work: impl FnOnce() -> Result<(), E>) -> Result<f64, E> {
        self.fill();
        let alone_ns = self.read_ns();
        self.fill();
        work()?;
        Ok(self.read_ns() - alone_ns)
    }

    /// Whether a cache holds the array in one of several tries. Other virtual machines may use most
    /// of a shared last-level cache.
    pub fn is_held(&self) -> bool {
        (0..HELD_TRIES).all(|_| {
            self.fill();
            let held_ns = self.read_ns();
            self.evict(self.read);
            held_ns <= HELD * self.read_ns()
        })
    }

    /// Evicts this many of the lines that are read from all caches.
    fn evict(&self, lines: usize) {
        let mut at = 0;
        for _ in 0..lines {
            let line = &raw const self.arena.as_slice()[at];
            at = self.next(at);
            // SAFETY: the line is the array's, whose content stays as it is.
            unsafe {
                #[cfg(target_arch = "x86_64")]
                asm!("clflush [{line}]", line = in(reg) line, options(nostack, preserves_flags));
                #[cfg(target_arch = "aarch64")]
                asm!("dc civac, {line}", line = in(reg) line, options(nostack, preserves_flags));
            }
        }
        // SAFETY: waits until the lines are gone.
        unsafe {
            #[cfg(target_arch = "x86_64")]
            asm!("mfence", options(nostack, preserves_flags));
            #[cfg(target_arch = "aarch64")]
            asm!("dsb ish", options(nostack, preserves_flags));
        }
    }

    fn fill(&self) {
        if self.lines == self.read {
            for _ in 0..PASSES {
                self.read();
            }
            return;
        }
        for _ in 0..PASSES_OF_LARGE {
            let bytes = self.arena.as_slice().iter().step_by(LINE_BYTES);
            black_box(bytes.map(|byte| u64::from(*byte)).sum::<u64>());
        }
    }

    /// Reads the array, or a sample of it. Returns the time for the whole array at that rate, in
    /// nanoseconds.
    fn read_ns(&self) -> f64 {
        let begin_ns = now_ns(ClockId::MonotonicRaw);
        self.read();
        let ns = now_ns(ClockId::MonotonicRaw) - begin_ns;
        ns as f64 * self.lines as f64 / self.read as f64
    }

    #[inline(never)]
    fn read(&self) {
        let mut at = 0;
        for _ in 0..self.read {
            at = self.next(at);
        }
        black_box(at);
    }

    /// The position of the next line.
    #[inline]
    fn next(&self, at: usize) -> usize {
        let word = self.arena.as_slice()[at..].first_chunk();
        usize::from_ne_bytes(*word.expect("a line is longer than a word"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_visited_once() {
        for lines in [1, 2, 3, 8, 384, 512, 1000] {
            let victim = Victim::new(lines * LINE_BYTES).unwrap();
            let mut seen = vec![false; lines];
            let mut at = 0;
            for _ in 0..lines {
                assert!(!seen[at / LINE_BYTES], "{lines}");
                seen[at / LINE_BYTES] = true;
                at = victim.next(at);
            }
            assert_eq!(at, 0, "{lines}");
        }
    }

    /// The additional time grows with the number of evicted lines, whatever the cache held before; beside
    /// a neighbour that takes memory bandwidth, not in proportion. Reading the arrays takes less time than a busy machine leaves between interrupts.
    #[test]
    fn a_planted_eviction_is_found_with_its_sign_and_size() {
        for bytes in [24 << 10, 192 << 10] {
            let victim = Victim::new(bytes).unwrap();
            let more_ns = |lines: usize| {
                victim.evict(victim.read);
                let evict = || {
                    victim.evict(lines);
                    Ok::<_, ()>(())
                };
                victim.more_ns(evict).unwrap()
            };
            // Not all lines: reading one also fetches its neighbour.
            let planted = [0, 1, 2, 4].map(|eighths| eighths * victim.read / 8);
            let found = || {
                let mut found: Vec<[f64; 4]> = (0..31).map(|_| planted.map(more_ns)).collect();
                [0, 1, 2, 3].map(|part: usize| {
                    found.sort_by(|one, other| one[part].total_cmp(&other[part]));
                    found[found.len() / 2][part]
                })
            };
            let grows = |[none, eighth, quarter, half]: [f64; 4]| {
                half > 0.0
                    && none.abs() < 0.1 * half
                    && (0.1..0.6).contains(&(eighth / half))
                    && (0.3..0.95).contains(&(quarter / half))
                    && eighth < quarter
            };
            // Another program on the core may evict lines in one try, but not in all.
            let tries: Vec<[f64; 4]> = (0..5).map(|_| found()).collect();
            assert!(tries.iter().any(|found| grows(*found)), "{bytes}: {tries:?}");
        }
    }
}
