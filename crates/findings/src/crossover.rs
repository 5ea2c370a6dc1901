//! Finds the size from which on one way is better than another.
//!
//! For each measured size there is the logarithm of the ratio of the two, with its interval. It is positive
//! if the one is better. Sizes near each other also provide information about each other. The value at a size
//! is therefore the line through the sizes around it (local regression: W. S. Cleveland, Robust Locally
//! Weighted Regression and Smoothing Scatterplots, 1979), and its interval follows from theirs. This helps
//! where the two cost nearly the same over a factor of two, and a single size says little. If a size's own
//! interval does not contain the line, the size keeps its measured value: the curve bends there.
//!
//! Between neighbouring sizes, the value and both ends of its interval are straight lines over the logarithm
//! of the size. The crossover is where the value last rises above zero, and the ends of its interval are
//! where the other two lines do. Between neighbours that are far apart the shape of the curve is unknown, so
//! the interval ends at these neighbours.

use crate::prelude::*;

/// If the next size is at most this many times as large, the interval may end between the two. If it is less
/// than that, each says something about the other.
const NEAR: f64 = 4.0;

/// The sizes at which a way is better, in bytes, between the smallest and the largest measured size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Crossover {
    /// At all sizes.
    Everywhere {
        /// The smallest.
        from: f64,
    },
    /// From about this size on. The interval ends at `high`; it begins at `low`, or below the smallest size.
    From {
        /// The estimated size; none if it is below the smallest.
        about: Option<f64>,
        /// The lower end of the interval.
        low: Option<f64>,
        /// Its upper end.
        high: f64,
    },
    /// Only between these sizes, not at the largest.
    Only {
        /// The first size at which it is better.
        from: f64,
        /// The last such size.
        to: f64,
    },
    /// Not at the largest size, and not for certain at any other.
    Nowhere {
        /// The largest size.
        up_to: f64,
    },
    /// The interval has no upper end: the crossover is somewhere between these sizes, or beyond.
    Unknown {
        /// The lower end of the interval, or the smallest size.
        low: f64,
        /// The largest size.
        high: f64,
    },
}

impl Crossover {
    /// The sizes for a sentence: `from about 8.0KiB on (6.1KiB to 11KiB)`.
    pub fn text(self) -> String {
        self.text_with(size)
    }

    /// The same of another number than a size in bytes, as `size` writes it.
    pub fn text_with(self, size: fn(f64) -> String) -> String {
        match self {
            Crossover::Everywhere { from } => format!("at every size from {} on", size(from)),
            Crossover::From { about, low, high } => match (about, low) {
                (None, _) => format!("from {} on at the latest", size(high)),
                (Some(about), None) => {
                    format!("from about {} on, {} at most", size(about), size(high))
                }
                (Some(about), Some(low)) => {
                    format!("from about {} on ({})", size(about), range((low, high), size))
                }
            },
            Crossover::Only { from, to } if from == to => format!("at {} only", size(from)),
            Crossover::Only { from, to } => format!("from {} only", range((from, to), size)),
            Crossover::Nowhere { up_to } => format!("nowhere for certain up to {}", size(up_to)),
            Crossover::Unknown { low, high } => {
                format!("unknown between {} and {}", size(low), size(high))
            }
        }
    }
}

/// The sizes from which on one of two ways, which are words on an axis, beats the other, with the rows that
/// show it. None if fewer than two sizes were measured with both, or if neither more nor less of the metric
/// is better.
pub(crate) fn compare<'a>(
    run: &Run,
    rows: &Select<'a>,
    axis: &str,
    (better, other): (&str, &str),
    metric: &str,
    least_sizes: usize,
) -> Option<(Crossover, Vec<&'a PointRow>)> {
    let pairs = pairs(rows, "size", axis, (better, other)).into_iter().filter_map(
        |Pair { number, row, other }| {
            let ratio = Interval::log_ratio(run, row, other, metric)?;
            let ratio = match row.estimate(metric)?.better {
                Better::Lower => ratio.reversed(),
                Better::Higher => ratio,
                Better::Neither => return None,
            };
            Some(((number as f64, ratio), [row, other]))
        },
    );
    let (sizes, rows): (Vec<_>, Vec<_>) = pairs.unzip();
    let found = crossover(&sizes).filter(|_| sizes.len() >= least_sizes)?;
    Some((found, rows.concat()))
}

/// From which size on a curve is above zero.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Rise {
    Always,
    At(Between),
    Never,
}

/// Where a curve rises above zero, and the sizes on both sides of that.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Between {
    size: f64,
    left: f64,
    right: f64,
}

