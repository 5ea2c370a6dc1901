//! Our client and server compared with those of others: launches in turns, judged by the fastest.

use super::pair::{Pair, Task};
use super::usage::Usage;
use crate::bench::{Bench, settings};
use crate::error::{Error, Result};
use crate::rounds;
use crate::verdict::Verdict;
use costof_peers::agreement::Band;
use costof_peers::costof::the_only;
use costof_peers::round::Side;
use costof_peers::verify::keep_awake;
use costof_stats::median;
use std::cell::RefCell;

const ROUNDS: usize = 21;

pub(super) struct Contest {
    pub(super) what: &'static str,
    pub(super) task: Task,
    pub(super) band: Band,
    pub(super) own: Pair,
    pub(super) peers: Vec<(&'static str, Result<Pair>)>,
    /// The same by `net.rtt`, as a side that is not judged: it shows whether the probe measures what our
    /// own ends do here.
    pub(super) probe: Option<&'static str>,
}

/// What both ends of a side used in each launch.
type Used = RefCell<Vec<[Usage; 2]>>;

impl Contest {
    pub(super) fn judge(self, bench: &Bench) -> Result<Verdict> {
        let cpus @ [client, server] = bench.two_cpus()?;
        let (what, unit) = (self.what, self.task.unit());
        let stay_awake = matches!(self.task, Task::Calls { .. });
        bench.introduce(&format!(
            "{what}, in {unit}; the client on CPU {client}, the server on {server}{}",
            if stay_awake { ", both kept awake" } else { "" }
        ));
        // Waking one that sleeps takes as long as much of a stack, and differs more. The ends of a
        // stream wait for each other of themselves, and what keeps a processor awake has to be
        // interrupted.
        let _spinners = stay_awake.then(|| keep_awake(&cpus)).transpose()?;
        let mut pairs = vec![("ours", Ok(self.own))];
        pairs.extend(self.peers);
        let used: Vec<Used> = pairs.iter().map(|_| Used::default()).collect();
        let mut sides: Vec<Side<'_>> = pairs
            .iter()
            .zip(&used)
            .map(|((name, pair), used)| {
                Side::new(name, move |_| {
                    let pair = pair.as_ref().map_err(Error::clone)?;
                    let launch = pair.launch(bench, cpus, self.task)?;
                    used.borrow_mut().push(launch.used);
                    Ok(launch.number)
                })
            })
            .collect();
        sides.extend(self.probe.map(|stack| probe(bench, cpus, stack)));
        let measured = rounds::measure(bench, ROUNDS, &mut sides)?;
        drop(sides);
        println!("for each {}, the median of the launches:", self.task.step());
        for ((name, _), used) in pairs.iter().zip(&used) {
            for (end, name_of_end) in ["client", "server"].into_iter().enumerate() {
                println!("  {}", line(name, name_of_end, &used.borrow(), end));
            }
        }
        let verdict = measured.against_best(self.band, 1..pairs.len());
        // Medians of many calls are moved alike by a noisy machine, and rates are not.
        let verdict = verdict.only_if_quiet(measured.quiet || stay_awake);
        Ok(verdict.report(&format!("{what}, {}", self.band)))
    }
}

/// The median that `net.rtt` has, in microseconds.
fn probe<'a>(bench: &'a Bench, cpus: [usize; 2], stack: &'static str) -> Side<'a> {
    Side::new("net.rtt", move |round| {
        let cpus = cpus.map(|cpu| cpu.to_string()).join(",");
        let axes = format!("{stack} size=64 cpus=cross wake=awake");
        let arguments = format!("net.rtt --quick --cpu {cpus} {}", settings(&axes));
        let file = format!("net.rtt-{stack}-{}.jsonl", round + 1).replace('=', "-");
        Ok(the_only(&bench.run(&file, &arguments)?, "latency")?.median / 1e3)
    })
}

/// What an end used for a call or a message.
fn line(name: &str, end: &str, launches: &[[Usage; 2]], of: usize) -> String {
    let middle = |number: fn(&Usage) -> f64| {
        let numbers: Vec<f64> = launches.iter().map(|both| number(&both[of])).collect();
        median(&numbers).unwrap_or(f64::NAN)
    };
    format!(
        "{name:>5}, {end}: {:.2} µs of CPU time, slept {:.2} times, was pushed off {:.2} times; \
         {} threads",
        middle(|used| used.cpu_ns) / 1e3,
        middle(|used| used.sleeps),
        middle(|used| used.pushed_off),
        middle(|used| used.threads),
    )
}
