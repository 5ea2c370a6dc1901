//! What `costof time --json` and hyperfine's JSON say, as far as the bench reads it.

use crate::error::{OrCannot, Result};
use costof_stats::shared_core::{self, CommandRatio};
use costof_stats::{Difference, mean, median, standard_deviation};
use serde::Deserialize;

/// What `costof time --json` printed.
#[derive(Debug, Deserialize)]
pub(super) struct Timed {
    pub(super) commands: Vec<Command>,
    pub(super) comparisons: Vec<Option<Comparison>>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Command {
    pub(super) runs: Vec<Run>,
    pub(super) alone_ns: Option<Estimate>,
    pub(super) alone_unknown: Option<String>,
    pub(super) notes: Vec<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Run {
    wall_ns: u64,
    user_ns: u64,
    system_ns: u64,
    gauge_ns: u64,
    cpus: Vec<usize>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Comparison {
    ratio: Estimate,
}

#[derive(Clone, Copy, Debug, Deserialize)]
pub(super) struct Estimate {
    pub(super) value: f64,
    pub(super) low: f64,
    pub(super) high: f64,
}

/// What a program says of a second command's ratio to the first.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Answer {
    pub(super) ratio: f64,
    /// The 95 % interval, where it has one.
    pub(super) interval: Option<(f64, f64)>,
}

impl Answer {
    /// Whether it calls the second command different, and slower.
    pub(super) fn differs(self) -> bool {
        self.interval.is_some_and(|(low, high)| low > 1.0 || high < 1.0)
    }

    pub(super) fn is_slower(self) -> bool {
        self.interval.is_some_and(|(low, _)| low > 1.0)
    }
}

impl Run {
    fn cpu_ns(&self) -> f64 {
        (self.user_ns + self.system_ns) as f64
    }
}

impl Timed {
    pub(super) fn parse(json: &str) -> Result<Timed> {
        serde_json::from_str(json).or_cannot("read what costof time printed")
    }

    /// The median CPU time of a command as it ran.
    pub(super) fn cpu_ns(&self, command: usize) -> f64 {
        median(&self.values(command, Run::cpu_ns)).unwrap_or(f64::NAN)
    }

    fn values(&self, command: usize, value: fn(&Run) -> f64) -> Vec<f64> {
        self.commands[command].runs.iter().map(value).collect()
    }

    /// What costof answers of a command other than the first.
    pub(super) fn answer(&self, command: usize) -> Option<Answer> {
        let Estimate { value, low, high } = self.comparisons[command - 1].as_ref()?.ratio;
        Some(Answer { ratio: value, interval: Some((low, high)) })
    }

    /// What follows from the same turns without the gauge: by CPU time, and by wall time.
    pub(super) fn without_gauge(&self, command: usize) -> [Option<Answer>; 2] {
        let values: [fn(&Run) -> f64; 2] = [Run::cpu_ns, |run| run.wall_ns as f64];
        values.map(|value| {
            let [first, other] = [0, command].map(|number| self.values(number, value));
            shared_core::plain_ratio(&first, &other).map(
                |CommandRatio { ratio, interval, .. }| Answer { ratio, interval: Some(interval) },
            )
        })
    }

    /// The sampler's share of the CPUs' time, by the median run.
    pub(super) fn sampler_cost(&self, command: usize) -> f64 {
        let cost = |run: &Run| run.gauge_ns as f64 / (run.wall_ns as f64 * run.cpus.len() as f64);
        median(&self.values(command, cost)).unwrap_or(f64::NAN)
    }
}

/// What hyperfine's `--export-json` writes.
#[derive(Debug, Deserialize)]
pub(super) struct Hyperfine {
    results: Vec<HyperfineResult>,
}

#[derive(Debug, Deserialize)]
struct HyperfineResult {
    user: f64,
    system: f64,
    times: Vec<f64>,
}

impl Hyperfine {
    pub(super) fn parse(json: &str) -> Result<Hyperfine> {
        serde_json::from_str(json).or_cannot("read what hyperfine wrote")
    }

    /// By wall time, as its script `welch_ttest.py` decides; and by the means of CPU time, of which it has no single runs.
    pub(super) fn answers(&self, command: usize) -> [Option<Answer>; 2] {
        let (first, other) = (&self.results[0], &self.results[command]);
        let cpu = (other.user + other.system) / (first.user + first.system);
        [welch(&first.times, &other.times), Some(Answer { ratio: cpu, interval: None })]
    }
}

/// Welch's test of the difference between means, over the first mean.
fn welch(first: &[f64], other: &[f64]) -> Option<Answer> {
    let error_squared = |values: &[f64]| -> Option<f64> {
        Some(standard_deviation(values)?.powi(2) / values.len() as f64)
    };
    let (a, b) = (error_squared(first)?, error_squared(other)?);
    let free = |values: &[f64]| values.len() as f64 - 1.0;
    let degrees = (a + b).powi(2) / (a.powi(2) / free(first) + b.powi(2) / free(other));
    let (mean, other) = (mean(first)?, mean(other)?);
    let difference = Difference {
        of_means: other - mean,
        error: (a + b).sqrt(),
        degrees: (degrees as u32).max(1),
    };
    let (ratio, half) = (other / mean, difference.half_width(0.95)? / mean);
    Some(Answer { ratio, interval: Some((ratio - half, ratio + half)) })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMED: &str = r#"{"seed":1,"comparisons":[{"ratio":{"value":1.02,"low":1.01,"high":1.03},
        "visible":0.01,"judgement":null}, null],"commands":[
        {"alone_ns":null,"alone_unknown":"why","notes":[],"runs":[
            {"wall_ns":200,"user_ns":90,"system_ns":10,"gauge_ns":2,"cpus":[1]},
            {"wall_ns":200,"user_ns":91,"system_ns":10,"gauge_ns":2,"cpus":[1]},
            {"wall_ns":200,"user_ns":89,"system_ns":10,"gauge_ns":2,"cpus":[1]},
            {"wall_ns":200,"user_ns":90,"system_ns":10,"gauge_ns":2,"cpus":[1]}]},
        {"alone_ns":null,"alone_unknown":"why","notes":[],"runs":[
            {"wall_ns":400,"user_ns":192,"system_ns":10,"gauge_ns":2,"cpus":[0,1]},
            {"wall_ns":400,"user_ns":191,"system_ns":10,"gauge_ns":2,"cpus":[0,1]},
            {"wall_ns":400,"user_ns":189,"system_ns":10,"gauge_ns":2,"cpus":[0,1]},
            {"wall_ns":400,"user_ns":190,"system_ns":10,"gauge_ns":2,"cpus":[0,1]}]}]}"#;

    #[test]
    fn answers_with_and_without_the_gauge_are_read() {
        let timed = Timed::parse(TIMED).unwrap();
        let answer = timed.answer(1).unwrap();
        assert!(answer.is_slower() && answer.differs());
        let [cpu, wall] = timed.without_gauge(1).map(Option::unwrap);
        assert!((cpu.ratio - 2.005).abs() < 0.01, "{cpu:?}");
        assert!((wall.ratio - 2.0).abs() < 1e-9, "{wall:?}");
        assert_eq!((timed.sampler_cost(0), timed.sampler_cost(1)), (0.01, 0.0025));
        assert!(Timed::parse("{}").is_err());
    }

    #[test]
    fn hyperfine_is_judged_by_its_own_script() {
        let json = r#"{"results":[{"user":1.0,"system":1.0,"times":[1.0,1.1,0.9,1.0,1.0]},
            {"user":1.0,"system":1.02,"times":[1.5,1.6,1.4,1.5,1.5]}]}"#;
        let hyperfine = Hyperfine::parse(json).unwrap();
        let [wall, cpu] = hyperfine.answers(1).map(Option::unwrap);
        // Equal spreads: t with 8 degrees is 2.306, the error 0.0447.
        assert!((wall.ratio - 1.5).abs() < 1e-9 && wall.is_slower());
        assert!((wall.interval.unwrap().0 - (1.5 - 2.306 * 0.044_72)).abs() < 1e-3, "{wall:?}");
        assert!((cpu.ratio - 1.01).abs() < 1e-9 && !cpu.differs());
        let [wall, _] = hyperfine.answers(0).map(Option::unwrap);
        assert!(!wall.differs());
    }
}
