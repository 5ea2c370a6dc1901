//! The CPU's time-stamp counter: the cheapest clock there is, in ticks, not nanoseconds.
//!
//! x86-64: `rdtsc`, fenced by `lfence`. aarch64: the virtual counter `cntvct_el0`, ordered by
//! `isb`. `cpuid` is never used as a fence: in a virtual machine it exits to the hypervisor and
//! costs microseconds.
//!
//! Source: Intel SDM volume 2, RDTSC and RDTSCP ("if software requires RDTSC to be executed only
//! after all previous instructions have executed ..., it can execute LFENCE immediately before");
//! AMD APM volume 3, RDTSC (LFENCE is dispatch-serialising, which Linux always switches on);
//! Arm ARM (DDI 0487), D12.2 "The virtual counter".

use core::arch::asm;

/// Reads the counter with the instructions of each architecture.
macro_rules! read_counter {
    (x86_64 { $($x86_64:tt)* }, aarch64 { $($aarch64:tt)* }, $($option:ident),*) => {{
        #[cfg(target_arch = "x86_64")]
        {
            let (low, high): (u64, u64);
            // SAFETY: reads a counter that user space may read, and writes only the named registers.
            unsafe {
                asm!($($x86_64)* out("rax") low, out("rdx") high, options($($option),*));
            }
            high << 32 | low
        }
        #[cfg(target_arch = "aarch64")]
        {
            let ticks: u64;
            // SAFETY: Linux lets user space read `cntvct_el0`; only the named register is written.
            unsafe {
                asm!($($aarch64)* ticks = out(reg) ticks, options($($option),*));
            }
            ticks
        }
    }};
}

/// Ticks at the start of a timed stretch: everything before it has executed by then.
#[inline(always)]
pub fn start() -> u64 {
    // Not `nomem`, so that the compiler moves no memory access across it.
    read_counter!(
        x86_64 { "lfence", "rdtsc", },
        aarch64 { "isb", "mrs {ticks}, cntvct_el0", },
        nostack, preserves_flags
    )
}

/// Ticks at the end of a timed stretch: the stretch has executed when it is read, and nothing
/// after it starts before.
#[inline(always)]
pub fn end() -> u64 {
    // Not `nomem`, as in `start`; `rdtscp` also writes `ecx`.
    read_counter!(
        x86_64 { "rdtscp", "lfence", out("rcx") _, },
        aarch64 { "isb", "mrs {ticks}, cntvct_el0", "isb", },
        nostack, preserves_flags
    )
}

/// Ticks without any fence: the CPU may read the counter some tens of cycles early or late.
#[inline(always)]
pub fn now() -> u64 {
    read_counter!(
        x86_64 { "rdtsc", },
        aarch64 { "mrs {ticks}, cntvct_el0", },
        nomem, nostack, preserves_flags
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_goes_forward_on_one_thread() {
        let first = start();
        let middle = end();
        let last = start();
        assert!(first <= middle && middle <= last);
        assert!(now() > 0);
    }
}
