//! Setting and asking for socket options that neither the standard library nor rustix knows.
//!
//! Source: setsockopt(2), getsockopt(2).

use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// Sets an option to numbers as the kernel lays them out.
pub(crate) fn set<const WORDS: usize>(
    socket: &impl AsFd,
    (level, option): (libc::c_int, libc::c_int),
    value: [u32; WORDS],
) -> io::Result<()> {
    // SAFETY: the kernel reads as many bytes as the array has.
    let status = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            level,
            option,
            value.as_ptr().cast(),
            size_of_val(&value) as libc::socklen_t,
        )
    };
    match status {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// What an option that is one number is set to.
#[inline]
pub(crate) fn ask(
    socket: &impl AsFd,
    (level, option): (libc::c_int, libc::c_int),
) -> io::Result<u32> {
    let mut value = 0_u32;
    let mut length = size_of_val(&value) as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes to the value, which has them.
    let status = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            level,
            option,
            (&raw mut value).cast(),
            &raw mut length,
        )
    };
    match status {
        0 => Ok(value),
        _ => Err(io::Error::last_os_error()),
    }
}
