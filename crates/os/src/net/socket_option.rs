//! Sets and gets socket options that neither the standard library nor rustix supports.
//!
//! For this crate alone: the numbers of some options are addresses at which the kernel reads or writes
//! (`SO_ATTACH_FILTER`, `TCP_ZEROCOPY_RECEIVE`), so whoever uses one of those answers for the memory there.
//!
//! Source: setsockopt(2), getsockopt(2).

use std::ffi::c_int;
use std::io;
use std::os::fd::{AsFd, AsRawFd};

use crate::system_call::check;

/// Types for which every bit pattern is valid.
///
/// # Safety
///
/// Every bit pattern of the type must be valid, and it must have no padding.
pub(crate) unsafe trait Plain {}
// SAFETY: these are numbers.
unsafe impl Plain for i32 {}
// SAFETY: as above.
unsafe impl Plain for u32 {}

/// Sets an option to numbers as the kernel lays them out.
pub(crate) fn set<T: Plain>(
    socket: impl AsFd,
    (level, option): (c_int, c_int),
    value: &[T],
) -> io::Result<()> {
    // SAFETY: the kernel reads as many bytes as the slice has.
    check(unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            level,
            option,
            value.as_ptr().cast(),
            size_of_val(value) as libc::socklen_t,
        )
    })
    .map(drop)
}

/// Fetches an option. What the kernel does not fill in stays as it is.
#[inline]
pub(crate) fn fetch<T: Plain>(
    socket: impl AsFd,
    (level, option): (c_int, c_int),
    value: &mut [T],
) -> io::Result<()> {
    let mut length = size_of_val(value) as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes to the slice, which has them, and any bytes
    // are valid there.
    check(unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            level,
            option,
            value.as_mut_ptr().cast(),
            &raw mut length,
        )
    })
    .map(drop)
}

/// As [`fetch`], for an option that is one number.
#[inline]
pub(crate) fn fetch_number(socket: impl AsFd, option: (c_int, c_int)) -> io::Result<u32> {
    let mut value = [0_u32];
    fetch(socket, option, &mut value)?;
    Ok(value[0])
}
