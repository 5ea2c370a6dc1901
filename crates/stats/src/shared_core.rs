//! The CPU time of a command with its core alone, from runs that shared the core for a part of their time.
//!
//! Another hardware thread on the core slows a program by a factor that hardly depends on what that thread does, so a run
//! of `t` seconds of which the share `x` was shared would have taken `t (1 - kx)` alone. `k` belongs to the program: 0.4 for
//! one that a neighbour slows to 1 / (1 - 0.4) = 1.67 times. Only readings of the core decide `x`, never a time.
//!
//! `k` is estimated by a robust regression of the logarithm of the times, with a weak prior, so that few or equal shares leave
//! it wide instead of undefined. Runs that something else disturbed have no weight (Tukey's biweight: A. E. Beaton and J. W.
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

/// What is known of `k` before any run: a neighbour slows a program to between 1 and 3 times, mostly.
const PRIOR: (f64, f64) = (0.3, 0.2);
/// `k` stays within these bounds.
const BOUNDS: (f64, f64) = (-0.2, 0.9);
/// Residuals beyond this many standard deviations have no weight.
const BIWEIGHT: f64 = 4.685;
/// The median absolute deviation of a normal variable times this is its standard deviation.
const MAD_TO_DEVIATION: f64 = 1.4826;
const MAX_ITERATIONS: usize = 30;
/// `k` is known well enough once it changes by less.
const CONVERGED: f64 = 1e-6;
/// With fewer runs there is no estimate.
const MIN_RUNS: usize = 4;
/// The probability with which [`CommandRatio::visible`] would be found.
const OFTEN: f64 = 0.9;

/// The CPU time with the core alone; `None` with fewer than four runs.
pub fn alone_time(runs: &[SharedRun]) -> Option<AloneTime> {
    let fit = Fit::new(&[runs])?;
    let level = fit.levels[0];
    let error = (level.variance + level.slope.powi(2) * fit.variance).sqrt();
    let half = t_quantile(f64::midpoint(1.0, CONFIDENCE), fit.degrees)? * error;
    Some(AloneTime {
        time: level.mean.exp(),
        interval: ((level.mean - half).exp(), (level.mean + half).exp()),
        slowdown: 1.0 / (1.0 - fit.k),
    })
}

