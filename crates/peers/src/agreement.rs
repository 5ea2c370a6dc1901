//! How well two sides agree: the ratio in each round, and the band in which it is expected.

use costof_stats::{Interval, median, ratio_interval};
use serde::Deserialize;
use std::fmt;

/// The range in which a number is expected, ends included.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Band {
    /// The lower end.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

/// Where an interval lies relative to a band.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placed {
    /// All of it is inside.
    Inside,
    /// All of it is outside.
    Outside,
    /// One part is inside, another outside.
    Across,
}

impl Band {
    /// The band from `low` to `high`.
    pub const fn new(low: f64, high: f64) -> Band {
        Band { low, high }
    }

    /// Whether a number lies within.
    pub fn contains(self, number: f64) -> bool {
        (self.low..=self.high).contains(&number)
    }

    /// The band, widened on both sides by this share.
    pub fn widened(self, by: f64) -> Band {
        Band::new(self.low / (1.0 + by), self.high * (1.0 + by))
    }

    /// Where the interval from `low` to `high` lies.
    pub fn place(self, low: f64, high: f64) -> Placed {
        if low >= self.low && high <= self.high {
            Placed::Inside
        } else if low > self.high || high < self.low {
            Placed::Outside
        } else {
            Placed::Across
        }
    }
}

impl fmt::Display for Band {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.high.is_infinite() {
            write!(f, "at least {}", self.low)
        } else if self.low > 0.0 {
            write!(f, "{} to {}", self.low, self.high)
        } else {
            write!(f, "at most {}", self.high)
        }
    }
}

/// The results of two sides over several rounds.
#[derive(Clone, Debug, PartialEq)]
pub struct Agreement {
    /// The first side's number in each round.
    pub one: Vec<f64>,
    /// The other side's number in the same rounds.
    pub other: Vec<f64>,
    /// The median over all rounds of the first side's number divided by the other's.
    pub ratio: f64,
    /// The ratio's 95 % interval, if there are at least three rounds.
    pub interval: Option<Interval>,
}

impl Agreement {
    /// Compares two sides that have a number for each of the same rounds; none without a round.
    pub fn new(one: Vec<f64>, other: Vec<f64>) -> Option<Agreement> {
        let ratios: Vec<f64> = one.iter().zip(&other).map(|(one, other)| one / other).collect();
        Some(Agreement {
            ratio: median(&ratios)?,
            interval: ratio_interval(&one, &other),
            one,
            other,
        })
    }

    /// The median over all rounds, of each side.
    pub fn medians(&self) -> (f64, f64) {
        let middle = |numbers: &[f64]| median(numbers).unwrap_or(f64::NAN);
        (middle(&self.one), middle(&self.other))
    }

    /// Where the ratio's interval lies relative to the expected band; none without an interval.
    pub fn placed(&self, expected: Band) -> Option<Placed> {
        let interval = self.interval?;
        Some(expected.place(interval.low, interval.high))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_whole_interval_must_lie_in_the_band() {
        for (ratios, placed) in [
            (&[1.0, 1.01, 0.99, 1.0, 1.02, 0.98][..], Some(Placed::Inside)),
            (&[1.1, 1.2, 1.1, 1.2, 1.3, 1.2], Some(Placed::Outside)),
            (&[0.9, 0.8, 0.9, 0.8, 0.9, 0.7], Some(Placed::Outside)),
            (&[1.0, 1.01, 0.99, 1.0, 1.2, 0.98], Some(Placed::Across)),
            (&[1.0, 1.01], None),
        ] {
            let one = ratios.iter().map(|ratio| 10.0 * ratio).collect();
            let agreement = Agreement::new(one, vec![10.0; ratios.len()]).unwrap();
            assert_eq!(agreement.placed(Band::new(0.95, 1.05)), placed);
        }
    }

    #[test]
    fn rounds_are_paired() {
        let agreement = Agreement::new(vec![10.0, 30.0, 20.0], vec![5.0, 15.0, 10.0]).unwrap();
        assert_eq!(agreement.ratio, 2.0);
        let interval = agreement.interval.unwrap();
        assert!((interval.low - 2.0).abs() < 1e-9 && (interval.high - 2.0).abs() < 1e-9);
        assert_eq!(Agreement::new(Vec::new(), Vec::new()), None);
    }

    #[test]
    fn a_band_is_widened_on_both_sides() {
        assert_eq!(Band::new(0.5, 2.0).widened(0.25), Band::new(0.4, 2.5));
    }
}
