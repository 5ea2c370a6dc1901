//! A mean that one launch in eight cannot move: the trimmed mean, and what its error is.
//!
//! Launches are skewed: one in ten meets something that the others did not, and a mean of nine is then
//! known no better than that one differs. Source: J. W. Tukey and D. H. McLaughlin, "Less vulnerable
//! confidence and significance procedures for location based on a single sample", Sankhyā A 25, 1963.

/// Of so many values the least and the greatest are left out.
const ONE_OF: usize = 8;

/// The trimmed mean of a group.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Trimmed {
    /// The mean of the values that are left, in their unit.
    pub mean: f64,
    /// The square of its standard error, from the winsorised variance; absent where one value is left.
    pub error_squared: Option<f64>,
    /// The degrees of freedom of that: one less than the values that are left.
    pub degrees: f64,
}

/// The mean without the least and the greatest eighth of the values, rounded down: of fewer than eight it
/// is the plain mean. `None` without values.
pub fn trimmed(values: &[f64]) -> Option<Trimmed> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let (count, cut) = (sorted.len(), sorted.len() / ONE_OF);
    let kept = sorted
        .get(cut..count - cut)
        .filter(|kept| !kept.is_empty())?;
    let (least, greatest) = (kept[0], kept[kept.len() - 1]);
    let left = kept.len() as f64;
    let winsorised: Vec<f64> = sorted
        .iter()
        .map(|value| value.clamp(least, greatest))
        .collect();
    let squares = super::quantile::standard_deviation(&winsorised)
        .filter(|_| kept.len() > 1)
        .map(|deviation| deviation.powi(2) * (count - 1) as f64);
    Some(Trimmed {
        mean: kept.iter().sum::<f64>() / left,
        error_squared: squares.map(|squares| squares / (left * (left - 1.0))),
        degrees: left - 1.0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_few_values_it_is_the_mean_and_its_error() {
        let found = trimmed(&[1.0, 2.0, 3.0, 4.0]).unwrap();
        assert_eq!((found.mean, found.degrees), (2.5, 3.0));
        assert!((found.error_squared.unwrap() - 5.0 / 3.0 / 4.0).abs() < 1e-12);
        assert_eq!(trimmed(&[]), None);
        assert_eq!(trimmed(&[7.0]).unwrap().error_squared, None);
    }

    #[test]
    fn one_launch_in_nine_does_not_move_it() {
        // scipy.stats.trim_mean(x, 1/8), and by hand 8 × the variance of
        // scipy.stats.mstats.winsorize(x, 1/8) ÷ (7 × 6).
        let usual = [9.8, 10.1, 9.9, 10.0, 10.2, 10.0, 9.9, 10.1];
        let far = trimmed(&[&usual[..], &[90.0]].concat()).unwrap();
        let farther = trimmed(&[&usual[..], &[900.0]].concat()).unwrap();
        assert_eq!(far, farther);
        assert!((far.mean - 70.2 / 7.0).abs() < 1e-12, "{far:?}");
        assert!(
            (far.error_squared.unwrap() - 0.12 / 42.0).abs() < 1e-12,
            "{far:?}"
        );
        assert_eq!(far.degrees, 6.0);
    }
}