impl Between {
    /// The earliest and the latest size for the end of an interval that this curve determines.
    fn ends(self) -> (f64, f64) {
        if self.right > NEAR * self.left { (self.left, self.right) } else { (self.size, self.size) }
    }
}

/// The size from which on it is better, by the logarithm of how many times better it is at each; none if there are fewer
/// than two sizes. The sizes have to be sorted.
pub fn crossover(sizes: &[(f64, Interval)]) -> Option<Crossover> {
    let [(smallest, _), .., (largest, _)] = *sizes else {
        return None;
    };
    let sizes = &smooth(sizes)[..];
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
                (Some((from, _)), last) => {
                    Crossover::Only { from: *from, to: last.map_or(*from, |(to, _)| *to) }
                }
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
        (Rise::At(earliest), Rise::Never) => {
            Crossover::Unknown { low: earliest.ends().0, high: largest }
        }
        (Rise::Always, Rise::Never) => Crossover::Unknown { low: smallest, high: largest },
    })
}

/// The value at each size of the line through the sizes around it; the nearest sizes have the most weight.
fn smooth(sizes: &[(f64, Interval)]) -> Vec<(f64, Interval)> {
    let smoothed = sizes.iter().map(|&(size, own)| {
        let shares = shares(sizes, size);
        let each = || shares.iter().zip(sizes.iter().map(|(_, ratio)| ratio));
        let middle: f64 = each().map(|(share, ratio)| share * ratio.middle).sum();
        // A size with a negative weight raises the line if it is low.
        let far = |share: f64, ratio: &Interval, is_up: bool| {
            if is_up == (share >= 0.0) {
                share * (ratio.high - ratio.middle)
            } else {
                share * (ratio.middle - ratio.low)
            }
        };
        let half = |is_up| {
            let squares = each().map(|(share, ratio)| far(*share, ratio, is_up).powi(2));
            squares.sum::<f64>().sqrt()
        };
        let line = Interval { low: middle - half(false), middle, high: middle + half(true) };
        let is_line = (own.low..=own.high).contains(&middle);
        (size, if is_line { line } else { own })
    });
    smoothed.collect()
}

/// The weight of each size in the value of the line at `at`. Weights fall to zero at [`NEAR`] (tricube), and
/// distances on one side are balanced against those on the other.
fn shares(sizes: &[(f64, Interval)], at: f64) -> Vec<f64> {
    let away = |size: f64| (size / at).ln();
    let weight = |size: f64| (1.0 - (away(size).abs() / NEAR.ln()).min(1.0).powi(3)).powi(3);
    let sum = |of: &dyn Fn(f64) -> f64| -> f64 {
        let weighted = sizes.iter().map(|(size, _)| weight(*size) * of(*size));
        weighted.sum()
    };
    let all = sum(&|_| 1.0);
    let centre = sum(&away) / all;
    let spread = sum(&|size| (away(size) - centre).powi(2));
    let tilt = |size: f64| {
        if spread > 0.0 {
            centre * (away(size) - centre) / spread
        } else {
            // One size alone has no line.
            0.0
        }
    };
    let shares = sizes.iter().map(|(size, _)| weight(*size) * (1.0 / all - tilt(*size)));
    shares.collect()
}

