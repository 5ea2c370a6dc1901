//! How well two sides agree: the ratio of each round, and the band in which it is expected.

use costof_stats::{Interval, median, ratio_interval};
use std::fmt;

/// The range in which a number is expected, ends included.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Band {
    /// Its lower end.
    pub low: f64,
    /// Its upper end.
    pub high: f64,
}

/// Where an interval lies relative to a band.
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

    /// Everything up to `high`.
    pub const fn at_most(high: f64) -> Band {
        Band::new(0.0, high)
    }

    /// Everything from `low` on.
    pub const fn at_least(low: f64) -> Band {
        Band::new(low, f64::INFINITY)
    }

    /// Whether a number lies within.
    pub fn contains(self, number: f64) -> bool {
        (self.low..=self.high).contains(&number)
    }

    /// The band and so much more on both sides, as a share.
    pub fn widened(self, by: f64) -> Band {
        Band::new(self.low / (1.0 + by), self.high * (1.0 + by))
    }

    /// Where the interval between these two lies.
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
    pub fn new(one: Vec<f64>, other: Vec<f64>) -> Option<Agreement> {
        let ratios = one.iter().zip(&other).map(|(one, other)| one / other);
        let ratios: Vec<f64> = ratios.collect();
        Some(Agreement {
            ratio: median(&ratios)?,
            interval: ratio_interval(&one, &other),
            one,
            other,
        })
    }

    /// The medians over rounds of the one side and of the other.
    pub fn medians(&self) -> (f64, f64) {
        let middle = |numbers: &[f64]| median(numbers).unwrap_or(f64::NAN);
        (middle(&self.one), middle(&self.other))
    }

    /// Where it lies relative to what is expected; none without an interval.
    pub fn placed(&self, expected: Band) -> Option<Placed> {
        let interval = self.interval?;
        Some(expected.place(interval.low, interval.high))
    }
}

impl fmt::Display for Agreement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (ratio, rounds) = (self.ratio, self.one.len());
        match self.interval {
            Some(Interval { low, high, .. }) => write!(
                f,
                "{ratio:.3} (95 % interval {low:.3} to {high:.3}, {rounds} rounds)"
            ),
            None => write!(f, "{ratio:.3} ({rounds} rounds, no interval)"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_whole_interval_must_lie_in_the_band() {
        for (ratios, placed) in [
            (
                &[1.0, 1.01, 0.99, 1.0, 1.02, 0.98][..],
                Some(Placed::Inside),
            ),
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
        assert!(agreement.to_string().starts_with("2.000 (95 %"));
        assert_eq!(Agreement::new(Vec::new(), Vec::new()), None);
        let one = Agreement::new(vec![1.0], vec![2.0]).unwrap();
        assert!(one.to_string().contains("no interval"));
    }

    #[test]
    fn a_band_is_widened_on_both_sides() {
        assert_eq!(Band::new(0.5, 2.0).widened(0.25), Band::new(0.4, 2.5));
    }
}
