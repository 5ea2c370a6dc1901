//! Finds lasting shifts in a sequence, value by value, with a stated rate of false alarms.
//!
//! Page's cumulative sums of standardized deviations, one for each direction, in the self-starting form: each
//! value is held against the mean and standard deviation of those before it, and the deviation becomes the
//! normal one of the same probability. So no reference has to be known, and the rate of false alarms holds from
//! the start. A deviation counts as at most three standard deviations, so that a single spike is never a shift.
//! Nor does it count as much more than its rank among the values before: where every fifth run meets a busy
//! neighbour, the first values may all be quiet, and several neighbours in a row are no shift.
//! The limit follows from the mean run length without shift by Siegmund's approximation, which clipping only
//! makes longer.
//!
//! Sources: E. S. Page, "Continuous inspection schemes", Biometrika 41 (1954); D. M. Hawkins, "Self-starting
//! cusum charts for location and scale", The Statistician 36 (1987); D. Siegmund, "Sequential Analysis" (1985),
//! section 10.2. Ranks: D. L. McDonald, "A CUSUM procedure based on sequential ranks", Naval Research Logistics 37
//! (1990).

use statrs::distribution::{ContinuousCDF, Normal, StudentsT};
use std::collections::VecDeque;

/// The largest deviation that counts, in standard deviations.
const CLIP: f64 = 3.0;
/// Half the shift that is found soonest, in standard deviations.
const SLACK: f64 = 0.5;
/// How many times the normal deviation of its rank a deviation may be. Chosen by false alarms and delays on real
/// runs (docs/fleet.md): no more than ranks alone would find shifts later, twice as much raises false alarms.
const BEYOND_RANK: f64 = 1.15;
/// Ranks are among this many of the latest values. Among more of them, no deviation is limited by its rank.
const RANKED: usize = 64;
/// Siegmund's correction for sums that overshoot the limit.
const OVERSHOOT: f64 = 1.166;
/// From this many values on, the next is held against them.
const MIN: usize = 4;

/// A lasting shift, by positions in the sequence.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shift {
    /// The first value after it.
    pub at: usize,
    /// The value with which it was found.
    pub found: usize,
    /// The mean before.
    pub before: f64,
}

/// What is known after each value; a further value takes constant time, apart from a shift, which goes back to
/// where it began.
#[derive(Clone, Debug)]
pub struct Detector {
    limit: f64,
    /// The scatter that is assumed at least.
    least: f64,
    /// How many values there were in all.
    seen: usize,
    level: Level,
    up: Sum,
    down: Sum,
    /// The values since the earlier of the two sums was last zero.
    recent: Vec<(f64, f64)>,
}

/// The values since the last shift: their number, mean and sum of squared deviations, and the latest of them.
#[derive(Clone, Debug, Default)]
struct Level {
    count: usize,
    mean: f64,
    squares: f64,
    errors: f64,
    latest: VecDeque<f64>,
}

/// A cumulative sum, and for how many values it has been above zero.
#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    value: f64,
    length: usize,
}

impl Sum {
    fn add(&mut self, deviation: f64) {
        self.value = (self.value + deviation - SLACK).max(0.0);
        self.length = if self.value > 0.0 { self.length + 1 } else { 0 };
    }
}

/// The limit of a sum so that, in `sequences` sequences without shift, one false alarm is raised in this many
/// values of each.
pub fn limit(values: f64, sequences: usize) -> f64 {
    // Both directions: half of 2 (exp b − b − 1) for a slack of one half.
    let run_length = values * sequences.max(1) as f64;
    let mut b: f64 = 1.0;
    for _ in 0..50 {
        b = (run_length + b + 1.0).ln();
    }
    // Three spikes, of which one is never enough, nor two.
    (b - OVERSHOOT).max(2.0 * (CLIP - SLACK) + SLACK)
}

/// After how many values a shift of this many standard deviations, behind `before` values, is found in the mean.
pub fn delay(limit: f64, shift: f64, before: usize) -> f64 {
    let highest = 1.0 - 0.5 / (before.min(RANKED) + 1) as f64;
    let most = BEYOND_RANK * Normal::standard().inverse_cdf(highest);
    (limit / (shift.min(CLIP).min(most) - SLACK)).ceil()
}

