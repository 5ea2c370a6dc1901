//! The CPU time of a command with its core alone, from runs that shared the core for a part of their time.
//!
//! Another hardware thread on the core slows a program by a factor that hardly depends on what that thread does, so a run
//! of `t` seconds of which the share `x` was shared would have taken `t (1 - kx)` alone. `k` belongs to the program: 0.4 for
//! one that a neighbour slows to 1 / (1 - 0.4) = 1.67 times. Only readings of the core decide `x`, never a time.
//!
//! Many cores change their clock by several per cent, several times a second. A run during which it was faster by the factor
//! `c` takes `c^e` times less: `e` is 1 for a program that works on the core, and near 0 for one that waits for memory.
//!
//! `k` and `e` are estimated by a robust regression of the logarithm of the times, with weak priors, so that few or equal
//! readings leave them wide instead of undefined. Runs that something else disturbed have no weight (Tukey's biweight: A. E. Beaton and J. W.
//! Tukey, Technometrics 16, 1974). Errors are those of P. J. Huber, "Robust Statistics", 1981, section 7.6.

use crate::difference::{Difference, t_quantile};
use crate::interval::CONFIDENCE;
use crate::quantile::{mean, median};

/// One run of a command.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SharedRun {
    /// Its CPU time, in any unit; above zero.
    pub time: f64,
    /// The share of its time in which the core was shared, 0 to 1.
    pub shared: f64,
    /// The logarithm of the core's clock during it over the usual one; 0 where the clock does not move.
    pub clock: f64,
}

/// What a command takes with its core alone.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AloneTime {
    /// In the unit of the times.
    pub time: f64,
    /// The 95 % interval.
    pub interval: (f64, f64),
    /// How many times as long it takes on a shared core.
    pub slowdown: f64,
}

/// The ratio between two commands' times on a core in the same state.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CommandRatio {
    /// The second command's time over the first one's.
    pub ratio: f64,
    /// The 95 % interval.
    pub interval: (f64, f64),
    /// The smallest change, as a share, that would have been found with 95 % confidence in nine of ten tries.
    pub visible: f64,
}

/// What is known of `k` and `e` before any run, means and standard deviations: a neighbour slows a program to between 1 and 3
/// times, mostly; most programs work on the core.
const PRIORS: [(f64, f64); 2] = [(0.3, 0.2), (0.9, 0.3)];
/// `k` and `e` stay within these bounds.
const BOUNDS: [(f64, f64); 2] = [(-0.2, 0.9), (0.0, 1.2)];
/// Residuals beyond this many standard deviations have no weight.
const BIWEIGHT: f64 = 4.685;
/// The median absolute deviation of a normal variable times this is its standard deviation.
const MAD_TO_DEVIATION: f64 = 1.4826;
const MAX_ITERATIONS: usize = 30;
/// `k` and `e` are known well enough once they change by less.
const CONVERGED: f64 = 1e-6;
/// With fewer runs there is no estimate.
const MIN_RUNS: usize = 4;
/// The probability with which [`CommandRatio::visible`] would be found.
const OFTEN: f64 = 0.9;

/// The CPU time with the core alone; `None` with fewer than four runs.
pub fn alone_time(runs: &[SharedRun]) -> Option<AloneTime> {
    let fit = Fit::new(&[runs])?;
    let level = fit.levels[0];
    let error = (level.variance + fit.variance(level.slopes)).sqrt();
    let half = t_quantile(f64::midpoint(1.0, CONFIDENCE), fit.degrees)? * error;
    Some(AloneTime {
        time: level.mean.exp(),
        interval: ((level.mean - half).exp(), (level.mean + half).exp()),
        slowdown: 1.0 / (1.0 - fit.parameters[0]),
    })
}

