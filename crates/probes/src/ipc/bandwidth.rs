//! `ipc.bandwidth`: how many bytes a second reach another process.

use crate::derived;
use crate::ends::{self, Cpus, NEEDS, broken, cannot_start, keep, partner_cpu, spinning_keeps};
use crate::expect;
use crate::literal::{self, axis, cost, list, metric, text, word, words};
use crate::os::syscall;
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
use costof_model::unit::{Better, Unit};
use costof_os::flow::{Flow, MOST_BYTES, Through};
use std::io;
use std::sync::LazyLock;

pub(crate) static PROBE: Probe = Probe {
    info: LazyLock::new(|| ProbeInfo {
        id: text("ipc.bandwidth"),
        method: 1,
        question: text("How many bytes a second can one process hand to another?"),
        axes: List::Owned(vec![
            words(
                "over",
                "what they go through; an eventfd carries no bytes",
                list![
                    word("pipe", "a pipe of the usual 64 KiB"),
                    word(
                        "unix",
                        "a pair of Unix stream sockets with the usual buffers"
                    ),
                    word(
                        "shared_memory",
                        "a ring of 256 KiB in memory that both see; who waits spins, or yields where both share a processor"
                    ),
                ],
            ),
            Axis {
                name: text("size"),
                about: text("bytes of each write"),
                domain: Domain::Number {
                    unit: Unit::Bytes,
                    low: 1,
                    high: MOST_BYTES as u64,
                    usual: list![65536, 4096, 1 << 20],
                },
            },
            literal::typed("cpus", Cpus::cross_first()),
            literal::typed("wake", wake::of_two_ends()),
        ]),
        crossings: list![
            list![text("over"), text("size")],
            list![text("over"), text("cpus")],
        ],
        metrics: list![
            metric(
                "throughput",
                Unit::BytesPerSecond,
                Better::Higher,
                "bytes that arrived, copied in by the sender and out by the receiver",
            ),
            cost("one message of `size` bytes"),
        ],
        how: text(
            "Messages are written from one buffer as fast as they go; a fork of this process reads \
             them into a buffer of the same size. A batch has 4 MiB or more, or 1,024 messages, and \
             ends when the last byte has been read. Both buffers stay in the caches as far as they \
             fit, and nothing looks at the bytes while they are timed. After the batches three \
             messages with contents of their own are summed up at both ends.",
        ),
        sources: list![
            text(
                "L. McVoy, C. Staelin, lmbench: Portable Tools for Performance Analysis, USENIX 1996, bw_pipe, bw_unix"
            ),
            text("pipe(7), unix(7), sched_yield(2)"),
        ],
        predicted_from: text(
            "two copies at what caches give, at the same time where each end has a processor; system calls as os.syscall and context switches as os.context_switch have measured them, up to one every 64 KiB",
        ),
        after: list![text("os.syscall"), text("os.context_switch")],
        needs: NEEDS.iter().copied().map(text).collect(),
        roles: list![text("only")],
    }),
    rounds: 2,
    blocks_by: &[],
    least_ns: |_| 0.0,
    // A message at each end, and what lies between them.
    memory_bytes: |point| 2 * point.axes.number("size") + (1 << 20),
    processors: |point| axis::<Cpus>(point, "cpus").count(),
    headlines,
    more_points: |_| Vec::new(),
    budget: None,
    predict,
    roles: &[|launch: &Launch| {
        Ok(Box::new(Bandwidth {
            cpus: launch.cpus.clone(),
            open: None,
        }))
    }],
    derive,
};

fn headlines(_: &Facts) -> Vec<Headline> {
    [
        ("IPC bandwidth: pipe", "pipe"),
        ("IPC bandwidth: Unix socket", "unix"),
    ]
    .map(|(label, over)| {
        let axes = Axes::default()
            .with("over", over)
            .with("size", 65536)
            .with("cpus", "cross")
            .with("wake", "awake");
        Headline::new(label, axes)
    })
    .into()
}

struct Bandwidth {
    /// The first is this thread's.
    cpus: Vec<usize>,
    open: Option<Open>,
}

/// A point that is prepared.
struct Open {
    flow: Flow,
    _kept: Kept,
}

impl Role for Bandwidth {
    fn blocks(&self, point: &Point) -> bool {
        !spins(point)
    }

    fn prepare(&mut self, point: &Point, _: &Offers) -> Result<Offers, Failure> {
        // Another round's receiver ends before this one's begins.
        self.open = None;
        let through = match point.axes.word("over") {
            "pipe" => Through::Pipe,
            "unix" => Through::Unix,
            "shared_memory" => Through::SharedMemory,
            other => return Err(Failure::error(format!("no bytes go over {other}"))),
        };
        let cpu = partner_cpu(axis(point, "cpus"), &self.cpus)?;
        // The axis ends at what a flow takes.
        let size = point.axes.number("size") as usize;
        let kept = if spins(point) {
            spinning_keeps(axis(point, "cpus"), axis(point, "wake"))?
        } else {
            keep(axis(point, "cpus"), axis(point, "wake"), &self.cpus)?
        };
        let flow = Flow::start(
            through,
            size,
            cpu,
            axis::<Cpus>(point, "cpus") == Cpus::Same,
        );
        self.open = Some(Open {
            flow: flow.map_err(|error| cannot_start(&error))?,
            _kept: kept,
        });
        Ok(Offers::new())
    }