impl Detector {
    /// A detector with this [`limit`], for values that scatter by this much at least.
    pub fn new(limit: f64, least: f64) -> Detector {
        Detector {
            limit,
            least,
            seen: 0,
            level: Level::default(),
            up: Sum::default(),
            down: Sum::default(),
            recent: Vec::new(),
        }
    }

    /// Takes the next value and its standard error; the shift, if it shows one.
    pub fn push(&mut self, value: f64, error: f64) -> Option<Shift> {
        let deviation = self.deviation(value, error);
        self.seen += 1;
        self.up.add(deviation);
        self.down.add(-deviation);
        let clipped = self.clipped(value, error);
        self.level.add(value, clipped, error);
        self.recent.push((value, error));
        let highest = if self.up.value >= self.down.value { self.up } else { self.down };
        if highest.value <= self.limit {
            let length = self.up.length.max(self.down.length);
            self.recent.drain(..self.recent.len() - length);
            return None;
        }
        let since_zero = self.recent.split_off(self.recent.len() - highest.length);
        let sum: f64 = since_zero.iter().map(|(value, _)| value).sum();
        let (count, long) = (self.level.count as f64, since_zero.len() as f64);
        let clipped: f64 =
            since_zero.iter().map(|(value, error)| self.clipped(*value, *error)).sum();
        let old = (self.level.mean * count - clipped) / (count - long).max(1.0);
        let new = sum / long;
        // The sum may have left zero by chance before the shift.
        let is_old = |(value, _): &&(f64, f64)| (value - old).abs() < (value - new).abs();
        let early = since_zero.iter().take_while(is_old).count();
        let after = &since_zero[early..];
        let shift = Shift { at: self.seen - after.len(), found: self.seen - 1, before: old };
        self.level = Level::default();
        for (value, error) in after {
            self.level.add(*value, *value, *error);
        }
        (self.up, self.down) = (Sum::default(), Sum::default());
        self.recent.clear();
        Some(shift)
    }

    /// The standard deviation since the last shift.
    pub fn scatter(&self) -> f64 {
        self.level.scatter().max(self.least)
    }

    /// A value that is no further off than counts, so that a spike does not widen the level.
    fn clipped(&self, value: f64, error: f64) -> f64 {
        if self.level.count < MIN {
            return value;
        }
        let t = self.level.students_t();
        let most = t.inverse_cdf(Normal::standard().cdf(CLIP)) * self.scale(error);
        value.clamp(self.level.mean - most, self.level.mean + most)
    }

    /// How far a value is off, in standard deviations of a normal distribution.
    fn deviation(&self, value: f64, error: f64) -> f64 {
        if self.level.count < MIN {
            return 0.0;
        }
        let t = self.level.students_t();
        let off = (value - self.level.mean) / self.scale(error);
        let p = t.sf(off.abs()).max(1e-12);
        let length = if off > 0.0 { self.up.length } else { self.down.length };
        Normal::standard()
            .inverse_cdf(1.0 - p)
            .min(BEYOND_RANK * self.level.rank(value, length).abs())
            .min(CLIP)
            .copysign(off)
    }

    /// The standard deviation of the next value, whose error may be larger than those before.
    fn scale(&self, error: f64) -> f64 {
        let count = self.level.count.max(1) as f64;
        let usual = self.level.errors / count;
        let more = (error.powi(2) - usual).max(0.0);
        (self.scatter().powi(2) * (1.0 + 1.0 / count) + more).sqrt()
    }
}

impl Level {
    /// Adds a value, which counts as much as this in the mean.
    fn add(&mut self, value: f64, clipped: f64, error: f64) {
        self.count += 1;
        let off = clipped - self.mean;
        self.mean += off / self.count as f64;
        self.squares += off * (clipped - self.mean);
        self.errors += error.powi(2);
        self.latest.push_back(value);
        if self.latest.len() > RANKED {
            self.latest.pop_front();
        }
    }

    /// The deviation of a normal value that has the rank of this one among the latest, without the very last,
    /// which may be those after a shift.
    fn rank(&self, value: f64, without: usize) -> f64 {
        let before = self.latest.len().saturating_sub(without);
        let of = |is: fn(&f64, &f64) -> bool| {
            self.latest.iter().take(before).filter(|it| is(it, &value)).count()
        };
        let below = of(f64::lt) as f64 + 0.5 * of(f64::eq) as f64;
        Normal::standard().inverse_cdf((below + 0.5) / (before + 1) as f64)
    }

