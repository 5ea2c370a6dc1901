//! The difference between two groups of values: t tests on trimmed means, which one launch in eight
//! cannot change.
//!
//! Launches are skewed: one in ten meets a disturbance that the others did not, and its value then
//! dominates the error of a mean of nine. Source: J. W. Tukey and D. H. McLaughlin, "Less
//! vulnerable confidence and significance procedures for location based on a single sample",
//! Sankhyā A 25, 1963.

use statrs::distribution::{ContinuousCDF, StudentsT};

use crate::quantile::{mean, standard_deviation};

/// The difference between two groups' trimmed means.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Difference {
    /// The second trimmed mean less the first.
    pub of_means: f64,
    /// Its standard error.
    pub error: f64,
    /// The degrees of freedom of t, rounded down.
    pub degrees: u32,
}

impl Difference {
    /// The difference between independent groups whose spreads may differ; `None` if one has fewer
    /// than two values.
    ///
    /// The degrees of freedom are Welch's (B. L. Welch, "The generalization of 'Student's' problem
    /// when several different population variances are involved", Biometrika 34, 1947), rounded
    /// down. For trimmed means, K. K. Yuen's version applies ("The two-sample trimmed t for unequal
    /// population variances", Biometrika 61, 1974).
    pub fn welch(first: &[f64], second: &[f64]) -> Option<Difference> {
        let (first, second) = (Trimmed::new(first)?, Trimmed::new(second)?);
        let (a, b) = (first.error_squared?, second.error_squared?);
        let degrees = if a + b > 0.0 {
            (a + b).powi(2) / (a.powi(2) / first.degrees + b.powi(2) / second.degrees)
        } else {
            first.degrees + second.degrees
        };
        Some(Difference {
            of_means: second.mean - first.mean,
            error: (a + b).sqrt(),
            degrees: (degrees as u32).max(1),
        })
    }

    /// The difference between independent groups, of which one may have a single value, since both are taken to have
    /// one spread; `None` with fewer than three values, or none in a group.
    ///
    /// Student's t with a pooled variance; for a single value, J. R. Crawford and D. C. Howell, "Comparing an
    /// individual's test score against norms in small samples", The Clinical Neuropsychologist 12, 1998.
    pub fn pooled(first: &[f64], second: &[f64]) -> Option<Difference> {
        let groups = [first, second].map(|values| values.len() as f64);
        let degrees = groups[0] + groups[1] - 2.0;
        if degrees < 1.0 {
            return None;
        }
        let squares = |values: &[f64]| {
            let variance = standard_deviation(values).unwrap_or(0.0).powi(2);
            variance * (values.len() as f64 - 1.0)
        };
        let variance = (squares(first) + squares(second)) / degrees;
        Some(Difference {
            of_means: mean(second)? - mean(first)?,
            error: (variance * (1.0 / groups[0] + 1.0 / groups[1])).sqrt(),
            degrees: degrees as u32,
        })
    }

    /// The mean difference within pairs; `None` if the lengths differ, or with fewer than two
    /// pairs.
    ///
    /// What both values of a pair share (a drifting clock, a neighbour's minute) cancels in their
    /// difference. (W. S. Gosset as "Student", "The probable error of a mean", Biometrika 6, 1908,
    /// section IX.)
    pub fn paired(first: &[f64], second: &[f64]) -> Option<Difference> {
        if first.len() != second.len() {
            return None;
        }
        let differences: Vec<f64> = first.iter().zip(second).map(|(a, b)| b - a).collect();
        let found = Trimmed::new(&differences)?;
        Some(Difference {
            of_means: found.mean,
            error: found.error_squared?.sqrt(),
            degrees: found.degrees as u32,
        })
    }

    /// The probability, 0 to 1, that chance alone makes a difference at least this large if the
    /// true difference is at most `least` (zero or more).
    pub fn p(&self, least: f64) -> f64 {
        let more = self.of_means.abs() - least;
        if more <= 0.0 {
            1.0
        } else if self.error > 0.0 {
            students_t(self.degrees).map_or(1.0, |t| 2.0 * t.sf(more / self.error))
        } else {
            0.0
        }
    }

    /// Half the width of the interval that holds the difference with this confidence, 0 to 1.
    pub fn half_width(&self, confidence: f64) -> Option<f64> {
        Some(t_quantile(f64::midpoint(1.0, confidence), self.degrees)? * self.error)
    }

