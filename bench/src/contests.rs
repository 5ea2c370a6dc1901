//! A number of costof compared with the programs that measure it too: which ones, in how many rounds, and
//! within which band. Most pairs are those of `costof verify` ([`checks`]); those of the C programs beside
//! this file are the bench's own.

use crate::bench::Bench;
use crate::error::Result;
use crate::machine::{self, Watch};
use crate::verdict::{self, COST, RATE, Verdict};
use crate::{copy, huge_pages, process, rounds};
use clap::Subcommand;
use costof_peers::agreement::Band;
use costof_peers::checks::{self, Check, Effort, FILE_READS, Peer};
use costof_peers::tool::{Statistic, Tool, number_before, words};
use costof_peers::verify::{Outcome, Row, Verifier};
use std::time::Duration;

/// How long either side may take for its number.
const LIMIT: Duration = Duration::from_secs(120);
const EFFORT: Effort = Effort::THOROUGH;
const CHASE_BYTES: u64 = 512 << 20;
const CHILDREN: u32 = 5000;
/// Few enough that ports do not run out: each stays in TIME-WAIT for a minute.
const CONNECTIONS: u32 = 2000;

/// What is compared.
#[derive(Clone, Copy, Debug, Subcommand)]
pub(crate) enum Pairs {
    /// os.syscall call=getppid against `perf bench syscall basic`: at most 1.05 times
    Syscall,
    /// memory.latency in 512 MiB against a chase written independently in C: within 10 %
    Chase,
    /// os.context_switch against `perf bench sched pipe`: at most 1.05 times
    Switch,
    /// os.process against fork and vfork in C: at most 1.05 times
    Process,
    /// os.thread against pthread_create in C: at most 1.05 times
    Thread,
    /// memory.bandwidth against the best of sysbench, mbw and stress-ng: at least 0.95 times
    Bandwidth,
    /// sync.mutex with one thread against a pthread mutex in C: at most 1.05 times
    Mutex,
    /// net.rtt over TCP and UDP against `sockperf ping-pong`: at most 1.05 times
    Rtt,
    /// net.bandwidth over TCP against iperf3: at least 0.95 times
    Net,
    /// net.connect against a loop of connect() in C: at most 1.05 times
    Connect,
    /// copy.send against iperf3 and sockperf, and without a copy against with one: at least 1.4 times
    Copy,
    /// file.read against fio: at most 1.05 times, and at least 0.95 times of its throughput
    Files,
}

/// A pair, and what holds of it.
pub(crate) struct Contest {
    check: Check,
    /// Where costof's number over that of the best tool must lie.
    band: Band,
    rounds: usize,
    precision: &'static str,
}

impl Contest {
    pub(crate) fn new(check: Check) -> Contest {
        Contest {
            band: if is_rate(&check) { RATE } else { COST },
            check: check.without_lmbench(),
            rounds: 15,
            precision: "--quick",
        }
    }

    pub(crate) fn rounds(self, rounds: usize) -> Contest {
        Contest { rounds, ..self }
    }

    pub(crate) fn full(self) -> Contest {
        Contest {
            precision: "--full",
            ..self
        }
    }
}

/// Compares these pairs.
pub(crate) fn compare(bench: &Bench, pairs: Pairs) -> Result<Vec<Verdict>> {
    bench.introduce(&format!("{pairs:?} on CPU {}", bench.cpu));
    let mut verdicts = match pairs {
        Pairs::Files => files(bench)?,
        _ => hold(bench, contests(bench, pairs)?)?,
    };
    if matches!(pairs, Pairs::Copy) {
        verdicts.extend(copy::registered_buffers(bench)?);
    }
    bench.conclude();
    Ok(verdicts)
}

