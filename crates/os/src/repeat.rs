//! The loop around a measured operation.

/// Does `operation` `n` times, eight times an iteration, so that an eighth of
/// the loop is in the cost of one.
#[inline(always)]
pub(crate) fn repeat(n: u64, mut operation: impl FnMut()) {
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