/// The ratio of the second command's time to the first one's, if both had a core in the same state. Both took turns: the
/// runs at the same position belong together. One `k` and one `e` serve both. `None` if the lengths differ, or with fewer than four
/// turns.
pub fn ratio(first: &[SharedRun], second: &[SharedRun]) -> Option<CommandRatio> {
    let fit = Fit::new(&[first, second])?;
    let alone =
        |runs: &[SharedRun]| -> Vec<f64> { runs.iter().map(|run| fit.alone(run)).collect() };
    let mut difference = Difference::paired(&alone(first), &alone(second))?;
    // What the pairs do not show: an error of `k` changes the command more that shared more.
    let slopes = minus(fit.levels[1].slopes, fit.levels[0].slopes);
    difference.error = difference.error.hypot(fit.variance(slopes).sqrt());
    CommandRatio::new(&difference)
}

/// The ratio of two commands' values as they are, above zero, turn by turn. `None` if the lengths differ, or with fewer
/// than four turns.
pub fn plain_ratio(first: &[f64], second: &[f64]) -> Option<CommandRatio> {
    if first.len() < MIN_RUNS {
        return None;
    }
    let logarithms =
        |values: &[f64]| -> Vec<f64> { values.iter().map(|value| value.ln()).collect() };
    CommandRatio::new(&Difference::paired(&logarithms(first), &logarithms(second))?)
}

impl CommandRatio {
    fn new(of_logarithms: &Difference) -> Option<CommandRatio> {
        let (middle, half) = (of_logarithms.of_means, of_logarithms.half_width(CONFIDENCE)?);
        Some(CommandRatio {
            ratio: middle.exp(),
            interval: ((middle - half).exp(), (middle + half).exp()),
            visible: of_logarithms.visible(CONFIDENCE, OFTEN)?.exp_m1(),
        })
    }
}

/// One value of each of `k` and `e`.
type Pair = [f64; 2];

/// One `k` and one `e` for all groups of runs, and a level for each.
struct Fit {
    parameters: Pair,
    /// Of the parameters.
    covariance: [Pair; 2],
    levels: Vec<Level>,
    degrees: u32,
}

/// Of one group.
#[derive(Clone, Copy)]
struct Level {
    /// The mean logarithm of the times alone.
    mean: f64,
    /// Of the mean, if the parameters were known.
    variance: f64,
    /// How much the mean falls with each parameter.
    slopes: Pair,
}

impl Fit {
    fn new(groups: &[&[SharedRun]]) -> Option<Fit> {
        let usable = |run: &SharedRun| {
            run.time > 0.0 && (0.0..=1.0).contains(&run.shared) && run.clock.is_finite()
        };
        if !groups.iter().all(|runs| runs.len() >= MIN_RUNS && runs.iter().all(usable)) {
            return None;
        }
        let count: usize = groups.iter().map(|runs| runs.len()).sum();
        let moves = groups.iter().flat_map(|runs| *runs).any(|run| run.clock != 0.0);
        let degrees = (count - groups.len() - 1 - usize::from(moves)).max(1);
        let mut weights: Vec<Vec<f64>> = groups.iter().map(|runs| vec![1.0; runs.len()]).collect();
        let mut fit = Fit {
            parameters: PRIORS.map(|(mean, _)| mean),
            covariance: [[PRIORS[0].1.powi(2), 0.0], [0.0, PRIORS[1].1.powi(2)]],
            levels: Vec::new(),
            degrees: degrees as u32,
        };
        for _ in 0..MAX_ITERATIONS {
            fit.levels = groups
                .iter()
                .zip(&weights)
                .map(|(runs, weights)| fit.level(runs, weights))
                .collect();
            let residuals: Vec<f64> = (groups.iter().zip(&fit.levels))
                .flat_map(|(runs, level)| runs.iter().map(|run| fit.alone(run) - level.mean))
                .collect();
            let scale = scale(&residuals, degrees)?;
            let mut all = residuals.iter();
            for (weight, residual) in weights.iter_mut().flatten().zip(&mut all) {
                *weight = biweight(residual / scale);
            }
            if fit.step(groups, &weights, &residuals, scale) < CONVERGED {
                break;
            }
        }
        Some(fit)
    }

