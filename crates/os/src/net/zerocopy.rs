//! Sends that ask the kernel not to copy, and its reports on whether it did.
//!
//! Source: Documentation/networking/msg_zerocopy.rst of the kernel. Linux 4.14 for TCP, 5.0 for
//! UDP.

use std::io;
use std::os::fd::AsFd;

use rustix::net::SendFlags;

use crate::net::control_message::next_error;
use crate::net::socket_option;

/// `MSG_ZEROCOPY`, which rustix lacks.
const ZEROCOPY: u32 = libc::MSG_ZEROCOPY.cast_unsigned();
/// linux/errqueue.h; missing in libc.
const ORIGIN_ZEROCOPY: u8 = 5;
const CODE_COPIED: u8 = 1;

/// Prepares a TCP or UDP socket for [`send`].
///
/// # Errors
///
/// ENOTSUPP or ENOPROTOOPT before Linux 4.14, for UDP before 5.0.
pub fn enable(socket: &impl AsFd) -> io::Result<()> {
    socket_option::set(socket, (libc::SOL_SOCKET, libc::SO_ZEROCOPY), &[1_u32])
}

/// Asks for these bytes to be sent from where they are (`MSG_ZEROCOPY`). They must not change before the
/// completion arrives: otherwise the changed bytes may be sent. Memory that is freed earlier stays with the
/// kernel until it is done.
///
/// # Errors
///
/// Those of send(2): ENOBUFS if too much is in flight (net.core.optmem_max, and the limit of locked memory);
/// complete something first.
#[inline]
pub fn send(socket: &impl AsFd, bytes: &[u8]) -> io::Result<usize> {
    let flags = SendFlags::from_bits_retain(ZEROCOPY) | SendFlags::NOSIGNAL;
    Ok(rustix::net::send(socket, bytes, flags)?)
}

/// The sends of [`send`] that the kernel is done with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Completions {
    /// All of them, each call of [`send`] being one.
    pub done: u64,
    /// Those whose bytes it has copied after all.
    pub copied: u64,
    /// System calls that asked for them.
    pub system_calls: u64,
}

impl Completions {
    /// Adds the completions that a socket has reported so far; never waits.
    ///
    /// # Errors
    ///
    /// Those of recvmsg(2); `Other` for an error of the network that was in the queue.
    #[inline]
    pub fn collect(&mut self, socket: &impl AsFd) -> io::Result<()> {
        loop {
            self.system_calls += 1;
            let Some(error) = next_error(socket)? else {
                return Ok(());
            };
            if error.origin != ORIGIN_ZEROCOPY || error.errno != 0 {
                let number = error.errno.cast_signed();
                return Err(io::Error::other(format!(
                    "a send failed: {}",
                    io::Error::from_raw_os_error(number)
                )));
            }
            // An inclusive range of calls.
            let sends = u64::from(error.data.wrapping_sub(error.info)) + 1;
            self.done += sends;
            if error.code & CODE_COPIED != 0 {
                self.copied += sends;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;
    use std::time::{Duration, Instant};

    #[test]
    fn on_loopback_every_send_is_copied_after_all() {
        let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.connect(receiver.local_addr().unwrap()).unwrap();
        if let Err(error) = enable(&socket) {
            eprintln!("skipped: no zero-copy sends over UDP: {error}");
            return;
        }
        let bytes = vec![7; 20_000];
        let mut received = vec![0; 30_000];
        let mut completions = Completions::default();
        for _ in 0..20 {
            assert_eq!(send(&socket, &bytes).unwrap(), bytes.len());
            assert_eq!(receiver.recv(&mut received).unwrap(), bytes.len());
            assert_eq!(received[..bytes.len()], bytes);
        }
        let until = Instant::now() + Duration::from_secs(10);
        while completions.done < 20 && Instant::now() < until {
            completions.collect(&socket).unwrap();
        }
        assert_eq!((completions.done, completions.copied), (20, 20));
    }
}