/// The ratio of the second command's time to the first one's, if both had a core in the same state. Both took turns: the
/// runs at the same position belong together. One `k` serves both. `None` if the lengths differ, or with fewer than four
/// turns.
pub fn ratio(first: &[SharedRun], second: &[SharedRun]) -> Option<CommandRatio> {
    let fit = Fit::new(&[first, second])?;
    let alone =
        |runs: &[SharedRun]| -> Vec<f64> { runs.iter().map(|run| fit.alone(run)).collect() };
    let mut difference = Difference::paired(&alone(first), &alone(second))?;
    // What the pairs do not show: an error of `k` changes the command more that shared more.
    let slope = fit.levels[1].slope - fit.levels[0].slope;
    difference.error = difference.error.hypot(slope * fit.variance.sqrt());
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

/// One `k` for all groups of runs, and a level for each.
struct Fit {
    k: f64,
    /// Of `k`.
    variance: f64,
    levels: Vec<Level>,
    degrees: u32,
}

/// Of one group.
#[derive(Clone, Copy)]
struct Level {
    /// The mean logarithm of the times alone.
    mean: f64,
    /// Of the mean, if `k` were known.
    variance: f64,
    /// How much the mean changes with `k`.
    slope: f64,
}

impl Fit {
    fn new(groups: &[&[SharedRun]]) -> Option<Fit> {
        let usable = |run: &SharedRun| run.time > 0.0 && (0.0..=1.0).contains(&run.shared);
        if !groups.iter().all(|runs| runs.len() >= MIN_RUNS && runs.iter().all(usable)) {
            return None;
        }
        let count: usize = groups.iter().map(|runs| runs.len()).sum();
        let degrees = count - groups.len() - 1;
        let mut weights: Vec<Vec<f64>> = groups.iter().map(|runs| vec![1.0; runs.len()]).collect();
        let mut fit = Fit {
            k: PRIOR.0,
            variance: PRIOR.1.powi(2),
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

    /// The logarithm of a run's time, had the core been alone.
    fn alone(&self, run: &SharedRun) -> f64 {
        run.time.ln() + (-self.k * run.shared).ln_1p()
    }

    /// How much the logarithm of a run's time grows with `k`.
    fn slope(&self, run: &SharedRun) -> f64 {
        run.shared / (1.0 - self.k * run.shared)
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
            slope: weighted(&|run| self.slope(run)),
        }
    }

    /// One step of the regression: `k`, and the variances as they are now. Returns how much `k` changed.
    fn step(
        &mut self,
        groups: &[&[SharedRun]],
        weights: &[Vec<f64>],
        residuals: &[f64],
        scale: f64,
    ) -> f64 {
        let (mut squares, mut products, mut position) = (0.0, 0.0, 0);
        for ((runs, weights), level) in groups.iter().zip(weights).zip(&self.levels) {
            for (run, weight) in runs.iter().zip(weights) {
                let slope = self.slope(run) - level.slope;
                squares += weight * slope * slope;
                products += weight * slope * residuals[position];
                position += 1;
            }
        }
        let variance = residual_variance(residuals, scale, self.degrees);
        // An infinite precision where nothing varies: then any `k` will do.
        let (data, prior) = (squares / variance, PRIOR.1.powi(-2));
        let before = self.k;
        if data.is_finite() {
            let towards_prior = prior * (PRIOR.0 - self.k);
            let change = (products / variance + towards_prior) / (data + prior);
            self.k = (self.k + change).clamp(BOUNDS.0, BOUNDS.1);
            self.variance = 1.0 / (data + prior);
        }
        for (level, runs) in self.levels.iter_mut().zip(groups) {
            level.variance = variance / runs.len() as f64;
        }
        (self.k - before).abs()
    }
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
    }

    impl Machine {
        fn new(seed: u64) -> Machine {
            Machine {
                random: fastrand::Rng::with_seed(seed),
                k: 0.38,
                noise: 0.02,
                shared: 0.5,
                outliers: 0.05,
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
            SharedRun { time, shared: self.shared }
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

    #[test]
    fn intervals_of_the_time_alone_cover_the_truth() {
        for count in [8, 20, 100] {
            let covered = share(TRIES, |seed| {
                let mut machine = Machine::new(seed);
                let runs: Vec<SharedRun> = (0..count).map(|_| machine.run(100.0)).collect();
                let (low, high) = alone_time(&runs).unwrap().interval;
                low <= 100.0 && 100.0 <= high
            });
            assert!((0.93..=0.975).contains(&covered), "{count} runs: {covered}");
        }
    }

    #[test]
    fn intervals_of_ratios_cover_planted_truths_and_equal_commands_are_rarely_called_different() {
        for (count, truth) in [(8, 1.0), (30, 1.0), (30, 1.02), (100, 1.005), (12, 1.1)] {
            let covered = share(TRIES, |seed| {
                let [a, b] = Machine::new(seed).turns(count, [50.0, 50.0 * truth]);
                let (low, high) = ratio(&a, &b).unwrap().interval;
                low <= truth && truth <= high
            });
            assert!((0.93..=0.975).contains(&covered), "{count} turns, {truth}: {covered}");
        }
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
        let equal = vec![SharedRun { time: 5.0, shared: 0.0 }; 6];
        let found = alone_time(&equal).unwrap();
        assert!((found.time - 5.0).abs() < 1e-9 && found.interval.1 - found.interval.0 < 1e-6);
        let found = ratio(&equal, &equal).unwrap();
        assert!((found.ratio - 1.0).abs() < 1e-9, "{found:?}");
        assert_eq!(alone_time(&equal[..3]), None);
        assert_eq!(ratio(&equal, &equal[..5]), None);
        assert_eq!(alone_time(&[SharedRun { time: 0.0, shared: 0.0 }; 5]), None);
        assert_eq!(alone_time(&[SharedRun { time: 1.0, shared: f64::NAN }; 5]), None);
        assert_eq!(plain_ratio(&[1.0, 2.0, 3.0], &[1.0, 2.0, 3.0]), None);
        assert!(plain_ratio(&[1.0; 4], &[2.0, 2.1, 2.0, 2.1]).is_some());
    }
}
