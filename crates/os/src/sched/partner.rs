//! The other end of a measurement between two: a process or a thread that works until it is ended, on its own
//! CPU or on this one.
//!
//! Source: fork(2).

use std::io;
use std::os::fd::{OwnedFd, RawFd};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::process::Pid;

use crate::process::child::{self, Child};
use crate::sched::affinity;
use crate::sched::usage::{self, Usage};

/// A partner's reports, in memory that both ends share.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub(crate) struct Status {
    startup: Startup,
    voluntary: AtomicU64,
    involuntary: AtomicU64,
    cpu_ns: AtomicU64,
}

/// The state of a starting thread or process: [`STARTING`], [`READY`], or [`FAILED`] and an error
/// number.
#[derive(Debug, Default)]
pub(crate) struct Startup(AtomicU32);

const STARTING: u32 = 0;
const READY: u32 = 1;
const FAILED: u32 = 1 << 16;

/// What a partner does until it is told to end, or its channel breaks. It allocates nothing, takes
/// no lock and cannot panic, so that a forked child may do it. What it points to must outlive the
/// partner.
pub(crate) trait Duty: Copy + Send + 'static {
    fn serve(&self, status: &Status);
}

/// A partner, which ends when this is dropped; a thread must have received the end before that.
#[derive(Debug)]
pub(crate) enum Partner {
    Process(Child),
    Thread(Option<JoinHandle<()>>),
}

impl Status {
    /// Context switches and CPU time of the partner since it began, when it last published them.
    pub(crate) fn usage(&self) -> Usage {
        let load = |of: &AtomicU64| of.load(Ordering::Acquire);
        Usage {
            voluntary_switches: load(&self.voluntary),
            involuntary_switches: load(&self.involuntary),
            system_ns: load(&self.cpu_ns),
            ..Usage::default()
        }
    }

    /// For the partner: publishes that.
    pub(crate) fn publish_usage(&self) {
        let usage = usage::thread();
        let store = |of: &AtomicU64, count| of.store(count, Ordering::Release);
        store(&self.voluntary, usage.voluntary_switches);
        store(&self.involuntary, usage.involuntary_switches);
        store(&self.cpu_ns, usage.cpu_ns());
    }
}

impl Startup {
    /// For the started thread or process: reports the result of pinning.
    pub(crate) fn report(&self, placed: &io::Result<()>) {
        let state = match placed {
            Ok(()) => READY,
            Err(error) => FAILED + error.raw_os_error().unwrap_or(0).cast_unsigned(),
        };
        self.0.store(state, Ordering::Release);
    }

    /// Waits until it has reported.
    pub(crate) fn wait_until_ready(&self, is_alive: impl Fn() -> bool) -> io::Result<()> {
        loop {
            let alive = is_alive();
            match self.0.load(Ordering::Acquire) {
                READY => return Ok(()),
                STARTING if alive => thread::sleep(Duration::from_micros(20)),
                STARTING => {
                    return Err(io::Error::other(
                        "the thread or process ended before it was ready",
                    ));
                }
                failed => {
                    return Err(io::Error::from_raw_os_error((failed - FAILED).cast_signed()));
                }
            }
        }
    }
}

impl Partner {
    /// Forks a process that does `duty` on CPU `cpu`. It closes `not_its_own` of the parent's descriptors, so
    /// that it notices when the parent closes the ones that only the parent holds.
    ///
    /// It is killed when the calling thread ends, for whatever reason, and when this is dropped.
    ///
    /// # Errors
    ///
    /// The errors of fork(2), or sched_setaffinity(2) in the child.
    pub(crate) fn process(
        duty: impl Duty,
        status: &Status,
        cpu: usize,
        not_its_own: &[RawFd],
    ) -> io::Result<Self> {
        let set = affinity::set(&[cpu])?;
        let parent = rustix::process::getpid();
        // SAFETY: this process may have other threads, so the child may only do what is safe in a
        // signal handler: it makes system calls on what was set up before, and ends.
        let Some(child) = Child::started(unsafe { libc::fork() })? else {
            run_child(duty, status, parent, &set, not_its_own)
        };
        // Waited for only when the partner is dropped.
        status.startup.wait_until_ready(|| !child.has_ended())?;
        Ok(Self::Process(child))
    }

    /// Whether it is a process that has ended; nothing is known about a thread.
    pub(crate) fn has_ended(&self) -> bool {
        match self {
            Self::Process(child) => child.has_ended(),
            Self::Thread(_) => false,
        }
    }

    /// Starts a thread that does `duty` on CPU `cpu`, and closes `its_own` at its end.
    ///
    /// # Safety
    ///
    /// What `duty` and `status` point to must outlive the partner.
    pub(crate) unsafe fn thread(
        duty: impl Duty,
        status: &Status,
        cpu: usize,
        its_own: Vec<OwnedFd>,
    ) -> io::Result<Self> {
        let set = affinity::set(&[cpu])?;
        let shared = Shared(status);
        let thread = thread::Builder::new().name("partner".to_owned()).spawn(move || {
            let shared = shared;
            // SAFETY: by the contract of this function.
            let status = unsafe { &*shared.0 };
            let placed = affinity::pin_to(&set);
            status.startup.report(&placed);
            if placed.is_ok() {
                duty.serve(status);
            }
            drop(its_own);
        })?;
        let partner = Self::Thread(Some(thread));
        status.startup.wait_until_ready(|| true)?;
        Ok(partner)
    }
}

struct Shared(*const Status);

// SAFETY: a status is made of atomics.
unsafe impl Send for Shared {}

impl Drop for Partner {
    fn drop(&mut self) {
        if let Self::Thread(thread) = self
            && let Some(thread) = thread.take()
        {
            let _ = thread.join();
        }
    }
}

/// The child's work. It allocates nothing and takes no lock, since another thread may have held one
/// when the process was copied.
fn run_child(
    duty: impl Duty,
    status: &Status,
    parent: Pid,
    set: &[u64],
    not_its_own: &[RawFd],
) -> ! {
    if child::ends_with(parent) {
        for &descriptor in not_its_own {
            // SAFETY: closes the child's copy, which nothing in the child uses.
            unsafe { libc::close(descriptor) };
        }
        let placed = affinity::pin_to(set);
        status.startup.report(&placed);
        if placed.is_ok() {
            duty.serve(status);
        }
    }
    child::exit_at_once(0)
}
