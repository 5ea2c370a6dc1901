//! `os.context_switch`: what it costs that another thread or process runs.

use crate::derived;
use crate::ends::{Cpus, NEEDS, broken, cannot_start, keep, partner_cpu};
use crate::expect::cost_ns;
use crate::literal::{self, axis, cost, list, metric, text, word, words};
use crate::os::syscall;
use crate::wake::{self, Kept};
use costof_measure::meter::Meter;
use costof_measure::probe::{Probe, Role, the_only_report};
use costof_measure::statistics::quantile::median;
use costof_model::List;
use costof_model::axis::Axes;
use costof_model::facts::Facts;
use costof_model::failure::Failure;
use costof_model::point::{Headline, Point};
use costof_model::prediction::{Known, Prediction};
use costof_model::probe_info::ProbeInfo;
use costof_model::protocol::{Launch, Offers, Report};
use costof_model::unit::{Better, Unit};
use costof_os::token::{Alone, Between, Exchange, Leader, Over, Wait};
use std::io;
use std::sync::LazyLock;

pub(crate) static PROBE: Probe = Probe {
    info: LazyLock::new(|| ProbeInfo {
        id: text("os.context_switch"),
        method: 1,
        question: text("What does a context switch cost, between processes or threads?"),
        axes: List::Owned(vec![
            words(
                "between",
                "what runs in turn",
                list![
                    word(
                        "processes",
                        "two processes, so that page tables are switched too"
                    ),
                    word("threads", "two threads of one process"),
                ],
            ),
            words(
                "over",
                "what makes one wait for the other",
                list![
                    word("pipe", "a byte through a pipe for each direction"),
                    word("futex", "a word in memory: FUTEX_WAKE, then FUTEX_WAIT"),
                ],
            ),
            literal::typed("cpus", Cpus::same_first()),
            literal::typed("wake", wake::of_two_ends()),
        ]),
        crossings: list![
            list![text("between"), text("over"), text("cpus")],
            list![text("cpus"), text("wake")],
        ],
        metrics: list![
            cost(
                "one switch: half of a round trip of the token, the pipe's or the futex's calls in it",
            ),
            metric(
                "round_trip",
                Unit::Nanoseconds,
                Better::Lower,
                "with cpus=cross: a whole round trip, two switches, each one stamped",
            ),
            metric(
                "over_alone",
                Unit::Nanoseconds,
                Better::Lower,
                "what the pipe or the futex costs of that by itself: one write and one read, or one \
                 FUTEX_WAKE and one FUTEX_WAIT, in one thread that never waits",
            ),
            metric(
                "switch_alone",
                Unit::Nanoseconds,
                Better::Lower,
                "with cpus=same: `cost` less `over_alone`, which leaves waking, choosing and \
                 switching",
            ),
            metric(
                "switches",
                Unit::One,
                Better::Neither,
                "context switches that the kernel counted for both ends (getrusage), for each of those that are meant",
            ),
            metric(
                "preempted",
                Unit::One,
                Better::Neither,
                "which share of them took the processor from an end that had just woken the other, \
                 before it waited by itself",
            ),
        ],
        how: text(
            "A token goes to and fro between two ends that block until they have it. A round trip \
             is two switches and each switch contains one write and one read of a byte, or one \
             FUTEX_WAKE and one FUTEX_WAIT; perf bench sched pipe prints the round trip. Each end is \
             pinned; the second process is a fork of the first. The policy is the usual one \
             (SCHED_OTHER): on one processor the scheduler decides at each wake-up whether the woken \
             end runs at once, and `preempted` says how often it did. The ends check each other's \
             numbers, and all switches are counted.",
        ),
        sources: list![
            text(
                "CSE 221 System Measurement Project, 2014: 4.57 µs between processes, 2.4 µs between threads, blocking pipes on one core"
            ),
            text("perf-bench(1), sched pipe"),
            text(
                "L. McVoy, C. Staelin, lmbench: Portable Tools for Performance Analysis, USENIX 1996, lat_ctx"
            ),
            text("Linux Documentation/scheduler/sched-eevdf.rst; admin-guide/pm/cpuidle.rst"),
        ],
        predicted_from: text(
            "system calls as os.syscall has measured them: read twice for a pipe, getppid twice for a futex; what the scheduler does usually takes; what waking another processor takes, in a virtual machine with the exits that cpu.vm_exit measured",
        ),
        after: list![text("os.syscall"), text("cpu.vm_exit")],
        needs: NEEDS.iter().copied().map(text).collect(),
        roles: list![text("only")],
    }),
    rounds: 2,
    blocks_by: &[],
    least_ns: |_| 0.0,
    memory_bytes: |_| 0,
    processors: |point| axis::<Cpus>(point, "cpus").count(),
    headlines,
    more_points: |_| Vec::new(),
    budget: None,
    predict,
    roles: &[|launch: &Launch| {
        Ok(Box::new(ContextSwitch {
            cpus: launch.cpus.clone(),
            open: None,
        }))
    }],
    derive,
};

