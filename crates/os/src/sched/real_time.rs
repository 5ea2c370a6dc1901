//! Real-time scheduling of the calling thread.
//!
//! Source: sched(7), sched_setscheduler(2). Such a thread runs before every ordinary one, as soon as it is
//! ready and until it waits.

use crate::system_call::check;
use std::io;

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
}
