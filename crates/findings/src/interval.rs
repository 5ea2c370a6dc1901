//! Compares a metric at two points: the difference or the ratio, with its interval.
//!
//! Launches that measured both points give one pair each, in which a disturbance of both cancels out. From
//! three pairs on, the interval comes from the pairs: up to five launches by Student's t, from six on by
//! order statistics, as for estimates. Such a ratio of what took turns holds on a busy machine too, whatever
//! the rows' grades are: the interval says how well. Otherwise the intervals of the two points are combined
//! like those of independent measurements, of sound rows only, and so are differences.

use costof_model::metric::is_too_wide;
use costof_model::{LaunchPoint, LaunchRow, Point, PointRow, Run, State};
use costof_stats::{Distribution, difference_interval, median};

/// A value with its 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// Its lower end.
    pub low: f64,
    /// The value.
    pub middle: f64,
    /// Its upper end.
    pub high: f64,
}

impl Interval {
    /// The natural logarithm of the ratio of `metric` at `one` to that at `other`. None if either has no
    /// value, if they took no turns and one of them is not sound, or if the ratio is uncertain by more than
    /// a factor of ten.
    pub fn log_ratio(
        run: &Run,
        one: &PointRow,
        other: &PointRow,
        metric: &str,
    ) -> Option<Interval> {
        let ratio = compare(run, one, other, metric, f64::ln)?;
        let Interval { low, high, .. } = ratio.exp();
        (!is_too_wide((low, high))).then_some(ratio)
    }

    /// The difference between `metric` at `one` and at `other`, for metrics that may be zero or negative,
    /// which have no ratio. None if either has no value or no interval, or is not sound.
    pub(crate) fn difference(
        run: &Run,
        one: &PointRow,
        other: &PointRow,
        metric: &str,
    ) -> Option<Interval> {
        let are_sound = one.is_sound() && other.is_sound();
        are_sound.then(|| compare(run, one, other, metric, |value| value))?
    }

    /// The natural logarithm of a positive value that is computed from the primary metrics of several points,
    /// over the launches that measured all of them. None with fewer than three such launches.
    pub fn log_in_turns(
        run: &Run,
        rows: &[&PointRow],
        value: impl Fn(&[f64]) -> Option<f64>,
    ) -> Option<Interval> {
        let of_launch = |launch: &LaunchRow| {
            let values = rows.iter().map(|row| {
                let mut points = launch.points.iter();
                self::value(points.find(|point| point.point == row.point)?, &row.primary)
            });
            value(&values.collect::<Option<Vec<f64>>>()?)
        };
        let launches = run.launches_of(&rows.first()?.point);
        let logarithms = launches.filter_map(of_launch).map(f64::ln);
        of_launches(&logarithms.filter(|value| value.is_finite()).collect::<Vec<f64>>())
    }

    /// The difference between two independent values, each with the ends of its interval around it: how far
    /// each end may be off is combined as the square root of the sum of squares (MOVER: Zou and Donner,
    /// Statistics in Medicine 27, 2008).
    pub fn difference_of(
        [low, middle, high]: [f64; 3],
        [other_low, other_middle, other_high]: [f64; 3],
    ) -> Interval {
        let difference = middle - other_middle;
        Interval {
            low: difference - (middle - low).hypot(other_high - other_middle),
            middle: difference,
            high: difference + (high - middle).hypot(other_middle - other_low),
        }
    }

    /// The ratio with this logarithm.
    #[must_use]
    pub fn exp(self) -> Interval {
        Interval { low: self.low.exp(), middle: self.middle.exp(), high: self.high.exp() }
    }

    /// The interval of the opposite comparison.
    pub(crate) fn reversed(self) -> Interval {
        Interval { low: -self.high, middle: -self.middle, high: -self.low }
    }

    /// Whether the interval does not contain zero.
    pub fn differs(self) -> bool {
        self.low > 0.0 || self.high < 0.0
    }
}

fn compare(
    run: &Run,
    one: &PointRow,
    other: &PointRow,
    metric: &str,
    scale: fn(f64) -> f64,
) -> Option<Interval> {
    let pairs = pairs(run, (&one.point, &other.point), metric);
    let differences = pairs.map(|(one, other)| scale(one) - scale(other));
    let differences: Vec<f64> = differences.filter(|value| value.is_finite()).collect();
    if let Some(interval) = of_launches(&differences) {
        return Some(interval);
    }
    let scaled = |row: &PointRow| {
        let estimate = row.estimate(metric).filter(|_| row.is_sound())?;
        let (low, high) = estimate.ci95?;
        let scaled = [low, estimate.median, high].map(scale);
        scaled.iter().all(|value| value.is_finite()).then_some(scaled)
    };
    Some(Interval::difference_of(scaled(one)?, scaled(other)?))
}

/// The values of each launch that measured both points.
fn pairs<'a>(
    run: &'a Run,
    (one, other): (&'a Point, &'a Point),
    metric: &'a str,
) -> impl Iterator<Item = (f64, f64)> + 'a {
    let values = move |wanted: &'a Point| {
        let given = run.given_to(wanted).filter(|(_, given)| given.point == *wanted);
        given.filter_map(|(launch, given)| Some((launch, value(given, metric)?)))
    };
    let others: Vec<(&LaunchRow, f64)> = values(other).collect();
    values(one).filter_map(move |(launch, value)| {
        let mut others = others.iter();
        let (_, other) = others.find(|(other, _)| std::ptr::eq(*other, launch))?;
        Some((value, *other))
    })
}

