//! Whether the processors on which something waits are kept awake.

use crate::literal::{list, word, words};
use costof_model::axis::{Axis, Choice};
use costof_model::failure::Failure;
use costof_os::awake::{PollingIdle, Spinners};
use std::io;

const AWAKE: Choice = word(
    "awake",
    "a process of the lowest policy (SCHED_IDLE) spins on it and gives way at once, so that it \
     never halts; a wake-up interrupts it",
);
const IDLE: Choice = word(
    "idle",
    "nothing keeps it awake: it halts, or polls for a while first, as the machine is set up",
);
const POLLING: Choice = word(
    "polling",
    "its idle loop is kept from halting through /dev/cpu_dma_latency, and sees a wake-up without \
     an interrupt",
);

/// The axis `wake`, for what goes to and fro between two ends.
pub(crate) const AWAKE_FIRST: Axis = words(
    "wake",
    "what a processor does while its end waits; with cpus=same there is always the other end to run",
    list![AWAKE, IDLE, POLLING],
);
/// The axis `wake`, for a thread that sleeps.
pub(crate) const IDLE_FIRST: Axis = words(
    "wake",
    "what the processor does while the thread sleeps",
    list![IDLE, AWAKE],
);

/// What keeps processors awake, until dropped.
#[derive(Debug)]
pub(crate) enum Kept {
    /// Nothing does.
    AsTheyAre,
    /// They spin.
    Spinning { _spinners: Spinners },
    /// Their idle loops poll.
    Polling { _request: PollingIdle },
}

/// Keeps these processors as the word of a point's axis `wake` says.
///
/// # Errors
/// Why they cannot be kept awake.
pub(crate) fn keep(wake: &str, cpus: &[usize]) -> Result<Kept, Failure> {
    match wake {
        "idle" => Ok(Kept::AsTheyAre),
        "awake" => match Spinners::start(cpus) {
            Ok(spinners) => Ok(Kept::Spinning {
                _spinners: spinners,
            }),
            Err(error) => Err(refused("a spinning process (SCHED_IDLE)", &error)),
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

fn refused(what: &str, error: &io::Error) -> Failure {
    Failure::unsupported(format!(
        "{what} cannot keep a processor awake: {error} (--set wake=idle needs nothing)"
    ))
}
