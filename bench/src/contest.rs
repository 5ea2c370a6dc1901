//! A number of costof held against the programs that know it too. What they have
//! in common is here; what each is started as and how it is read, in the file of
//! its comparison.

use crate::bench::Bench;
use crate::costof;
use crate::error::{Result, failed};
use crate::machine::{self, Watch};
use crate::rounds::{self, Given, Side, ratio};
use crate::verdict::{Bounds, Verdict};
use costof_model::unit::Unit;
use costof_os::awake::Spinners;
use costof_peers::costof::{settings, the_only};
use costof_peers::tool::{On, Says, Tool};
use costof_stats::{median, ratio_interval};
use std::time::Duration;

/// How long a peer may take for its number.
const PEER_LIMIT: Duration = Duration::from_secs(120);

/// One point of costof, and the peers that measure the same.
pub(crate) struct Contest<'a> {
    pub(crate) probe: &'a str,
    /// A value for every axis of the probe, each as `axis=value`.
    pub(crate) axes: Vec<String>,
    pub(crate) metric: &'a str,
    pub(crate) unit: Unit,
    /// Where costof's number over that of the best of its peers must lie.
    pub(crate) bounds: Bounds,
    pub(crate) rounds: usize,
    /// On how many processors both sides run, the measured one first.
    pub(crate) processors: usize,
    /// The processors are kept from sleeping meanwhile, for either side: waking one that sleeps may
    /// take longer than all the rest, and differs more.
    pub(crate) awake: bool,
    /// costof measures by `--full` instead of `--quick`.
    pub(crate) full: bool,
    pub(crate) peers: Vec<Peer<'a>>,
}

/// A program that measures what costof measures.
pub(crate) struct Peer<'a> {
    tool: Tool<'a>,
    /// What it is compiled from where it is written here, in C.
    source: Option<&'static str>,
}

/// The arguments of a peer in one round.
type Arguments<'a> = Box<dyn FnMut() -> Result<Vec<String>> + 'a>;

/// What a contest's rounds came to.
struct Outcome<'a> {
    unit: Unit,
    bounds: Bounds,
    costof: &'a Given,
    /// costof's means, where its numbers are medians.
    costof_means: &'a [f64],
    peers: Vec<(&'a str, Says, &'a Given)>,
}

/// Holds each contest in turn.
pub(crate) fn hold(bench: &Bench, what: &str, contests: Vec<Contest<'_>>) -> Result<Vec<Verdict>> {
    bench.introduce(&format!("{what}, on processor {}", bench.cpu));
    let verdicts = contests
        .into_iter()
        .map(|contest| contest.hold(bench))
        .collect::<Result<_>>()?;
    bench.conclude();
    Ok(verdicts)
}

