//! What probes between two ends share: where the other end runs, and whether
//! the processors between which something goes to and fro are kept awake.

use crate::literal::{list, text, word, words};
use crate::threads;
use crate::wake::{self, Kept};
use costof_model::axis::{Axis, Choice};
use costof_model::failure::Failure;
use costof_model::point::Point;
use costof_model::prediction::Known;
use costof_model::{List, Text};
use std::io;

const SAME: Choice = word("same", "both on one processor, which switches between them");
const CROSS: Choice = word(
    "cross",
    "each on a processor of its own, the nearest one to the first",
);

/// The axis `cpus`, for what is about one processor.
pub(crate) const CPUS_SAME_FIRST: Axis = words("cpus", ABOUT_CPUS, list![SAME, CROSS]);
/// The axis `cpus`, for what is about two.
pub(crate) const CPUS_CROSS_FIRST: Axis = words("cpus", ABOUT_CPUS, list![CROSS, SAME]);
const ABOUT_CPUS: &str = "where the two ends run";

/// What such a probe needs of the machine.
pub(crate) const NEEDS: List<Text> = list![
    text("cpus=cross: two processors (--cpu)"),
    text("wake=polling: root, and a cpuidle driver whose shallowest state is POLL"),
];

/// Whether both ends of a point run on one processor.
pub(crate) fn share(point: &Point) -> bool {
    point.axes.word("cpus") == "same"
}

/// On how many processors the ends of a point run.
pub(crate) fn processors(point: &Point) -> usize {
    if share(point) { 1 } else { 2 }
}

/// The processor of the other end. The first of `cpus` is this thread's own.
pub(crate) fn partner_cpu(point: &Point, cpus: &[usize]) -> Result<usize, Failure> {
    let needed = processors(point);
    Ok(threads::on(needed, cpus)?[needed - 1])
}

/// Keeps the processors that the ends of a point run on, the first ones of
/// `cpus`, as its `wake` says.
pub(crate) fn keep(point: &Point, cpus: &[usize]) -> Result<Kept, Failure> {
    let wake = point.axes.word("wake");
    if !share(point) {
        return wake::keep(wake, threads::on(2, cpus)?);
    }
    match wake {
        "awake" => Ok(Kept::AsTheyAre),
        _ => Err(Failure::unsupported(
            "the processor that both ends share is never idle (--set cpus=cross, or wake=awake)",
        )),
    }
}

/// What a context switch between two processes by a pipe has cost where the ends of a point run, with
/// processors kept awake as its are, in nanoseconds; `None` where it was not measured.
pub(crate) fn switch_ns(point: &Point, known: &Known<'_>) -> Option<f64> {
    let axes = &point.axes;
    known.primary(
        "os.context_switch",
        &[
            ("between", "processes"),
            ("over", "pipe"),
            ("cpus", axes.word("cpus")),
            ("wake", axes.word("wake")),
        ],
    )
}

/// Two ends that spin need a processor each, and keep them awake themselves.
pub(crate) fn spinning_keeps(point: &Point) -> Result<Kept, Failure> {
    if share(point) {
        return Err(Failure::unsupported(
            "two ends that spin on one processor wait for the end of each other's time slice \
             (--set cpus=cross, or wait=block)",
        ));
    }
    if point.axes.word("wake") != "awake" {
        return Err(Failure::unsupported(
            "an end that spins keeps its processor awake (--set wake=awake)",
        ));
    }
    Ok(Kept::AsTheyAre)
}

/// A failure to set up the other end.
pub(crate) fn cannot_start(error: &io::Error) -> Failure {
    Failure::unsupported(format!(
        "the other end cannot be started: {error} (ulimit -u, ulimit -n and the cgroup's pids.max \
         limit processes and descriptors; --cpu chooses the processors)"
    ))
}

/// A failure while the ends exchange something.
pub(crate) fn broken(error: &io::Error) -> Failure {
    Failure::error(match error.kind() {
        io::ErrorKind::InvalidData => {
            "what came back is not the answer to what was sent".to_owned()
        }
        io::ErrorKind::UnexpectedEof | io::ErrorKind::BrokenPipe => {
            "the other end has ended: was it killed?".to_owned()
        }
        _ => format!("the exchange with the other end failed: {error}"),
    })
}
