//! What the CPU says of its time-stamp counter, which `costof_gauge::counter` reads.

#[cfg(target_arch = "aarch64")]
use std::arch::asm;
#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::{__cpuid, CpuidResult};

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
        cpuid(0x8000_0007).is_some_and(|leaf| leaf.edx & (1 << 8) != 0)
    }
    #[cfg(target_arch = "aarch64")]
    {
        true
    }
}

/// The counter's rate in Hz as the hypervisor, the CPU or the firmware states it; `None` if none does (most
/// AMD CPUs). It is a claim, not a measurement: calibrate, then compare.
///
/// x86-64, the first that answers: hypervisor leaf 0x4000_0010 (EAX, kHz; KVM, VMware and Firecracker), CPUID
/// 0x15 (crystal × ratio), CPUID 0x16 (base frequency in MHz, which the counter follows where 0x15 names no
/// crystal, as Linux assumes in `native_calibrate_tsc`). aarch64: `cntfrq_el0`, `None` if firmware left it
/// zero.
///
/// Executes `cpuid`: not for measured paths.
pub fn advertised_hz() -> Option<u64> {
    #[cfg(target_arch = "x86_64")]
    {
        hypervisor_hz().or_else(crystal_hz)
    }
    #[cfg(target_arch = "aarch64")]
    {
        let hz: u64;
        // SAFETY: Linux lets user space read `cntfrq_el0`; only the named register is written.
        unsafe {
            asm!("mrs {hz}, cntfrq_el0", hz = out(reg) hz,
                 options(nomem, nostack, preserves_flags));
        }
        (hz > 0).then_some(hz)
    }
}

/// A CPUID leaf, or `None` if its range does not reach that far.
#[cfg(target_arch = "x86_64")]
fn cpuid(leaf: u32) -> Option<CpuidResult> {
    let range = leaf & 0xf000_0000;
    if range == 0x4000_0000 && __cpuid(1).ecx & (1 << 31) == 0 {
        return None; // No hypervisor: these leaves are undefined.
    }
    (leaf <= __cpuid(range).eax).then(|| __cpuid(leaf))
}

#[cfg(target_arch = "x86_64")]
fn hypervisor_hz() -> Option<u64> {
    match cpuid(0x4000_0010)?.eax {
        0 => None,
        khz => Some(u64::from(khz) * 1_000),
    }
}

#[cfg(target_arch = "x86_64")]
fn crystal_hz() -> Option<u64> {
    let ratio = cpuid(0x15)?;
    if ratio.eax == 0 || ratio.ebx == 0 {
        return None;
    }
    if ratio.ecx > 0 {
        return Some(u64::from(ratio.ecx) * u64::from(ratio.ebx) / u64::from(ratio.eax));
    }
    match cpuid(0x16)?.eax & 0xffff {
        0 => None,
        mhz => Some(u64::from(mhz) * 1_000_000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_advertised_rate_is_a_plausible_one() {
        let _ = is_invariant();
        if let Some(hz) = advertised_hz() {
            assert!((1_000_000..20_000_000_000).contains(&hz), "{hz} Hz");
        }
    }
}