fn headlines(_: &Facts) -> Vec<Headline> {
    [
        (
            "context switch: threads, one core",
            "threads",
            "same",
            "awake",
        ),
        (
            "context switch: processes, one core",
            "processes",
            "same",
            "awake",
        ),
        (
            "context switch: processes, another core",
            "processes",
            "cross",
            "awake",
        ),
        (
            "context switch: processes, another idle core",
            "processes",
            "cross",
            "idle",
        ),
    ]
    .map(|(label, between, cpus, wake)| {
        let axes = Axes::default()
            .with("between", between)
            .with("over", "pipe")
            .with("cpus", cpus)
            .with("wake", wake);
        Headline::new(label, axes)
    })
    .into()
}

struct ContextSwitch {
    /// The first is this thread's.
    cpus: Vec<usize>,
    open: Option<Open>,
}

/// A point that is prepared.
struct Open {
    exchange: Exchange,
    leader: Leader,
    /// Context switches of both ends before.
    before: (u64, u64),
    round_trips: u64,
    failed: Option<io::Error>,
    _kept: Kept,
}

impl Role for ContextSwitch {
    fn blocks(&self, _: &Point) -> bool {
        true
    }

    fn prepare(&mut self, point: &Point, _: &Offers) -> Result<Offers, Failure> {
        // Another round's partner ends before this one's begins.
        self.open = None;
        let exchange = Exchange {
            between: match point.axes.word("between") {
                "processes" => Between::Processes,
                "threads" => Between::Threads,
                other => return Err(Failure::error(format!("no ends are called {other}"))),
            },
            over: match point.axes.word("over") {
                "pipe" => Over::Pipe,
                "futex" => Over::SharedMemory,
                other => return Err(Failure::error(format!("a token cannot go over {other}"))),
            },
            wait: Wait::Block,
            size: 1,
            cpu: partner_cpu(axis(point, "cpus"), &self.cpus)?,
        };
        let kept = keep(axis(point, "cpus"), axis(point, "wake"), &self.cpus)?;
        let mut leader = Leader::start(&exchange).map_err(|error| cannot_start(&error))?;
        self.open = Some(Open {
            exchange,
            before: leader.switches().map_err(|error| broken(&error))?,
            leader,
            round_trips: 0,
            failed: None,
            _kept: kept,
        });
        Ok(Offers::new())
    }

    fn run(&mut self, point: &Point, meter: &mut Meter<'_>) -> Result<(), Failure> {
        let open = self.open.as_mut().expect("it is prepared");
        let mut round_trips = |n| {
            open.round_trips += n;
            if let Err(error) = open.leader.round_trips(n) {
                open.failed.get_or_insert(error);
            }
        };
        // A round trip counts as one here; `derive` makes it two switches.
        meter.repeatable("cost", &mut round_trips);
        if axis::<Cpus>(point, "cpus") == Cpus::Cross {
            meter.single("round_trip", || round_trips(1));
        }
        Ok(())
    }

