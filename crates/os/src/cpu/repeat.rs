//! The loop around a measured operation.

/// Executes `operation` `n` times, eight times per iteration, so that the cost of one includes an eighth of
/// the loop's. Where the loop lies within its cache lines does not depend on what else is linked: a call costs
/// half or twice as much in another place.
#[inline(always)]
pub(crate) fn repeat(n: u64, mut operation: impl FnMut()) {
    align();
    for _ in 0..n / 8 {
        operation();
        operation();
        operation();
        operation();
        operation();
        operation();
        operation();
        operation();
    }
    for _ in 0..n % 8 {
        operation();
    }
}

/// Aligns the code from here on, and thereby the function that this is inlined into, to 64 bytes.
#[inline(always)]
fn align() {
    // SAFETY: at most 63 bytes of instructions that do nothing.
    unsafe { std::arch::asm!(".p2align 6", options(nomem, nostack, preserves_flags)) };
}

/// Repeats instructions of each architecture until a count, above zero, has come down to zero. The
/// loop is aligned to 64 bytes, so that it does not straddle cache lines or fetch blocks, and closed
/// by one subtraction and one branch. Operands and options are as `asm!` takes them.
macro_rules! asm_loop {
    (
        $count:expr,
        x86_64 { $($x86_64:expr),* },
        aarch64 { $($aarch64:expr),* },
        $($operands:tt)*
    ) => {{
        #[cfg(target_arch = "x86_64")]
        std::arch::asm!(
            ".p2align 6",
            "2:",
            $($x86_64,)*
            "sub {count}, 1",
            "jnz 2b",
            count = inout(reg) $count => _,
            $($operands)*
        );
        #[cfg(target_arch = "aarch64")]
        std::arch::asm!(
            ".p2align 6",
            "2:",
            $($aarch64,)*
            "subs {count}, {count}, #1",
            "b.ne 2b",
            count = inout(reg) $count => _,
            $($operands)*
        );
    }};
}
pub(crate) use asm_loop;
