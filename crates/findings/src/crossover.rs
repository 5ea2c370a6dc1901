//! From which size on one way is better than another.
//!
//! Each measured size has the logarithm of the ratio of the two, positive where the one is better,
//! with its interval. Between neighbouring sizes all three lie on a line over the logarithm of the
//! size; where the last rise of each above nothing lies, the crossover and its interval do. Between
//! neighbours that are far apart nobody knows that line, so that there the interval ends at them.

use crate::ratio::LogRatio;

/// How many times as large the next size may be for the interval to end between the two.
const NEAR: f64 = 4.0;

/// From which size on, in bytes, between the smallest and the largest that was measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Crossover {
    /// From the smallest on.
    Everywhere {
        /// The smallest.
        from: f64,
    },
    /// From about here on, as far as that is told. Its interval ends at `high`, and begins at `low`
    /// or below the smallest.
    From {
        /// From here, as it seems; none where that is below the smallest.
        about: Option<f64>,
        /// The lower end of the interval.
        low: Option<f64>,
        /// Its upper end.
        high: f64,
    },
    /// From here to there, and not at the largest.
    Only {
        /// The first at which it is better.
        from: f64,
        /// The last.
        to: f64,
    },
    /// Not at the largest, nor for certain anywhere.
    Nowhere {
        /// The largest.
        up_to: f64,
    },
    /// The interval has no end: somewhere between these, or beyond.
    Untold {
        /// The lower end of the interval, or the smallest.
        low: f64,
        /// The largest.
        high: f64,
    },
}

/// Where a curve is above nothing from some size on.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Rise {
    Always,
    At(Between),
    Never,
}

/// Where a curve rises above nothing, and the sizes between which it does.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Between {
    size: f64,
    left: f64,
    right: f64,
}

impl Between {
    /// At the earliest and at the latest, of the curve that an end of the interval follows.
    fn ends(self) -> (f64, f64) {
        match self.right > NEAR * self.left {
            true => (self.left, self.right),
            false => (self.size, self.size),
        }
    }
}

/// From which size on it is better; none with fewer than two sizes, which are in their order.
pub(crate) fn crossover(sizes: &[(f64, LogRatio)]) -> Option<Crossover> {
    let [(smallest, _), .., (largest, _)] = *sizes else {
        return None;
    };
    let earliest = last_rise(sizes, |ratio| ratio.high);
    let about = match last_rise(sizes, |ratio| ratio.middle) {
        Rise::At(between) => Some(between.size),
        Rise::Always | Rise::Never => None,
    };
    let latest = last_rise(sizes, |ratio| ratio.low);
    Some(match (earliest, latest) {
        (Rise::Never, _) => {
            let mut surely = sizes.iter().filter(|(_, ratio)| ratio.low > 0.0);
            match (surely.next(), surely.next_back()) {
                (Some((from, _)), last) => Crossover::Only {
                    from: *from,
                    to: last.map_or(*from, |(to, _)| *to),
                },
                (None, _) => Crossover::Nowhere { up_to: largest },
            }
        }
        (_, Rise::Always) => Crossover::Everywhere { from: smallest },
        (earliest, Rise::At(latest)) => Crossover::From {
            about,
            low: match earliest {
                Rise::At(earliest) => Some(earliest.ends().0),
                _ => None,
            },
            high: latest.ends().1,
        },
        (Rise::At(earliest), Rise::Never) => Crossover::Untold {
            low: earliest.ends().0,
            high: largest,
        },
        (Rise::Always, Rise::Never) => Crossover::Untold {
            low: smallest,
            high: largest,
        },
    })
}