impl<'a> Contest<'a> {
    /// A time that is to be as short as its peers', with all else as usual.
    pub(crate) fn time(
        probe: &'a str,
        metric: &'a str,
        axes: Vec<String>,
        peers: Vec<impl Into<Peer<'a>>>,
    ) -> Contest<'a> {
        Contest {
            probe,
            axes,
            metric,
            unit: Unit::Nanoseconds,
            bounds: Bounds::COST,
            rounds: 15,
            processors: 1,
            awake: false,
            full: false,
            peers: peers.into_iter().map(Into::into).collect(),
        }
    }

    /// A throughput that is to be as high as its peers', with all else as usual.
    pub(crate) fn throughput(
        probe: &'a str,
        axes: Vec<String>,
        peers: Vec<impl Into<Peer<'a>>>,
    ) -> Contest<'a> {
        Contest {
            unit: Unit::BytesPerSecond,
            bounds: Bounds::RATE,
            ..Contest::time(probe, "throughput", axes, peers)
        }
    }

    fn hold(mut self, bench: &Bench) -> Result<Verdict> {
        let (point, metric) = (self.point(), self.metric);
        println!("{point}: {metric} in {}", symbol(self.unit));
        let watch = Watch::start();
        let _spinners = self.awake.then(|| self.keep_awake(bench)).transpose()?;
        let mut peers = std::mem::take(&mut self.peers);
        let mut costof_means = Vec::new();
        let mut sides = vec![self.costof(bench, &mut costof_means)];
        sides.extend(peers.iter_mut().map(|peer| peer.side(bench)));
        let given = rounds::interleave(
            bench.rounds(self.rounds),
            &mut fastrand::Rng::new(),
            &mut sides,
            &|number| shown(self.unit, number),
        )?;
        drop(sides);
        let (costof, of_peers) = given.split_first().expect("costof is the first side");
        let outcome = Outcome {
            unit: self.unit,
            bounds: self.bounds,
            costof,
            costof_means: &costof_means,
            peers: peers
                .iter()
                .zip(of_peers)
                .map(|(peer, given)| (peer.tool.name, peer.tool.says, given))
                .collect(),
        };
        println!();
        let quiet = machine::was_quiet(&watch);
        let verdict = outcome.judge(quiet);
        println!("verdict on {point}: {verdict}\n");
        Ok(verdict)
    }

    fn point(&self) -> String {
        format!("{} {}", self.probe, self.axes.join(" "))
    }

    /// The processors that both sides run on.
    fn cpus(&self, bench: &Bench) -> Vec<usize> {
        let mut cpus = bench.measured_first();
        cpus.truncate(self.processors);
        cpus
    }

    fn keep_awake(&self, bench: &Bench) -> Result<Spinners> {
        let cpus = self.cpus(bench);
        println!("processors {cpus:?} are kept awake, for either side");
        Spinners::start(&cpus)
            .map_err(|error| failed(format!("cannot keep processors {cpus:?} awake: {error}")))
    }

    /// costof's side; the mean of each round goes into `means`.
    fn costof<'b>(&'b self, bench: &'b Bench, means: &'b mut Vec<f64>) -> Side<'b> {
        let cpus: Vec<String> = self.cpus(bench).iter().map(usize::to_string).collect();
        let cpus = cpus.join(",");
        let file = self.point().replace([' ', '='], "-");
        Side {
            name: "costof",
            measure: Box::new(move |round| {
                let precision = if self.full { "--full" } else { "--quick" };
                let mut arguments = vec![self.probe, precision, "--cpu", &cpus];
                arguments.extend(settings(&self.axes));
                let run = costof::run(bench, &format!("{file}-{}.jsonl", round + 1), &arguments)?;
                let estimate = the_only(&run, self.metric)?;
                if estimate.unit != self.unit {
                    return Err(failed(format!(
                        "its {} is in {:?}, not in {:?}",
                        self.metric, estimate.unit, self.unit
                    )));
                }
                means.push(estimate.mean);
                Ok(estimate.median)
            }),
        }
    }
}

impl<'a> Peer<'a> {
    /// One that is compiled from this text, and says a median.
    pub(crate) fn in_c(
        name: &'static str,
        source: &'static str,
        arguments: Arguments<'a>,
        read: fn(&str) -> Option<f64>,
    ) -> Peer<'a> {
        let tool = Tool {
            arguments,
            ..Tool::simple(name, Says::Median, "", read)
        };
        let source = Some(source);
        Peer { tool, source }
    }

    fn side<'b>(&'b mut self, bench: &'b Bench) -> Side<'b> {
        Side {
            name: self.tool.name,
            measure: Box::new(|_| {
                if let Some(source) = self.source {
                    let name = self.tool.name.trim_end_matches(".c");
                    self.tool.program = bench.compiled(name, source)?;
                }
                self.tool.measure(On {
                    cpu: bench.cpu,
                    next: bench.measured_first().get(1).copied(),
                    limit: PEER_LIMIT,
                    interrupt: &bench.interrupt,
                })
            }),
        }
    }
}

impl<'a> From<Tool<'a>> for Peer<'a> {
    fn from(tool: Tool<'a>) -> Peer<'a> {
        let source = None;
        Peer { tool, source }
    }
}

impl Outcome<'_> {
    /// Prints what the rounds say together, and judges it by the best peer.
    fn judge(&self, quiet: bool) -> Verdict {
        let costof = match self.costof {
            Ok(costof) => costof,
            Err(why) => return Verdict::CannotBeTold(format!("costof has no number: {why}")),
        };
        let middle = |numbers: &[f64]| median(numbers).unwrap_or(f64::NAN);
        let show = |numbers: &[f64]| shown(self.unit, middle(numbers));
        println!(
            "median over rounds: costof {} {}",
            show(costof),
            symbol(self.unit)
        );
        let mut best: Option<(Says, &[f64])> = None;
        for (name, says, given) in &self.peers {
            let Ok(numbers) = given else { continue };
            println!(
                "  {name} {}; costof over {name}: {}; bound: {}",
                show(numbers),
                ratio(self.alike(*says), numbers),
                self.bounds
            );
            if *says == Says::Mean {
                println!(
                    "  that is by costof's mean, which holds interruptions as that of {name} does; by its median: {}",
                    ratio(costof, numbers)
                );
            }
            if best.is_none_or(|(_, best)| self.is_better(middle(numbers), middle(best))) {
                best = Some((*says, numbers));
            }
        }
        let left_out: Vec<&str> = self
            .peers
            .iter()
            .filter(|(_, _, given)| given.is_err())
            .map(|(name, _, _)| *name)
            .collect();
        let Some((says, best)) = best else {
            return Verdict::CannotBeTold(format!("there is no number of {}", left_out.join(", ")));
        };
        let verdict = self.bounds.judge(ratio_interval(self.alike(says), best));
        match (verdict, left_out.as_slice()) {
            (Verdict::Holds, [_, ..]) => {
                Verdict::CannotBeTold(format!("{} may be better", left_out.join(", ")))
            }
            (verdict, _) => verdict.only_if_quiet(quiet || says == Says::Median),
        }
    }

    /// costof's numbers by the definition of a peer's.
    fn alike(&self, says: Says) -> &[f64] {
        match (says, self.costof) {
            (Says::Median, Ok(costof)) => costof,
            _ => self.costof_means,
        }
    }

    fn is_better(&self, number: f64, than: f64) -> bool {
        match self.unit {
            Unit::BytesPerSecond => number > than,
            _ => number < than,
        }
    }
}

