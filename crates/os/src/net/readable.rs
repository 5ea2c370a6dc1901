//! Waiting until one of several descriptors has something to read, or until it is time.
//!
//! Source: ppoll(2), Linux 2.6.16.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;

/// Waits until something can be read from one of three descriptors, or one of them has ended, or
/// this many nanoseconds have passed (`None`: for as long as it takes). Whether something came.
/// Allocates nothing.
///
/// # Errors
///
/// What ppoll(2) says. A signal is no error: nothing came.
pub fn wait(descriptors: [BorrowedFd<'_>; 3], limit_ns: Option<u64>) -> io::Result<bool> {
    const BILLION: u64 = 1_000_000_000;
    let mut asked = descriptors.map(|descriptor| libc::pollfd {
        fd: descriptor.as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    });
    let limit = limit_ns.map(|ns| libc::timespec {
        tv_sec: (ns / BILLION) as libc::time_t,
        tv_nsec: (ns % BILLION) as libc::c_long,
    });
    let limit = limit.as_ref().map_or(ptr::null(), ptr::from_ref);
    // SAFETY: the array has three entries, the time is valid to read or null, and so is the mask.
    match unsafe { libc::ppoll(asked.as_mut_ptr(), 3, limit, ptr::null()) } {
        0 => Ok(false),
        1.. => Ok(true),
        _ => match io::Error::last_os_error() {
            error if error.kind() == io::ErrorKind::Interrupted => Ok(false),
            error => Err(error),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::fd::AsFd;

    #[test]
    fn what_can_be_read_ends_the_wait_and_so_does_time() {
        let pipes = [(); 3].map(|()| io::pipe().unwrap());
        let descriptors = || [0, 1, 2].map(|pipe: usize| pipes[pipe].0.as_fd());
        assert!(!wait(descriptors(), Some(0)).unwrap());
        assert!(!wait(descriptors(), Some(1_000)).unwrap());
        (&pipes[2].1).write_all(b"x").unwrap();
        assert!(wait(descriptors(), None).unwrap());
    }
}
