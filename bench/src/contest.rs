//! A number of costof compared with the programs that measure it too: in turns, by the best of them.

use crate::bench::Bench;
use crate::error::Result;
use crate::machine::{self, Watch};
use crate::rounds;
use crate::verdict::{self, COST, RATE, Verdict};
use costof_peers::agreement::Band;
use costof_peers::checks::Check;
use costof_peers::tool::Statistic;
use costof_peers::verify::{Outcome, Row, Verifier};
use std::time::Duration;

/// How long either side may take for its number.
const LIMIT: Duration = Duration::from_secs(120);

/// A pair, and what holds of it.
pub(crate) struct Contest {
    pub(crate) check: Check,
    /// Where costof's number over that of the best tool must lie.
    pub(crate) band: Band,
    pub(crate) rounds: usize,
    pub(crate) precision: &'static str,
}

impl Contest {
    pub(crate) fn new(check: Check) -> Contest {
        Contest {
            band: if is_rate(&check) { RATE } else { COST },
            check: without_lmbench(check),
            rounds: 15,
            precision: "--quick",
        }
    }

    pub(crate) fn rounds(self, rounds: usize) -> Contest {
        Contest { rounds, ..self }
    }

    pub(crate) fn full(self) -> Contest {
        Contest { precision: "--full", ..self }
    }
}

/// The check without lmbench, which repeats what another of its tools measures.
pub(crate) fn without_lmbench(mut check: Check) -> Check {
    check.peers.retain(|peer| peer.tool != "lmbench");
    check
}

/// Holds each contest in turn.
pub(crate) fn hold(bench: &Bench, contests: Vec<Contest>) -> Result<Vec<Verdict>> {
    contests.into_iter().map(|contest| contest.hold(bench)).collect()
}

impl Contest {
    /// Measures both sides in turns, and judges costof by the best tool.
    fn hold(self, bench: &Bench) -> Result<Verdict> {
        let Contest { check, band, .. } = self;
        let (point, metric, is_rate) = (check.point(), check.metric, is_rate(&check));
        println!("{point}: {metric} in {}", if is_rate { "GB/s" } else { "ns" });
        let tools = check.peers.iter().map(|peer| peer.tool);
        rounds::print_head(std::iter::once("costof").chain(tools));
        let watch = Watch::start();
        let verifier = Verifier {
            costof: &bench.costof,
            precision: self.precision,
            folder: bench.folder(),
            cpus: &bench.measured_first(),
            core_floor: None,
            rounds: bench.rounds(self.rounds),
            limit: LIMIT,
            interrupt: &bench.interrupt,
        };
        let shown = |number: f64| format!("{:.2}", if is_rate { number / 1e9 } else { number });
        let rows = verifier.check(check, &mut |event| rounds::print_event(&event, &shown))?;
        println!();
        let quiet = machine::was_quiet(&watch);
        Ok(judge(&rows, band, quiet).report(&point))
    }
}

fn is_rate(check: &Check) -> bool {
    check.metric == "throughput"
}

/// Prints what the rounds say together, and judges it by the best tool.
fn judge(rows: &[Row], band: Band, quiet: bool) -> Verdict {
    let peers: Vec<_> = rows.iter().map(|row| match &row.outcome {
        Outcome::Compared(agreement, unit) => {
            let (own, other) = agreement.medians();
            let (own, other) = (unit.display(own), unit.display(other));
            let tool = row.tool;
            let ratio = verdict::ratio_text(agreement);
            println!("median over rounds: costof {own}, {tool} {other}; ratio {ratio}; bound: {band}");
            if let Some(by_median) = row.by_median.as_ref().map(verdict::ratio_text) {
                println!("  that is by costof's mean, which includes interruptions as {tool}'s does; by its \
                          median: {by_median}");
            }
            (tool, Ok(agreement.clone()))
        }
        Outcome::Absent(why) | Outcome::Failed(why) => {
            println!("{} is left out: {why}", row.tool);
            (row.tool, Err(why.clone()))
        }
    }).collect();
    let (verdict, best) = verdict::against_best(band, &peers);
    let is_median = best.is_some_and(|best| rows[best].statistic == Statistic::Median);
    verdict.only_if_quiet(quiet || best.is_none() || is_median)
}

#[cfg(test)]
mod tests {
    use super::*;
    use costof_model::unit::Unit;
    use costof_peers::agreement::Agreement;

    const COSTOF: [f64; 6] = [102.0, 306.0, 102.0, 306.0, 102.0, 306.0];

    fn row(statistic: Statistic, outcome: Outcome) -> Row {
        Row {
            probe: "os.syscall",
            axes: String::new(),
            metric: "cost",
            tool: "peer",
            statistic,
            expected: COST,
            differs: "",
            core: Vec::new(),
            outcome,
            by_median: None,
        }
    }

    /// A tool whose numbers are costof's by this factor.
    fn times(statistic: Statistic, factor: f64) -> Row {
        let other = COSTOF.map(|number| number * factor).to_vec();
        let agreement = Agreement::new(COSTOF.to_vec(), other).unwrap();
        row(statistic, Outcome::Compared(agreement, Unit::Nanoseconds))
    }

    fn failed(why: &str) -> Row {
        row(Statistic::Median, Outcome::Failed(why.to_owned()))
    }

    #[test]
    fn the_best_tool_decides_and_a_missing_one_may_be_better() {
        use Statistic::{Mean, Median};
        let undecided = |verdict| matches!(verdict, Verdict::Undecided(_));
        // The machine is three times slower in half of the rounds; the ratio is not.
        let close = times(Median, 0.98);
        assert_eq!(judge(&[close], COST, false), Verdict::Holds);
        for band in [COST, RATE] {
            let peers = [1.0, 0.9, 1.1].map(|factor| times(Median, factor));
            assert_eq!(judge(&peers[..1], band, true), Verdict::Holds);
            assert_eq!(judge(&peers, band, true), Verdict::DoesNotHold);
        }
        // Interruptions decide means on a noisy machine.
        assert_eq!(judge(&[times(Mean, 1.0)], COST, true), Verdict::Holds);
        assert!(undecided(judge(&[times(Mean, 1.0)], COST, false)));
        let with_missing = |factor| judge(&[failed("gone"), times(Median, factor)], COST, true);
        assert!(undecided(with_missing(1.0)));
        assert_eq!(with_missing(0.5), Verdict::DoesNotHold);
        let alone = judge(&[failed("costof: unsupported")], COST, true);
        assert!(alone.to_string().contains("unsupported"));
    }
}