    fn finish(&mut self, point: &Point, meter: &mut Meter<'_>) -> Result<(), Failure> {
        let mut open = self.open.take().expect("it is prepared");
        if let Some(error) = &open.failed {
            return Err(broken(error));
        }
        let after = open.leader.switches().map_err(|error| broken(&error))?;
        let voluntary = (after.0 - open.before.0) as f64;
        let involuntary = (after.1 - open.before.1) as f64;
        let switches = (voluntary + involuntary) / (2 * open.round_trips) as f64;
        // On two processors a busy machine may run the end that waits so late that it finds the
        // token there.
        let least = if axis::<Cpus>(point, "cpus") == Cpus::Same {
            0.9
        } else {
            0.5
        };
        if switches < least {
            return Err(Failure::error(format!(
                "the token went to and fro, but the kernel counted only {switches:.2} context \
                 switches for each that was meant: the ends found it without waiting"
            )));
        }
        meter.value("switches", switches);
        meter.value("preempted", involuntary / (voluntary + involuntary));
        meter.value("over_alone", over_alone_ns(&open.exchange, meter)?);
        Ok(())
    }
}

/// Batches of which the median counts, and how long each is.
const ALONE_BATCHES: usize = 31;
const ALONE_OPERATIONS: u64 = 300;

/// What the calls of one direction cost in one thread.
fn over_alone_ns(exchange: &Exchange, meter: &Meter<'_>) -> Result<f64, Failure> {
    let mut alone = Alone::open(exchange).map_err(|error| cannot_start(&error))?;
    let clock = meter.clock();
    let mut costs = Vec::with_capacity(ALONE_BATCHES);
    for _ in 0..ALONE_BATCHES {
        let start = clock.start();
        let done = alone.repeat(ALONE_OPERATIONS);
        let ns = clock.ns(clock.end().saturating_sub(start));
        done.map_err(|error| broken(&error))?;
        costs.push(ns / ALONE_OPERATIONS as f64);
    }
    Ok(median(&costs).expect("there are batches"))
}

/// A round trip is two switches; what is left of one without its calls.
fn derive(point: &Point, reports: Vec<Report>) -> Report {
    let mut report = the_only_report(point, reports);
    derived::divide_cost(&mut report, 2);
    if axis::<Cpus>(point, "cpus") == Cpus::Same {
        derived::forget_disturbances(&mut report);
        let [switch, alone] = ["cost", "over_alone"].map(|name| derived::median_ns(&report, name));
        if let (Some(switch_ns), Some(alone_ns)) = (switch, alone) {
            derived::add(&mut report, "switch_alone", switch_ns - alone_ns);
        }
    }
    report
}

fn predict(point: &Point, facts: &Facts, known: &Known<'_>) -> Option<Prediction> {
    let axes = &point.axes;
    let (calls_ns, calls) = if axes.word("over") == "pipe" {
        let read_ns = syscall::one_thread_ns(known, "read")?;
        (
            2.0 * read_ns,
            format!("a write and a read like that of {read_ns:.0} ns"),
        )
    } else {
        let call_ns = syscall::one_thread_ns(known, "getppid")?;
        (
            2.0 * call_ns,
            format!("two system calls of {call_ns:.0} ns"),
        )
    };
    let tables = if axes.word("between") == "processes" {
        (50.0, 500.0, ", 0.05 to 0.5 µs for other page tables")
    } else {
        (0.0, 0.0, "")
    };
    let (wake_low, wake_high, wake) = waking_ns(point, facts, known);
    cost_ns(
        calls_ns + 300.0 + tables.0 + wake_low,
        // A pipe locks, copies and wakes beyond what a call into /dev/zero does.
        2.0 * calls_ns + 2000.0 + tables.1 + wake_high,
        format!(
            "{calls}, or twice that; 0.3 to 2 µs for the scheduler{}{wake}",
            tables.2
        ),
    )
}

