//! Values that come in pairs, of which each pair shares what disturbs it: Student's t on their differences.

use super::trimmed::trimmed;
use super::welch::Difference;

/// How far the second values of pairs are from the first, in the trimmed mean; `None` for lengths that differ, or
/// fewer than two pairs.
///
/// What both of a pair share (a drifting clock, a neighbour's minute) is in neither their differences nor
/// their spread. (W. S. Gosset as "Student", "The probable error of a mean", Biometrika 6, 1908,
/// section IX.)
pub fn difference(first: &[f64], second: &[f64]) -> Option<Difference> {
    if first.len() != second.len() {
        return None;
    }
    let differences: Vec<f64> = first.iter().zip(second).map(|(a, b)| b - a).collect();
    let found = trimmed(&differences)?;
    Some(Difference {
        of_means: found.mean,
        error: found.error_squared?.sqrt(),
        degrees: found.degrees as u32,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_students_but_for_the_patient_who_differs_most_either_way() {
        // Student's own example, of 1908: additional hours of sleep by two drugs, ten patients each. By
        // hand, without the greatest difference (4.6) and the least (0.0): 1.4 hours, t = 5.966.
        let first = [0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0];
        let second = [1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4];
        let found = difference(&first, &second).unwrap();
        assert!((found.of_means - 1.4).abs() < 1e-9, "{found:?}");
        let t = found.of_means / found.error;
        assert!((t - 5.965_747).abs() < 1e-4, "{t}");
        assert_eq!(found.degrees, 7);
    }

    #[test]
    fn what_pairs_share_is_no_spread() {
        let drift = [1.0, 1.3, 0.8, 1.9];
        let first = drift;
        let second = drift.map(|value| value + 0.1);
        let found = difference(&first, &second).unwrap();
        assert!((found.of_means - 0.1).abs() < 1e-12 && found.error < 1e-12);
        assert!(
            super::super::welch::difference(&first, &second)
                .unwrap()
                .error
                > 0.3
        );
    }

    #[test]
    fn what_is_no_pairs_has_no_difference() {
        assert_eq!(difference(&[1.0, 2.0], &[1.0]), None);
        assert_eq!(difference(&[1.0], &[2.0]), None);
        assert_eq!(difference(&[], &[]), None);
    }
}