    /// The logarithm of a run's time, had the core been alone, with its usual clock.
    fn alone(&self, run: &SharedRun) -> f64 {
        let [k, e] = self.parameters;
        run.time.ln() + (-k * run.shared).ln_1p() + e * run.clock
    }

    /// How much that falls with each parameter.
    fn slopes(&self, run: &SharedRun) -> Pair {
        [run.shared / (1.0 - self.parameters[0] * run.shared), -run.clock]
    }

    /// The variance of what changes so much with each parameter, as far as they cause it.
    fn variance(&self, slopes: Pair) -> f64 {
        dot(slopes, times(self.covariance, slopes))
    }

    fn level(&self, runs: &[SharedRun], weights: &[f64]) -> Level {
        let total: f64 = weights.iter().sum();
        let weighted = |value: &dyn Fn(&SharedRun) -> f64| {
            let sum: f64 = runs.iter().zip(weights).map(|(run, weight)| weight * value(run)).sum();
            sum / total
        };
        Level {
            mean: weighted(&|run| self.alone(run)),
            variance: 0.0,
            slopes: [0, 1].map(|parameter| weighted(&|run| self.slopes(run)[parameter])),
        }
    }

    /// One step of the regression: the parameters, and the variances as they are now. Returns how much the parameters
    /// changed.
    fn step(
        &mut self,
        groups: &[&[SharedRun]],
        weights: &[Vec<f64>],
        residuals: &[f64],
        scale: f64,
    ) -> f64 {
        let variance = residual_variance(residuals, scale, self.degrees);
        let (before, mut all) = (self.parameters, residuals.iter());
        // The priors, as if they were runs.
        let mut precision = [[0.0; 2]; 2];
        let mut towards = [0.0; 2];
        for (parameter, (mean, deviation)) in PRIORS.into_iter().enumerate() {
            precision[parameter][parameter] = deviation.powi(-2);
            towards[parameter] = (mean - before[parameter]) / deviation.powi(2);
        }
        for ((runs, weights), level) in groups.iter().zip(weights).zip(&self.levels) {
            for ((run, weight), residual) in runs.iter().zip(weights).zip(&mut all) {
                let slopes = minus(self.slopes(run), level.slopes);
                for (row, slope) in slopes.into_iter().enumerate() {
                    let by = weight * slope / variance;
                    towards[row] += by * residual;
                    precision[row] =
                        [0, 1].map(|column| precision[row][column] + by * slopes[column]);
                }
            }
        }
        // An infinite precision where nothing varies: then any parameters will do.
        if precision.iter().flatten().all(|value| value.is_finite()) {
            self.covariance = inverse(precision);
            let change = times(self.covariance, towards);
            for (parameter, (low, high)) in BOUNDS.into_iter().enumerate() {
                self.parameters[parameter] =
                    (before[parameter] + change[parameter]).clamp(low, high);
            }
        }
        for (level, runs) in self.levels.iter_mut().zip(groups) {
            level.variance = variance / runs.len() as f64;
        }
        minus(self.parameters, before).map(f64::abs).into_iter().fold(0.0, f64::max)
    }
}

fn minus(a: Pair, b: Pair) -> Pair {
    [a[0] - b[0], a[1] - b[1]]
}

fn dot(a: Pair, b: Pair) -> f64 {
    a[0] * b[0] + a[1] * b[1]
}

fn times(matrix: [Pair; 2], vector: Pair) -> Pair {
    matrix.map(|row| dot(row, vector))
}

fn inverse([[a, b], [c, d]]: [Pair; 2]) -> [Pair; 2] {
    let determinant = a * d - b * c;
    [[d / determinant, -b / determinant], [-c / determinant, a / determinant]]
}

