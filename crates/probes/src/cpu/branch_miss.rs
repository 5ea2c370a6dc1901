//! `cpu.branch_miss`: a mispredicted branch.

use crate::prelude::*;
use costof_os::cpu::branches::{Outcomes, PLACES};
use costof_os::perf::{Event, Group};

/// How many of ten branches are random, and the metric for that share: half of the random ones are
/// mispredicted.
const RATES: [(u8, &str); 6] = [
    (0, "cost_at_0"),
    (2, "cost_at_10"),
    (4, "cost_at_20"),
    (6, "cost_at_30"),
    (8, "cost_at_40"),
    (10, "cost_at_50"),
];
const PASSES: u32 = 2;
/// The largest distance of a cost from the line, as a share of the line's rise. Beyond it there is
/// no answer.
const OFF_LINE_MAX: f64 = 0.1;
/// Branches that are followed or counted individually, as evidence.
const EVIDENCE: u64 = 1_000_000;
/// A counter below this share of mispredicted random branches is not believed: no predictor knows
/// so many random outcomes, but virtual counters often read almost nothing. The straight line alone
/// proves that branches are mispredicted.
const MIN_BELIEVED: f64 = 0.025;
/// A CPU mispredicts half of random outcomes. One that mispredicts less than this share has learned
/// them.
const MIN_MISSED: f64 = 0.45;

pub(crate) static PROBE: Probe = Probe::new::<BranchMiss>();

point! {
    /// What does a mispredicted branch cost?
    ///
    /// A loop in assembly has ten conditional jumps, whose outcomes are bits that are loaded in
    /// order. In 0, 2, … 10 of the ten places the outcomes are random, and any predictor gets half
    /// of these wrong; in the other places they are fixed. At every share half of all jumps are
    /// taken, both sides are alike, and the outcomes repeat only after ten million branches, so
    /// only the mispredictions differ. The cost of a branch over the share of mispredictions is a
    /// straight line, and its slope is the answer: the time to restart at the right place, if the
    /// outcome is known at once. A branch that waits for memory costs the wait in addition.
    /// Checked: each jump goes where its bit says; the line is straight; and where the CPU counts
    /// mispredictions, half of the random branches are mispredicted (a virtual CPU's counter that
    /// counts nothing is ignored).
    ///
    /// # Predicted from
    /// the usual depth of a pipeline from fetch to execution (cpu.frequency)
    ///
    /// # Sources
    /// - Agner Fog, The microarchitecture of Intel, AMD and VIA CPUs, chapter 3
    /// - Intel 64 and IA-32 Architectures Optimization Reference Manual, Branch Prediction
    /// - CS 739 mini-project 1: 4 to 6 ns, looked up because measuring it was too hard; J. Dean,
    ///   Numbers Everyone Should Know: 5 ns
    ///
    /// # Needs
    /// - for confirming the share of mispredictions: CPU counters that this process may read
    pub(crate) struct BranchMiss of "cpu.branch_miss" {}
}

impl Measure for BranchMiss {
    const METRICS: &'static [Metric] = metrics! {
        /// one misprediction: the cost of a branch at 100 % mispredicted less that at 0 %, by the
        /// line through the costs below
        cost: Nanoseconds Lower,
        /// a branch where none is mispredicted
        cost_at_0: Nanoseconds Lower,
        /// a branch where 10 % are mispredicted
        cost_at_10: Nanoseconds Lower,
        /// a branch where 20 % are mispredicted
        cost_at_20: Nanoseconds Lower,
        /// a branch where 30 % are mispredicted
        cost_at_30: Nanoseconds Lower,
        /// a branch where 40 % are mispredicted
        cost_at_40: Nanoseconds Lower,
        /// a branch where 50 % are mispredicted
        cost_at_50: Nanoseconds Lower,
        /// the greatest distance of a cost from the line, as a share of the line's rise from 0 to
        /// 50 %; there is no answer above 0.1
        off_line: One Lower,
        /// the share of random branches that the CPU's counter reports as mispredicted; absent
        /// where there is no counter, or one that counts nothing
        missed: One Neither,
    };
    const AFTER: NameList = &["cpu.frequency"];
    const ROLES: &'static [StartRole] = &[alone::<_, Outcomes>];

    fn memory_bytes(_: &At<Self>) -> u64 {
        2 << 20
    }

    headlines! {
        "branch misprediction": {},
    }

    fn predict(_: &At<Self>, _: &Facts, measured: &MeasuredRows<'_>) -> Option<Prediction> {
        cost_cycles(
            measured,
            (10.0, 25.0),
            "pipelines take 10 to 25 stages from fetching a branch to executing it, and \
             start them again",
        )
    }
}

impl Setup<BranchMiss> for Outcomes {
    fn set_up(_: &At<BranchMiss>, launch: &Launch) -> Result<Outcomes> {
        let mut random = Rng::with_seed(launch.seed);
        Ok(Outcomes::random(|| random.u16(..)))
    }

    fn measure(&mut self, _: &At<BranchMiss>, meter: &mut Meter<'_>) -> Result {
        let parts = PASSES * RATES.len() as u32;
        for _ in 0..PASSES {
            for (random, metric) in RATES {
                let branch = |n| {
                    self.branch(n, random);
                };
                meter.share(parts).repeatable(metric, branch);
            }
        }
        Ok(())
    }

