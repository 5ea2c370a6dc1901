//! The 95 % interval of a median over launches.

use costof_model::metric::IntervalKind;

use super::binomial::symmetric_binomial_cdf;
use super::quantile::{mean, standard_deviation};
use super::student_t::student_t_quantile;

/// The confidence that every interval asks for.
pub const CONFIDENCE: f64 = 0.95;

/// The fewest values that have an interval.
pub const LEAST_VALUES: usize = 3;

/// From this many values on, an interval is a pair of order statistics: five would cover 93.75 %.
pub const ORDER_FROM: usize = 6;

/// A range that holds the true median with the confidence named.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    /// Lower end, in the unit of the values.
    pub low: f64,
    /// Upper end, in the unit of the values.
    pub high: f64,
    /// The rule that made it.
    pub kind: IntervalKind,
    /// The confidence attained, 0 to 1: at least [`CONFIDENCE`], and above it where only whole
    /// order statistics can be chosen.
    pub confidence: f64,
}

impl Interval {
    /// Whether `value` lies inside, ends included.
    pub fn contains(&self, value: f64) -> bool {
        self.low <= value && value <= self.high
    }

    /// Upper less lower end, in the unit of the values.
    pub fn width(&self) -> f64 {
        self.high - self.low
    }
}

/// The interval of the median that `launch_medians`, one value a launch, were drawn around.
///
/// From [`ORDER_FROM`] values on: the narrowest symmetric pair of order statistics that covers the
/// median with 95 % or more by the binomial distribution (David and Nagaraja, "Order Statistics",
/// 2003, section 7.1). For 3 to 5 values: Student's t on
/// their logarithms. `None` for fewer than [`LEAST_VALUES`].
pub fn median_interval(launch_medians: &[f64]) -> Option<Interval> {
    match launch_medians.len() {
        0..LEAST_VALUES => None,
        LEAST_VALUES..ORDER_FROM => student_t_interval(launch_medians),
        _ => order_interval(launch_medians),
    }
}

fn order_interval(values: &[f64]) -> Option<Interval> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let (rank, confidence) = narrowest_rank(sorted.len())?;
    Some(Interval {
        low: sorted[rank],
        high: sorted[sorted.len() - 1 - rank],
        kind: IntervalKind::Order,
        confidence,
    })
}

/// The largest rank (from 0) whose symmetric pair still covers, with the coverage.
fn narrowest_rank(count: usize) -> Option<(usize, f64)> {
    let coverage = |rank: usize| 1.0 - 2.0 * symmetric_binomial_cdf(rank, count);
    // Coverage falls as the rank rises, so the boundary is found by halving.
    let (mut covers, mut too_narrow) = (0, count / 2);
    if count < 2 || coverage(0) < CONFIDENCE {
        return None;
    }
    while too_narrow - covers > 1 {
        let middle = usize::midpoint(covers, too_narrow);
        if coverage(middle) >= CONFIDENCE {
            covers = middle;
        } else {
            too_narrow = middle;
        }
    }
    Some((covers, coverage(covers)))
}

