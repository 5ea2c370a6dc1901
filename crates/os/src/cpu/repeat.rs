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
