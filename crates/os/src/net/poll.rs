//! Waiting until sockets have something to say.
//!
//! Source: poll(2), ppoll(2).

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::retry_on_intr;
use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

/// Waits until one of these can do what it is asked for, or has an error to tell, which is never asked
/// for; false where none does within this time, which a signal begins again.
///
/// # Errors
///
/// What poll(2) says.
pub fn wait(sockets: &mut [PollFd<'_>], time: Duration) -> io::Result<bool> {
    let time = Timespec::try_from(time).map_err(io::Error::other)?;
    Ok(retry_on_intr(|| poll(sockets, Some(&time)))? > 0)
}

/// The same of one socket: what it can do, or that it has an error to tell; none where that is nothing.
///
/// # Errors
///
/// What poll(2) says.
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
}