/// Costs are positive and skewed, so t is taken on their logarithms, where it covers as well and
/// cannot reach below zero; on the values themselves where one of them is not positive.
fn student_t_interval(values: &[f64]) -> Option<Interval> {
    let positive = values.iter().all(|value| *value > 0.0);
    let scaled: Vec<f64> = match positive {
        true => values.iter().map(|value| value.ln()).collect(),
        false => values.to_vec(),
    };
    let back = |value: f64| if positive { value.exp() } else { value };
    let centre = mean(&scaled)?;
    let degrees = u32::try_from(values.len() - 1).ok()?;
    let t = student_t_quantile(f64::midpoint(1.0, CONFIDENCE), degrees)?;
    let half = t * standard_deviation(&scaled)? / (values.len() as f64).sqrt();
    Some(Interval {
        low: back(centre - half),
        high: back(centre + half),
        kind: IntervalKind::T,
        confidence: CONFIDENCE,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const VALUES: [f64; 5] = [61.2, 14.1, 15.3, 58.7, 13.9];

    #[test]
    fn three_to_five_values_have_scipys_t_interval() {
        // x = log(VALUES[:n]); exp(scipy.stats.t.interval(.95, n - 1, loc=mean(x), scale=scipy.stats.sem(x)))
        let expected = [
            (3, 3.0446700931568986, 183.4711299906519),
            (4, 8.140415999250406, 108.14425029328376),
            (5, 9.66365950329601, 67.264253626044),
        ];
        for (count, low, high) in expected {
            let found = median_interval(&VALUES[..count]).expect("there are three values");
            assert_eq!(found.kind, IntervalKind::T);
            assert!((found.low / low - 1.0).abs() < 1e-8 && (found.high / high - 1.0).abs() < 1e-8);
        }
    }

    #[test]
    fn values_that_are_not_all_positive_have_their_own_t_interval() {
        // scipy.stats.t.interval(.95, 2, loc=mean(x), scale=scipy.stats.sem(x))
        let found = median_interval(&[-1.5, 2.0, 0.25]).expect("there are three values");
        assert!(
            (found.low - -4.0972409955630775).abs() < 1e-8
                && (found.high - 4.5972409955630775).abs() < 1e-8
        );
    }

    #[test]
    fn from_six_values_on_the_ranks_are_scipys() {
        // scipy.stats.quantile_test(range(n), q=0, p=.5).confidence_interval(.95)
        let expected = [
            (6, 0.0, 5.0),
            (7, 0.0, 6.0),
            (8, 0.0, 7.0),
            (9, 1.0, 7.0),
            (15, 3.0, 11.0),
            (20, 5.0, 14.0),
            (101, 40.0, 60.0),
            (1000, 468.0, 531.0),
        ];
        for (count, low, high) in expected {
            let values: Vec<f64> = (0..count).rev().map(f64::from).collect();
            let found = median_interval(&values).expect("there are six values");
            assert_eq!((found.low, found.high), (low, high), "{count} values");
            assert_eq!(found.kind, IntervalKind::Order);
            assert!(found.confidence >= CONFIDENCE);
        }
    }

    #[test]
    fn six_values_attain_what_the_binomial_says() {
        let interval = median_interval(&[1.0; 6]).expect("there are six values");
        assert_eq!(interval.confidence, 0.96875);
        assert_eq!(interval.width(), 0.0);
    }

    #[test]
    fn fewer_than_three_values_have_no_interval() {
        assert_eq!(median_interval(&[]), None);
        assert_eq!(median_interval(&[1.0, 2.0]), None);
    }

    /// Share of experiments whose interval holds 1, the median of what `launch` draws.
    fn coverage(count: usize, launch: impl Fn(&mut fastrand::Rng) -> f64) -> f64 {
        const EXPERIMENTS: usize = 4000;
        let mut random = fastrand::Rng::with_seed(7);
        let covered = (0..EXPERIMENTS).filter(|_| {
            let launches: Vec<f64> = (0..count).map(|_| launch(&mut random)).collect();
            median_interval(&launches).is_some_and(|interval| interval.contains(1.0))
        });
        covered.count() as f64 / EXPERIMENTS as f64
    }

    #[test]
    fn intervals_of_lognormal_launches_cover() {
        for count in crate::schedule::LAUNCH_COUNTS {
            let covered = coverage(count as usize, |random| {
                let radius = (-2.0 * (1.0 - random.f64()).ln()).sqrt();
                (0.05 * radius * (std::f64::consts::TAU * random.f64()).cos()).exp()
            });
            assert!(covered >= 0.94, "{count} launches cover {covered}");
        }
    }

    #[test]
    fn order_intervals_of_launches_with_two_modes_cover_where_t_may_not() {
        let two_modes = |random: &mut fastrand::Rng| {
            let place = random.f64();
            if place < 0.6 {
                0.5 + 0.6 * place / 0.6
            } else {
                4.0
            }
        };
        // The median, at place 0.5, is this draw's 1.0.
        for count in [6, 9, 12, 15] {
            let covered = coverage(count, two_modes);
            assert!(covered >= 0.945, "{count} launches cover {covered}");
        }
        assert!(coverage(5, two_modes) < 0.92);
    }
}
