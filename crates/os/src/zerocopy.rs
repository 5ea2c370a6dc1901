//! Sends that ask the kernel not to copy, and its word on whether it did.
//!
//! Source: Documentation/networking/msg_zerocopy.rst of the kernel. Linux 4.14 for TCP, 5.0 for
//! UDP.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

use crate::socket_option;

/// linux/errqueue.h; libc has them not.
const ORIGIN_ZEROCOPY: u8 = 5;
const CODE_COPIED: u8 = 1;

/// Lets a TCP or UDP socket be used with [`send`].
///
/// # Errors
///
/// ENOTSUPP or ENOPROTOOPT before Linux 4.14, for UDP before 5.0.
pub fn enable(socket: &impl AsFd) -> io::Result<()> {
    socket_option::set(socket, (libc::SOL_SOCKET, libc::SO_ZEROCOPY), &[1_u32])
}

/// Asks for these bytes to be sent from where they are (`MSG_ZEROCOPY`). They must stay as they are
/// until its completion has come, else what is sent is what they are by then; memory that is given
/// back before stays with the kernel until it is done.
///
/// # Errors
///
/// What send(2) says: ENOBUFS where too much is under way (net.core.optmem_max, and the limit of
/// locked memory); complete something first.
#[inline]
pub fn send(socket: &impl AsFd, bytes: &[u8]) -> io::Result<usize> {
    // SAFETY: the bytes are valid to read now; of their pages the kernel holds references.
    let sent = unsafe {
        libc::send(
            socket.as_fd().as_raw_fd(),
            bytes.as_ptr().cast(),
            bytes.len(),
            libc::MSG_ZEROCOPY | libc::MSG_NOSIGNAL,
        )
    };
    match sent {
        0.. => Ok(sent.cast_unsigned()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Sends of [`send`] that the kernel is done with.
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
    /// Adds what a socket has to say by now; never waits.
    ///
    /// # Errors
    ///
    /// What recvmsg(2) says; `Other` for an error of the network that was in the queue.
    #[inline]
    pub fn collect(&mut self, socket: &impl AsFd) -> io::Result<()> {
        loop {
            self.system_calls += 1;
            let Some(error) = next(socket)? else {
                return Ok(());
            };
            if error.ee_origin != ORIGIN_ZEROCOPY || error.ee_errno != 0 {
                let number = error.ee_errno.cast_signed();
                return Err(io::Error::other(format!(
                    "a send failed: {}",
                    io::Error::from_raw_os_error(number)
                )));
            }
            // A range of calls, both ends included.
            let sends = u64::from(error.ee_data.wrapping_sub(error.ee_info)) + 1;
            self.done += sends;
            if error.ee_code & CODE_COPIED != 0 {
                self.copied += sends;
            }
        }
    }
}

/// What is first in the socket's error queue.
#[inline]
fn next(socket: &impl AsFd) -> io::Result<Option<libc::sock_extended_err>> {
    // The error and the address that follows it, aligned as control messages are.
    let mut control = [0_u64; 16];
    // SAFETY: all zeros is a valid value of this plain structure of C.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_control = control.as_mut_ptr().cast();
    message.msg_controllen = size_of_val(&control) as _;
    let flags = libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT;
    // SAFETY: the message names no data and a control buffer that is valid to write to.
    let got = unsafe { libc::recvmsg(socket.as_fd().as_raw_fd(), &raw mut message, flags) };
    if got < 0 {
        let error = io::Error::last_os_error();
        return match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Ok(None),
            _ => Err(error),
        };
    }
    // SAFETY: the kernel has filled the message in.
    let mut header = unsafe { libc::CMSG_FIRSTHDR(&raw const message) };
    while !header.is_null() {
        // SAFETY: the header is one that the kernel wrote to the control buffer.
        let (level, kind) = unsafe { ((*header).cmsg_level, (*header).cmsg_type) };
        if matches!(
            (level, kind),
            (libc::SOL_IP, libc::IP_RECVERR) | (libc::SOL_IPV6, libc::IPV6_RECVERR)
        ) {
            // SAFETY: a control message of this kind begins with such a structure.
            return Ok(Some(unsafe {
                libc::CMSG_DATA(header)
                    .cast::<libc::sock_extended_err>()
                    .read_unaligned()
            }));
        }
        // SAFETY: as above.
        header = unsafe { libc::CMSG_NXTHDR(&raw const message, header) };
    }
    Err(io::Error::other(
        "the socket's error queue holds what is no error",
    ))
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