/// The last place at which a curve rises above zero.
fn last_rise(sizes: &[(f64, Interval)], curve: impl Fn(&Interval) -> f64) -> Rise {
    let is_below = |(_, ratio): &(f64, Interval)| curve(ratio) <= 0.0;
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

    /// Sizes from 1 on, each twice the one before, with these ratios and this half-width of the
    /// interval.
    fn curve(middles: &[f64], half: f64) -> Vec<(f64, Interval)> {
        let sizes = (0..).map(|octave| 2.0_f64.powi(octave));
        let ratio = |middle: f64| Interval { low: middle - half, middle, high: middle + half };
        sizes.zip(middles.iter().copied().map(ratio)).collect()
    }

    fn unknown(low: f64, high: f64) -> Crossover {
        Crossover::Unknown { low, high }
    }

    /// The low end, the estimate and the high end of a crossover.
    fn between(sizes: &[(f64, Interval)]) -> (f64, f64, f64) {
        match crossover(sizes).unwrap() {
            Crossover::From { about: Some(about), low: Some(low), high } => (low, about, high),
            other => panic!("{other:?}"),
        }
    }

    fn close(found: f64, expected: f64) {
        assert!((found / expected - 1.0).abs() < 1e-9, "{found} {expected}");
    }

    #[test]
    fn a_crossover_lies_on_the_line_between_its_neighbours() {
        let (low, about, high) = between(&curve(&[-0.4, -0.2, 0.2, 0.4], 0.1));
        close(about, 2.0 * 2.0_f64.powf(0.5));
        // Computed independently by the same regression: 0.142738 ± 0.058873 at both neighbours.
        // Without smoothing: 2.38 to 3.36.
        close(low, 2.451_684_257_615_562);
        close(high, 3.263_062_923_029_318);
    }

    #[test]
    fn where_the_curve_bends_a_size_stays_as_it_was_measured() {
        let smoothed = smooth(&curve(&[-0.4, -0.2, 0.6, 0.8], 0.1));
        let middles: Vec<f64> = smoothed.iter().map(|(_, ratio)| ratio.middle).collect();
        assert_eq!((middles[1], middles[2]), (-0.2, 0.6));
    }

    /// A line through sizes that lie on a line keeps their values, with a narrower interval.
    #[test]
    fn sizes_on_a_line_stay_there_with_a_narrower_interval() {
        let sizes = curve(&[-0.3, -0.1, 0.1, 0.3], 0.1);
        for ((_, smooth), (_, own)) in smooth(&sizes).iter().zip(&sizes) {
            assert!((smooth.middle - own.middle).abs() < 1e-12);
            assert!(smooth.high - smooth.low < own.high - own.low + 1e-12);
        }
        let alone = [(1.0, sizes[0].1), (8.0, sizes[1].1)];
        assert_eq!(smooth(&alone), alone);
    }

    #[test]
    fn between_sizes_far_apart_the_interval_ends_at_them() {
        let mut sizes = curve(&[-0.2, 0.2], 0.1);
        sizes[1].0 = 4.0;
        let (low, about, high) = between(&sizes);
        assert!(1.0 < low && low < about && about < high && high < 4.0);
        sizes[1].0 = 16.0;
        let (low, about, high) = between(&sizes);
        close(about, 4.0);
        assert_eq!((low, high), (1.0, 16.0));
        sizes[1].1.low = -0.1;
        assert_eq!(crossover(&sizes), Some(unknown(1.0, 16.0)));
    }

    #[test]
    fn an_interval_may_be_open_at_either_end() {
        let found = crossover(&curve(&[-0.05, 0.2, 0.4], 0.1)).unwrap();
        assert!(
            matches!(found, Crossover::From { about: Some(_), low: None, high } if high > 1.0),
            "{found:?}"
        );
        let found = crossover(&curve(&[0.05, 0.2, 0.4], 0.1)).unwrap();
        let Crossover::From { about, low, .. } = found else {
            panic!("{found:?}");
        };
        assert_eq!((about, low), (None, None));
        let found = crossover(&curve(&[-0.4, -0.2, 0.05], 0.1)).unwrap();
        let Crossover::Unknown { low, high } = found else {
            panic!("{found:?}");
        };
        close(low, 2.747_492_256_453_622);
        close(high, 4.0);
        let found = crossover(&curve(&[0.0, 0.0, 0.0], 0.1)).unwrap();
        assert_eq!(found, unknown(1.0, 4.0));
    }

    #[test]
    fn what_is_better_everywhere_nowhere_or_between_says_so() {
        let of = |middles: &[f64]| crossover(&curve(middles, 0.1)).unwrap();
        assert_eq!(of(&[0.2, 0.3, 0.2]), Crossover::Everywhere { from: 1.0 });
        assert_eq!(of(&[-0.2, -0.3, -0.2]), Crossover::Nowhere { up_to: 4.0 });
        assert_eq!(of(&[-0.2, 0.05, -0.2]), Crossover::Nowhere { up_to: 4.0 });
        assert_eq!(of(&[-0.2, 0.3, 0.2, 0.3, -0.2]), Crossover::Only { from: 2.0, to: 8.0 });
        assert_eq!(of(&[0.3, -0.2]), Crossover::Only { from: 1.0, to: 1.0 });
        assert_eq!(crossover(&curve(&[0.3], 0.1)), None);
        assert_eq!(crossover(&[]), None);
    }

    /// If the advantage is lost again, the last rise counts.
    #[test]
    fn the_last_rise_counts() {
        let found = crossover(&curve(&[0.3, -0.2, 0.2, 0.3], 0.1)).unwrap();
        assert!(
            matches!(found, Crossover::From { about: Some(about), .. } if about > 2.0 && about < 4.0),
            "{found:?}"
        );
    }
}
