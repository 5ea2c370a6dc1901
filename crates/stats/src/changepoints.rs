//! The levels of a cost curve: where it is flat, and where it passes from one level to the next.
//!
//! A cost by size is a staircase whose steps are ramps: a cache that is shared or indexed by
//! physical addresses fills unevenly, and its effect fades over an octave or more. So a curve is
//! cut into levels and points of transition. A level is a nearly flat line through the logarithms;
//! points of transition follow no line. Optimal partitioning finds exactly the cut with the
//! smallest loss over all cuts. The loss of an outlier is bounded, so that it does not split a
//! level.
//!
//! Sources: B. Jackson et al., "An algorithm for optimal partitioning of data on an interval", IEEE
//! Signal Processing Letters 12 (2005); R. Killick, P. Fearnhead, I. Eckley, "Optimal detection of
//! changepoints with a linear computational cost", JASA 107 (2012), whose pruning pays beyond some
//! thousand points; P. Fearnhead, G. Rigaill, "Changepoint detection in the presence of outliers",
//! JASA 114 (2019), for the bounded loss.

use crate::quantile::median;

/// The fewest points that make a level.
const LEVEL_POINTS_MIN: usize = 3;
/// How steep a level may be, in either direction: about 10 % an octave, as TLB misses make it.
const LEVEL_SLOPE_MAX: f64 = 0.1;
/// The loss that each level adds for its start, its end and its height, times the logarithm of the
/// number of points (as in the Bayesian information criterion).
const LEVEL_PRICE: f64 = 3.0;
/// The loss of a point of transition: that of a point this many standard deviations, squared, off
/// its level.
const TRANSITION_PRICE: f64 = 6.0;
/// The largest loss of a point within a level.
const OUTLIER_PRICE: f64 = 12.0;
/// The smallest and the largest scatter that is assumed, as a share of the cost. Differences below
/// the smallest make no level of their own, however exact the points are.
const SCATTER: (f64, f64) = (0.03, 0.1);
/// Neighbouring levels whose costs differ by a smaller ratio are one level.
const STEP_MIN: f64 = 1.2;

/// A stretch of a curve on which the cost hardly changes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Level {
    /// The position of its first point in the curve.
    pub first: usize,
    /// The position of its last point in the curve.
    pub last: usize,
    /// The median cost of its points.
    pub cost: f64,
}

/// The levels of a curve of points (x, cost), ascending; empty if there are too few points, or if
/// the cost is flat nowhere.
///
/// # Panics
/// If an x or a cost is not positive, or the x are not ascending: the caller ensures both.
pub fn levels(curve: &[(f64, f64)]) -> Vec<Level> {
    assert!(
        curve.iter().all(|(x, cost)| *x > 0.0 && *cost > 0.0),
        "a curve has positive sizes and costs"
    );
    assert!(curve.windows(2).all(|pair| pair[0].0 < pair[1].0), "the sizes of a curve ascend");
    let points: Vec<(f64, f64)> = curve.iter().map(|(x, y)| (x.log2(), y.ln())).collect();
    let mut levels: Vec<Level> = Vec::new();
    for (start, end) in cut(&points) {
        let next = level(curve, start, end - 1);
        match levels.last_mut() {
            Some(last) if differs_little(last.cost, next.cost) => {
                *last = level(curve, last.first, next.last);
            }
            _ => levels.push(next),
        }
    }
    levels
}

/// The level that the points from one position to another make.
pub fn level(curve: &[(f64, f64)], first: usize, last: usize) -> Level {
    let costs = curve[first..=last].iter().map(|(_, cost)| *cost);
    Level { first, last, cost: median_of(costs) }
}

fn differs_little(one: f64, other: f64) -> bool {
    (one / other).max(other / one) < STEP_MIN
}

/// The x at which the cost is half-way between two levels: there, half of the operations cost as
/// much as on the one, and half as much as on the other. Interpolated on log x. Costs between the
/// levels are sorted first, so that scatter does not cross the half-way cost twice.
pub fn half_way(curve: &[(f64, f64)], from: &Level, to: &Level) -> f64 {
    let between = &curve[from.last..=to.first];
    let middle = f64::midpoint(from.cost, to.cost);
    let mut costs: Vec<f64> = between.iter().map(|(_, cost)| *cost).collect();
    costs.sort_by(f64::total_cmp);
    let after = costs.partition_point(|cost| *cost < middle);
    if after == 0 || after == costs.len() {
        return between[after.min(costs.len() - 1)].0;
    }
    let (low, high) = (costs[after - 1], costs[after]);
    let share = (middle - low) / (high - low);
    let (left, right) = (between[after - 1].0.ln(), between[after].0.ln());
    (left + share * (right - left)).exp()
}

