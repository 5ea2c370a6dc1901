//! What the CPU says of its time-stamp counter, which `costof_gauge::counter` reads.

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::__cpuid;

pub use costof_gauge::counter::{end, now, start};

/// Whether the counter ticks at one rate in every power state.
///
/// x86-64: CPUID 0x8000_0007 EDX bit 8 (Intel SDM volume 3, 18.17.1; AMD APM volume 3, E.4.6). aarch64:
/// always, by architecture. `false` if the CPU does not report it.
///
/// Executes `cpuid`, which costs microseconds in a virtual machine: not for measured paths.
pub fn is_invariant() -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        const POWER: u32 = 0x8000_0007;
        __cpuid(0x8000_0000).eax >= POWER && __cpuid(POWER).edx & (1 << 8) != 0
    }
    #[cfg(target_arch = "aarch64")]
    {
        true
    }
}
