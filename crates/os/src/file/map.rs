//! A mapping of a file, or of a part of it.
//!
//! Source: mmap(2), munmap(2), madvise(2).

use std::fs::File;
use std::io;
use std::ptr;

use rustix::mm::{Advice, MapFlags, ProtFlags};

/// Who owns the written pages of a mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// The file: the pages are only read (`MAP_SHARED`).
    ReadShared,
    /// The mapping: the first write to a page copies it (`MAP_PRIVATE`).
    WritePrivate,
}

/// A mapping of bytes of a file, without any pages yet; unmapped on drop.
#[derive(Debug)]
pub(super) struct Mapping {
    start: *mut u8,
    len: usize,
    sharing: Sharing,
}

impl Mapping {
    /// Maps `len` bytes from `offset` on, which is a multiple of a page.
    pub(super) fn new(file: &File, offset: u64, len: usize, sharing: Sharing) -> io::Result<Self> {
        let (flags, protection) = match sharing {
            Sharing::ReadShared => (MapFlags::SHARED, ProtFlags::READ),
            Sharing::WritePrivate => (MapFlags::PRIVATE, ProtFlags::READ | ProtFlags::WRITE),
        };
        // SAFETY: a fresh mapping at an address that the kernel chooses disturbs nothing.
        let start =
            unsafe { rustix::mm::mmap(ptr::null_mut(), len, protection, flags, file, offset) }?;
        let start = start.cast();
        Ok(Self { start, len, sharing })
    }

    /// Where it begins. Accesses beyond the file's end raise SIGBUS.
    #[inline]
    pub(super) fn start(&self) -> *mut u8 {
        self.start
    }

    /// Its length in bytes.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Who owns its written pages.
    pub(super) fn sharing(&self) -> Sharing {
        self.sharing
    }

    /// Makes the kernel read nothing ahead (`MADV_RANDOM`).
    pub(super) fn disable_read_ahead(&self) -> io::Result<()> {
        self.advise(Advice::Random)
    }

    /// Unmaps the pages of a mapping that is only read, so that they can be evicted: the next load from
    /// each faults (`MADV_DONTNEED`).
    pub(super) fn unmap_pages(&self) -> io::Result<()> {
        assert_eq!(self.sharing, Sharing::ReadShared, "written pages would be lost");
        self.advise(Advice::LinuxDontNeed)
    }

    fn advise(&self, advice: Advice) -> io::Result<()> {
        // SAFETY: the range is this mapping's own, and neither advice changes what is in it.
        Ok(unsafe { rustix::mm::madvise(self.start.cast(), self.len, advice) }?)
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is this one's own, and nothing points into it any more.
        let unmapped = unsafe { rustix::mm::munmap(self.start.cast(), self.len) };
        debug_assert_eq!(unmapped, Ok(()), "an own mapping can be unmapped");
    }
}