/// The standard deviation of residuals, which few far ones do not change; a little above zero even for equal ones.
fn scale(residuals: &[f64], degrees: usize) -> Option<f64> {
    let sizes: Vec<f64> = residuals.iter().map(|residual| residual.abs()).collect();
    let fewer = (residuals.len() as f64 / degrees.max(1) as f64).sqrt();
    Some((MAD_TO_DEVIATION * median(&sizes)? * fewer).max(1e-9))
}

/// The weight of a residual of this many standard deviations.
fn biweight(residual: f64) -> f64 {
    (1.0 - (residual / BIWEIGHT).powi(2)).max(0.0).powi(2)
}

/// The variance of one residual with which the errors of robust estimates are computed (Huber's formula H1).
fn residual_variance(residuals: &[f64], scale: f64, degrees: u32) -> f64 {
    let squares: f64 =
        residuals.iter().map(|residual| (residual * biweight(residual / scale)).powi(2)).sum();
    // The derivative of the weighted residual: at most 1.
    let derivative = |residual: &f64| {
        let part = (residual / scale / BIWEIGHT).powi(2).min(1.0);
        (1.0 - part) * (1.0 - 5.0 * part)
    };
    let derivatives: Vec<f64> = residuals.iter().map(derivative).collect();
    let middle = mean(&derivatives).unwrap_or(1.0).max(0.1);
    let spread = mean(&derivatives.iter().map(|d| (d - middle).powi(2)).collect::<Vec<_>>());
    let parameters = residuals.len() as f64 - f64::from(degrees);
    let correction =
        1.0 + parameters / residuals.len() as f64 * spread.unwrap_or(0.0) / middle.powi(2);
    (correction / middle).powi(2) * squares / f64::from(degrees.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs as a busy host makes them.
    struct Machine {
        random: fastrand::Rng,
        /// How much a shared core adds to the times.
        k: f64,
        /// The standard deviation of the rest.
        noise: f64,
        /// The share of the time shared, which wanders.
        shared: f64,
        /// One run in this many takes up to a half longer, for another reason.
        outliers: f64,
        /// How much of a change of the clock the program feels.
        e: f64,
        /// How far the clock moves, and where it is: logarithms.
        moves: f64,
        clock: f64,
    }

    impl Machine {
        fn new(seed: u64) -> Machine {
            Machine {
                random: fastrand::Rng::with_seed(seed),
                k: 0.38,
                noise: 0.02,
                shared: 0.5,
                outliers: 0.05,
                e: 1.0,
                moves: 0.0,
                clock: 0.0,
            }
        }

        fn normal(&mut self) -> f64 {
            (-2.0 * (1.0 - self.random.f64()).ln()).sqrt()
                * (std::f64::consts::TAU * self.random.f64()).cos()
        }

        fn run(&mut self, time: f64) -> SharedRun {
            self.shared = (self.shared + 0.2 * self.normal()).clamp(0.0, 1.0);
            let mut time = time / (1.0 - self.k * self.shared) * (self.noise * self.normal()).exp();
            if self.random.f64() < self.outliers {
                time *= 1.0 + 0.5 * self.random.f64();
            }
            // From step to step it is half where it was.
            self.clock = 0.5 * self.clock + 0.87 * self.moves * self.normal();
            // Readings miss it by a tenth of that.
            let clock = self.clock + 0.1 * self.moves * self.normal();
            SharedRun { time: time * (-self.e * self.clock).exp(), shared: self.shared, clock }
        }

        /// Turns of two commands, in random order.
        fn turns(&mut self, count: usize, times: [f64; 2]) -> [Vec<SharedRun>; 2] {
            let mut runs = [Vec::new(), Vec::new()];
            for _ in 0..count {
                let start = self.random.usize(..2);
                for command in [start, 1 - start] {
                    let run = self.run(times[command]);
                    runs[command].push(run);
                }
            }
            runs
        }
    }

    /// The share of tries in which something holds.
    fn share(tries: u64, holds: impl Fn(u64) -> bool) -> f64 {
        (0..tries).filter(|&seed| holds(seed)).count() as f64 / tries as f64
    }

    const TRIES: u64 = 1000;

    /// The share of tries in which the interval of the time alone covers the truth.
    fn time_is_covered(machine: impl Fn(u64) -> Machine, count: usize) -> f64 {
        share(TRIES, |seed| {
            let mut machine = machine(seed);
            let runs: Vec<SharedRun> = (0..count).map(|_| machine.run(100.0)).collect();
            let (low, high) = alone_time(&runs).unwrap().interval;
            low <= 100.0 && 100.0 <= high
        })
    }

    /// The same of the ratio, which truly is this.
    fn ratio_is_covered(machine: impl Fn(u64) -> Machine, count: usize, truth: f64) -> f64 {
        share(TRIES, |seed| {
            let [a, b] = machine(seed).turns(count, [50.0, 50.0 * truth]);
            let (low, high) = ratio(&a, &b).unwrap().interval;
            low <= truth && truth <= high
        })
    }

    #[test]
    fn intervals_of_the_time_alone_cover_the_truth() {
        for count in [8, 20, 100] {
            let covered = time_is_covered(Machine::new, count);
            assert!((0.93..=0.975).contains(&covered), "{count} runs: {covered}");
        }
    }

    #[test]
    fn intervals_of_ratios_cover_planted_truths_and_equal_commands_are_rarely_called_different() {
        for (count, truth) in [(8, 1.0), (30, 1.0), (30, 1.02), (100, 1.005), (12, 1.1)] {
            let covered = ratio_is_covered(Machine::new, count, truth);
            assert!((0.93..=0.975).contains(&covered), "{count} turns, {truth}: {covered}");
        }
    }

    /// Runs of two equal commands that do not know the clock.
    fn without_clock(runs: &[SharedRun]) -> Vec<SharedRun> {
        runs.iter().map(|run| SharedRun { clock: 0.0, ..*run }).collect()
    }

    #[test]
    fn a_clock_that_moves_leaves_planted_truths_covered() {
        let moving = |seed| Machine { moves: 0.03, noise: 0.01, ..Machine::new(seed) };
        for e in [1.0, 0.3] {
            for (count, truth) in [(8, 1.0), (20, 1.02), (60, 1.005)] {
                let covered = ratio_is_covered(|seed| Machine { e, ..moving(seed) }, count, truth);
                let what = format!("e {e}, {count} turns, {truth}: {covered}");
                assert!((0.93..=0.975).contains(&covered), "{what}");
            }
        }
        for count in [8, 20, 60] {
            let covered = time_is_covered(moving, count);
            assert!((0.93..=0.98).contains(&covered), "{count} runs: {covered}");
        }
    }

    #[test]
    fn a_planted_change_is_found_more_often_by_the_clock() {
        let found = |with: fn(&[SharedRun]) -> Vec<SharedRun>| {
            share(400, |seed| {
                let mut machine = Machine { moves: 0.03, noise: 0.01, ..Machine::new(seed) };
                let [a, b] = machine.turns(20, [50.0, 51.0]);
                ratio(&with(&a), &with(&b)).unwrap().interval.0 > 1.0
            })
        };
        let (with, without) = (found(<[SharedRun]>::to_vec), found(without_clock));
        assert!(with > 0.9 && without < 0.75, "{with} {without}");
    }

    #[test]
    fn a_clock_that_drifts_against_the_turns_is_no_difference() {
        // Boosted while the first command runs, as after each pause: 2 % faster.
        let alarms = |with: fn(&[SharedRun]) -> Vec<SharedRun>| {
            share(TRIES, |seed| {
                let mut machine = Machine { moves: 0.01, noise: 0.01, ..Machine::new(seed) };
                let [mut a, b] = machine.turns(20, [50.0, 50.0]);
                for run in &mut a {
                    (run.time, run.clock) = (run.time / 1.02, run.clock + 0.02_f64.ln_1p());
                }
                let (low, high) = ratio(&with(&a), &with(&b)).unwrap().interval;
                !(low..=high).contains(&1.0)
            })
        };
        let (with, without) = (alarms(<[SharedRun]>::to_vec), alarms(without_clock));
        assert!(with <= 0.07 && without > 0.5, "{with} {without}");
    }

    #[test]
    fn the_state_of_the_core_makes_intervals_narrower_where_it_decides() {
        let width = |(low, high): (f64, f64)| high - low;
        let narrower = share(200, |seed| {
            let [a, b] = Machine::new(seed).turns(30, [50.0, 51.0]);
            let times = |runs: &[SharedRun]| runs.iter().map(|run| run.time).collect::<Vec<_>>();
            let plain = plain_ratio(&times(&a), &times(&b)).unwrap();
            let with = ratio(&a, &b).unwrap();
            width(with.interval) < 0.6 * width(plain.interval) && with.visible < plain.visible
        });
        assert!(narrower > 0.9, "{narrower}");
    }

    #[test]
    fn the_slowdown_on_a_shared_core_is_found() {
        for k in [0.0, 0.2, 0.5] {
            let mut machine = Machine { k, ..Machine::new(7) };
            let runs: Vec<SharedRun> = (0..400).map(|_| machine.run(3.0)).collect();
            let found = alone_time(&runs).unwrap();
            assert!((found.slowdown * (1.0 - k) - 1.0).abs() < 0.03, "{k}: {found:?}");
            assert!((found.time / 3.0 - 1.0).abs() < 0.02, "{k}: {found:?}");
        }
    }

    #[test]
    fn equal_shares_leave_the_time_alone_wide_and_the_ratio_narrow() {
        let always = |seed| {
            let mut machine = Machine::new(seed);
            let run = |time: f64, machine: &mut Machine| SharedRun {
                time: time * (0.01 * machine.normal()).exp(),
                shared: 1.0,
                clock: 0.0,
            };
            let runs = |time, machine: &mut Machine| -> Vec<SharedRun> {
                (0..20).map(|_| run(time, machine)).collect()
            };
            [runs(10.0, &mut machine), runs(10.2, &mut machine)]
        };
        let [a, b] = always(3);
        let (low, high) = alone_time(&a).unwrap().interval;
        assert!(high / low > 2.0, "{low} {high}");
        let found = ratio(&a, &b).unwrap();
        assert!(found.interval.1 - found.interval.0 < 0.02, "{found:?}");
    }

    #[test]
    fn runs_without_noise_and_too_few_runs_do_no_harm() {
        let equal = vec![SharedRun { time: 5.0, shared: 0.0, clock: 0.0 }; 6];
        let found = alone_time(&equal).unwrap();
        assert!((found.time - 5.0).abs() < 1e-9 && found.interval.1 - found.interval.0 < 1e-6);
        let found = ratio(&equal, &equal).unwrap();
        assert!((found.ratio - 1.0).abs() < 1e-9, "{found:?}");
        assert_eq!(alone_time(&equal[..3]), None);
        assert_eq!(ratio(&equal, &equal[..5]), None);
        assert_eq!(alone_time(&[SharedRun { time: 0.0, shared: 0.0, clock: 0.0 }; 5]), None);
        assert_eq!(alone_time(&[SharedRun { time: 1.0, shared: f64::NAN, clock: 0.0 }; 5]), None);
        assert_eq!(plain_ratio(&[1.0, 2.0, 3.0], &[1.0, 2.0, 3.0]), None);
        assert!(plain_ratio(&[1.0; 4], &[2.0, 2.1, 2.0, 2.1]).is_some());
    }
}
