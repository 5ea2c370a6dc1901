//! Measured: mapping anonymous memory, touching one page of it, and unmapping it, through libc as
//! programs and allocators do.
//!
//! Source: mmap(2), munmap(2), `PR_SET_THP_DISABLE` in prctl(2) (Linux 3.15).

use crate::system_call::check;
use rustix::thread::{disable_transparent_huge_pages, transparent_huge_pages_are_disabled};
use std::ffi::c_void;
use std::io;
use std::ptr;

/// When a mapping gets its pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pages {
    /// It begins empty; the first access to a page causes a fault that brings the page.
    OnTouch,
    /// `MAP_POPULATE`: mmap(2) brings every page.
    Populated,
}

/// Maps `bytes` of private anonymous memory, writes to its first byte, and unmaps it, `n` times.
///
/// # Errors
///
/// The first error of mmap(2) and munmap(2).
pub fn map_touch_unmap(bytes: usize, pages: Pages, n: u64) -> io::Result<()> {
    for _ in 0..n {
        let start = map(bytes, pages)?;
        // SAFETY: the mapping is writable, not empty, and known here alone.
        unsafe { start.cast::<u8>().write_volatile(1) };
        // SAFETY: it was just mapped, and nobody uses it.
        unsafe { unmap(start, bytes) }?;
    }
    Ok(())
}

/// The same once, with `stamp` called before, between and after the three.
pub fn stamped(bytes: usize, pages: Pages, mut stamp: impl FnMut() -> u64) -> io::Result<[u64; 4]> {
    let before = stamp();
    let start = map(bytes, pages)?;
    let mapped = stamp();
    // SAFETY: the mapping is writable, not empty, and known here alone.
    unsafe { start.cast::<u8>().write_volatile(1) };
    let touched = stamp();
    // SAFETY: it was just mapped, and nobody uses it.
    unsafe { unmap(start, bytes) }?;
    Ok([before, mapped, touched, stamp()])
}

#[inline]
fn map(bytes: usize, pages: Pages) -> io::Result<*mut c_void> {
    // The kernel should not reserve memory that is never touched.
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    let populate = match pages {
        Pages::OnTouch => 0,
        Pages::Populated => libc::MAP_POPULATE,
    };
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a fresh mapping at an address that the kernel chooses disturbs nothing.
    let start = unsafe { libc::mmap(ptr::null_mut(), bytes, protection, flags | populate, -1, 0) };
    if start == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    Ok(start)
}

/// # Safety
///
/// The range is a mapping of the caller's own that nobody uses any more.
#[inline]
unsafe fn unmap(start: *mut c_void, bytes: usize) -> io::Result<()> {
    // SAFETY: as the caller promises.
    check(unsafe { libc::munmap(start, bytes) }).map(drop)
}

/// While this exists, the process gets no new transparent huge pages, even where they are always on.
#[derive(Debug)]
pub struct NoHugePages {
    were_disabled: bool,
}

impl NoHugePages {
    /// From now on, for all threads of this process.
    ///
    /// # Errors
    ///
    /// `InvalidInput` before Linux 3.15.
    pub fn begin() -> io::Result<Self> {
        let were_disabled = transparent_huge_pages_are_disabled()?;
        disable_transparent_huge_pages(true)?;
        Ok(Self { were_disabled })
    }
}

impl Drop for NoHugePages {
    fn drop(&mut self) {
        let restored = disable_transparent_huge_pages(self.were_disabled);
        debug_assert!(restored.is_ok(), "what could be set can be set back");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::arena::{Arena, PageSize, base_page_bytes};
    use crate::sched::usage;

    fn faults(bytes: usize, pages: Pages) -> u64 {
        let before = usage::thread();
        map_touch_unmap(bytes, pages, 100).unwrap();
        usage::thread().since(&before).minor_faults
    }

    #[test]
    fn one_page_comes_on_touch_and_all_where_they_come_with_the_mapping() {
        for bytes in [base_page_bytes(), 1 << 20] {
            assert!((100..110).contains(&faults(bytes, Pages::OnTouch)));
            // The kernel also counts faults for pages that it populates itself.
            let pages = (100 * bytes / base_page_bytes()) as u64;
            assert!((pages..pages + 10).contains(&faults(bytes, Pages::Populated)));
        }
        assert!(map_touch_unmap(usize::MAX, Pages::OnTouch, 1).is_err());
    }

    #[test]
    fn stamps_are_taken_in_order() {
        let mut time = 0;
        let stamps = stamped(base_page_bytes(), Pages::OnTouch, || {
            time += 1;
            time
        });
        assert_eq!(stamps.unwrap(), [1, 2, 3, 4]);
    }

    #[test]
    fn huge_pages_are_off_for_a_while() {
        let Ok(mut before) = Arena::map(4 << 20, PageSize::Huge) else {
            return;
        };
        before.populate().unwrap();
        let off = NoHugePages::begin().unwrap();
        if let Ok(mut during) = Arena::map(4 << 20, PageSize::Huge) {
            during.populate().unwrap();
            assert_eq!(during.huge_bytes().unwrap(), 0);
        }
        drop(off);
        let mut after = Arena::map(4 << 20, PageSize::Huge).unwrap();
        after.populate().unwrap();
        if before.huge_bytes().unwrap() > 0 {
            assert!(after.huge_bytes().unwrap() > 0);
        }
    }
}
