//! Ratios of what was measured in the same launch.

use super::interval::{Interval, median_interval};
use super::quantile::median;

/// The interval of the median ratio, where `numerators[i]` and `denominators[i]` come from the same
/// launch, so that what they share (address layout, core clock) cancels.
///
/// `None` for fewer than three launches, lengths that differ, or a ratio that is not finite.
pub fn ratio_interval(numerators: &[f64], denominators: &[f64]) -> Option<Interval> {
    if numerators.len() != denominators.len() {
        return None;
    }
    let ratios: Vec<f64> = numerators
        .iter()
        .zip(denominators)
        .map(|(numerator, denominator)| numerator / denominator)
        .collect();
    if !ratios.iter().all(|ratio| ratio.is_finite()) {
        return None;
    }
    median_interval(&ratios)
}

/// Whether twice the work took twice the time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Doubling {
    /// The interval of the ratio lies wholly outside 2 ± 5 %.
    Refuted {
        /// The median ratio.
        ratio: f64,
        /// Lower end of its interval.
        low: f64,
        /// Upper end of its interval.
        high: f64,
    },
    /// The interval lies inside 2 ± 5 % or reaches into it, or there is none.
    NotRefuted,
}

/// The lowest and the highest ratio at which twice the work counts as twice the time.
const DOUBLE: (f64, f64) = (1.9, 2.1);

/// Judges the ratios of the time for twice the work to the time for once, one ratio a launch.
pub fn doubling(ratios: &[f64]) -> Doubling {
    let (Some(ratio), Some(interval)) = (median(ratios), median_interval(ratios)) else {
        return Doubling::NotRefuted;
    };
    let Interval { low, high, .. } = interval;
    if high < DOUBLE.0 || low > DOUBLE.1 {
        Doubling::Refuted { ratio, low, high }
    } else {
        Doubling::NotRefuted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_launches_share_cancels_in_their_ratio() {
        let core_clocks = [1.0, 1.3, 0.8, 1.1, 0.9, 1.2];
        let once = core_clocks.map(|clock| 10.0 * clock);
        let twice = core_clocks.map(|clock| 20.0 * clock);
        let ratio = ratio_interval(&twice, &once).expect("six launches");
        assert!((ratio.low - 2.0).abs() < 1e-12 && (ratio.high - 2.0).abs() < 1e-12);
    }

    #[test]
    fn ratios_that_cannot_be_made_have_no_interval() {
        assert_eq!(ratio_interval(&[], &[]), None);
        assert_eq!(ratio_interval(&[1.0; 6], &[1.0; 5]), None);
        assert_eq!(ratio_interval(&[1.0; 3], &[1.0, 0.0, 1.0]), None);
    }

    #[test]
    fn twice_the_work_in_twice_the_time_is_not_refuted() {
        assert_eq!(
            doubling(&[1.98, 2.0, 2.01, 1.99, 2.02, 2.0]),
            Doubling::NotRefuted
        );
    }

    #[test]
    fn work_that_was_optimised_away_is_refuted() {
        let Doubling::Refuted { ratio, low, high } = doubling(&[1.0, 1.01, 0.99, 1.0, 1.02, 1.0])
        else {
            panic!("not refuted");
        };
        assert_eq!((ratio, low, high), (1.0, 0.99, 1.02));
    }

    #[test]
    fn an_interval_that_reaches_into_the_band_refutes_nothing() {
        assert_eq!(
            doubling(&[1.5, 1.6, 1.7, 1.8, 1.85, 1.9]),
            Doubling::NotRefuted
        );
        assert_eq!(
            doubling(&[2.0, 2.0, 2.0, 2.0, 2.0, 2.2]),
            Doubling::NotRefuted
        );
        assert_eq!(
            doubling(&[2.05, 2.15, 2.15, 2.15, 2.2, 2.2]),
            Doubling::NotRefuted
        );
        assert_eq!(doubling(&[5.0, 5.0]), Doubling::NotRefuted);
        assert_eq!(doubling(&[]), Doubling::NotRefuted);
    }

    #[test]
    fn a_ratio_just_outside_the_band_is_refuted() {
        assert!(matches!(doubling(&[2.11; 6]), Doubling::Refuted { .. }));
        assert!(matches!(doubling(&[1.89; 6]), Doubling::Refuted { .. }));
        assert_eq!(doubling(&[2.09; 6]), Doubling::NotRefuted);
    }
}