    fn check(mut self, _: &At<BranchMiss>, meter: &mut Meter<'_>) -> Result {
        for (random, _) in RATES {
            self.rewind();
            let foretold = self.foretell(EVIDENCE, random);
            self.rewind();
            let went = self.branch(EVIDENCE, random);
            ensure!(went == foretold, "branches did not go where their outcomes say");
        }
        if let Some(missed) = missed(&mut self) {
            meter.value("missed", missed);
            ensure!(
                missed >= MIN_MISSED,
                "the CPU mispredicted {:.0} % of the random branches, where half is \
                 expected: it has learned their outcomes, and the cost is too low",
                100.0 * missed
            );
        }
        let costs = RATES.map(|(random, metric)| {
            let share = f64::from(random) / f64::from(PLACES) / 2.0;
            (share, meter.cost_ns(metric).expect("a measured rate"))
        });
        let (cost_ns, off_line) = slope(&costs)?;
        meter.value("cost", cost_ns);
        meter.value("off_line", off_line);
        Ok(())
    }
}

/// The slope of costs over shares of mispredictions, and the largest distance from the line, as a
/// share of its rise.
fn slope(costs: &[(f64, f64)]) -> Result<(f64, f64)> {
    let line = Line::through(costs);
    let widest = costs.iter().map(|(share, _)| *share).fold(0.0, f64::max);
    let off_line = line.off(costs) / (line.slope * widest);
    if line.slope <= 0.0 || off_line > OFF_LINE_MAX {
        let costs: Vec<String> = costs.iter().map(|(_, ns)| format!("{ns:.2}")).collect();
        fail!(
            "the costs at 0 to 50 % mispredicted are not on a line: {} ns (something else uses this core, or its clock changes: see costof doctor)",
            costs.join(", ")
        );
    }
    Ok((line.slope, off_line))
}

/// The share of random branches that the CPU reports as mispredicted; `None` if it does not report
/// it.
fn missed(outcomes: &mut Outcomes) -> Option<f64> {
    let (group, _) = Group::open(&[Event::BranchMisses]);
    group.enable().ok()?;
    outcomes.branch(EVIDENCE, PLACES);
    group.disable().ok()?;
    believed(group.read().ok()?.first()?.value?)
}

/// The share of mispredicted random branches, by a count of mispredictions; `None` if the count is
/// not believed.
fn believed(misses: u64) -> Option<f64> {
    let missed = misses as f64 / EVIDENCE as f64;
    (missed >= MIN_BELIEVED).then_some(missed)
}

struct Line {
    at_zero: f64,
    slope: f64,
}

impl Line {
    /// The least-squares line through these points.
    fn through(points: &[(f64, f64)]) -> Line {
        let sum =
            |of: &dyn Fn(f64, f64) -> f64| points.iter().map(|(x, y)| of(*x, *y)).sum::<f64>();
        let count = points.len() as f64;
        let (mean_x, mean_y) = (sum(&|x, _| x) / count, sum(&|_, y| y) / count);
        let covariance = sum(&|x, y| (x - mean_x) * (y - mean_y));
        let slope = covariance / sum(&|x, _| (x - mean_x).powi(2));
        Line { at_zero: mean_y - slope * mean_x, slope }
    }

    /// The largest distance of these points from the line.
    fn off(&self, points: &[(f64, f64)]) -> f64 {
        points.iter().map(|(x, y)| (y - (self.at_zero + self.slope * x)).abs()).fold(0.0, f64::max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_found_and_what_lies_off_it() {
        let mut points = [(0.0, 1.0), (0.1, 1.5), (0.2, 2.0), (0.3, 2.5)];
        let line = Line::through(&points);
        assert!((line.slope - 5.0).abs() < 1e-9 && (line.at_zero - 1.0).abs() < 1e-9);
        assert!(line.off(&points) < 1e-9);
        points[3].1 = 3.5;
        let line = Line::through(&points);
        assert!((line.slope - 8.0).abs() < 1e-9 && (line.at_zero - 0.8).abs() < 1e-9);
        assert!((line.off(&points) - 0.4).abs() < 1e-9);
    }

    #[test]
    fn a_counter_that_counts_nothing_is_left_out_and_one_that_counts_too_few_is_not() {
        assert_eq!(believed(0), None);
        assert_eq!(believed(20_000), None);
        assert_eq!(believed(300_000), Some(0.3));
        assert_eq!(believed(500_000), Some(0.5));
    }

    #[test]
    fn costs_on_no_line_give_no_answer() {
        let straight = [(0.0, 0.5), (0.25, 1.5), (0.5, 2.5)];
        let (cost_ns, off_line) = slope(&straight).unwrap();
        assert!((cost_ns - 4.0).abs() < 1e-9 && off_line < 1e-9);
        // Mispredictions without a cost, and costs that are not on a line.
        for costs in [[0.5, 0.5, 0.5], [0.5, 2.5, 2.5], [2.5, 1.5, 0.5]] {
            let bent = [(0.0, costs[0]), (0.25, costs[1]), (0.5, costs[2])];
            let failure = slope(&bent).unwrap_err();
            assert!(failure.reason.contains("not on a line"), "{failure}");
        }
    }
}
