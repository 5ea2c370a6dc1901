//! Independent additions: how many of a core's execution slots are free.
//!
//! A second hardware thread on a core takes issue slots from the first, not time. How many slots it
//! leaves shows in the speed of independent instructions relative to a chain of dependent ones
//! ([`crate::chain::multiply`]), which leaves most slots free in any case. The code uses
//! registers only: it touches no memory and makes no system call.
//!
//! The loop has six additions and the decrement and branch that close it, and is aligned to 64
//! bytes: depending on its alignment, the same loop takes up to 1.5 times as long.

use core::arch::asm;

/// Additions in one pass of the loop.
const ADDITIONS_PER_PASS: u64 = 6;

/// Adds one to each of six registers in turn: `n` additions, rounded up to a multiple of six.
/// Returns the sum of the registers.
#[inline(never)]
pub fn independent_additions(n: u64) -> u64 {
    let passes = n.div_ceil(ADDITIONS_PER_PASS).max(1);
    let mut registers = [0_u64; 6];
    let [a, b, c, d, e, f] = &mut registers;
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
