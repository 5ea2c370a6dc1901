//! Additions that do not wait for each other: how many of a core's execution slots are free.
//!
//! A core that has a second hardware thread gives it issue slots, not time. What it leaves shows in
//! how fast independent instructions run, over how fast a chain of dependent ones does
//! ([`crate::cpu::core_chain::multiply`]), which leaves most slots free either way. Registers only: no
//! memory is touched and no system call is made.
//!
//! The loop is six additions and the decrement and branch that close it, aligned to 64 bytes: by
//! where a compiler puts it, the same loop takes half as long again.

use std::arch::asm;

/// Additions in one pass of the loop.
const ADDITIONS_PER_PASS: u64 = 6;

/// Adds one to each of six registers in turn: `n` additions, rounded up to a multiple of six.
/// Returns the sum of the registers.
#[inline(never)]
pub fn independent_additions(n: u64) -> u64 {
    let passes = n.div_ceil(ADDITIONS_PER_PASS).max(1);
    let mut registers = [0_u64; 6];
    let [a, b, c, d, e, f] = &mut registers;
    /// A loop of these instructions.
    macro_rules! asm_of {
        ($($code:literal),*) => {
            asm!(
                ".p2align 6",
                "2:",
                $($code,)*
                count = inout(reg) passes => _,
                a = inout(reg) *a, b = inout(reg) *b, c = inout(reg) *c,
                d = inout(reg) *d, e = inout(reg) *e, f = inout(reg) *f,
                options(nomem, nostack),
            )
        };
    }
    // SAFETY: arithmetic on the named registers; the loop ends when its count reaches zero.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        asm_of!(
            "add {a}, 1",
            "add {b}, 1",
            "add {c}, 1",
            "add {d}, 1",
            "add {e}, 1",
            "add {f}, 1",
            "dec {count}",
            "jnz 2b"
        );
        #[cfg(target_arch = "aarch64")]
        asm_of!(
            "add {a}, {a}, #1",
            "add {b}, {b}, #1",
            "add {c}, {c}, #1",
            "add {d}, {d}, #1",
            "add {e}, {e}, #1",
            "add {f}, {f}, #1",
            "subs {count}, {count}, #1",
            "b.ne 2b"
        );
    }
    registers.iter().sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_does_as_many_additions_as_asked_for() {
        for (asked, done) in [(0, 6), (6, 6), (7, 12), (6000, 6000)] {
            assert_eq!(independent_additions(asked), done);
        }
    }
}
