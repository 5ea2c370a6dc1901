//! Decides when a warm-up is over.

use crate::quantile::median;

/// With fewer batches than this, there is too little to compare, and a warm-up continues: with six,
/// scatter hides a falling cost too often (costof-measure's examples/simulate).
pub const MIN_WARM_UP_BATCHES: usize = 8;

/// After this many batches a warm-up ends, settled or not: some costs never stop drifting.
pub const MAX_WARM_UP_BATCHES: usize = 60;

/// Batches in each of the two windows that are compared, at most.
const WIDEST_WINDOW: usize = 8;

/// A change of this share of the cost never counts as drift: it is smaller than the difference
/// between launches.
const NEGLIGIBLE_SHARE: f64 = 0.005;

/// Two windows count as alike if they differ by at most this many standard errors. One, not two: a
/// steady cost then waits for a few more batches, which is cheap, and a falling cost is seldom
/// mistaken for a steady one.
const STANDARD_ERRORS: f64 = 1.0;

/// Whether the warm-up can end after these batch costs (in order of time, any unit): they have
/// stopped drifting, or there are [`MAX_WARM_UP_BATCHES`] of them. [`is_drifting`] distinguishes
/// the two.
pub fn has_settled(batch_costs: &[f64]) -> bool {
    batch_costs.len() >= MAX_WARM_UP_BATCHES
        || (batch_costs.len() >= MIN_WARM_UP_BATCHES && !is_drifting(batch_costs))
}

/// Whether the last window of batch costs differs from the window before it.
///
/// Compares the medians of two successive windows (half of the batches each, at most the last 2 ×
/// 8). They differ if they are further apart than 0.5 % of the cost and than one standard error.
/// The scatter behind the standard error is the median of the second differences of successive
/// batches. A steady trend does not change second differences (Gasser, Sroka and Jennen-Steinmetz,
/// "Residual Variance and Residual Pattern in Nonlinear Regression", 1986), and a single disturbed
/// batch hardly changes their median.
///
/// `false` with fewer than [`MIN_WARM_UP_BATCHES`].
pub fn is_drifting(batch_costs: &[f64]) -> bool {
    drift(batch_costs).is_some_and(|drift| drift.change > drift.tolerance)
}

struct Drift {
    change: f64,
    tolerance: f64,
}

fn drift(batch_costs: &[f64]) -> Option<Drift> {
    if batch_costs.len() < MIN_WARM_UP_BATCHES {
        return None;
    }
    let window = (batch_costs.len() / 2).min(WIDEST_WINDOW);
    let recent = &batch_costs[batch_costs.len() - 2 * window..];
    let (before, after) = recent.split_at(window);
    let (before, after) = (median(before)?, median(after)?);
    Some(Drift {
        change: (after - before).abs(),
        tolerance: (NEGLIGIBLE_SHARE * after.abs())
            .max(STANDARD_ERRORS * standard_error_of_difference(recent, window)?),
    })
}

/// The standard error of the difference between the medians of two windows.
fn standard_error_of_difference(costs: &[f64], window: usize) -> Option<f64> {
    /// Of normal values: the standard deviation ÷ the median size of second differences,
    /// 1 ÷ (0.6745 × √6).
    const FROM_DIFFERENCES: f64 = 0.6053;
    /// The standard error of a median ÷ that of a mean, for normal values: √(π ÷ 2).
    const OF_A_MEDIAN: f64 = 1.2533;
    let differences: Vec<f64> =
        costs.windows(3).map(|three| (three[0] - 2.0 * three[1] + three[2]).abs()).collect();
    let deviation = FROM_DIFFERENCES * median(&differences)?;
    Some(OF_A_MEDIAN * deviation * (2.0 / window as f64).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `excess` falls by a factor e over `over` batches; scatter is uniform, ± `scatter`.
    fn warm_up(seed: u64, count: usize, excess: f64, over: f64, scatter: f64) -> Vec<f64> {
        let mut random = fastrand::Rng::with_seed(seed);
        (0..count)
            .map(|batch| {
                let warm_up = excess * (-(batch as f64) / over).exp();
                (1.0 + warm_up) * (1.0 + scatter * (2.0 * random.f64() - 1.0))
            })
            .collect()
    }

    fn batches_until_settled(costs: &[f64]) -> usize {
        (0..=costs.len()).find(|&count| has_settled(&costs[..count])).unwrap_or(usize::MAX)
    }

    #[test]
    fn a_steady_cost_settles_at_once() {
        assert_eq!(batches_until_settled(&[20.0; 60]), MIN_WARM_UP_BATCHES);
    }

    #[test]
    fn too_few_batches_have_not_settled() {
        assert!(!has_settled(&[]));
        assert!(!has_settled(&[1.0; MIN_WARM_UP_BATCHES - 1]));
    }

    #[test]
    fn most_steady_costs_with_scatter_settle_within_a_few_batches() {
        let soon = (0..200)
            .filter(|&seed| batches_until_settled(&warm_up(seed, 60, 0.0, 1.0, 0.05)) <= 14);
        assert!(soon.count() >= 180);
    }

    #[test]
    fn a_falling_cost_is_waited_for() {
        let late = (0..200)
            .filter(|&seed| batches_until_settled(&warm_up(seed, 60, 0.2, 5.0, 0.03)) >= 15);
        assert!(late.count() >= 190);
    }

    #[test]
    fn a_rising_cost_drifts_too() {
        let rising: Vec<f64> = (0..20).map(|batch| 100.0 + f64::from(batch)).collect();
        assert!(is_drifting(&rising));
    }

    #[test]
    fn one_slow_batch_does_not_keep_a_steady_cost_waiting() {
        let mut costs = vec![10.0; 12];
        costs[8] = 90.0;
        assert!(has_settled(&costs));
    }

    #[test]
    fn what_drifts_for_ever_ends_at_the_bound_and_is_still_called_drifting() {
        let for_ever: Vec<f64> = (0..200).map(|batch| 100.0 + f64::from(batch)).collect();
        assert_eq!(batches_until_settled(&for_ever), MAX_WARM_UP_BATCHES);
        assert!(is_drifting(&for_ever[..MAX_WARM_UP_BATCHES]));
    }
}
