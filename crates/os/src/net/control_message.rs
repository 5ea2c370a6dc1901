//! Receives control messages together with the bytes of a socket: what the kernel reports about
//! these bytes, and the socket's error queue.
//!
//! Source: recvmsg(2), cmsg(3), ip(7) on `IP_RECVERR`.

use crate::net::socket::is_passing;
use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// What the kernel reports about sent data (struct `sock_extended_err`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExtendedError {
    /// `ee_errno`.
    pub errno: u32,
    /// `ee_origin`.
    pub origin: u8,
    /// `ee_type`.
    pub kind: u8,
    /// `ee_code`.
    pub code: u8,
    /// `ee_info`.
    pub info: u32,
    /// `ee_data`.
    pub data: u32,
}

/// Calls recvmsg(2). Returns how many bytes arrived, and the control messages with them, aligned as words.
///
/// # Errors
///
/// Those of recvmsg(2).
#[inline]
pub fn receive<'c>(
    socket: impl AsFd,
    bytes: &mut [u8],
    control: &'c mut [u64],
    flags: i32,
) -> io::Result<(usize, &'c [u8])> {
    let mut part = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    // SAFETY: all of msghdr may be zero: no address, no buffers.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    header.msg_iov = &raw mut part;
    header.msg_iovlen = 1;
    header.msg_control = control.as_mut_ptr().cast();
    header.msg_controllen = size_of_val(control) as _;
    // SAFETY: the header names one buffer and the control words, with their true lengths, and all
    // of them outlive the call.
    let received = unsafe { libc::recvmsg(socket.as_fd().as_raw_fd(), &raw mut header, flags) };
    let received = usize::try_from(received).map_err(|_| io::Error::last_os_error())?;
    // SAFETY: the words are as many bytes, and any byte may be read.
    let control =
        unsafe { std::slice::from_raw_parts(control.as_ptr().cast::<u8>(), size_of_val(control)) };
    let length = (header.msg_controllen as usize).min(control.len());
    Ok((received, &control[..length]))
}

/// The control messages: level, type and data of each.
pub fn messages(mut control: &[u8]) -> impl Iterator<Item = (i32, i32, &[u8])> {
    const HEADER: usize = 16;
    std::iter::from_fn(move || {
        let length = u64::from_ne_bytes(*control.first_chunk()?) as usize;
        let level = i32::from_ne_bytes(control.get(8..12)?.try_into().ok()?);
        let kind = i32::from_ne_bytes(control.get(12..16)?.try_into().ok()?);
        let data = control.get(HEADER..length)?;
        control = control.get(length.next_multiple_of(8)..).unwrap_or(&[]);
        Some((level, kind, data))
    })
}

/// The error among the control messages.
#[inline]
pub fn error_in(control: &[u8]) -> Option<ExtendedError> {
    let (_, _, data) = messages(control).find(|(level, kind, _)| {
        matches!(
            (*level, *kind),
            (libc::SOL_IP, libc::IP_RECVERR) | (libc::SOL_IPV6, libc::IPV6_RECVERR)
        )
    })?;
    let word = |at: usize| Some(u32::from_ne_bytes(*data.get(at..)?.first_chunk()?));
    Some(ExtendedError {
        errno: word(0)?,
        origin: *data.get(4)?,
        kind: *data.get(5)?,
        code: *data.get(6)?,
        info: word(8)?,
        data: word(12)?,
    })
}

/// Takes what is first in the socket's error queue.
///
/// # Errors
/// Those of recvmsg(2), and a message that is no error.
#[inline]
pub fn next_error(socket: impl AsFd) -> io::Result<Option<ExtendedError>> {
    let flags = libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT;
    match receive(socket, &mut [], &mut [0; 16], flags) {
        Ok((_, control)) => error_in(control)
            .map(Some)
            .ok_or_else(|| io::Error::other("the socket's error queue holds what is no error")),
        Err(error) if is_passing(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A control message, as the kernel lays it out.
    pub(crate) fn message(level: i32, kind: i32, data: &[u8]) -> Vec<u8> {
        let mut bytes = (16 + data.len() as u64).to_ne_bytes().to_vec();
        bytes.extend(level.to_ne_bytes());
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(data);
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        bytes
    }

    #[test]
    fn messages_that_are_cut_or_strange_are_none() {
        let mut error = 5_u32.to_ne_bytes().to_vec();
        error.extend([4, 3, 1, 0]);
        error.extend(7_u32.to_ne_bytes());
        error.extend(42_u32.to_ne_bytes());
        let mut control = message(libc::SOL_SOCKET, 0, &[7; 11]);
        control.extend(message(libc::SOL_IP, libc::IP_RECVERR, &error));
        assert_eq!(
            error_in(&control),
            Some(ExtendedError { errno: 5, origin: 4, kind: 3, code: 1, info: 7, data: 42 })
        );
        for length in 0..control.len() {
            assert!(error_in(&control[..length]).is_none(), "{length}");
        }
        let endless = message(0, 0, &[]).repeat(3);
        assert_eq!(messages(&endless).count(), 3);
        assert_eq!(messages(&[0; 64]).count(), 0);
        assert_eq!(messages(&[0xff; 64]).count(), 0);
    }
}
