//! Student's t distribution for whole degrees of freedom, where it has a closed form.

use std::f64::consts::{FRAC_PI_2, PI};

/// The value that a t variable with `degrees` of freedom stays below with probability `p`.
///
/// `None` without a degree of freedom or where `p` is not strictly between 0 and 1. Solved from the
/// central probability by halving, to 1e-12 of the angle whose tangent is t ÷ √degrees.
pub(super) fn student_t_quantile(p: f64, degrees: u32) -> Option<f64> {
    if degrees == 0 || !(p > 0.0 && p < 1.0) {
        return None;
    }
    let central = (2.0 * p - 1.0).abs();
    let (mut low, mut high) = (0.0, FRAC_PI_2);
    // Halving the angle's range 60 times leaves nothing of it in double precision.
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        if central_probability_at(middle, degrees) < central {
            low = middle;
        } else {
            high = middle;
        }
    }
    let t = f64::midpoint(low, high).tan() * f64::from(degrees).sqrt();
    Some(if p < 0.5 { -t } else { t })
}

/// How often a t variable with `degrees` of freedom, at least one, is as far from zero as `t`, or
/// farther: 0 to 1, to some 1e-15.
pub(super) fn two_sided(t: f64, degrees: u32) -> f64 {
    let angle = (t.abs() / f64::from(degrees).sqrt()).atan();
    (1.0 - central_probability_at(angle, degrees)).clamp(0.0, 1.0)
}

/// The probability that a t variable lies within ± t, by the angle whose tangent is t ÷ √degrees.
///
/// Source: Abramowitz and Stegun, "Handbook of Mathematical Functions" (1964), 26.7.3 and 26.7.4.
fn central_probability_at(angle: f64, degrees: u32) -> f64 {
    let (sine, cosine) = angle.sin_cos();
    let odd = degrees % 2 == 1;
    let mut term = if odd { cosine } else { 1.0 };
    let mut sum = if degrees == 1 { 0.0 } else { term };
    let mut factor = if odd { 2 } else { 1 };
    while factor + 1 < degrees {
        term *= f64::from(factor) / f64::from(factor + 1) * cosine * cosine;
        sum += term;
        factor += 2;
    }
    if odd {
        2.0 / PI * (angle + sine * sum)
    } else {
        sine * sum
    }
}

#[cfg(test)]
mod tests {
    use statrs::distribution::{ContinuousCDF, StudentsT};

    use super::*;

    #[test]
    fn quantiles_are_scipys() {
        // scipy.stats.t.ppf(.975, degrees)
        let expected = [
            (1, 12.706_204_736_174_694),
            (2, 4.302_652_729_749_462),
            (3, 3.182_446_305_283_707_8),
            (4, 2.776_445_105_197_793_4),
            (10, 2.228_138_851_986_274),
            (30, 2.042_272_456_301_237_8),
        ];
        for (degrees, expected) in expected {
            let found = student_t_quantile(0.975, degrees).expect("degrees and p are valid");
            assert!(
                (found - expected).abs() < 1e-9,
                "{degrees} degrees: {found}"
            );
        }
    }

    #[test]
    fn probabilities_are_those_of_statrs() {
        for degrees in 1..40 {
            let theirs =
                StudentsT::new(0.0, 1.0, f64::from(degrees)).expect("degrees are positive");
            for t in [0.0, 0.3, 1.0, 2.5, 7.0, 40.0] {
                let central = theirs.cdf(t) - theirs.cdf(-t);
                let found = central_probability_at((t / f64::from(degrees).sqrt()).atan(), degrees);
                assert!(
                    (found - central).abs() < 1e-9,
                    "t {t}, {degrees} degrees: {found}"
                );
            }
        }
    }

    #[test]
    fn the_two_tails_are_alike() {
        let (low, high) = (student_t_quantile(0.05, 3), student_t_quantile(0.95, 3));
        let (low, high) = (low.expect("p is valid"), high.expect("p is valid"));
        assert!((low + high).abs() < 1e-9 && high > 2.3);
    }

    #[test]
    fn what_is_no_probability_has_no_quantile() {
        for p in [0.0, 1.0, -1.0, f64::NAN] {
            assert_eq!(student_t_quantile(p, 3), None);
        }
        assert_eq!(student_t_quantile(0.5, 0), None);
    }
}
