//! The scheduling policy of the calling thread: real-time, which a relay needs, and ordinary, which everything else
//! needs.
//!
//! Source: sched(7), sched_setscheduler(2). A real-time thread runs before every ordinary one, as soon as it is
//! ready and until it waits: one that spins takes its CPU from everything else for good.

use crate::system_call::check;
use std::{fmt, io};

/// A policy that a process was started with, and that is not the ordinary one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inherited {
    policy: libc::c_int,
    /// 1 to 99; 0 without one.
    priority: libc::c_int,
}

impl fmt::Display for Inherited {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self.policy {
            libc::SCHED_FIFO => "SCHED_FIFO",
            libc::SCHED_RR => "SCHED_RR",
            libc::SCHED_BATCH => "SCHED_BATCH",
            libc::SCHED_IDLE => "SCHED_IDLE",
            libc::SCHED_DEADLINE => "SCHED_DEADLINE",
            other => return write!(f, "policy {other}"),
        };
        match self.priority {
            0 => f.write_str(name),
            priority => write!(f, "{name} at priority {priority}"),
        }
    }
}

/// Puts the calling thread under the ordinary policy, `SCHED_OTHER`, whatever it inherited; threads and processes that
/// it starts from then on inherit that. The nice value stays. Returns what it left, if that was another policy.
///
/// # Errors
///
/// Those of a filter of system calls: a real-time policy may always be left. `SCHED_IDLE` may not, without
/// `RLIMIT_NICE`; it then stays, as it keeps nobody from running.
pub fn leave() -> io::Result<Option<Inherited>> {
    // SAFETY: takes numbers; 0 is the calling thread.
    let Ok(flags) = check(unsafe { libc::syscall(libc::SYS_sched_getscheduler, 0) }) else {
        // A filter hides it. The ordinary policy may always be asked for.
        let _ = set_policy(libc::SCHED_OTHER, 0);
        return Ok(None);
    };
    let flags = libc::c_int::try_from(flags).unwrap_or(libc::SCHED_OTHER);
    let policy = flags & !libc::SCHED_RESET_ON_FORK;
    let others = [
        libc::SCHED_FIFO,
        libc::SCHED_RR,
        libc::SCHED_BATCH,
        libc::SCHED_IDLE,
        libc::SCHED_DEADLINE,
    ];
    if !others.contains(&policy) {
        return Ok(None);
    }
    let mut priority: libc::c_int = 0;
    // SAFETY: writes the priority, which is the kernel's structure of parameters.
    check(unsafe { libc::syscall(libc::SYS_sched_getparam, 0, &raw mut priority) })?;
    // Without privileges the flag cannot be taken away.
    match set_policy(libc::SCHED_OTHER | (flags & libc::SCHED_RESET_ON_FORK), 0) {
        Err(_) if policy == libc::SCHED_IDLE => return Ok(None),
        answer => answer?,
    }
    Ok(Some(Inherited { policy, priority }))
}

/// Makes the calling thread run under `SCHED_FIFO` at this priority (1 to 99). Threads and processes that it
/// starts do not inherit this.
///
/// # Errors
///
/// `PermissionDenied` (EPERM) above `RLIMIT_RTPRIO` and without `CAP_SYS_NICE` in the first user namespace;
/// EINVAL for an invalid priority.
pub fn begin(priority: u32) -> io::Result<()> {
    let priority = libc::c_int::try_from(priority).unwrap_or(-1);
    set_policy(libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, priority)
}

/// Sets the calling thread's policy. By the system call's number, since musl's function of its name only returns an
/// error; the kernel's structure of parameters is the priority.
pub(crate) fn set_policy(policy: libc::c_int, priority: libc::c_int) -> io::Result<()> {
    let number = libc::SYS_sched_setscheduler;
    // SAFETY: reads the priority; 0 is the calling thread.
    check(unsafe { libc::syscall(number, 0, policy, &raw const priority) }).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_real_time_where_that_is_permitted() {
        let policy = || {
            // SAFETY: takes a number.
            unsafe { libc::sched_getscheduler(0) }
        };
        let test = move || match begin(1) {
            Ok(()) => assert_eq!(policy(), libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK),
            Err(error) => assert_eq!(error.kind(), io::ErrorKind::PermissionDenied),
        };
        std::thread::spawn(test).join().unwrap();
        assert!(begin(100).is_err());
    }

    #[test]
    fn a_thread_leaves_every_policy_and_names_it() {
        let test = || {
            assert_eq!(leave().unwrap(), None);
            for (policy, priority, name) in [
                (libc::SCHED_BATCH, 0, "SCHED_BATCH"),
                (libc::SCHED_FIFO, 1, "SCHED_FIFO at priority 1"),
                (libc::SCHED_RR, 1, "SCHED_RR at priority 1"),
            ] {
                if set_policy(policy, priority).is_err() {
                    eprintln!("skipped: {name} is not permitted");
                    continue;
                }
                assert_eq!(leave().unwrap().unwrap().to_string(), name);
                assert_eq!(leave().unwrap(), None);
            }
        };
        std::thread::spawn(test).join().unwrap();
    }
}