/// What it takes beside exits until a halted processor of a virtual machine runs
/// again: its host's scheduler, and its host's processor that leaves an idle state.
pub(super) const HALTED_NS: (f64, f64) = (4e3, 20e3);
pub(super) const HALTED: &str = "until the hypervisor runs the halted processor again";

/// What waking another processor takes.
fn waking_ns(point: &Point, facts: &Facts, known: &Known<'_>) -> (f64, f64, String) {
    let virtual_machine = facts.virtualization.virtual_machine == Some(true);
    let (low, high, why) = match (point.axes.word("cpus"), point.axes.word("wake")) {
        ("same", _) => return (0.0, 0.0, String::new()),
        (_, "polling") => (100.0, 1e3, "until an idle loop that polls sees it"),
        (_, "awake") => match known.primary("cpu.vm_exit", &[]) {
            Some(exit_ns) => {
                let why = format!(
                    "; 1 to 5 µs for an interrupt to the other processor, and 1 to 3 exits of {}, \
                     as cpu.vm_exit measured, to send and to take it",
                    Unit::Nanoseconds.display(exit_ns)
                );
                return (1e3 + exit_ns, 5e3 + 3.0 * exit_ns, why);
            }
            None if virtual_machine => (
                2e3,
                20e3,
                "for an interrupt to the other processor with the hypervisor's part",
            ),
            None => (1e3, 5e3, "for an interrupt to the other processor"),
        },
        _ if virtual_machine => match known.primary("cpu.vm_exit", &[]) {
            Some(exit_ns) => {
                let why = format!(
                    "; 2 to 4 exits of {}, as cpu.vm_exit measured, to send the interrupt, to halt \
                     and to run again, and {} to {} µs {HALTED}",
                    Unit::Nanoseconds.display(exit_ns),
                    HALTED_NS.0 / 1e3,
                    HALTED_NS.1 / 1e3
                );
                let (low, high) = HALTED_NS;
                return (low + 2.0 * exit_ns, high + 4.0 * exit_ns, why);
            }
            None => (5e3, 60e3, HALTED),
        },
        _ => (1e3, 60e3, "to leave an idle state"),
    };
    let range = format!("; {} to {} µs {why}", low / 1e3, high / 1e3);
    (low, high, range)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::literal;
    use costof_model::metric::{Data, Measured};
    use costof_model::rows::State;

    #[test]
    fn a_round_trip_is_two_switches_and_on_one_processor_the_calls_can_be_taken_out() {
        for (headline, metrics) in headlines(&Facts::default()).iter().zip([3, 3, 2, 2]) {
            let point = literal::point(&PROBE, headline.axes.clone());
            let measured = |name, data| Measured {
                disturbed: vec![0],
                ..Measured::new(text(name), data)
            };
            let report = derive(
                &point,
                vec![Report {
                    state: State::Ok,
                    allocations: 0,
                    metrics: vec![
                        measured("cost", Data::Samples(vec![(10, 40_000.0), (20, 80_000.0)])),
                        measured("over_alone", Data::Value(500.0)),
                    ],
                }],
            );
            assert_eq!(report.metrics.len(), metrics, "{point}");
            assert_eq!(report.metrics[0].data.costs(), [2000.0, 2000.0]);
            // On one processor, to be preempted by the partner is no disturbance.
            assert_eq!(
                report.metrics[0].disturbed.is_empty(),
                (axis::<Cpus>(&point, "cpus") == Cpus::Same)
            );
            if axis::<Cpus>(&point, "cpus") == Cpus::Same {
                assert_eq!(report.metrics[2].data, Data::Value(1500.0));
            }
        }
    }
}
