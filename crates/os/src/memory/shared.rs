//! Memory that a process shares with the children that it forks.
//!
//! Source: mmap(2), `MAP_SHARED` with `MAP_ANONYMOUS`.

use std::io;
use std::ptr;

use rustix::mm::{MapFlags, ProtFlags};

/// A shared anonymous mapping of zeroes, in memory already, unmapped on drop. A forked child has it at the
/// same address, as long as the child lives.
#[derive(Debug)]
pub(crate) struct SharedMemory {
    start: *mut u8,
    len: usize,
}

// SAFETY: the mapping belongs to this value; who points into it answers for what is done there.
unsafe impl Send for SharedMemory {}

impl SharedMemory {
    /// Maps `bytes` bytes, aligned to a page.
    ///
    /// # Errors
    ///
    /// The errors of mmap(2): `ENOMEM`, or `EINVAL` for zero bytes.
    pub(crate) fn map(bytes: usize) -> io::Result<Self> {
        // SAFETY: a fresh mapping at an address that the kernel chooses disturbs nothing.
        let start = unsafe {
            rustix::mm::mmap_anonymous(
                ptr::null_mut(),
                bytes,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED | MapFlags::POPULATE,
            )
        }?;
        Ok(Self { start: start.cast(), len: bytes })
    }

    /// Its first byte.
    pub(crate) fn as_ptr(&self) -> *mut u8 {
        self.start
    }
}

impl Drop for SharedMemory {
    fn drop(&mut self) {
        // SAFETY: the range is this mapping's own, and nobody uses it any more.
        let unmapped = unsafe { rustix::mm::munmap(self.start.cast(), self.len) };
        debug_assert!(unmapped.is_ok(), "a mapping of our own can be unmapped");
    }
}
