//! `sync.false_sharing`: what it costs that counters of several threads lie in
//! one cache line.

use crate::expect::cost_ns;
use crate::literal::{cost, list, text, word, words};
use crate::sync::core_to_core;
use crate::threads;
use costof_measure::crew::{Crew, Job};
use costof_measure::meter::Meter;
use costof_measure::probe::{Probe, Role, the_only_report};
use costof_model::axis::Axes;
use costof_model::facts::Facts;
use costof_model::failure::Failure;
use costof_model::point::{Headline, Planned, Point};
use costof_model::prediction::{Known, Prediction};
use costof_model::probe_info::ProbeInfo;
use costof_model::protocol::{Launch, Offers};
use costof_model::unit::Unit;
use costof_os::line_counters::LineCounters;
use std::sync::Arc;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counters in a line of 64 bytes.
const IN_A_LINE: u64 = 8;

pub(crate) static PROBE: Probe = Probe {
    info: LazyLock::new(|| ProbeInfo {
        id: text("sync.false_sharing"),
        method: 1,
        question: text(
            "What does it cost that the counters of several threads lie in one cache line?",
        ),
        axes: list![
            threads::axis(
                "how many threads count, each on a processor of its own; 1 is the base",
                list![2, 1],
            ),
            words(
                "lines",
                "where the counters lie",
                list![
                    word(
                        "same",
                        "side by side as in an array: eight counters, of 8 bytes, to a line of 64"
                    ),
                    word(
                        "separate",
                        "128 bytes apart, since adjacent lines are often fetched in pairs"
                    ),
                ],
            ),
        ],
        crossings: list![],
        metrics: list![cost("one increment of a thread's own counter")],
        how: text(
            "Each thread adds one to its own counter in memory, over and over: load, add and store \
             in assembly, not atomic, as in a program where nobody else writes that counter. All \
             threads do n increments at the same time, and the cost is the time until the last is \
             done over n. Every counter is compared with what its thread has done. Stores wait in \
             the store buffer while the line is away and reach it together when it comes, so an \
             increment costs a part of the line's journey, not all of it.",
        ),
        sources: list![
            text(
                "J. Torrellas, M. Lam, J. Hennessy, False Sharing and Spatial Locality in Multiprocessor Caches, IEEE Transactions on Computers 1994"
            ),
            text("Linux Documentation/kernel-hacking/false-sharing.rst"),
            text(
                "Intel 64 and IA-32 Architectures Optimization Reference Manual, the spatial prefetcher, which fetches pairs of lines"
            ),
        ],
        predicted_from: text(
            "the counter in memory of cpu.loop; in one line, from each core's part of the time to the journey that sync.core_to_core measured, shared by 32 increments, as many as a small store buffer holds",
        ),
        after: list![text("cpu.loop"), text("sync.core_to_core")],
        needs: list![text("as many processors as threads")],
        roles: list![text("only")],
    }),
    rounds: 2,
    blocks_by: &[],
    least_ns: |_| 0.0,
    memory_bytes: |_| 0,
    processors: |point| point.axes.number("threads") as usize,
    headlines: |_| {
        vec![
            Headline::new(
                "counter increment: two threads, two lines",
                axes("separate", 2),
            ),
            Headline::new("counter increment: false sharing", axes("same", 2)),
        ]
    },
    more_points: |facts| {
        let more = threads::more(threads::processors(facts))
            .flat_map(|threads| ["same", "separate"].map(|lines| axes(lines, threads)));
        Planned::anywhere(more.collect())
    },
    budget: None,
    predict,
    roles: &[|launch| Ok(Box::new(Counting::start(launch)))],
    derive: the_only_report,
};

fn axes(lines: &'static str, threads: u64) -> Axes {
    Axes::default()
        .with("threads", threads)
        .with("lines", lines)
}

struct Counting {
    cpus: Vec<usize>,
    counted: Option<Counted>,
}

/// The counters of a point, and those who count.
struct Counted {
    counters: Arc<LineCounters>,
    /// What each thread should have counted.
    done: Arc<[AtomicU64]>,
    crew: Crew,
}

impl Counting {
    fn start(launch: &Launch) -> Counting {
        Counting {
            cpus: launch.cpus.clone(),
            counted: None,
        }
    }
}

impl Role for Counting {
    fn prepare(&mut self, point: &Point, _: &Offers) -> Result<Offers, Failure> {
        let threads = point.axes.number("threads") as usize;
        let counters = Arc::new(match point.axes.word("lines") {
            "same" => LineCounters::side_by_side(threads),
            "separate" => LineCounters::apart(threads),
            other => return Err(Failure::error(format!("no lines are called {other}"))),
        });
        // Those of another point are gone before new ones start.
        self.counted = None;
        let cpus = threads::on(threads, &self.cpus)?;
        let done: Arc<[AtomicU64]> = (0..threads).map(|_| AtomicU64::new(0)).collect();
        let jobs = (0..threads)
            .map(|thread| job(&counters, &done, thread))
            .collect();
        self.counted = Some(Counted {
            counters,
            done,
            crew: Crew::start(jobs, cpus)?,
        });
        Ok(Offers::new())
    }

    fn run(&mut self, _: &Point, meter: &mut Meter<'_>) -> Result<(), Failure> {
        let counted = self
            .counted
            .as_mut()
            .expect("a prepared point has counters");
        meter.crew("cost", &mut counted.crew);
        Ok(())
    }

    fn finish(&mut self, _: &Point, _: &mut Meter<'_>) -> Result<(), Failure> {
        let counted = self.counted.take().expect("a measured point has counters");
        for (thread, done) in counted.done.iter().enumerate() {
            let (done, count) = (done.load(Ordering::Relaxed), counted.counters.count(thread));
            if count != done {
                return Err(Failure::error(format!(
                    "thread {} counted {done} times, but its counter says {count}",
                    thread + 1
                )));
            }
        }
        Ok(())
    }
}

fn job(counters: &Arc<LineCounters>, done: &Arc<[AtomicU64]>, thread: usize) -> Job {
    let (counters, done) = (Arc::clone(counters), Arc::clone(done));
    Box::new(move |n| {
        counters.count_up(thread, n);
        done[thread].fetch_add(n, Ordering::Relaxed);
    })
}

fn predict(point: &Point, facts: &Facts, known: &Known<'_>) -> Option<Prediction> {
    let counter_ns = known.primary("cpu.loop", &[("body", "memory_counter")])?;
    let counter = Unit::Nanoseconds.display(counter_ns);
    let threads = point.axes.number("threads");
    if threads == 1 || point.axes.word("lines") == "separate" {
        return cost_ns(
            0.7 * counter_ns,
            2.0 * counter_ns,
            format!("cpu.loop counts in memory in {counter}, and nobody else wants the line"),
        );
    }
    let (trip_ns, trip) = core_to_core::to_the_neighbour(facts, known)?;
    // The line goes round all that have a counter in it.
    let sharers = threads.min(IN_A_LINE) as f64;
    cost_ns(
        sharers * counter_ns,
        counter_ns + sharers / 2.0 * trip_ns / 32.0,
        format!(
            "at best each of {sharers} cores has the line for its part of the time, in which an \
             increment takes {counter} by cpu.loop; at worst the line makes {} round trips, half of \
             one for each core, for every 32 increments, which waited in the store buffer; {trip}",
            sharers / 2.0
        ),
    )
}
