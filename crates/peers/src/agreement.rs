//! How well two sides agree: the ratio of what each round gave, and the range in which it is expected.

use costof_stats::{Interval, median, ratio_interval};

/// The range in which a ratio is expected, ends included.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Band {
    /// Its lower end.
    pub low: f64,
    /// Its upper end.
    pub high: f64,
}

/// Where an interval lies to a band.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placed {
    /// All of it is inside.
    Inside,
    /// All of it is outside.
    Outside,
    /// It reaches over an end.
    Across,
}

impl Band {
    /// From `low` to `high`.
    pub const fn new(low: f64, high: f64) -> Band {
        Band { low, high }
    }

    /// The band and so much more on both sides, as a share.
    pub fn widened(self, by: f64) -> Band {
        Band {
            low: self.low / (1.0 + by),
            high: self.high * (1.0 + by),
        }
    }

    /// Where an interval lies.
    pub fn place(self, interval: Interval) -> Placed {
        if interval.low >= self.low && interval.high <= self.high {
            Placed::Inside
        } else if interval.low > self.high || interval.high < self.low {
            Placed::Outside
        } else {
            Placed::Across
        }
    }
}

/// What rounds say of two sides.
#[derive(Clone, Debug, PartialEq)]
pub struct Agreement {
    /// What the first side gave in each round.
    pub one: Vec<f64>,
    /// What the other gave in the same rounds.
    pub other: Vec<f64>,
    /// The median over rounds of the one over the other.
    pub ratio: f64,
    /// Its 95 % interval, from three rounds on.
    pub interval: Option<Interval>,
}

impl Agreement {
    /// Of two sides that gave a number in each of the same rounds; none without a round.
    pub fn of(one: Vec<f64>, other: Vec<f64>) -> Option<Agreement> {
        let ratios: Vec<f64> = one
            .iter()
            .zip(&other)
            .map(|(one, other)| one / other)
            .collect();
        Some(Agreement {
            ratio: median(&ratios)?,
            interval: ratio_interval(&one, &other),
            one,
            other,
        })
    }

    /// The medians over rounds of the one side and of the other.
    pub fn middles(&self) -> (f64, f64) {
        let middle = |numbers: &[f64]| median(numbers).unwrap_or(f64::NAN);
        (middle(&self.one), middle(&self.other))
    }

    /// Where it lies to what is expected; none without an interval.
    pub fn placed(&self, expected: Band) -> Option<Placed> {
        Some(expected.place(self.interval?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BAND: Band = Band::new(0.95, 1.05);

    fn placed(ratios: &[f64]) -> Option<Placed> {
        let one: Vec<f64> = ratios.iter().map(|ratio| 10.0 * ratio).collect();
        let agreement = Agreement::of(one, vec![10.0; ratios.len()]).unwrap();
        agreement.placed(BAND)
    }

    #[test]
    fn the_whole_interval_is_held_against_the_band() {
        assert_eq!(
            placed(&[1.0, 1.01, 0.99, 1.0, 1.02, 0.98]),
            Some(Placed::Inside)
        );
        assert_eq!(
            placed(&[1.1, 1.2, 1.1, 1.2, 1.3, 1.2]),
            Some(Placed::Outside)
        );
        assert_eq!(
            placed(&[0.9, 0.8, 0.9, 0.8, 0.9, 0.7]),
            Some(Placed::Outside)
        );
        assert_eq!(
            placed(&[1.0, 1.01, 0.99, 1.0, 1.2, 0.98]),
            Some(Placed::Across)
        );
        assert_eq!(placed(&[1.0, 1.01]), None);
    }

    #[test]
    fn rounds_are_paired() {
        let one = vec![10.0, 30.0, 20.0];
        let other = vec![5.0, 15.0, 10.0];
        let agreement = Agreement::of(one, other).unwrap();
        assert_eq!(agreement.ratio, 2.0);
        let interval = agreement.interval.unwrap();
        assert!((interval.low - 2.0).abs() < 1e-9 && (interval.high - 2.0).abs() < 1e-9);
        assert_eq!(Agreement::of(Vec::new(), Vec::new()), None);
    }

    #[test]
    fn a_band_is_widened_on_both_sides() {
        let band = Band::new(0.5, 2.0).widened(0.25);
        assert_eq!((band.low, band.high), (0.4, 2.5));
    }
}
