//! The loop around a measured operation.

/// Does `operation` `n` times, eight times an iteration. The eight call sites
/// matter more than the eighth of a loop that they save: with a single one, a
/// core's branch predictors settle in one of several states by chance (on Zen
/// 5, a coarse clock read took 11, 13 or 16 cycles from batch to batch); with
/// eight, the states average out, and every batch takes 13.
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
