//! `ipc.latency`: how long a small message takes to another process and back.

use crate::derived;
use crate::ends::{
    Cpus, NEEDS, broken, cannot_start, keep, partner_cpu, spinning_keeps, switch_ns,
};
use crate::expect::cost_ns;
use crate::literal::{self, axis, cost, latency, list, text, word, words};
use crate::os::syscall;
use crate::sync::core_to_core;
use crate::wake::{self, Kept};
use costof_measure::meter::Meter;
use costof_measure::probe::{Probe, Role, the_only_report};
use costof_model::List;
use costof_model::axis::{Axes, Axis, Domain};
use costof_model::facts::Facts;
use costof_model::failure::Failure;
use costof_model::point::{Headline, Point};
use costof_model::prediction::{Known, Prediction};
use costof_model::probe_info::ProbeInfo;
use costof_model::protocol::{Launch, Offers, Report};
use costof_model::unit::Unit;
use costof_os::token::{Between, Exchange, Leader, MOST_BYTES, Over, Wait};
use std::io;
use std::sync::LazyLock;

pub(crate) static PROBE: Probe = Probe {
    info: LazyLock::new(|| ProbeInfo {
        id: text("ipc.latency"),
        method: 1,
        question: text("How long does a small message take to another process and back?"),
        axes: List::Owned(vec![
            words(
                "over",
                "what the message goes through",
                list![
                    word("pipe", "a pipe for each direction"),
                    word("unix", "a pair of Unix stream sockets"),
                    word(
                        "eventfd",
                        "an eventfd for each direction, which carries 8 bytes"
                    ),
                    word(
                        "shared_memory",
                        "a word in memory that both see, and the message behind it"
                    ),
                ],
            ),
            Axis {
                name: text("size"),
                about: text("bytes of the message"),
                domain: Domain::Number {
                    unit: Unit::Bytes,
                    low: 1,
                    high: MOST_BYTES as u64,
                    usual: list![1, 64, 4096],
                },
            },
            words(
                "wait",
                "how an end waits for it",
                list![
                    word("block", "in the kernel; for shared memory by futex"),
                    word(
                        "spin",
                        "by looking again and again: a load, or a read that does not block"
                    ),
                ],
            ),
            literal::typed("cpus", Cpus::cross_first()),
            literal::typed("wake", wake::of_two_ends()),
        ]),
        crossings: list![
            list![text("over"), text("wait")],
            list![text("over"), text("cpus")],
            list![text("over"), text("wake")],
        ],
        metrics: list![
            cost("one round trip, there and back, in a row of many"),
            latency("with wait=block: one round trip, each one stamped"),
        ],
        how: text(
            "A message goes to another process, a fork of this one, which answers with one of the \
             same size and the next number in its first and last byte; both ends are pinned. A \
             round trip contains two sends, two receives, and two wake-ups where an end blocks. \
             `cost` is many round trips over their number, `latency` stamps each, which adds a clock \
             read. An end that spins reads without a pause instruction.",
        ),
        sources: list![
            text(
                "L. McVoy, C. Staelin, lmbench: Portable Tools for Performance Analysis, USENIX 1996, lat_pipe, lat_unix"
            ),
            text("perf-bench(1), sched pipe"),
            text("pipe(7), unix(7), eventfd(2), futex(2)"),
        ],
        predicted_from: text(
            "context switches as os.context_switch has measured them, on the same processors and as awake; where it spins, system calls as os.syscall has measured them, and a cache line's way there and back as sync.core_to_core has, else 60 to 300 ns; two copies at each end at 5 to 20 GB/s",
        ),
        after: list![
            text("os.syscall"),
            text("os.context_switch"),
            text("sync.core_to_core")
        ],
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
        Ok(Box::new(MessageLatency {
            cpus: launch.cpus.clone(),
            open: None,
        }))
    }],
    derive,
};

fn headlines(_: &Facts) -> Vec<Headline> {
    [
        ("IPC round trip: pipe", "pipe", "block"),
        ("IPC round trip: Unix socket", "unix", "block"),
        ("IPC round trip: eventfd", "eventfd", "block"),
        (
            "IPC round trip: shared memory, spinning",
            "shared_memory",
            "spin",
        ),
    ]
    .map(|(label, over, wait)| {
        let axes = Axes::default()
            .with("over", over)
            .with("size", 1)
            .with("wait", wait)
            .with("cpus", "cross")
            .with("wake", "awake");
        Headline::new(label, axes)
    })
    .into()
}

struct MessageLatency {
    /// The first is this thread's.
    cpus: Vec<usize>,
    open: Option<Open>,
}

/// A point that is prepared.
struct Open {
    leader: Leader,
    failed: Option<io::Error>,
    _kept: Kept,
}

impl Role for MessageLatency {
    fn blocks(&self, point: &Point) -> bool {
        !spins(point)
    }

