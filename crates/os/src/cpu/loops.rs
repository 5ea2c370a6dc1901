//! Measured: the cost of an empty loop.
//!
//! The loop is assembly, so that the optimiser neither removes nor unrolls it. It is aligned to 64
//! bytes, so that it does not straddle cache lines or fetch blocks.

use costof_gauge::asm_loop;
use std::arch::asm;

/// Counts from `n` down to zero in a register: one subtraction and one branch per iteration, which most cores
/// execute in one cycle.
pub fn empty(n: u64) {
    if n > 0 {
        // SAFETY: counts the named register down; the loop ends at zero.
        unsafe { asm_loop!(n, x86_64 {}, aarch64 {}, options(nomem, nostack)) }
    }
}

/// As [`empty`], with one `nop` in each iteration.
pub fn nop(n: u64) {
    if n > 0 {
        // SAFETY: counts the named register down; the loop ends at zero.
        unsafe { asm_loop!(n, x86_64 { "nop" }, aarch64 { "nop" }, options(nomem, nostack)) }
    }
}

/// Counts from zero up to `n` with counter and `n` in memory, on the stack, as an unoptimised
/// build does: each iteration loads the counter, adds one, stores it, loads it again and compares
/// it with `n`. Returns the counter, which is `n`.
///
/// The cost is one store-to-load forwarding per iteration: 4 to 5 cycles on most cores, 0 to 1 where the core
/// renames stack slots (Zen 2 and later, Golden Cove and later; Agner Fog, "The microarchitecture of Intel,
/// AMD and VIA CPUs"). For those the slot is addressed by the frame pointer, as a compiler does.
pub fn memory_counter(n: u64) -> u64 {
    let counted: u64;
    // SAFETY: the block makes its own stack frame, writes only inside it, and restores stack and
    // frame pointer; it is not marked `nostack`, so the compiler keeps nothing below the stack
    // pointer. The loop ends when the counter reaches `n`.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        asm!(
            "push rbp",
            "mov rbp, rsp",
            "sub rsp, 32",
            "mov [rbp - 8], {n}",
            "mov qword ptr [rbp - 16], 0",
            "jmp 3f",
            ".p2align 6",
            "2:",
            "mov {counted}, [rbp - 16]",
            "add {counted}, 1",
            "mov [rbp - 16], {counted}",
            "3:",
            "mov {counted}, [rbp - 16]",
            "cmp {counted}, [rbp - 8]",
            "jb 2b",
            "mov rsp, rbp",
            "pop rbp",
            n = in(reg) n,
            counted = out(reg) counted,
        );
        #[cfg(target_arch = "aarch64")]
        asm!(
            "sub sp, sp, #16",
            "str {n}, [sp, #8]",
            "str xzr, [sp]",
            "b 3f",
            ".p2align 6",
            "2:",
            "ldr {counted}, [sp]",
            "add {counted}, {counted}, #1",
            "str {counted}, [sp]",
            "3:",
            "ldr {counted}, [sp]",
            "ldr {limit}, [sp, #8]",
            "cmp {counted}, {limit}",
            "b.lo 2b",
            "add sp, sp, #16",
            n = in(reg) n,
            limit = out(reg) _,
            counted = out(reg) counted,
        );
    }
    counted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loops_end() {
        for n in [0, 1, 2, 100_000] {
            empty(n);
            nop(n);
            assert_eq!(memory_counter(n), n);
        }
    }
}