/// Where a curve rises above nothing for the last time.
fn last_rise(sizes: &[(f64, LogRatio)], curve: impl Fn(&LogRatio) -> f64) -> Rise {
    let is_below = |(_, ratio): &(f64, LogRatio)| curve(ratio) <= 0.0;
    let Some(below) = sizes.iter().rposition(is_below) else {
        return Rise::Always;
    };
    let (Some((left, low)), Some((right, high))) = (sizes.get(below), sizes.get(below + 1)) else {
        return Rise::Never;
    };
    let (low, high) = (curve(low), curve(high));
    let share = -low / (high - low);
    Rise::At(Between {
        size: (left.ln() + share * (right / left).ln()).exp(),
        left: *left,
        right: *right,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sizes from 1 on, each twice the one before, with these ratios and so wide an interval.
    fn curve(middles: &[f64], half: f64) -> Vec<(f64, LogRatio)> {
        let sizes = (0..).map(|octave| 2.0_f64.powi(octave));
        let ratio = |middle: f64| LogRatio {
            low: middle - half,
            middle,
            high: middle + half,
        };
        sizes.zip(middles.iter().copied().map(ratio)).collect()
    }

    fn close(found: f64, expected: f64) {
        assert!((found / expected - 1.0).abs() < 1e-9, "{found} {expected}");
    }

    #[test]
    fn a_crossover_lies_on_the_line_between_its_neighbours() {
        let found = crossover(&curve(&[-0.4, -0.2, 0.2, 0.4], 0.1)).unwrap();
        let Crossover::From {
            about: Some(about),
            low: Some(low),
            high,
        } = found
        else {
            panic!("{found:?}");
        };
        close(about, 2.0 * 2.0_f64.powf(0.5));
        close(low, 2.0 * 2.0_f64.powf(0.25));
        close(high, 2.0 * 2.0_f64.powf(0.75));
    }

    #[test]
    fn between_sizes_far_apart_the_interval_ends_at_them() {
        let mut sizes = curve(&[-0.2, 0.2], 0.1);
        let between = |sizes: &[(f64, LogRatio)]| match crossover(sizes).unwrap() {
            Crossover::From {
                about: Some(about),
                low: Some(low),
                high,
            } => (low, about, high),
            other => panic!("{other:?}"),
        };
        sizes[1].0 = 4.0;
        let (low, about, high) = between(&sizes);
        assert!(1.0 < low && low < about && about < high && high < 4.0);
        sizes[1].0 = 16.0;
        let (low, about, high) = between(&sizes);
        close(about, 4.0);
        assert_eq!((low, high), (1.0, 16.0));
        sizes[1].1.low = -0.1;
        assert_eq!(
            crossover(&sizes),
            Some(Crossover::Untold {
                low: 1.0,
                high: 16.0
            })
        );
    }

    #[test]
    fn an_interval_may_be_open_at_either_end() {
        let found = crossover(&curve(&[-0.05, 0.2, 0.4], 0.1)).unwrap();
        assert!(
            matches!(found, Crossover::From { about: Some(_), low: None, high } if high > 1.0),
            "{found:?}"
        );
        let found = crossover(&curve(&[0.05, 0.2, 0.4], 0.1)).unwrap();
        assert!(
            matches!(
                found,
                Crossover::From {
                    about: None,
                    low: None,
                    ..
                }
            ),
            "{found:?}"
        );
        let found = crossover(&curve(&[-0.4, -0.2, 0.05], 0.1)).unwrap();
        let Crossover::Untold { low, high } = found else {
            panic!("{found:?}");
        };
        close(low, 2.0 * 2.0_f64.powf(0.1 / 0.25));
        close(high, 4.0);
        let found = crossover(&curve(&[0.0, 0.0, 0.0], 0.1)).unwrap();
        assert_eq!(
            found,
            Crossover::Untold {
                low: 1.0,
                high: 4.0
            }
        );
    }

    #[test]
    fn what_is_better_everywhere_nowhere_or_between_says_so() {
        let of = |middles: &[f64]| crossover(&curve(middles, 0.1)).unwrap();
        assert_eq!(of(&[0.2, 0.3, 0.2]), Crossover::Everywhere { from: 1.0 });
        assert_eq!(of(&[-0.2, -0.3, -0.2]), Crossover::Nowhere { up_to: 4.0 });
        assert_eq!(of(&[-0.2, 0.05, -0.2]), Crossover::Nowhere { up_to: 4.0 });
        assert_eq!(
            of(&[-0.2, 0.3, 0.2, 0.3, -0.2]),
            Crossover::Only { from: 2.0, to: 8.0 }
        );
        assert_eq!(of(&[0.3, -0.2]), Crossover::Only { from: 1.0, to: 1.0 });
        assert_eq!(crossover(&curve(&[0.3], 0.1)), None);
        assert_eq!(crossover(&[]), None);
    }

    /// One that is lost again counts from its last rise on.
    #[test]
    fn the_last_rise_counts() {
        let found = crossover(&curve(&[0.3, -0.2, 0.2, 0.3], 0.1)).unwrap();
        assert!(
            matches!(found, Crossover::From { about: Some(about), .. } if about > 2.0 && about < 4.0),
            "{found:?}"
        );
    }
}
