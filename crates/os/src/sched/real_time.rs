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
    // SAFETY: all zeros is a valid value of this plain structure of C.
    let mut parameters: libc::sched_param = unsafe { std::mem::zeroed() };
    parameters.sched_priority = libc::c_int::try_from(priority).unwrap_or(-1);
    let policy = libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK;
    // SAFETY: reads one sched_param; 0 is the calling thread.
    check(unsafe { libc::sched_setscheduler(0, policy, &parameters) }).map(drop)
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
