//! Measured: reading a clock `n` times.
//!
//! Each function reads in a loop and passes every result to `black_box`, so that the compiler
//! cannot omit a read. The figure includes one store and an eighth of the loop's two instructions.

use std::hint::black_box;
use std::time::Instant;

use crate::cpu::clock::{ClockId, ZERO};
use crate::cpu::repeat::repeat;
use crate::cpu::tsc;

/// Reads the time-stamp counter `n` times, without fences: reads may overlap.
pub fn tsc(n: u64) {
    repeat(n, || {
        black_box(tsc::now());
    });
}

/// Reads the time-stamp counter `n` times, each ordered on both sides: `lfence; rdtsc; lfence` (aarch64:
/// `isb; mrs; isb`), the cost of one read that no instruction may cross. A timed stretch takes two reads,
/// with one fence fewer than two of these.
pub fn tsc_fenced(n: u64) {
    repeat(n, || {
        black_box(tsc::start());
        fence();
    });
}

/// Reads a kernel clock `n` times through libc's `clock_gettime`: the vDSO for clocks that it supports, a
/// system call for CPU-time clocks.
pub fn clock_gettime(clock: ClockId, n: u64) {
    let id = clock.raw();
    let mut time = ZERO;
    repeat(n, || {
        // SAFETY: `time` is a valid timespec to write to.
        unsafe { libc::clock_gettime(id, &mut time) };
        black_box(&mut time);
    });
}

/// Reads the clock `n` times as Rust programs do, `Instant::now()`: `clock_gettime` of
/// `CLOCK_MONOTONIC` with the standard library's conversion and checks.
pub fn std_instant(n: u64) {
    repeat(n, || {
        black_box(Instant::now());
    });
}

#[inline(always)]
fn fence() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a fence changes neither registers nor memory.
    unsafe {
        std::arch::asm!("lfence", options(nostack, preserves_flags));
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: a barrier changes neither registers nor memory.
    unsafe {
        std::arch::asm!("isb", options(nostack, preserves_flags));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_reads_return() {
        for n in [0, 1, 1_000] {
            tsc(n);
            tsc_fenced(n);
            std_instant(n);
            for clock in ClockId::ALL {
                clock_gettime(clock, n);
            }
        }
    }
}
