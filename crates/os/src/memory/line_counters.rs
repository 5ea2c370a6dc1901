//! Measured: increments in memory. Each thread has its own counter, either in its own cache line or
//! in one that it shares with the others' counters.
//!
//! The code is assembly, so that the counter stays in memory: load, add and store, as in a program
//! that needs no atomic instruction because only one thread writes each counter. A store waits in
//! the core's store buffer until the line arrives, and the next load is served from that buffer. So
//! a core continues to count while its line is elsewhere: false sharing costs less than one
//! transfer per increment.

use std::sync::atomic::{AtomicU64, Ordering};

use costof_gauge::asm_loop;

/// Counters of several threads.
#[derive(Debug)]
pub struct LineCounters {
    blocks: Vec<Block>,
    /// Counters in a block.
    in_a_block: usize,
}

/// Lines have 64 bytes, or 128 on some aarch64; where they have 64, many CPUs fetch adjacent
/// ones in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Block([AtomicU64; 8]);

impl LineCounters {
    /// Counters side by side, eight to a line, as in an array.
    pub fn side_by_side(counters: usize) -> Self {
        Self::new(counters, 8)
    }

    /// Counters 128 bytes apart.
    pub fn apart(counters: usize) -> Self {
        Self::new(counters, 1)
    }

    fn new(counters: usize, in_a_block: usize) -> Self {
        let blocks = counters.div_ceil(in_a_block);
        Self { blocks: (0..blocks).map(|_| Block::default()).collect(), in_a_block }
    }

    fn counter(&self, position: usize) -> &AtomicU64 {
        &self.blocks[position / self.in_a_block].0[position % self.in_a_block]
    }

    /// Counts one up, `n` times. No count is lost if one thread at a time counts at a position.
    ///
    /// # Panics
    ///
    /// If there is no counter at the position.
    pub fn count_up(&self, position: usize, n: u64) {
        if n == 0 {
            return;
        }
        let counter = self.counter(position).as_ptr();
        // SAFETY: reads and writes the one aligned word, which lives as long as `self` and is an
        // atomic, so other threads may look at it meanwhile; each instruction that touches it
        // moves all of it at once (Intel SDM 3A 9.1.1, Arm ARM B2.2.1). The loop ends at zero.
        unsafe {
            // Each architecture names the registers that it needs.
            #[cfg(target_arch = "x86_64")]
            asm_loop!(
                n,
                x86_64 { "add qword ptr [{counter}], 1" },
                aarch64 {},
                counter = in(reg) counter,
                options(nostack),
            );
            #[cfg(target_arch = "aarch64")]
            asm_loop!(
                n,
                x86_64 {},
                aarch64 {
                    "ldr {word}, [{counter}]",
                    "add {word}, {word}, #1",
                    "str {word}, [{counter}]"
                },
                counter = in(reg) counter,
                word = out(reg) _,
                options(nostack),
            );
        }
    }

    /// The value of a counter.
    ///
    /// # Panics
    ///
    /// If there is none at the position.
    pub fn count(&self, position: usize) -> u64 {
        self.counter(position).load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    #[test]
    fn every_thread_counts_for_itself() {
        for counters in [LineCounters::side_by_side(10), LineCounters::apart(10)] {
            thread::scope(|scope| {
                for position in 0..10 {
                    let counters = &counters;
                    scope.spawn(move || {
                        for _ in 0..100 {
                            counters.count_up(position, position as u64);
                        }
                    });
                }
            });
            for position in 0..10 {
                assert_eq!(counters.count(position), 100 * position as u64);
            }
        }
    }

    #[test]
    fn counters_stand_where_they_should() {
        let address = |counters: &LineCounters, at| counters.counter(at).as_ptr() as usize;
        let beside = LineCounters::side_by_side(9);
        assert_eq!(address(&beside, 0) % 128, 0);
        assert_eq!(address(&beside, 7) - address(&beside, 0), 56);
        assert_eq!(address(&beside, 8) - address(&beside, 0), 128);
        let apart = LineCounters::apart(2);
        assert_eq!(address(&apart, 1) - address(&apart, 0), 128);
    }
}
