//! A loop around instructions whose placement in memory is fixed.

/// Repeats instructions of each architecture until a count, above zero, has come down to zero. The
/// loop is aligned to 64 bytes, so that it does not straddle cache lines or fetch blocks, and closed
/// by one subtraction and one branch. Operands and options are as `asm!` takes them.
///
/// Not part of this crate's interface: costof's measured loops use it too.
#[doc(hidden)]
#[macro_export]
macro_rules! asm_loop {
    (
        $count:expr,
        x86_64 { $($x86_64:expr),* },
        aarch64 { $($aarch64:expr),* },
        $($operands:tt)*
    ) => {{
        #[cfg(target_arch = "x86_64")]
        core::arch::asm!(
            ".p2align 6",
            "2:",
            $($x86_64,)*
            "sub {count}, 1",
            "jnz 2b",
            count = inout(reg) $count => _,
            $($operands)*
        );
        #[cfg(target_arch = "aarch64")]
        core::arch::asm!(
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
