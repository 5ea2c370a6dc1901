//! The words of the axis `kernel`, and the kernels that they select.

use crate::prelude::*;
use costof_os::memory::streams::{Instructions, Kernel, Operation};

words! {
    pub(crate) enum Kernels {
        /// whichever is fastest here, found by a short trial
        Best = "best",
        /// 16-byte vectors (x86-64)
        Sse2 = "sse2",
        /// 32-byte vectors (x86-64)
        Avx2 = "avx2",
        /// 64-byte vectors (x86-64)
        Avx512 = "avx512",
        /// rep stosb and rep movsb (x86-64 with ERMS)
        Rep = "rep",
        /// a copy whose stores are non-temporal
        Nontemporal = "nontemporal",
        /// 16-byte vectors in pairs (aarch64)
        Neon = "neon",
    }
}

impl Kernels {
    /// The only architecture that has it, if one does.
    pub(super) fn architecture(self) -> Option<&'static str> {
        match self {
            Kernels::Best | Kernels::Nontemporal => None,
            Kernels::Sse2 | Kernels::Avx2 | Kernels::Avx512 | Kernels::Rep => Some("x86_64"),
            Kernels::Neon => Some("aarch64"),
        }
    }
}

/// The kernels that a word selects, of those that this CPU can run.
pub(super) fn kernels(
    operation: Operation,
    word: Kernels,
) -> Result<Vec<&'static Kernel>, Failure> {
    let instructions = instructions(word);
    let named = |kernel: &&Kernel| match word {
        Kernels::Best => true,
        Kernels::Nontemporal => operation == Operation::Copy && kernel.nontemporal,
        // Non-temporal copies have a word of their own.
        Kernels::Sse2 | Kernels::Avx2 | Kernels::Avx512 | Kernels::Rep | Kernels::Neon => {
            instructions == Some(kernel.instructions)
                && !(operation == Operation::Copy && kernel.nontemporal)
        }
    };
    let kernels: Vec<&Kernel> = Kernel::all(operation).filter(named).collect();
    if !kernels.is_empty() {
        return Ok(kernels);
    }
    let word = word.word();
    let absent = instructions.is_some_and(|instructions| !instructions.available());
    Err(Failure::unsupported(if absent {
        format!("this CPU lacks {word}")
    } else {
        format!("there is no {word} kernel for this op (--set op=… chooses another)")
    }))
}

fn instructions(word: Kernels) -> Option<Instructions> {
    Some(match word {
        Kernels::Best | Kernels::Nontemporal => return None,
        Kernels::Sse2 => Instructions::Sse2,
        Kernels::Avx2 => Instructions::Avx2,
        Kernels::Avx512 => Instructions::Avx512,
        Kernels::Rep => Instructions::Rep,
        Kernels::Neon => Instructions::Neon,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_is_what_its_word_says_or_absent_with_the_reason() {
        let best = kernels(Operation::Copy, Kernels::Best).expect("every CPU copies");
        assert!(best.iter().any(|kernel| kernel.nontemporal));
        let past = kernels(Operation::Copy, Kernels::Nontemporal).expect("every CPU has it");
        assert!(past.iter().all(|kernel| kernel.nontemporal));
        let refused = |operation, word| kernels(operation, word).expect_err("no such kernel");
        assert!(refused(Operation::Read, Kernels::Nontemporal).reason.contains("nontemporal"));
        let foreign = if cfg!(target_arch = "x86_64") { Kernels::Neon } else { Kernels::Sse2 };
        let reason = refused(Operation::Read, foreign).reason;
        assert!(reason.contains("this CPU lacks"), "{reason}");
    }
}
