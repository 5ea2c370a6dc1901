//! Two groups of values whose spreads may differ: Welch's t, of trimmed means Yuen's.

use super::student_t::{student_t_quantile, two_sided};
use super::trimmed::trimmed;

/// How far two groups' means are apart.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Difference {
    /// The second trimmed mean less the first.
    pub of_means: f64,
    /// Its standard error.
    pub error: f64,
    /// The degrees of freedom of t, rounded down.
    pub degrees: u32,
}

/// How far the trimmed means of these groups are apart; `None` where one has fewer than two values.
///
/// The degrees of freedom are Welch's (B. L. Welch, "The generalization of 'Student's' problem when
/// several different population variances are involved", Biometrika 34, 1947), rounded down; of
/// trimmed means they are what K. K. Yuen made of it ("The two-sample trimmed t for unequal population
/// variances", Biometrika 61, 1974).
pub fn difference(first: &[f64], second: &[f64]) -> Option<Difference> {
    let (first, second) = (trimmed(first)?, trimmed(second)?);
    let (a, a_degrees) = (first.error_squared?, first.degrees);
    let (b, b_degrees) = (second.error_squared?, second.degrees);
    let degrees = match a + b > 0.0 {
        true => (a + b).powi(2) / (a.powi(2) / a_degrees + b.powi(2) / b_degrees),
        false => a_degrees + b_degrees,
    };
    Some(Difference {
        of_means: second.mean - first.mean,
        error: (a + b).sqrt(),
        degrees: (degrees as u32).max(1),
    })
}

impl Difference {
    /// How often chance alone makes a difference as great or greater of one that is no more than
    /// `least` (zero or more), 0 to 1.
    pub fn p(&self, least: f64) -> f64 {
        let more = self.of_means.abs() - least;
        match (more > 0.0, self.error > 0.0) {
            (false, _) => 1.0,
            (true, true) => two_sided(more / self.error, self.degrees),
            (true, false) => 0.0,
        }
    }

    /// Half the width of the interval that holds the difference with this confidence, 0 to 1.
    pub fn half_width(&self, confidence: f64) -> Option<f64> {
        Some(student_t_quantile(f64::midpoint(1.0, confidence), self.degrees)? * self.error)
    }

    /// The smallest difference that is told from none with this confidence, and with this
    /// probability (0.5 to 1).
    pub fn visible(&self, confidence: f64, probability: f64) -> Option<f64> {
        let seen = student_t_quantile(probability, self.degrees)? * self.error;
        Some(self.half_width(confidence)? + seen)
    }
}

#[cfg(test)]
mod tests {
    use statrs::distribution::{ContinuousCDF, StudentsT};

    use super::*;

    #[test]
    fn it_is_welchs() {
        // By hand: variances of the means 1.667 ÷ 4 and 6.7 ÷ 5, 6.09 degrees of freedom.
        let found = difference(&[1.0, 2.0, 3.0, 4.0], &[3.0, 5.0, 4.0, 9.0, 8.0]).unwrap();
        assert!((found.of_means - 3.3).abs() < 1e-12, "{found:?}");
        let t = found.of_means / found.error;
        assert!((t - 2.489_827_501).abs() < 1e-8, "{t}");
        assert_eq!(found.degrees, 6);
        let theirs = StudentsT::new(0.0, 1.0, 6.0).unwrap();
        assert!(
            (found.p(0.0) - 2.0 * theirs.sf(t)).abs() < 1e-9,
            "{}",
            found.p(0.0)
        );
        let far = difference(&[1.0, 1.1, 0.9, 1.0], &[3.0, 3.1, 2.9, 3.0]).unwrap();
        let t = far.of_means / far.error;
        let theirs = StudentsT::new(0.0, 1.0, f64::from(far.degrees)).unwrap();
        assert!(
            (far.p(0.0) / (2.0 * theirs.sf(t)) - 1.0).abs() < 1e-3,
            "{}",
            far.p(0.0)
        );
    }

    #[test]
    fn what_does_not_spread_differs_or_not() {
        let none = difference(&[2.0, 2.0], &[2.0, 2.0, 2.0]).unwrap();
        assert_eq!((none.p(0.0), none.half_width(0.95)), (1.0, Some(0.0)));
        let some = difference(&[2.0, 2.0], &[3.0, 3.0, 3.0]).unwrap();
        assert_eq!((some.p(0.0), some.p(1.0)), (0.0, 1.0));
        assert_eq!(difference(&[2.0], &[3.0, 4.0]), None);
    }

    #[test]
    fn less_confidence_sees_less_and_by_chance_it_is_seen_half_the_time() {
        let found = difference(&[1.0, 2.0, 3.0], &[1.5, 2.5, 3.5]).unwrap();
        let [half, more] = [0.5, 0.9].map(|often| found.visible(0.95, often).unwrap());
        assert!((half - found.half_width(0.95).unwrap()).abs() < 1e-9);
        assert!(more > half && found.visible(0.999, 0.9).unwrap() > more);
    }
}