    /// The smallest true difference that this test would find, with this confidence and this
    /// probability (0.5 to 1).
    pub fn visible(&self, confidence: f64, probability: f64) -> Option<f64> {
        let seen = t_quantile(probability, self.degrees)? * self.error;
        Some(self.half_width(confidence)? + seen)
    }
}

fn students_t(degrees: u32) -> Option<StudentsT> {
    StudentsT::new(0.0, 1.0, f64::from(degrees)).ok()
}

/// The value below which a t variable with `degrees` of freedom stays with probability `p`; `None`
/// without a degree of freedom or if `p` is not strictly between 0 and 1.
pub fn t_quantile(p: f64, degrees: u32) -> Option<f64> {
    let t = students_t(degrees)?;
    (p > 0.0 && p < 1.0).then(|| t.inverse_cdf(p))
}

/// One in this many values is left out at each end.
const TRIMMED_PART: usize = 8;

/// The mean without the least and the greatest eighth of the values, rounded down: with fewer than
/// eight values, the plain mean. `None` without values.
pub fn trimmed_mean(values: &[f64]) -> Option<f64> {
    Trimmed::new(values).map(|trimmed| trimmed.mean)
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Trimmed {
    mean: f64,
    /// The square of the standard error, from the winsorised variance; `None` if one value is left.
    error_squared: Option<f64>,
    /// One less than the values that are left.
    degrees: f64,
}

impl Trimmed {
    fn new(values: &[f64]) -> Option<Trimmed> {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (count, cut) = (sorted.len(), sorted.len() / TRIMMED_PART);
        let kept = &sorted[cut..count - cut];
        let (least, greatest) = (*kept.first()?, *kept.last()?);
        let winsorised: Vec<f64> = sorted.iter().map(|v| v.clamp(least, greatest)).collect();
        let (left, degrees) = (kept.len() as f64, kept.len() as f64 - 1.0);
        let error_squared = standard_deviation(&winsorised)
            .filter(|_| kept.len() > 1)
            .map(|deviation| deviation.powi(2) * (count - 1) as f64 / (left * degrees));
        Some(Trimmed { mean: mean(kept)?, error_squared, degrees })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn t_quantiles_are_scipys() {
        // scipy.stats.t.ppf(.975, degrees)
        for (degrees, expected) in [
            (1, 12.706_204_736_174_694),
            (2, 4.302_652_729_749_462),
            (3, 3.182_446_305_283_707_8),
            (4, 2.776_445_105_197_793_4),
            (10, 2.228_138_851_986_274),
            (30, 2.042_272_456_301_237_8),
        ] {
            let found = t_quantile(0.975, degrees).unwrap();
            assert!((found - expected).abs() < 1e-8, "{degrees}: {found}");
            let low = t_quantile(0.025, degrees).unwrap();
            assert!((low + found).abs() < 1e-8, "{degrees}: {low}");
        }
        for p in [0.0, 1.0, -1.0, f64::NAN] {
            assert_eq!(t_quantile(p, 3), None);
        }
        assert_eq!(t_quantile(0.5, 0), None);
    }

    #[test]
    fn groups_differ_by_welchs_t() {
        // By hand: variances of the means 1.667 ÷ 4 and 6.7 ÷ 5, 6.09 degrees of freedom;
        // 2 * scipy.stats.t.sf(2.4898275, 6).
        let found = Difference::welch(&[1.0, 2.0, 3.0, 4.0], &[3.0, 5.0, 4.0, 9.0, 8.0]).unwrap();
        assert!((found.of_means - 3.3).abs() < 1e-12, "{found:?}");
        let t = found.of_means / found.error;
        assert!((t - 2.489_827_501).abs() < 1e-8, "{t}");
        assert_eq!(found.degrees, 6);
        assert!((found.p(0.0) - 0.047_173_241).abs() < 1e-7, "{}", found.p(0.0));
    }

    #[test]
    fn pairs_differ_by_students_t_but_for_the_patient_who_differs_most_either_way() {
        // Student's own example, of 1908: additional hours of sleep by two drugs, ten patients each. By
        // hand, without the greatest difference (4.6) and the least (0.0): 1.4 hours, t = 5.966.
        let first = [0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0];
        let second = [1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4];
        let found = Difference::paired(&first, &second).unwrap();
        assert!((found.of_means - 1.4).abs() < 1e-9, "{found:?}");
        let t = found.of_means / found.error;
        assert!((t - 5.965_747).abs() < 1e-4, "{t}");
        assert_eq!(found.degrees, 7);
    }

    #[test]
    fn one_value_differs_from_others_by_crawford_and_howells_t() {
        // By hand: (9 - 3) ÷ (1.5811 × √(6 ÷ 5)) = 3.4641, 4 degrees of freedom.
        let found = Difference::pooled(&[1.0, 2.0, 3.0, 4.0, 5.0], &[9.0]).unwrap();
        assert!((found.of_means / found.error - 3.464_101_615).abs() < 1e-8, "{found:?}");
        assert_eq!(found.degrees, 4);
        // By hand: 3 ÷ √(4 ÷ 3 × 5 ÷ 6) = 2.8460.
        let two = Difference::pooled(&[1.0, 2.0, 3.0], &[4.0, 6.0]).unwrap();
        assert!((two.of_means / two.error - 2.846_049_894).abs() < 1e-8, "{two:?}");
        for (first, second) in [(&[1.0][..], &[2.0][..]), (&[], &[1.0, 2.0, 3.0])] {
            assert_eq!(Difference::pooled(first, second), None);
        }
    }

    #[test]
    fn a_drift_that_pairs_share_is_not_in_their_error() {
        let first = [1.0, 1.3, 0.8, 1.9];
        let second = first.map(|value| value + 0.1);
        let found = Difference::paired(&first, &second).unwrap();
        assert!((found.of_means - 0.1).abs() < 1e-12 && found.error < 1e-12);
        assert!(Difference::welch(&first, &second).unwrap().error > 0.3);
    }

    #[test]
    fn groups_without_spread_differ_or_not() {
        let none = Difference::welch(&[2.0, 2.0], &[2.0, 2.0, 2.0]).unwrap();
        assert_eq!((none.p(0.0), none.half_width(0.95)), (1.0, Some(0.0)));
        let some = Difference::welch(&[2.0, 2.0], &[3.0, 3.0, 3.0]).unwrap();
        assert_eq!((some.p(0.0), some.p(1.0)), (0.0, 1.0));
    }

    #[test]
    fn too_few_values_have_no_difference() {
        assert_eq!(Difference::welch(&[2.0], &[3.0, 4.0]), None);
        assert_eq!(Difference::paired(&[1.0, 2.0], &[1.0]), None);
        assert_eq!(Difference::paired(&[1.0], &[2.0]), None);
        assert_eq!(Difference::paired(&[], &[]), None);
    }

    #[test]
    fn less_confidence_sees_less_and_by_chance_it_is_seen_half_the_time() {
        let found = Difference::welch(&[1.0, 2.0, 3.0], &[1.5, 2.5, 3.5]).unwrap();
        let [half, more] = [0.5, 0.9].map(|often| found.visible(0.95, often).unwrap());
        assert!((half - found.half_width(0.95).unwrap()).abs() < 1e-9);
        assert!(more > half && found.visible(0.999, 0.9).unwrap() > more);
    }

    #[test]
    fn one_launch_in_nine_does_not_move_a_trimmed_mean() {
        // scipy.stats.trim_mean(x, 1/8), and by hand 8 × the variance of
        // scipy.stats.mstats.winsorize(x, 1/8) ÷ (7 × 6).
        let usual = [9.8, 10.1, 9.9, 10.0, 10.2, 10.0, 9.9, 10.1];
        let far = Trimmed::new(&[&usual[..], &[90.0]].concat()).unwrap();
        let farther = Trimmed::new(&[&usual[..], &[900.0]].concat()).unwrap();
        assert_eq!(far, farther);
        assert!((far.mean - 70.2 / 7.0).abs() < 1e-12, "{far:?}");
        assert!((far.error_squared.unwrap() - 0.12 / 42.0).abs() < 1e-12);
        assert_eq!(far.degrees, 6.0);
    }

    #[test]
    fn of_few_values_it_is_the_mean_and_its_error() {
        let found = Trimmed::new(&[1.0, 2.0, 3.0, 4.0]).unwrap();
        assert_eq!((found.mean, found.degrees), (2.5, 3.0));
        assert!((found.error_squared.unwrap() - 5.0 / 3.0 / 4.0).abs() < 1e-12);
        assert_eq!(trimmed_mean(&[]), None);
        assert_eq!(Trimmed::new(&[7.0]).unwrap().error_squared, None);
    }
}
