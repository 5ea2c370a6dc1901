//! Measured: registering memory with io_uring, which pins its pages, and unregistering it.
//!
//! Source: io_uring_setup(2), `IORING_REGISTER_BUFFERS` and `IORING_UNREGISTER_BUFFERS` in
//! io_uring_register(2) (Linux 5.1); `VmPin` in proc_pid_status(5) (Linux 3.2).

use std::fs;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::ptr;

use crate::process::status::{STATUS, status_bytes};
use crate::system_call::check;

/// An io_uring ring to which no request is submitted.
#[derive(Debug)]
pub struct Ring(OwnedFd);

const REGISTER_BUFFERS: libc::c_uint = 0;
const UNREGISTER_BUFFERS: libc::c_uint = 1;

impl Ring {
    /// A ring with one entry.
    ///
    /// # Errors
    ///
    /// The errors of io_uring_setup(2): `ENOSYS` without CONFIG_IO_URING, `EPERM` if
    /// `kernel.io_uring_disabled` (Linux 6.6) or a seccomp filter forbids it, `ENOMEM` before Linux 5.12
    /// where the limit of locked memory is too small.
    pub fn open() -> io::Result<Self> {
        /// Bytes of `struct io_uring_params`, as multiples of its alignment.
        const PARAMETER_WORDS: usize = 120 / 8;
        let mut parameters = [0_u64; PARAMETER_WORDS];
        // SAFETY: the parameters are as many bytes as the kernel reads and writes; zeroes ask for
        // nothing special.
        let ring = unsafe { libc::syscall(libc::SYS_io_uring_setup, 1, parameters.as_mut_ptr()) };
        // SAFETY: the kernel just gave this descriptor, which fits its type, to nobody else.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(check(ring)? as RawFd) }))
    }

    /// Registers this memory as the ring's one buffer, and unregisters it, `n` times: two system
    /// calls each.
    ///
    /// # Errors
    ///
    /// The first error of io_uring_register(2): `ENOMEM` if the limit of locked memory (`RLIMIT_MEMLOCK`, per
    /// user) is too small, `EFAULT` for more than 1 GiB.
    pub fn register_unregister(&self, memory: &mut [u8], n: u64) -> io::Result<()> {
        for _ in 0..n {
            self.register(memory)?;
            self.unregister()?;
        }
        Ok(())
    }

    /// How many more bytes are pinned while this memory is registered, as `VmPin` reports.
    /// Allocates.
    pub fn pinned_bytes(&self, memory: &mut [u8]) -> io::Result<u64> {
        let before = pinned_bytes()?;
        self.register(memory)?;
        let during = pinned_bytes();
        self.unregister()?;
        match during?.saturating_sub(before) {
            0 => Err(io::Error::other("VmPin does not count what io_uring pins (Linux 5.9)")),
            pinned => Ok(pinned),
        }
    }

    #[inline]
    fn register(&self, memory: &mut [u8]) -> io::Result<()> {
        let buffer = libc::iovec { iov_base: memory.as_mut_ptr().cast(), iov_len: memory.len() };
        self.call(REGISTER_BUFFERS, &raw const buffer, 1)
    }

    #[inline]
    fn unregister(&self) -> io::Result<()> {
        self.call(UNREGISTER_BUFFERS, ptr::null(), 0)
    }

    #[inline]
    fn call(
        &self,
        operation: libc::c_uint,
        buffers: *const libc::iovec,
        count: u32,
    ) -> io::Result<()> {
        let ring = self.0.as_raw_fd();
        // SAFETY: `buffers` are `count` valid ones whose memory is borrowed mutably by whoever
        // calls; no request is ever made, so the kernel never writes to it.
        check(unsafe {
            libc::syscall(libc::SYS_io_uring_register, ring, operation, buffers, count)
        })
        .map(drop)
    }
}

fn pinned_bytes() -> io::Result<u64> {
    let pinned = status_bytes(&fs::read_to_string(STATUS)?, "VmPin:");
    pinned.ok_or_else(|| io::Error::other("/proc/self/status has no VmPin"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::arena::{Arena, PageSize, base_page_bytes};

    #[test]
    fn registered_pages_are_pinned_and_let_go() {
        let ring = match Ring::open() {
            Ok(ring) => ring,
            Err(error) => return eprintln!("skipped: io_uring_setup: {error}"),
        };
        let mut arena = Arena::map(4 * base_page_bytes(), PageSize::Base).unwrap();
        arena.populate().unwrap();
        let len = arena.len() as u64;
        let memory = arena.as_mut_slice();
        match ring.register_unregister(memory, 10) {
            Ok(()) => assert!(ring.pinned_bytes(memory).unwrap() >= len),
            Err(error) => eprintln!("skipped: io_uring_register: {error}"),
        }
        assert!(ring.register_unregister(&mut [], 1).is_err());
        assert!(ring.unregister().is_err(), "nothing is left registered");
    }
}
