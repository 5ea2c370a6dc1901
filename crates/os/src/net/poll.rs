//! Waits until sockets are readable or writable, or have an error to report.
//!
//! Source: poll(2), ppoll(2).

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, retry_on_intr};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

/// Waits until one of these sockets is ready as requested, or has an error to report, which need not be
/// requested. False if none is within this time, which a signal restarts.
///
/// # Errors
///
/// Those of poll(2).
pub fn wait(sockets: &mut [PollFd<'_>], time: Duration) -> io::Result<bool> {
    let time = Timespec::try_from(time).map_err(io::Error::other)?;
    Ok(retry_on_intr(|| poll(sockets, Some(&time)))? > 0)
}

/// Waits until something can be read from one of three descriptors, or one of them has ended, or this many
/// nanoseconds have passed (`None`: without limit). Returns whether something arrived. A signal ends the
/// wait. Allocates nothing.
///
/// # Errors
///
/// Those of poll(2).
pub fn wait_for_any(descriptors: [BorrowedFd<'_>; 3], limit_ns: Option<u64>) -> io::Result<bool> {
    let mut polled = descriptors.each_ref().map(readable);
    let limit = limit_ns.map(|ns| Timespec::try_from(Duration::from_nanos(ns)));
    let limit = limit.transpose().map_err(io::Error::other)?;
    match poll(&mut polled, limit.as_ref()) {
        Err(Errno::INTR) => Ok(false),
        polled => Ok(polled? > 0),
    }
}

/// As [`wait`] for one socket. Returns what it is ready for, or that it has an error to report; `None` if
/// neither.
///
/// # Errors
///
/// Those of poll(2).
pub fn able(socket: &impl AsFd, what: PollFlags, time: Duration) -> io::Result<Option<PollFlags>> {
    let mut polled = [PollFd::new(socket, what)];
    Ok(wait(&mut polled, time)?.then(|| polled[0].revents()))
}

/// What to wait for at a socket.
pub fn readable(socket: &impl AsFd) -> PollFd<'_> {
    PollFd::new(socket, PollFlags::IN)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    #[test]
    fn what_a_socket_can_do_ends_the_wait_and_so_does_time() {
        let (mut one, other) = UnixStream::pair().unwrap();
        let short = Duration::from_millis(1);
        assert_eq!(able(&other, PollFlags::IN, short).unwrap(), None);
        assert!(!wait(&mut [readable(&other)], short).unwrap());
        one.write_all(b"x").unwrap();
        let long = Duration::from_secs(3600);
        assert!(wait(&mut [readable(&one), readable(&other)], long).unwrap());
        let able = able(&other, PollFlags::IN, long).unwrap();
        assert_eq!(able, Some(PollFlags::IN));
    }

    #[test]
    fn what_can_be_read_ends_the_wait_for_any_and_so_does_time() {
        let pipes = [(); 3].map(|()| io::pipe().unwrap());
        let descriptors = || [0, 1, 2].map(|pipe: usize| pipes[pipe].0.as_fd());
        assert!(!wait_for_any(descriptors(), Some(0)).unwrap());
        assert!(!wait_for_any(descriptors(), Some(1_000)).unwrap());
        (&pipes[2].1).write_all(b"x").unwrap();
        assert!(wait_for_any(descriptors(), None).unwrap());
    }
}
