//! The other end of a measurement between two: a process or a thread that does its duty, on a
//! processor of its own or on this one, until it is ended.
//!
//! Source: fork(2), prctl(2) on `PR_SET_PDEATHSIG`, waitpid(2).

use std::io;
use std::os::fd::{OwnedFd, RawFd};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitOptions};

use crate::ipc::flow::Drain;
use crate::ipc::token::Answerer;
use crate::process::child::has_ended;
use crate::sched::affinity;
use crate::sched::usage;

/// What a partner tells, in memory that both ends see.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub(crate) struct Status {
    /// [`STARTING`], [`READY`], or [`FAILED`] and an error number.
    state: AtomicU32,
    voluntary: AtomicU64,
    involuntary: AtomicU64,
}

const STARTING: u32 = 0;
const READY: u32 = 1;
const FAILED: u32 = 1 << 16;

/// What a partner does until it is ended. It allocates nothing, takes no lock and cannot panic, so
/// that the child of a fork may do it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Duty {
    /// Answers every token.
    Answer(Answerer),
    /// Takes in whatever arrives.
    Drain(Drain),
}

// SAFETY: a duty points into memory that its partner outlives neither as a process, which has its
// own copy of the mapping, nor as a thread, which is joined before.
unsafe impl Send for Duty {}

/// A partner, which ends when this is dropped; a thread must have been told to before.
#[derive(Debug)]
pub(crate) enum Partner {
    Process(Pid),
    Thread(Option<JoinHandle<()>>),
}

impl Status {
    /// Context switches of the partner since it began, when it last told: because it waited, and
    /// because something else got its processor.
    pub(crate) fn switches(&self) -> (u64, u64) {
        (
            self.voluntary.load(Ordering::Acquire),
            self.involuntary.load(Ordering::Acquire),
        )
    }

    /// For the partner: tells its context switches so far.
    pub(crate) fn tell_switches(&self) {
        let usage = usage::thread();
        self.voluntary
            .store(usage.voluntary_switches, Ordering::Release);
        self.involuntary
            .store(usage.involuntary_switches, Ordering::Release);
    }

    fn placed(&self, placed: &io::Result<()>) {
        let state = match placed {
            Ok(()) => READY,
            Err(error) => FAILED + error.raw_os_error().unwrap_or(0).cast_unsigned(),
        };
        self.state.store(state, Ordering::Release);
    }

    /// Waits until the partner has begun.
    fn wait_until_ready(&self, is_alive: impl Fn() -> bool) -> io::Result<()> {
        loop {
            let alive = is_alive();
            match self.state.load(Ordering::Acquire) {
                READY => return Ok(()),
                STARTING if alive => thread::sleep(Duration::from_micros(20)),
                STARTING => return Err(io::Error::other("the partner ended before it began")),
                failed => {
                    return Err(io::Error::from_raw_os_error(
                        (failed - FAILED).cast_signed(),
                    ));
                }
            }
        }
    }
}

impl Partner {
    /// Forks a process that does `duty` on processor `cpu`. Of the parent's descriptors it closes
    /// `not_its_own`, so that it can see the end of what the parent holds alone.
    ///
    /// It is killed when the calling thread ends, however that ends, and when this is dropped.
    ///
    /// # Errors
    ///
    /// What fork(2) says, or sched_setaffinity(2) in the child.
    pub(crate) fn process(
        duty: Duty,
        status: &Status,
        cpu: usize,
        not_its_own: &[RawFd],
    ) -> io::Result<Self> {
        let set = affinity::set(&[cpu])?;
        let parent = rustix::process::getpid();
        // SAFETY: this process may have other threads, so the child may only do what is safe in a
        // signal handler: it makes system calls on what was set up before, and ends.
        let child = unsafe { libc::fork() };
        if child == 0 {
            be_the_child(duty, status, parent, &set, not_its_own);
        }
        let pid = Pid::from_raw(child).filter(|_| child > 0);
        let pid = pid.ok_or_else(io::Error::last_os_error)?;
        let partner = Self::Process(pid);
        // Not waited for here, so that dropping the partner always finds it.
        status.wait_until_ready(|| !partner.has_ended())?;
        Ok(partner)
    }

    /// Whether it is no longer there: a process that has ended; of a thread nothing is known.
    pub(crate) fn has_ended(&self) -> bool {
        let Self::Process(pid) = self else {
            return false;
        };
        has_ended(*pid)
    }

    /// Starts a thread that does `duty` on processor `cpu`, and closes `its_own` at its end.
    ///
    /// # Errors
    ///
    /// Where the thread cannot be started, or run on its processor.
    ///
    /// # Safety
    ///
    /// What `duty` and `status` point to must outlive the partner.
    pub(crate) unsafe fn thread(
        duty: Duty,
        status: &Status,
        cpu: usize,
        its_own: Vec<OwnedFd>,
    ) -> io::Result<Self> {
        let set = affinity::set(&[cpu])?;
        let shared = Shared(status);
        let thread = thread::Builder::new()
            .name("partner".to_owned())
            .spawn(move || {
                let shared = shared;
                // SAFETY: by the contract of this function.
                let status = unsafe { &*shared.0 };
                let placed = affinity::pin_to(&set);
                status.placed(&placed);
                if placed.is_ok() {
                    serve(duty, status);
                }
                drop(its_own);
            })?;
        let partner = Self::Thread(Some(thread));
        status.wait_until_ready(|| true)?;
        Ok(partner)
    }
}

struct Shared(*const Status);

// SAFETY: a status is made of atomics.
unsafe impl Send for Shared {}

impl Drop for Partner {
    fn drop(&mut self) {
        match self {
            Self::Process(pid) => {
                // It may have ended by itself; then there is only its status to fetch. There is
                // none where whoever started this process has it ignore its children.
                let _ = rustix::process::kill_process(*pid, Signal::KILL);
                let _ = rustix::io::retry_on_intr(|| {
                    rustix::process::waitpid(Some(*pid), WaitOptions::empty())
                });
            }
            Self::Thread(thread) => {
                if let Some(thread) = thread.take() {
                    // It has no way to panic.
                    let _ = thread.join();
                }
            }
        }
    }
}

/// What the child does. It allocates nothing and takes no lock, since another thread may have held
/// it when the process was copied.
fn be_the_child(duty: Duty, status: &Status, parent: Pid, set: &[u64], not_its_own: &[RawFd]) -> ! {
    // SAFETY: takes numbers only.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL as libc::c_ulong) };
    // A parent that ended before that sends no signal.
    if rustix::process::getppid() == Some(parent) {
        for &descriptor in not_its_own {
            // SAFETY: closes the child's copy, which nothing in the child uses.
            unsafe { libc::close(descriptor) };
        }
        let placed = affinity::pin_to(set);
        status.placed(&placed);
        if placed.is_ok() {
            serve(duty, status);
        }
    }
    // SAFETY: ends the process without running what its parent has to run at its own end.
    unsafe { libc::_exit(0) }
}

/// Does its duty until it is told to end, or its channel breaks.
fn serve(duty: Duty, status: &Status) {
    match duty {
        Duty::Answer(answerer) => answerer.answer(status),
        Duty::Drain(drain) => drain.drain(),
    }
}
