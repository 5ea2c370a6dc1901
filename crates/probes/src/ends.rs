//! What probes between two ends share: where the other end runs, and whether
//! the processors between which something goes to and fro are kept awake.

use crate::literal::{list, word, words};
use costof_model::axis::{Axis, Choice};
use costof_model::failure::Failure;
use costof_model::point::Point;
use costof_os::awake::{PollingIdle, Spinners};
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

/// The axis `wake`.
pub(crate) const WAKE: Axis = words(
    "wake",
    "what a processor does while its end waits; with cpus=same there is always the other end to run",
    list![
        word(
            "awake",
            "a thread of the lowest policy (SCHED_IDLE) spins on it and gives way at once, so that \
             it never halts; a wake-up interrupts it"
        ),
        word(
            "idle",
            "nothing keeps it awake: it halts, or polls for a while first, as the machine is set up"
        ),
        word(
            "polling",
            "its idle loop is kept from halting through /dev/cpu_dma_latency, and sees a wake-up \
             without an interrupt"
        ),
    ],
);

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
    match (cpus, share(point)) {
        ([own, ..], true) => Ok(*own),
        ([_, other, ..], false) => Ok(*other),
        _ => Err(Failure::unsupported(format!(
            "this needs {} and has {} (--cpu chooses them)",
            if share(point) {
                "a processor of its own"
            } else {
                "two processors"
            },
            cpus.len()
        ))),
    }
}

/// What keeps the processors of a point as its `wake` says, until dropped.
#[derive(Debug)]
pub(crate) enum Kept {
    /// Nothing does.
    AsTheyAre,
    /// They spin.
    Spinning { _spinners: Spinners },
    /// Their idle loops poll.
    Polling { _request: PollingIdle },
}

/// Keeps the processors that the ends of a point run on, the first ones of
/// `cpus`, as its `wake` says.
pub(crate) fn keep(point: &Point, cpus: &[usize]) -> Result<Kept, Failure> {
    let wake = point.axes.word("wake");
    if share(point) {
        return match wake {
            "awake" => Ok(Kept::AsTheyAre),
            _ => Err(Failure::unsupported(
                "the processor that both ends share is never idle (--set cpus=cross, or wake=awake)",
            )),
        };
    }
    let two = cpus.get(..2).unwrap_or(cpus);
    match wake {
        "idle" => Ok(Kept::AsTheyAre),
        "awake" => match Spinners::start(two) {
            Ok(spinners) => Ok(Kept::Spinning {
                _spinners: spinners,
            }),
            Err(error) => Err(refused("a spinning thread (SCHED_IDLE)", &error)),
        },
        "polling" => match PollingIdle::hold() {
            Ok(request) => Ok(Kept::Polling { _request: request }),
            Err(error) => Err(refused(
                "/dev/cpu_dma_latency, which root may open,",
                &error,
            )),
        },
        other => Err(Failure::error(format!("nothing is kept {other}"))),
    }
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

fn refused(what: &str, error: &io::Error) -> Failure {
    Failure::unsupported(format!(
        "{what} cannot keep the processors awake: {error} (--set wake=idle needs nothing)"
    ))
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
