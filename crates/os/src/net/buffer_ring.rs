//! A ring by which a program lends buffers to io_uring: the kernel takes the next one when it receives into it, or
//! sends from it.
//!
//! Source: io_uring_register_buf_ring(3) (Linux 5.19).

use std::io;
use std::sync::atomic::{AtomicU16, Ordering};

use io_uring::types::BufRingEntry;
use io_uring::{IoUring, cqueue};

use crate::memory::arena::{Arena, PageSize};
use crate::net::unsupported;

/// The entries, and how many were ever added.
pub(super) struct BufferRing {
    entries: Arena,
    count: u16,
    tail: u16,
}

impl BufferRing {
    /// An empty ring with room for `count` buffers, a power of two, registered as this group. It has to stay until
    /// the io_uring is gone.
    ///
    /// # Errors
    ///
    /// `Unsupported` if this kernel has no such rings; those of mmap(2).
    pub(super) fn register(ring: &IoUring, count: u16, group: u16) -> io::Result<Self> {
        let mut entries =
            Arena::map(usize::from(count) * size_of::<BufRingEntry>(), PageSize::Base)?;
        entries.populate()?;
        let address = entries.address() as u64;
        // SAFETY: the entries are as many, begin at a page, and stay until the ring is gone.
        unsafe { ring.submitter().register_buf_ring_with_flags(address, count, group, 0) }
            .map_err(|error| {
                unsupported(format!(
                    "this kernel does not support rings of buffers: {error} (Linux 5.19)"
                ))
            })?;
        Ok(Self { entries, count, tail: 0 })
    }

    /// Lends the kernel the first `bytes` of the memory at this address, as this buffer. The kernel may write to it,
    /// so nobody else may read it until the kernel says that it is done.
    #[inline]
    pub(super) fn lend(&mut self, buffer: u16, address: usize, bytes: usize) {
        let ring = self.entries.start().cast::<BufRingEntry>();
        // SAFETY: the arena holds as many entries, and zeroes are valid ones; the kernel reads an
        // entry only when the tail is beyond it.
        let entry = unsafe { &mut *ring.add(usize::from(self.tail % self.count)) };
        entry.set_addr(address as u64);
        entry.set_len(bytes as u32);
        entry.set_bid(buffer);
        self.tail = self.tail.wrapping_add(1);
        // SAFETY: the tail lies in the ring's first entry, at a multiple of two; the kernel reads it
        // as it would an atomic number.
        let tail = unsafe { AtomicU16::from_ptr(BufRingEntry::tail(ring).cast_mut()) };
        tail.store(self.tail, Ordering::Release);
    }

    /// The buffer that a multishot receive has filled, and with how many bytes: none at the end of the stream. `None` if it
    /// must be requested again, as where all buffers were full.
    #[inline]
    pub(super) fn filled(&self, completion: &cqueue::Entry) -> io::Result<Option<(u16, usize)>> {
        match completion.result() {
            0 => Ok(Some((0, 0))),
            bytes @ 1.. => {
                let buffer = cqueue::buffer_select(completion.flags());
                let buffer = buffer.filter(|buffer| *buffer < self.count);
                let none = || io::Error::other("received bytes are in no buffer");
                Ok(Some((buffer.ok_or_else(none)?, bytes as usize)))
            }
            error => match -error {
                libc::ENOBUFS | libc::EINTR => Ok(None),
                libc::EINVAL => {
                    Err(unsupported("this kernel's io_uring has no multishot receive (Linux 6.0)"))
                }
                error => Err(io::Error::from_raw_os_error(error)),
            },
        }
    }
}