    /// Of two values or more: the distribution of the next one, standardized.
    fn students_t(&self) -> StudentsT {
        let degrees = self.count.saturating_sub(1).max(1) as f64;
        StudentsT::new(0.0, 1.0, degrees).expect("degrees are positive")
    }

    fn scatter(&self) -> f64 {
        if self.count < 2 {
            return 0.0;
        }
        (self.squares / (self.count - 1) as f64).sqrt()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn normal(random: &mut fastrand::Rng) -> f64 {
        Normal::standard().inverse_cdf(random.f64().clamp(1e-12, 1.0 - 1e-12))
    }

    /// The shifts in a sequence whose value at a position is `normal + shift(position)`.
    fn shifts(
        random: &mut fastrand::Rng,
        limit: f64,
        count: usize,
        shift: fn(usize) -> f64,
    ) -> Vec<Shift> {
        let mut detector = Detector::new(limit, 1e-6);
        let found = (0..count).filter_map(|at| detector.push(normal(random) + shift(at), 0.1));
        found.collect()
    }

    #[test]
    fn false_alarms_are_as_rare_as_asked() {
        let mut random = fastrand::Rng::with_seed(1);
        let limit = limit(300.0, 1);
        let alarms: usize = (0..400).map(|_| shifts(&mut random, limit, 300, |_| 0.0).len()).sum();
        // One in 300 values; the deviations are clipped, so fewer.
        assert!((40..=440).contains(&alarms), "{alarms}");
        // One in 50,000, also among the first values.
        let limit = self::limit(1000.0, 50);
        let mut alarms = 0;
        for _ in 0..1000 {
            alarms += shifts(&mut random, limit, 60, |_| 0.0).len();
        }
        assert!(alarms <= 4, "{alarms}");
    }

    /// A fifth of the values are beside a neighbour, which is nothing that a normal distribution has.
    #[test]
    fn a_neighbour_now_and_then_is_no_shift() {
        let mut random = fastrand::Rng::with_seed(3);
        let limit = limit(1000.0, 12);
        let mut alarms = 0;
        for _ in 0..1000 {
            let mut detector = Detector::new(limit, 0.005);
            for _ in 0..60 {
                let slower = if random.f64() < 0.2 { 0.1 + 0.1 * random.f64() } else { 0.0 };
                let value = 0.01 * normal(&mut random) + slower;
                alarms += u32::from(detector.push(value, 0.01).is_some());
            }
        }
        // One in 12,000 values is asked: five. Without ranks there are a hundred.
        assert!(alarms <= 10, "{alarms}");
    }

    #[test]
    fn a_shift_is_found_where_it_is_and_a_spike_is_none() {
        let mut random = fastrand::Rng::with_seed(2);
        let limit = limit(1000.0, 50);
        let (mut found, mut late) = (0, 0);
        for _ in 0..100 {
            let shifts = shifts(&mut random, limit, 60, |at| if at < 30 { 0.0 } else { 4.0 });
            let right = shifts.iter().find(|shift| (29..=31).contains(&shift.at));
            found += u32::from(right.is_some());
            late += right.map_or(0, |shift| shift.found - 30);
        }
        assert!(found >= 80 && late < 6 * found as usize, "{found} {late}");
        let spiked = |at: usize| if at % 20 == 19 { 50.0 } else { 0.0 };
        let spikes = (0..100).map(|_| shifts(&mut random, limit, 60, spiked).len()).sum::<usize>();
        assert!(spikes <= 2, "{spikes}");
    }

    #[test]
    fn values_that_never_vary_shift_by_more_than_what_is_assumed() {
        let mut detector = Detector::new(limit(100.0, 1), 0.01);
        let mut push =
            |value: f64, times: usize| (0..times).find_map(|_| detector.push(value, 0.0));
        assert_eq!(push(1.0, 100), None);
        assert_eq!(push(1.001, 20), None);
        let shift = push(2.0, 10).expect("it doubled");
        assert_eq!(shift.at, 120);
        assert!(shift.found < 126);
    }
}
