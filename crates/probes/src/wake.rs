//! Whether the CPUs on which something waits are kept awake.

use crate::prelude::*;
use costof_os::cpu::awake::{PollingIdle, Spinners};

costof_model::words! {
    /// What a CPU does while an end waits on it.
    pub(crate) enum Wake {
        /// a process of the lowest policy (SCHED_IDLE) spins on it and gives way at once, so it
        /// never halts; a wake-up interrupts it
        Awake = "awake",
        /// nothing keeps it awake: it halts, or polls for a while first, as the machine is set up
        Idle = "idle",
        /// its idle loop polls instead of halting (/dev/cpu_dma_latency), and sees a wake-up
        /// without an interrupt
        Polling = "polling",
    }
}

/// The axis `wake` of exchanges between two ends.
pub(crate) fn of_two_ends() -> AxisOf<Wake> {
    words().about("what a CPU does while its end waits; with cpus=same, it runs the other end")
}

/// The axis `wake` of a thread that sleeps.
pub(crate) fn of_a_sleeper() -> AxisOf<Wake> {
    words_of(&[Wake::Idle, Wake::Awake]).about("what the CPU does while the thread sleeps")
}

/// What keeps CPUs awake, until dropped.
#[derive(Debug)]
pub(crate) enum Awake {
    /// Nothing does.
    Unchanged,
    /// They spin.
    Spinning { _spinners: Spinners },
    /// Their idle loops poll.
    Polling { _request: PollingIdle },
}

/// Keeps these CPUs in that state.
///
/// # Errors
/// If that is impossible.
pub(crate) fn keep(wake: Wake, cpus: &[usize]) -> Result<Awake> {
    let (awake, what) = match wake {
        Wake::Idle => return Ok(Awake::Unchanged),
        Wake::Awake => (
            Spinners::start(cpus).map(|_spinners| Awake::Spinning { _spinners }),
            "a spinning process (SCHED_IDLE)",
        ),
        Wake::Polling => (
            PollingIdle::hold().map(|_request| Awake::Polling { _request }),
            "/dev/cpu_dma_latency, which root may open,",
        ),
    };
    awake.or_unsupported_hint(
        format_args!("{what} cannot keep a CPU awake"),
        "--set wake=idle needs nothing",
    )
}