/// A number in the unit of [`symbol`].
fn shown(unit: Unit, number: f64) -> String {
    match unit {
        Unit::BytesPerSecond => format!("{:.2}", number / 1e9),
        _ => format!("{number:.2}"),
    }
}

fn symbol(unit: Unit) -> &'static str {
    match unit {
        Unit::BytesPerSecond => "GB/s",
        _ => "ns",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COSTOF: [f64; 6] = [102.0, 306.0, 102.0, 306.0, 102.0, 306.0];

    fn judge(unit: Unit, bounds: Bounds, peers: &[(Says, Given)], quiet: bool) -> Verdict {
        let outcome = Outcome {
            unit,
            bounds,
            costof: &Ok(COSTOF.to_vec()),
            costof_means: &COSTOF,
            peers: peers
                .iter()
                .map(|(says, given)| ("peer", *says, given))
                .collect(),
        };
        outcome.judge(quiet)
    }

    /// A peer whose numbers are costof's by this.
    fn times(factor: f64) -> Given {
        Ok(COSTOF.map(|number| number * factor).to_vec())
    }

    #[test]
    fn rounds_are_paired_before_they_are_judged() {
        // The machine is three times slower in half of the rounds; the ratio is not.
        let peers = [(Says::Median, times(0.98))];
        let verdict = judge(Unit::Nanoseconds, Bounds::COST, &peers, false);
        assert_eq!(verdict, Verdict::Holds);
    }

    #[test]
    fn the_best_peer_is_the_one_that_counts() {
        let peers = [
            (Says::Median, times(1.0)),
            (Says::Median, times(0.9)),
            (Says::Median, times(1.1)),
        ];
        for (unit, bounds) in [
            (Unit::Nanoseconds, Bounds::COST),
            (Unit::BytesPerSecond, Bounds::RATE),
        ] {
            assert_eq!(judge(unit, bounds, &peers[..1], true), Verdict::Holds);
            assert_eq!(judge(unit, bounds, &peers, true), Verdict::DoesNotHold);
        }
    }

    #[test]
    fn a_mean_gives_no_verdict_on_a_noisy_machine() {
        let peers = [(Says::Mean, times(1.0))];
        let on = |quiet| judge(Unit::Nanoseconds, Bounds::COST, &peers, quiet);
        assert_eq!(on(true), Verdict::Holds);
        assert!(matches!(on(false), Verdict::CannotBeTold(_)));
    }

    #[test]
    fn a_peer_that_was_left_out_might_have_been_the_best() {
        let left_out = (Says::Median, Err("it is not installed".to_owned()));
        let judge = |other| {
            let peers = [left_out.clone(), (Says::Median, times(other))];
            judge(Unit::Nanoseconds, Bounds::COST, &peers, true)
        };
        assert!(matches!(judge(1.0), Verdict::CannotBeTold(_)));
        assert_eq!(judge(0.5), Verdict::DoesNotHold);
    }

    #[test]
    fn nothing_can_be_told_without_costof_or_without_peers() {
        let missing: Given = Err("unsupported".to_owned());
        let alone = judge(
            Unit::Nanoseconds,
            Bounds::COST,
            &[(Says::Median, missing)],
            true,
        );
        assert!(matches!(alone, Verdict::CannotBeTold(_)));
        let fine: Given = Ok(vec![1.0]);
        let outcome = Outcome {
            unit: Unit::Nanoseconds,
            bounds: Bounds::COST,
            costof: &Err("unsupported".to_owned()),
            costof_means: &[],
            peers: vec![("peer", Says::Median, &fine)],
        };
        assert!(outcome.judge(true).to_string().contains("unsupported"));
    }
}
