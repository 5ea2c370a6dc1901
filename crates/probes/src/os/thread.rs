//! `os.thread`: what creating a thread and joining it cost.

use crate::expect::latency_ns;
use crate::literal::{latency, list, metric, text, word, words};
use crate::os::syscall;
use crate::threads;
use costof_measure::meter::Meter;
use costof_measure::probe::{Probe, Role, the_only_report};
use costof_model::facts::Facts;
use costof_model::failure::Failure;
use costof_model::point::{Headline, Point};
use costof_model::prediction::{Known, Prediction};
use costof_model::probe_info::ProbeInfo;
use costof_model::protocol::{Launch, Offers};
use costof_model::unit::{Better, Unit};
use costof_os::affinity;
use costof_os::threads::{ThreadApi, start};
use std::sync::LazyLock;

pub(crate) static PROBE: Probe = Probe {
    info: LazyLock::new(|| ProbeInfo {
        id: text("os.thread"),
        method: 1,
        question: text("What does it cost to create a thread that does nothing, and to join it?"),
        axes: list![
            words(
                "how",
                "by which interface",
                list![
                    word(
                        "pthread",
                        "pthread_create and pthread_join of the C library"
                    ),
                    word(
                        "std",
                        "Rust's std::thread, which runs on it and adds allocations and an alternative signal stack"
                    ),
                ],
            ),
            words(
                "cpus",
                "where the thread may run",
                list![
                    word("same", "on its creator's processor, as it inherits"),
                    word(
                        "any",
                        "on either of two processors, one of which its creator uses: the kernel chooses, mostly an idle one"
                    ),
                ],
            ),
        ],
        crossings: list![list![text("how"), text("cpus")]],
        metrics: list![
            latency("from before the creation until the thread has ended and was joined"),
            metric(
                "call",
                Unit::Nanoseconds,
                Better::Lower,
                "of that, until the call that creates has returned"
            ),
            metric(
                "crossed",
                Unit::One,
                Better::Neither,
                "the share of threads that ran on another processor than their creator began on"
            ),
        ],
        how: text(
            "One thread after the other, each stamped before its creation, after it, and after the \
             join. It returns the number of its processor, which shows that it ran. The C library \
             keeps the stacks of ended threads and gives them again, so that mapping one is not in \
             the figure. On one processor the figure has two context switches: to the new thread \
             when its creator waits, and back.",
        ),
        sources: list![
            text("pthread_create(3), pthread_join(3)"),
            text(
                "CSE 221 System Measurement Project, 2014: creating and joining a kernel thread 7.37 µs, sd 0.16"
            ),
        ],
        predicted_from: text(
            "six of the smallest system calls, which os.syscall has measured; making and ending a thread; and two context switches between threads, as os.context_switch has measured them on one processor, or to another one that is idle",
        ),
        after: list![text("os.syscall"), text("os.context_switch")],
        needs: list![text("for any: two processors")],
        roles: list![text("only")],
    }),
    rounds: 2,
    blocks_by: &[],
    least_ns: |_| 0.0,
    memory_bytes: |_| 0,
    processors: |point| match point.axes.word("cpus") {
        "any" => 2,
        _ => 1,
    },
    headlines: |_| {
        vec![Headline::new(
            "thread: create and join",
            PROBE.info.defaults(),
        )]
    },
    more_points: |_| Vec::new(),
    budget: None,
    predict,
    roles: &[|launch| Ok(Box::new(Thread::start(launch)))],
    derive: the_only_report,
};

struct Thread {
    cpus: Vec<usize>,
    started: u64,
    crossed: u64,
}

impl Thread {
    fn start(launch: &Launch) -> Thread {
        Thread {
            cpus: launch.cpus.clone(),
            started: 0,
            crossed: 0,
        }
    }
}

impl Role for Thread {
    fn blocks(&self, _: &Point) -> bool {
        true
    }

    fn prepare(&mut self, point: &Point, _: &Offers) -> Result<Offers, Failure> {
        let wanted = (PROBE.processors)(point);
        if wanted > 1 || !self.cpus.is_empty() {
            let cpus = threads::on(wanted, &self.cpus)?;
            affinity::pin(cpus).map_err(|error| {
                Failure::error(format!("cannot run on processors {cpus:?}: {error}"))
            })?;
        }
        Ok(Offers::new())
    }