    fn prepare(&mut self, point: &Point, _: &Offers) -> Result<Offers, Failure> {
        // Another round's partner ends before this one's begins.
        self.open = None;
        let exchange = Exchange {
            between: Between::Processes,
            over: match point.axes.word("over") {
                "pipe" => Over::Pipe,
                "unix" => Over::Unix,
                "eventfd" => Over::Eventfd,
                "shared_memory" => Over::SharedMemory,
                other => return Err(Failure::error(format!("no message goes over {other}"))),
            },
            wait: if spins(point) {
                Wait::Spin
            } else {
                Wait::Block
            },
            size: size(point),
            cpu: partner_cpu(axis(point, "cpus"), &self.cpus)?,
        };
        if exchange.over == Over::Eventfd && exchange.size > 8 {
            return Err(Failure::unsupported(
                "an eventfd carries one number of 8 bytes (--set size=8)",
            ));
        }
        let kept = if spins(point) {
            spinning_keeps(axis(point, "cpus"), axis(point, "wake"))?
        } else {
            keep(axis(point, "cpus"), axis(point, "wake"), &self.cpus)?
        };
        self.open = Some(Open {
            leader: Leader::start(&exchange).map_err(|error| cannot_start(&error))?,
            failed: None,
            _kept: kept,
        });
        Ok(Offers::new())
    }

    fn run(&mut self, point: &Point, meter: &mut Meter<'_>) -> Result<(), Failure> {
        let open = self.open.as_mut().expect("it is prepared");
        let mut round_trips = |n| {
            if let Err(error) = open.leader.round_trips(n) {
                open.failed.get_or_insert(error);
            }
        };
        meter.repeatable("cost", &mut round_trips);
        if !spins(point) {
            meter.single("latency", || round_trips(1));
        }
        Ok(())
    }

    fn finish(&mut self, _: &Point, _: &mut Meter<'_>) -> Result<(), Failure> {
        // Every answer was checked when it came.
        match self.open.take().and_then(|open| open.failed) {
            Some(error) => Err(broken(&error)),
            None => Ok(()),
        }
    }
}

fn spins(point: &Point) -> bool {
    point.axes.word("wait") == "spin"
}

fn size(point: &Point) -> usize {
    // The axis ends at what the exchange takes.
    point.axes.number("size") as usize
}

fn derive(point: &Point, reports: Vec<Report>) -> Report {
    let mut report = the_only_report(point, reports);
    if axis::<Cpus>(point, "cpus") == Cpus::Same {
        derived::forget_disturbances(&mut report);
    }
    report
}

fn predict(point: &Point, facts: &Facts, known: &Known<'_>) -> Option<Prediction> {
    let axes = &point.axes;
    let (low, high, because) = if spins(point) {
        spinning_ns(point, facts, known)?
    } else {
        blocking_ns(point, known)?
    };
    let bytes = axes.number("size");
    if bytes <= 64 {
        return cost_ns(low, high, because);
    }
    let copied = 4.0 * bytes as f64;
    cost_ns(
        low + copied / 20.0,
        high + copied / 5.0,
        format!("{because}; four copies of {bytes} B at 5 to 20 GB/s"),
    )
}

fn blocking_ns(point: &Point, known: &Known<'_>) -> Option<(f64, f64, String)> {
    let axes = &point.axes;
    let switch_ns = switch_ns(axis(point, "cpus"), axis(point, "wake"), known)?;
    let two = format!(
        "two context switches of {:.2} µs by a pipe",
        switch_ns / 1e3
    );
    let (low, high, beside) = match axes.word("over") {
        "pipe" => (0.8, 1.25, ""),
        "unix" => (
            0.9,
            2.0,
            "; a socket allocates and queues a buffer for each message",
        ),
        "eventfd" => (0.6, 1.2, "; an eventfd has no buffer and does less"),
        _ => (0.5, 1.2, "; a futex has no buffer and does less"),
    };
    Some((
        2.0 * low * switch_ns,
        2.0 * high * switch_ns,
        format!("{two}, times {low} to {high}{beside}"),
    ))
}

fn spinning_ns(point: &Point, facts: &Facts, known: &Known<'_>) -> Option<(f64, f64, String)> {
    let ((least_ns, most_ns), line) = match core_to_core::to_the_neighbour(facts, known) {
        Some((trip_ns, line)) => ((trip_ns, trip_ns), line),
        None => (
            (60.0, 300.0),
            "a line takes 60 to 300 ns to another core and back".to_owned(),
        ),
    };
    if point.axes.word("over") == "shared_memory" {
        // A message of more than the word's byte lies behind it, in a line of its own.
        let (high, lines) = if size(point) == 1 {
            (1.6, "one line")
        } else {
            (3.2, "one line, or one after the other two")
        };
        return Some((
            0.8 * least_ns,
            high * most_ns,
            format!("{lines} there and back: {line}, times 0.8 to {high}"),
        ));
    }
    let read_ns = syscall::one_thread_ns(known, "read")?;
    // The channel's lock, its state and its buffer are lines that both ends write.
    Some((
        4.0 * read_ns + least_ns,
        12.0 * read_ns + 5.0 * most_ns,
        format!(
            "two writes and two reads like that of {read_ns:.0} ns, or three times that, and 1 to \
             5 lines that go there and back: {line}"
        ),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::literal;

    #[test]
    fn who_spins_needs_no_measured_line_to_be_predicted() {
        let axes = PROBE.info.defaults().with("over", "shared_memory");
        let spinning = literal::point(&PROBE, axes.with("wait", "spin").with("size", 1));
        let prediction = predict(&spinning, &Facts::default(), &Known(&[])).unwrap();
        assert_eq!((prediction.low, prediction.high), (48.0, 480.0));
        assert!(
            prediction.because.contains("60 to 300 ns"),
            "{prediction:?}"
        );
    }
}