/// The levels of the cut with the smallest loss, as ranges.
fn cut(points: &[(f64, f64)]) -> Vec<(usize, usize)> {
    let count = points.len();
    let scatter = scatter(points);
    let level_price = LEVEL_PRICE * (count as f64).ln();
    // For each end: the least loss up to there, and where the level that ends there starts.
    let mut best: Vec<(f64, Option<usize>)> = vec![(0.0, None)];
    for end in 1..=count {
        let mut least = (best[end - 1].0 + TRANSITION_PRICE, None);
        for start in 0..(end + 1).saturating_sub(LEVEL_POINTS_MIN) {
            let before = best[start].0 + level_price;
            if before >= least.0 {
                continue;
            }
            let loss = before + level_loss(&points[start..end], scatter);
            if loss < least.0 {
                least = (loss, Some(start));
            }
        }
        best.push(least);
    }
    let mut found = Vec::new();
    let mut end = count;
    while end > 0 {
        match best[end].1 {
            Some(start) => {
                found.push((start, end));
                end = start;
            }
            None => end -= 1,
        }
    }
    found.reverse();
    found
}

/// The loss of the points as one level: their distances from the flattest line through most of them
/// (Theil and Sen's estimator).
fn level_loss(points: &[(f64, f64)], scatter: f64) -> f64 {
    let slopes = points.iter().enumerate().flat_map(|(position, (x, y))| {
        let later = points[position + 1..].iter();
        later.map(move |(later_x, later_y)| (later_y - y) / (later_x - x))
    });
    let slope = median_of(slopes).clamp(-LEVEL_SLOPE_MAX, LEVEL_SLOPE_MAX);
    let heights: Vec<f64> = points.iter().map(|(x, y)| y - slope * x).collect();
    let height = median_of(heights.iter().copied());
    heights.iter().map(|each| ((each - height) / scatter).powi(2).min(OUTLIER_PRICE)).sum()
}

/// The scatter of the points, from the median of their second differences, which neither slopes nor
/// a few steps change.
fn scatter(points: &[(f64, f64)]) -> f64 {
    let bends = points.windows(3).map(|three| (three[0].1 - 2.0 * three[1].1 + three[2].1).abs());
    let Some(bend) = median(&bends.collect::<Vec<_>>()) else {
        return SCATTER.0;
    };
    // A second difference has six times the variance; 1.4826 makes a median absolute deviation a
    // standard deviation.
    (1.4826 * bend / 6.0_f64.sqrt()).clamp(SCATTER.0, SCATTER.1)
}

/// # Panics
/// If there are no values: every level has points.
fn median_of(values: impl Iterator<Item = f64>) -> f64 {
    median(&values.collect::<Vec<_>>()).expect("a level has points")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rise_of_ten_percent_an_octave_is_one_level() {
        let rising: Vec<(f64, f64)> = (0..30)
            .map(|third| 2.0_f64.powf(f64::from(third) / 3.0))
            .map(|size| (size, 100.0 * size.powf(0.13)))
            .collect();
        assert_eq!(levels(&rising).len(), 1);
    }

    #[test]
    fn a_rise_without_end_has_no_levels() {
        let rising: Vec<(f64, f64)> = (0..30)
            .map(|third| 2.0_f64.powf(f64::from(third) / 3.0))
            .map(|size| (size, size))
            .collect();
        assert_eq!(levels(&rising), []);
    }

    #[test]
    fn too_few_points_have_no_levels() {
        assert_eq!(levels(&[]), []);
        assert_eq!(levels(&[(1.0, 1.0), (2.0, 1.0)]), []);
    }

    #[test]
    fn half_way_is_between_the_levels_even_where_the_cost_falls_back() {
        let curve =
            [(1., 1.), (2., 1.), (4., 1.), (8., 6.), (16., 4.), (32., 9.), (64., 9.), (128., 9.)];
        let [low, high] = levels(&curve)[..] else {
            panic!("two levels");
        };
        assert!((4.0..=16.0).contains(&half_way(&curve, &low, &high)));
    }
}