    fn run(&mut self, point: &Point, meter: &mut Meter<'_>) -> Result<(), Failure> {
        let api = match point.axes.word("how") {
            "std" => ThreadApi::Std,
            _ => ThreadApi::Pthread,
        };
        // As std starts threads, and the C library keeps what it knows of one.
        meter.operation_allocates();
        (self.started, self.crossed) = (0, 0);
        let mut failed = None;
        meter.stages(
            "call",
            "latency",
            || (affinity::current_cpu(), start(api)),
            |(here, started)| match started {
                Ok(thread) => {
                    self.crossed += u64::from(thread.join() != here);
                    self.started += 1;
                }
                Err(error) => failed = Some(error),
            },
        );
        match failed {
            None => Ok(()),
            Some(error) => Err(Failure::unsupported(format!(
                "cannot start a thread: {error} (ulimit -u and the cgroup's pids.max limit them)"
            ))),
        }
    }

    fn finish(&mut self, _: &Point, meter: &mut Meter<'_>) -> Result<(), Failure> {
        meter.value("crossed", self.crossed as f64 / self.started as f64);
        // The next point may be of another probe's making.
        match self.cpus.first() {
            Some(cpu) => affinity::pin(&[*cpu])
                .map_err(|error| Failure::error(format!("cannot go back to {cpu}: {error}"))),
            None => Ok(()),
        }
    }
}

/// What making a thread and ending it takes beside system calls and switches: its
/// descriptor, its kernel stack, scheduling it, and dropping them.
const MADE_NS: (f64, f64) = (2_000.0, 10_000.0);
/// A context switch on one processor, where it was not measured.
const SWITCH_NS: (f64, f64) = (1_000.0, 5_000.0);
/// One to an idle processor, where it was not measured.
const SWITCH_TO_IDLE_NS: (f64, f64) = (2_000.0, 60_000.0);

fn predict(point: &Point, _: &Facts, known: &Known<'_>) -> Option<Prediction> {
    let call_ns = syscall::one_thread_ns(known, "getppid")?;
    let calls_ns = 6.0 * call_ns;
    let made = format!(
        "6 system calls of {call_ns:.0} ns (signals blocked and let in, clone, waiting, waking, \
         the stack given back), 2 to 10 µs to make and to end a thread"
    );
    let (here, on_one) = switch_ns(known, "same", "awake", SWITCH_NS);
    let low = calls_ns + MADE_NS.0 + 2.0 * here.0;
    if point.axes.word("cpus") == "same" {
        let high = calls_ns + MADE_NS.1 + 2.0 * here.1;
        let because = format!("{made}, and two context switches of {on_one} on one processor");
        return latency_ns(low, high, because);
    }
    let (there, to_idle) = switch_ns(known, "cross", "idle", SWITCH_TO_IDLE_NS);
    latency_ns(
        low.min(calls_ns + MADE_NS.0 + there.0),
        calls_ns + MADE_NS.1 + 2.0 * there.1.max(here.1),
        format!(
            "{made}, and two context switches of {on_one} on one processor, or one or two of \
             {to_idle} to an idle one"
        ),
    )
}

/// What a context switch takes at least and at most, and in words: as measured
/// between threads, by a futex if there is one of it, as that does least beside;
/// else between processes; else as usual.
fn switch_ns(known: &Known<'_>, cpus: &str, wake: &str, usual: (f64, f64)) -> ((f64, f64), String) {
    let measured = [
        ("threads", "futex"),
        ("threads", "pipe"),
        ("processes", "pipe"),
    ]
    .into_iter()
    .find_map(|(between, over)| {
        let axes = [
            ("between", between),
            ("over", over),
            ("cpus", cpus),
            ("wake", wake),
        ];
        Some((known.primary("os.context_switch", &axes)?, between))
    });
    match measured {
        Some((ns, between)) => (
            (ns, ns),
            format!(
                "{}, as os.context_switch measured between {between},",
                Unit::Nanoseconds.display(ns)
            ),
        ),
        None => (usual, format!("{} to {} µs", usual.0 / 1e3, usual.1 / 1e3)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::literal::{measured, point};
    use crate::os::{context_switch, syscall};

    #[test]
    fn context_switches_between_threads_come_before_those_between_processes() {
        let switch = |between: &'static str, ns| {
            let axes = context_switch::PROBE.info.defaults();
            measured(&context_switch::PROBE, axes.with("between", between), ns)
        };
        let call = syscall::PROBE.info.defaults().with("call", "getppid");
        let mut known = vec![measured(&syscall::PROBE, call, 100.0)];
        let range = |known: &[_]| {
            let point = point(&PROBE, PROBE.info.defaults().with("cpus", "same"));
            let prediction = predict(&point, &Facts::default(), &Known(known)).unwrap();
            (prediction.low, prediction.high)
        };
        assert_eq!(range(&known), (4_600.0, 20_600.0));
        known.push(switch("processes", 3_000.0));
        assert_eq!(range(&known), (8_600.0, 16_600.0));
        known.push(switch("threads", 2_000.0));
        assert_eq!(range(&known), (6_600.0, 14_600.0));
    }
}