/// The value of a metric of a point in a launch.
pub(crate) fn value(point: &LaunchPoint, metric: &str) -> Option<f64> {
    if point.state != State::Ok {
        return None;
    }
    let measured = point.metrics.iter().find(|have| have.name == metric)?;
    Distribution::new(measured.data.counted()).median()
}

/// The interval of the differences between launches; none if there are fewer than three.
pub(crate) fn of_launches(differences: &[f64]) -> Option<Interval> {
    let middle = median(differences)?;
    let interval = difference_interval(differences)?;
    Some(Interval { low: interval.low.min(middle), middle, high: interval.high.max(middle) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{axes, launch, point_row, run};

    fn row(size: u64, median: f64, ci95: (f64, f64)) -> PointRow {
        let axes = axes!(size);
        point_row("copy.send", "cpu_sender", axes, median, ci95)
    }

    fn close(ratio: Interval, expected: (f64, f64, f64)) {
        let found = [ratio.low, ratio.middle, ratio.high].map(f64::exp);
        for (found, expected) in found.iter().zip([expected.0, expected.1, expected.2]) {
            assert!((found / expected - 1.0).abs() < 1e-4, "{ratio:?}");
        }
    }

    #[test]
    fn intervals_of_two_points_are_added_up_as_squares() {
        let run = run(&[]);
        let (one, other) = (row(1, 20.0, (10.0, 40.0)), row(2, 10.0, (10.0, 10.0)));
        let ratio = Interval::log_ratio(&run, &one, &other, "cpu_sender").unwrap();
        close(ratio, (1.0, 2.0, 4.0));
        close(ratio.reversed(), (0.25, 0.5, 1.0));
        let other = row(2, 10.0, (5.0, 20.0));
        let ratio = Interval::log_ratio(&run, &one, &other, "cpu_sender").unwrap();
        let wider = 2.0_f64.powf(2.0_f64.sqrt());
        close(ratio, (2.0 / wider, 2.0, 2.0 * wider));
        assert_eq!(Interval::log_ratio(&run, &one, &other, "throughput"), None);
        let none = row(2, 10.0, (0.0, 20.0));
        assert_eq!(Interval::log_ratio(&run, &one, &none, "cpu_sender"), None);
    }

    #[test]
    fn what_may_be_nothing_has_a_difference() {
        let run = run(&[]);
        let (one, other) = (row(1, -2.0, (-5.0, 1.0)), row(2, 10.0, (6.0, 14.0)));
        let difference = Interval::difference(&run, &one, &other, "cpu_sender").unwrap();
        assert_eq!((difference.low, difference.middle, difference.high), (-17.0, -12.0, -7.0));
        assert_eq!(Interval::difference(&run, &one, &other, "throughput"), None);
    }

    /// A disturbance of a whole launch affects both alike.
    #[test]
    fn what_disturbs_a_launch_as_a_whole_is_in_no_ratio() {
        let mut run = run(&[]);
        let wide = (5.0, 80.0);
        let (one, other) = (row(1, 20.0, wide), row(2, 10.0, wide));
        for slow in [1.0, 3.0, 0.5, 2.0] {
            let [of_one, of_other] = [20.0, 10.0].map(|value| [("cpu_sender", value * slow)]);
            launch(&mut run, &[(&one, &of_one), (&other, &of_other)]);
        }
        let ratio = Interval::log_ratio(&run, &one, &other, "cpu_sender").unwrap();
        close(ratio, (2.0, 2.0, 2.0));
        // A difference grows with the disturbance, so it is of sound rows only.
        assert_eq!(Interval::difference(&run, &one, &other, "cpu_sender"), None);
        let (one, other) = (row(1, 20.0, (19.0, 21.0)), row(2, 10.0, (9.0, 11.0)));
        // 10, 30, 5 and 20 more; the median.
        let more = Interval::difference(&run, &one, &other, "cpu_sender").unwrap();
        assert!((more.middle - 15.0).abs() < 1e-9, "{more:?}");
    }

    #[test]
    fn of_latencies_the_middle_one_is_a_launchs() {
        let of = |buckets: &[(f64, u64)]| Distribution::new(buckets.to_vec()).median();
        assert_eq!(of(&[(9.0, 3), (2.0, 1), (5.0, 1)]), Some(9.0));
        assert_eq!(of(&[(9.0, 3), (2.0, 4)]), Some(2.0));
        assert_eq!(of(&[]), None);
        let most = u64::from(u32::MAX);
        assert_eq!(of(&[(9.0, most), (2.0, most), (5.0, most)]), Some(5.0));
    }

    #[test]
    fn launches_have_the_interval_that_estimates_have() {
        // scipy.stats.t.interval(.95, 2, loc=mean, scale=sem) of 0, 1, 2.
        let three = of_launches(&[0.0, 1.0, 2.0]).unwrap();
        assert!((three.high - 3.484_138).abs() < 1e-5, "{three:?}");
        assert!((three.low + 1.484_138).abs() < 1e-5, "{three:?}");
        let nine: Vec<f64> = (0..9).map(f64::from).collect();
        let nine = of_launches(&nine).unwrap();
        assert_eq!((nine.low, nine.middle, nine.high), (1.0, 4.0, 7.0));
        let ranks = [6, 8, 9, 11, 12, 15, 17, 20].map(|count| {
            let launches: Vec<f64> = (0..count).map(f64::from).collect();
            of_launches(&launches).unwrap().low
        });
        assert_eq!(ranks, [0.0, 0.0, 1.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
    }
}