    fn run(&mut self, point: &Point, meter: &mut Meter<'_>) -> Result<(), Failure> {
        let flow = &mut self.open.as_mut().expect("it is prepared").flow;
        let mut failed: Option<io::Error> = None;
        // A group counts as one operation here; `derive` makes it messages.
        let group = group(point);
        meter.repeatable("cost", |n| {
            if let Err(error) = flow.send(n * group) {
                failed.get_or_insert(error);
            }
        });
        failed.map_or(Ok(()), |error| Err(broken(&error)))
    }

    fn finish(&mut self, _: &Point, _: &mut Meter<'_>) -> Result<(), Failure> {
        let mut open = self.open.take().expect("it is prepared");
        if open.flow.check().map_err(|error| broken(&error))? {
            Ok(())
        } else {
            Err(Failure::error("other bytes arrived than were sent"))
        }
    }
}

/// The ends look awake for each other, where they have a processor each.
fn spins(point: &Point) -> bool {
    point.axes.word("over") == "shared_memory" && axis::<Cpus>(point, "cpus") == Cpus::Cross
}

/// So many messages at least make a batch. The first ones find an empty channel and the last ones
/// nobody behind them, which shows in a batch of a few.
fn group(point: &Point) -> u64 {
    const BYTES: u64 = 4 << 20;
    const MESSAGES: u64 = 1024;
    (BYTES / point.axes.number("size")).clamp(1, MESSAGES)
}

/// Bytes a second, from the time of a message.
fn derive(point: &Point, reports: Vec<Report>) -> Report {
    let mut report = the_only_report(point, reports);
    if axis::<Cpus>(point, "cpus") == Cpus::Same {
        derived::forget_disturbances(&mut report);
    }
    derived::divide_cost(&mut report, group(point));
    derived::add_throughput(&mut report, point.axes.number("size"));
    report
}

fn predict(point: &Point, _: &Facts, known: &Known<'_>) -> Option<Prediction> {
    let axes = &point.axes;
    let bytes = axes.number("size") as f64;
    // Bytes a nanosecond: within one processor's caches, and from one processor to another, where
    // about ten lines of 64 B are on their way at a time, for 30 to 150 ns each.
    let (least_ns, most_ns, mut because) = if axis::<Cpus>(point, "cpus") == Cpus::Same {
        (
            2.0 * bytes / 40.0,
            2.0 * bytes / 8.0,
            "two copies inside one processor's caches, one after the other, at 8 to 40 GB/s"
                .to_owned(),
        )
    } else {
        (
            bytes / 20.0,
            2.0 * bytes / 5.0,
            "two copies from one processor's caches to another's at 5 to 20 GB/s, at the same time \
             or one after the other"
                .to_owned(),
        )
    };
    let (mut calls_ns, mut switch_ns) = (0.0, 0.0);
    if axes.word("over") != "shared_memory" {
        calls_ns = syscall::one_thread_ns(known, "read")?;
        switch_ns = ends::switch_ns(axis(point, "cpus"), axis(point, "wake"), known)?;
        because += &format!(
            "; one or both calls, like a read of {calls_ns:.0} ns; no or one context switch of \
             {:.2} µs every 64 KiB",
            switch_ns / 1e3
        );
    }
    expect::throughput(
        bytes * 1e9 / (most_ns + 2.0 * calls_ns + switch_ns * bytes / 65536.0),
        bytes * 1e9 / (least_ns + calls_ns),
        because,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::literal;
    use costof_model::metric::{Data, Measured};
    use costof_model::rows::State;

    #[test]
    fn throughput_is_bytes_over_the_median_time_of_a_message() {
        let axes = headlines(&Facts::default())[0].axes.clone();
        let point = literal::point(&PROBE, axes);
        let cost = Measured::new(
            text("cost"),
            Data::Samples(vec![
                (1, 64.0 * 32768.0),
                (2, 64.0 * 131_072.0),
                (1, 64.0 * 65536.0),
            ]),
        );
        let report = Report {
            state: State::Ok,
            allocations: 0,
            metrics: vec![cost],
        };
        let report = derive(&point, vec![report]);
        assert_eq!(report.metrics[1].name, "throughput");
        assert_eq!(report.metrics[1].data, Data::Value(1e9));
        let failed = Report {
            state: State::Failed,
            allocations: 0,
            metrics: Vec::new(),
        };
        assert!(derive(&point, vec![failed]).metrics.is_empty());
    }
}
