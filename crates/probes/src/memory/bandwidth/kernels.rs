//! The words of the axis `kernel`, and what they stand for here.

use costof_model::failure::Failure;
use costof_os::streams::{Instructions, Kernel, Operation};

/// The kernels that a word of the axis names, of those that can run here.
pub(super) fn kernels(operation: Operation, word: &str) -> Result<Vec<&'static Kernel>, Failure> {
    let named = |kernel: &&Kernel| match word {
        "best" => true,
        "nontemporal" => operation == Operation::Copy && kernel.nontemporal,
        // A copy past the caches has a word of its own.
        _ => {
            instructions(word) == Some(kernel.instructions)
                && !(operation == Operation::Copy && kernel.nontemporal)
        }
    };
    let kernels: Vec<&Kernel> = Kernel::all(operation).filter(named).collect();
    if !kernels.is_empty() {
        return Ok(kernels);
    }
    let absent = instructions(word).is_some_and(|instructions| !instructions.available());
    Err(Failure::unsupported(if absent {
        format!("this processor does not have {word}")
    } else {
        format!("there is no {word} kernel for this op (--set op=… chooses another)")
    }))
}

fn instructions(word: &str) -> Option<Instructions> {
    Some(match word {
        "sse2" => Instructions::Sse2,
        "avx2" => Instructions::Avx2,
        "avx512" => Instructions::Avx512,
        "rep" => Instructions::Rep,
        "neon" => Instructions::Neon,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_is_what_its_word_says_or_absent_with_the_reason() {
        let best = kernels(Operation::Copy, "best").expect("every processor copies");
        assert!(best.iter().any(|kernel| kernel.nontemporal));
        let past = kernels(Operation::Copy, "nontemporal").expect("every processor has it");
        assert!(past.iter().all(|kernel| kernel.nontemporal));
        let refused = |operation, word| kernels(operation, word).expect_err("no such kernel");
        assert!(
            refused(Operation::Read, "nontemporal")
                .reason
                .contains("nontemporal")
        );
        let foreign = if cfg!(target_arch = "x86_64") {
            "neon"
        } else {
            "sse2"
        };
        let reason = refused(Operation::Read, foreign).reason;
        assert!(reason.contains("this processor does not have"), "{reason}");
    }
}
