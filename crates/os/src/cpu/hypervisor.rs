//! Measured: an exit from a virtual machine to its hypervisor and back, with `cpuid`.
//!
//! No hypervisor lets its guest execute `cpuid` itself. On Intel the instruction always exits to
//! the hypervisor; on AMD every hypervisor intercepts it, since the guest must see another CPU than
//! the real one. Leaf 0x4000_0000 is the hypervisor's own: its answer contains the hypervisor's
//! signature, which the CPU does not know, and so shows that the hypervisor ran.
//!
//! In confidential machines (TDX, SEV-SNP), the guest's kernel handles the instruction first and
//! asks the hypervisor in another way. The figure then includes that.
//!
//! aarch64 has no instruction that user space may execute and that always exits to the hypervisor,
//! so the measurement is absent there.
//!
//! Source: Intel SDM volume 3, 26.1.2 "Instructions That Cause VM Exits Unconditionally"; AMD APM
//! volume 2, 15.9 "Instruction Intercepts"; Linux Documentation/virt/kvm/x86/cpuid.rst.

use crate::system_call::unsupported;
use std::io;

/// The hypervisor's first leaf: its signature in EBX, ECX and EDX.
#[cfg(target_arch = "x86_64")]
const SIGNATURE_LEAF: u32 = 0x4000_0000;

/// The hypervisor beneath this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hypervisor {
    signature: [u8; 12],
}

impl Hypervisor {
    /// The hypervisor of this machine.
    ///
    /// # Errors
    ///
    /// `Unsupported`, with the reason: without a hypervisor, if it gives no name, and on aarch64.
    pub fn beneath() -> io::Result<Self> {
        #[cfg(target_arch = "x86_64")]
        {
            // CPUID 1, ECX bit 31: without it, another leaf answers.
            if std::arch::x86_64::__cpuid(1).ecx & (1 << 31) == 0 {
                return Err(unsupported(
                    "this is not a virtual machine (CPUID 1 has no hypervisor bit)",
                ));
            }
            let hypervisor = Self { signature: signature() };
            if hypervisor.name().is_empty() {
                return Err(unsupported(
                    "the hypervisor gives no name in CPUID leaf 0x40000000, so nothing shows that \
                     it answered",
                ));
            }
            Ok(hypervisor)
        }
        #[cfg(target_arch = "aarch64")]
        {
            Err(unsupported(
                "aarch64 has no user-space instruction that always exits from a virtual machine",
            ))
        }
    }

    /// The name that it reports: `KVMKVMKVM`, `Microsoft Hv`, `VMwareVMware`, `XenVMMXenVMM`.
    pub fn name(&self) -> String {
        let printed = |byte: &&u8| byte.is_ascii_graphic() || **byte == b' ';
        let name: String =
            self.signature.iter().filter(printed).map(|byte| char::from(*byte)).collect();
        name.trim().to_owned()
    }

    /// Exits to the hypervisor `n` times. Returns whether the last answer came from this
    /// hypervisor; true if `n` is 0. Allocates nothing.
    #[cfg_attr(target_arch = "aarch64", allow(unused_variables))]
    pub fn ask(&self, n: u64) -> bool {
        #[cfg(target_arch = "x86_64")]
        {
            let mut last = self.signature;
            crate::cpu::repeat::repeat(n, || last = signature());
            last == self.signature
        }
        #[cfg(target_arch = "aarch64")]
        {
            false
        }
    }
}

/// One `cpuid`, which the compiler neither omits nor moves.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn signature() -> [u8; 12] {
    let answer = std::arch::x86_64::__cpuid(SIGNATURE_LEAF);
    let mut signature = [0; 12];
    for (place, word) in signature.chunks_exact_mut(4).zip([answer.ebx, answer.ecx, answer.edx]) {
        place.copy_from_slice(&word.to_le_bytes());
    }
    signature
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hypervisor_tells_its_name_each_time_or_there_is_a_reason() {
        match Hypervisor::beneath() {
            Ok(hypervisor) => {
                assert!(!hypervisor.name().is_empty());
                for n in [0, 1, 8, 9] {
                    assert!(hypervisor.ask(n), "{n}");
                }
                let other = Hypervisor { signature: *b"nobody here\0" };
                assert_eq!(other.name(), "nobody here");
                assert!(!other.ask(1), "another hypervisor's answer was taken");
            }
            Err(error) => {
                eprintln!("skipped: {error}");
                assert_eq!(error.kind(), io::ErrorKind::Unsupported);
            }
        }
    }
}
