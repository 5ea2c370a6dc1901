//! The kernel's software timestamps of packets: switching them on, and reading them.
//!
//! Source: Documentation/networking/timestamping.rst, linux/errqueue.h.

use std::io;
use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::net::control_message::{error_in, messages, receive};
use crate::net::socket::is_passing;
use crate::net::socket_option;

/// Room for control messages: a timestamp of three times, and an error with an address.
pub const CONTROL_WORDS: usize = 64;
/// The origin of errors that are only timestamps (linux/errqueue.h).
const SO_EE_ORIGIN_TIMESTAMPING: u8 = 4;
/// Handed to the driver.
pub const SCM_TSTAMP_SND: u32 = 0;
/// Entered the queue discipline.
pub const SCM_TSTAMP_SCHED: u32 = 1;

/// While this exists, the kernel timestamps packets, whatever other sockets request.
#[derive(Debug)]
pub struct SwitchedOn {
    _socket: UdpSocket,
}

impl SwitchedOn {
    /// Waits until packets are timestamped, which it checks with packets that it sends to itself.
    ///
    /// # Errors
    ///
    /// `TimedOut` if they are not within this time; those of calls on a loopback socket, such as ENETUNREACH
    /// if that device is down.
    pub fn within(time: Duration) -> io::Result<Self> {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
        socket.connect(socket.local_addr()?)?;
        socket.set_read_timeout(Some(Duration::from_millis(100)))?;
        stamp(
            socket.as_fd(),
            libc::SOF_TIMESTAMPING_SOFTWARE | libc::SOF_TIMESTAMPING_RX_SOFTWARE,
        )?;
        let until = Instant::now() + time;
        let mut control = [0; CONTROL_WORDS];
        while Instant::now() < until {
            socket.send(&[0])?;
            match receive(socket.as_fd(), &mut [0], &mut control, 0) {
                Ok((_, control)) if stamp_in(control).is_some() => {
                    return Ok(Self { _socket: socket });
                }
                Ok(_) => {}
                Err(error) if is_passing(&error) => {}
                Err(error) => return Err(error),
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Err(io::ErrorKind::TimedOut.into())
    }
}

/// Requests timestamps for a socket's packets.
///
/// # Errors
///
/// Those of setsockopt(2).
pub fn stamp(socket: BorrowedFd<'_>, flags: u32) -> io::Result<()> {
    let option = (libc::SOL_SOCKET, libc::SO_TIMESTAMPING);
    socket_option::set(socket, option, &[flags])
}

/// `CLOCK_REALTIME` in nanoseconds, without a system call where the vDSO has it: what packets are
/// stamped with.
pub fn now_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.unwrap_or_default().as_nanos() as u64
}

/// The software stamp among the control messages, which is the first of three.
pub fn stamp_in(control: &[u8]) -> Option<u64> {
    let (_, _, data) = messages(control)
        .find(|(level, kind, _)| (*level, *kind) == (libc::SOL_SOCKET, libc::SCM_TIMESTAMPING))?;
    let seconds = i64::from_ne_bytes(*data.first_chunk()?);
    let nanoseconds = i64::from_ne_bytes(*data.get(8..)?.first_chunk()?);
    let ns = u64::try_from(seconds.checked_mul(1_000_000_000)?.checked_add(nanoseconds)?).ok()?;
    (ns > 0).then_some(ns)
}

/// Which stamp of which message the control messages report.
pub fn event_in(control: &[u8]) -> Option<(u32, u32)> {
    error_in(control)
        .filter(|error| error.origin == SO_EE_ORIGIN_TIMESTAMPING)
        .map(|error| (error.info, error.data))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::control_message::tests::message;

    #[test]
    fn a_stamp_is_found_among_control_messages_and_a_cut_one_is_none() {
        let mut stamp = 3_i64.to_ne_bytes().to_vec();
        stamp.extend(7_i64.to_ne_bytes());
        let mut control = message(libc::SOL_IP, libc::IP_TTL, &[1; 4]);
        control.extend(message(libc::SOL_SOCKET, libc::SCM_TIMESTAMPING, &stamp));
        assert_eq!(stamp_in(&control), Some(3_000_000_007));
        for length in 0..control.len() {
            assert!(stamp_in(&control[..length]).is_none(), "{length}");
        }
        let never = message(libc::SOL_SOCKET, libc::SCM_TIMESTAMPING, &[0; 16]);
        assert_eq!(stamp_in(&never), None);
    }
}