fn contests(bench: &Bench, pairs: Pairs) -> Result<Vec<Contest>> {
    let c = InC { bench };
    Ok(match pairs {
        Pairs::Syscall => vec![Contest::new(checks::syscall())],
        Pairs::Switch => ["processes", "threads"]
            .map(|between| Contest::new(checks::context_switch(between)))
            .into(),
        Pairs::Bandwidth => ["read", "write", "copy"]
            .map(|op| Contest::new(checks::main_memory(op, EFFORT)).rounds(9))
            .into(),
        Pairs::Rtt => [
            ("tcp", "spin"),
            ("tcp", "block"),
            ("udp", "spin"),
            ("udp", "block"),
        ]
        .map(|(over, wait)| {
            // An end that spins keeps its CPU awake itself.
            let wake = if wait == "spin" { "awake" } else { "idle" };
            Contest::new(checks::round_trip(over, wait, wake, EFFORT))
        })
        .into(),
        Pairs::Net => ["cubic", "bbr"]
            .map(|control| Contest::new(checks::tcp_stream(control, EFFORT)))
            .into(),
        Pairs::Copy => copy::contests(EFFORT),
        Pairs::Chase => {
            let mut seeds = fastrand::Rng::new();
            let mut chase = c.peer(
                "chase.c",
                include_str!("chase.c"),
                String::new(),
                |output| number_before(output, "ns per load"),
            );
            chase.tool.arguments =
                Box::new(move || Ok(words(&format!("{CHASE_BYTES} 64 {} 2", seeds.u64(..)))));
            let axes = format!("size={CHASE_BYTES} pages=4KiB pattern=random stride=64");
            vec![Contest {
                band: Band::new(0.9, 1.1),
                rounds: 9,
                ..Contest::new(Check::new("memory.latency", axes, "cost", vec![chase]))
            }]
        }
        Pairs::Process => {
            let private = process::private_bytes(bench)?;
            println!("fork.c runs in a process of {private} B");
            let fork = |how: &str, more: Vec<Peer>| {
                let arguments = format!("{how} {private} {CHILDREN}");
                let mut peers =
                    vec![
                        c.peer("fork.c", include_str!("fork.c"), arguments, |output| {
                            number_before(output, "ns until it ended")
                        }),
                    ];
                peers.extend(more);
                Contest::new(Check::new(
                    "os.process",
                    process::axes(how),
                    "latency",
                    peers,
                ))
            };
            vec![
                fork("fork", Vec::new()),
                fork("vfork", checks::vfork(EFFORT.seconds).peers),
            ]
        }
        Pairs::Thread => {
            let peer = c.peer("thread.c", include_str!("thread.c"), "20000", |output| {
                number_before(output, "ns until it was joined")
            });
            let axes = "how=pthread cpus=same";
            vec![Contest::new(Check::new(
                "os.thread",
                axes,
                "latency",
                vec![peer],
            ))]
        }
        Pairs::Mutex => ["pthread", "std"]
            .map(|kind| {
                // Batches of 10,000 locks each: about half a second.
                let peer = c.peer("mutex.c", include_str!("mutex.c"), "10000", |output| {
                    number_before(output, "ns per lock")
                });
                let axes = format!("kind={kind} threads=1");
                Contest::new(Check::new("sync.mutex", axes, "cost", vec![peer]))
            })
            .into(),
        Pairs::Connect => {
            let [_, other] = bench.two_cpus()?;
            let arguments = format!("{CONNECTIONS} {other}");
            let peer = c.peer(
                "connect.c",
                include_str!("connect.c"),
                arguments,
                |output| number_before(output, "ns to connect"),
            );
            vec![Contest::new(Check {
                cpus: 2,
                ..Check::new("net.connect", "cpus=cross wake=idle", "latency", vec![peer])
            })]
        }
        Pairs::Files => Vec::new(),
    })
}

/// The C programs of this bench, which give medians of short stretches.
struct InC<'a> {
    bench: &'a Bench,
}

impl InC<'_> {
    /// Compiled from `source`; a tool that is absent where there is no C compiler.
    fn peer(
        &self,
        name: &'static str,
        source: &str,
        arguments: impl AsRef<str>,
        read: fn(&str) -> Option<f64>,
    ) -> Peer {
        let program = self.bench.compiled(name, source);
        let program = program.unwrap_or_else(|why| {
            println!("{name} is left out: {why}");
            name.into()
        });
        let tool = Tool {
            program,
            ..Tool::simple(name, Statistic::Median, arguments.as_ref(), read)
        };
        Peer::new(tool, COST.low, COST.high, "")
    }
}

/// Where fio gets no huge pages, what is read into them is left out.
fn files(bench: &Bench) -> Result<Vec<Verdict>> {
    let huge_pages = huge_pages::Reserved::new();
    let reads = FILE_READS
        .iter()
        .filter(|read| huge_pages.is_ok() || !read.takes_huge_pages());
    let contests = reads.map(|read| {
        let check = checks::file_read(read, EFFORT);
        // Where the device decides.
        let rounds = if check.metric == "cost" { 15 } else { 31 };
        // A device that has just been written to answers unevenly for a while, as fio's seconds hardly
        // show and the few milliseconds of a quick launch would.
        Contest::new(check).rounds(rounds).full()
    });
    let mut verdicts = hold(bench, contests.collect())?;
    if let Err(error) = huge_pages {
        println!("{error}: what is read into them is left out");
        verdicts.push(Verdict::Undecided(error.to_string()));
    }
    Ok(verdicts)
}

fn hold(bench: &Bench, contests: Vec<Contest>) -> Result<Vec<Verdict>> {
    contests
        .into_iter()
        .map(|contest| contest.hold(bench))
        .collect()
}

impl Contest {
    /// Measures both sides in turns, and judges costof by the best tool.
    fn hold(self, bench: &Bench) -> Result<Verdict> {
        let Contest { check, band, .. } = self;
        let (point, metric, is_rate) = (check.point(), check.metric, is_rate(&check));
        println!(
            "{point}: {metric} in {}",
            if is_rate { "GB/s" } else { "ns" }
        );
        let tools = check.peers.iter().map(|peer| peer.tool.name);
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
    let peers = rows.iter().map(|row| match &row.outcome {
        Outcome::Compared(agreement, unit) => {
            let (own, other) = agreement.medians();
            let (own, other) = (unit.display(own), unit.display(other));
            let tool = row.tool;
            println!("median over rounds: costof {own}, {tool} {other}; ratio {agreement}; bound: {band}");
            if let Some(by_median) = &row.by_median {
                println!("  that is by costof's mean, which includes interruptions as {tool}'s does; by its \
                          median: {by_median}");
            }
            (tool, Ok(agreement))
        }
        Outcome::Absent(why) | Outcome::Failed(why) => {
            println!("{} is left out: {why}", row.tool);
            (row.tool, Err(why.as_str()))
        }
    });
    let peers: Vec<_> = peers.collect();
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
