//! Anonymous memory on pages of a requested size, which can be counted afterwards.
//!
//! Source: mmap(2), madvise(2), proc(5) on smaps, Linux Documentation/admin-guide/mm/transhuge.rst.

use std::ffi::c_void;
use std::fs;
use std::io;
use std::ops::Range;
use std::ptr;

use crate::process::status::kib_value;
use crate::system_call::{invalid, unsupported};
use rustix::mm::{Advice, MapFlags, MprotectFlags, ProtFlags};

/// The pages that an arena requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PageSize {
    /// The smallest pages (4 KiB on x86-64), even where transparent huge pages are always on.
    Base,
    /// Transparent huge pages (2 MiB on x86-64). This is only a request: [`Arena::huge_bytes`] shows how many
    /// the kernel gave.
    Huge,
}

/// A private anonymous mapping, aligned to a huge page, unmapped on drop.
///
/// There is an inaccessible guard on either side, so that the kernel merges it with no other mapping and
/// smaps reports on this arena alone.
#[derive(Debug)]
pub struct Arena {
    start: *mut u8,
    len: usize,
    reserved: *mut c_void,
    reserved_len: usize,
}

// SAFETY: the arena owns its mapping, like a `Vec<u8>`.
unsafe impl Send for Arena {}
// SAFETY: a shared arena is only read.
unsafe impl Sync for Arena {}

impl Arena {
    /// Maps at least `bytes` bytes of zeroes, none of them in memory yet: rounded up to a page of
    /// the size asked for.
    ///
    /// Check how much memory is left first: Linux grants more memory than there is, and kills processes later.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for zero bytes or more than the address space; otherwise the errors of mmap(2),
    /// mprotect(2) and madvise(2). For [`PageSize::Huge`] `Unsupported` if the kernel has no transparent huge
    /// pages. A kernel without them gives [`PageSize::Base`] all the same.
    pub fn map(bytes: usize, pages: PageSize) -> io::Result<Self> {
        let unit = match pages {
            PageSize::Base => base_page_bytes(),
            PageSize::Huge => huge_page_bytes().ok_or_else(no_huge_pages)?,
        };
        let len = bytes.checked_next_multiple_of(unit).filter(|&len| len > 0);
        Self::map_exactly(len.unwrap_or(usize::MAX), pages)
    }

    /// The same without rounding to the pages that are asked for: `len` is a multiple of a base page.
    pub(crate) fn map_exactly(len: usize, pages: PageSize) -> io::Result<Self> {
        let alignment = huge_page_bytes().unwrap_or(USUAL_HUGE_BYTES);
        let Some(reserved_len) = len.checked_add(2 * alignment) else {
            return Err(invalid("cannot map zero bytes, or more than the address space"));
        };
        // SAFETY: a fresh mapping at an address that the kernel chooses disturbs nothing.
        let reserved = unsafe {
            rustix::mm::mmap_anonymous(
                ptr::null_mut(),
                reserved_len,
                ProtFlags::empty(),
                MapFlags::PRIVATE | MapFlags::NORESERVE,
            )
        }?;
        // At least one byte, hence one page, of guard before it, and as much after it.
        let before = alignment - reserved.addr() % alignment;
        let arena =
            Self { start: reserved.cast::<u8>().wrapping_add(before), len, reserved, reserved_len };
        arena.open(pages)?;
        Ok(arena)
    }

    /// Makes the part between the guards accessible, with its kind of pages.
    fn open(&self, pages: PageSize) -> io::Result<()> {
        // SAFETY: the range lies inside the mapping just made, which nobody else knows.
        unsafe {
            rustix::mm::mprotect(
                self.start.cast(),
                self.len,
                MprotectFlags::READ | MprotectFlags::WRITE,
            )
        }?;
        let advice = match pages {
            PageSize::Base => Advice::LinuxNoHugepage,
            PageSize::Huge => Advice::LinuxHugepage,
        };
        // SAFETY: as above; this advice changes no content.
        match unsafe { rustix::mm::madvise(self.start.cast(), self.len, advice) } {
            // A kernel without transparent huge pages gives base pages anyway.
            Err(rustix::io::Errno::INVAL) if pages == PageSize::Base => Ok(()),
            Err(rustix::io::Errno::INVAL) => Err(no_huge_pages()),
            answer => Ok(answer?),
        }
    }

    /// Brings every page into memory and keeps its contents: `MADV_POPULATE_WRITE` (Linux 5.14), else by
    /// writing to each page.
    ///
    /// # Errors
    ///
    /// The errors of madvise(2): `ENOMEM`, `EFAULT` or `EHWPOISON`. The fallback cannot fail; the process is
    /// killed if there is not enough memory.
    pub fn populate(&mut self) -> io::Result<()> {
        // SAFETY: the range is this arena's own, and populating changes no content.
        let populated =
            unsafe { rustix::mm::madvise(self.start.cast(), self.len, Advice::LinuxPopulateWrite) };
        match populated {
            Err(rustix::io::Errno::INVAL) => {
                self.touch();
                Ok(())
            }
            answer => Ok(answer?),
        }
    }

    fn touch(&mut self) {
        for offset in (0..self.len).step_by(base_page_bytes()) {
            // SAFETY: the offset lies inside the arena, which is readable and writable and
            // borrowed mutably; the same byte is written back.
            unsafe {
                let byte = self.start.add(offset);
                byte.write_volatile(byte.read_volatile());
            }
        }
    }

    /// How many of its bytes are in huge pages now, transparent or explicit, as /proc/self/smaps reports
    /// (`AnonHugePages`, `Private_Hugetlb`). In a virtual machine, this is only the guest's view; the host
    /// may still back them with small pages.
    ///
    /// # Errors
    ///
    /// When /proc/self/smaps cannot be read.
    pub fn huge_bytes(&self) -> io::Result<u64> {
        smaps_bytes(self.as_slice(), &["AnonHugePages", "Private_Hugetlb"])
    }

    /// Its length in bytes.
    #[inline]
    #[expect(clippy::len_without_is_empty, reason = "an arena is never empty")]
    pub fn len(&self) -> usize {
        self.len
    }

    /// The address of its first byte, a multiple of the huge page size.
    #[inline]
    pub fn address(&self) -> usize {
        self.start.addr()
    }

    /// Its bytes.
    #[inline]
    pub fn as_slice(&self) -> &[u8] {
        // SAFETY: `len` readable, initialised (zero-filled) bytes, borrowed as the arena is.
        unsafe { std::slice::from_raw_parts(self.start, self.len) }
    }

    /// Its bytes, to write to.
    #[inline]
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        // SAFETY: `len` writable, initialised bytes, borrowed mutably as the arena is.
        unsafe { std::slice::from_raw_parts_mut(self.start, self.len) }
    }

    /// Writes a different number to each 64-bit word of a range, which must begin and end at a word: its
    /// position, counted from the arena's start, times an odd constant.
    ///
    /// # Panics
    ///
    /// If the range lies outside the arena.
    pub fn number_words(&mut self, bytes: Range<usize>) {
        let first = bytes.start / size_of::<u64>();
        let (words, _) = self.as_mut_slice()[bytes].as_chunks_mut();
        for (position, word) in words.iter_mut().enumerate() {
            // Knuth's multiplier of 64 bits.
            let number = ((first + position) as u64).wrapping_mul(6_364_136_223_846_793_005);
            *word = number.to_ne_bytes();
        }
    }

    /// Its first byte, for this crate's own instruction sequences.
    pub(crate) fn start(&mut self) -> *mut u8 {
        self.start
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        // SAFETY: the mapping is this arena's own, and no borrow of it is left.
        let unmapped = unsafe { rustix::mm::munmap(self.reserved, self.reserved_len) };
        debug_assert_eq!(unmapped, Ok(()), "an arena's own mapping can be unmapped");
    }
}

const USUAL_HUGE_BYTES: usize = 2 << 20;

fn no_huge_pages() -> io::Error {
    unsupported(
        "this kernel reports no transparent huge pages (CONFIG_TRANSPARENT_HUGEPAGE, and /sys)",
    )
}

/// Bytes of a base page: 4 KiB on x86-64; 4, 16 or 64 KiB on aarch64.
pub fn base_page_bytes() -> usize {
    rustix::param::page_size()
}

/// Bytes of a transparent huge page: 2 MiB with 4 KiB base pages, 512 MiB with 64 KiB ones; `None` if the
/// kernel has none. Source: /sys/kernel/mm/transparent_hugepage/hpage_pmd_size.
pub fn huge_page_bytes() -> Option<usize> {
    let bytes = fs::read_to_string("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size").ok()?;
    bytes.trim().parse().ok()
}

/// What /proc/self/smaps counts under these names (`Rss`, `Anonymous`, `AnonHugePages` …) for the
/// mappings that lie inside `memory`, in bytes. Mappings that it shares with neighbours do not count.
///
/// # Errors
///
/// When /proc/self/smaps cannot be read.
pub fn smaps_bytes(memory: &[u8], names: &[&str]) -> io::Result<u64> {
    let smaps = fs::read_to_string("/proc/self/smaps")?;
    let range = memory.as_ptr_range();
    Ok(bytes_between(&smaps, range.start.addr(), range.end.addr(), names))
}

/// Sums what smaps counts under some names for the mappings that lie between two addresses.
fn bytes_between(smaps: &str, start: usize, end: usize, names: &[&str]) -> u64 {
    let mut inside = false;
    let mut kib = 0;
    for line in smaps.lines() {
        if let Some((from, to)) = mapping_range(line) {
            inside = from >= start && to <= end;
        } else if inside
            && let Some((name, value)) = line.split_once(':')
            && names.contains(&name)
        {
            kib += kib_value(value).unwrap_or(0);
        }
    }
    kib * 1024
}

/// The address range of a mapping's line in maps, and its first line in smaps.
pub(crate) fn mapping_range(line: &str) -> Option<(usize, usize)> {
    let (from, to) = line.split_whitespace().next()?.split_once('-')?;
    let address = |digits| usize::from_str_radix(digits, 16).ok();
    Some((address(from)?, address(to)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_arena_is_zeroed_writable_and_keeps_its_content_when_populated() {
        let mut arena = Arena::map(1_000_000, PageSize::Base).unwrap();
        assert!(arena.len() >= 1_000_000 && arena.len() < 1_000_000 + base_page_bytes());
        assert_eq!(arena.address() % USUAL_HUGE_BYTES, 0);
        let last = arena.len() - 1;
        arena.as_mut_slice()[last] = 7;
        arena.populate().unwrap();
        arena.touch();
        assert_eq!(arena.as_slice()[last], 7);
        assert!(arena.as_slice()[..last].iter().all(|&byte| byte == 0));
        assert_eq!(arena.huge_bytes().unwrap(), 0);
    }

    #[test]
    fn two_arenas_are_counted_apart() {
        let Ok(mut huge) = Arena::map(8 << 20, PageSize::Huge) else {
            return;
        };
        let mut base = Arena::map(8 << 20, PageSize::Base).unwrap();
        let mut other = Arena::map(8 << 20, PageSize::Huge).unwrap();
        huge.populate().unwrap();
        base.populate().unwrap();
        other.populate().unwrap();
        assert_eq!(base.huge_bytes().unwrap(), 0);
        for arena in [&huge, &other] {
            let bytes = arena.huge_bytes().unwrap();
            assert!(bytes <= arena.len() as u64);
            note_unless(bytes > 0, "no transparent huge page was given");
        }
    }

    fn note_unless(met: bool, reason: &str) {
        if !met {
            eprintln!("checked less: {reason}");
        }
    }

    #[test]
    fn no_bytes_and_too_many_bytes_are_refused() {
        assert!(Arena::map(0, PageSize::Base).is_err());
        assert!(Arena::map(usize::MAX, PageSize::Base).is_err());
        assert!(Arena::map(usize::MAX / 2, PageSize::Base).is_err());
    }

    #[test]
    fn smaps_are_read_by_mapping() {
        let smaps = "1000-3000 rw-p 00000000 00:00 0\nSize: 8 kB\nAnonHugePages: 2048 kB\n\
                     3000-5000 rw-p 00000000 00:00 0 [heap]\nAnonHugePages:      4096 kB\n\
                     Private_Hugetlb:      2 kB\nVmFlags: rd wr\n";
        let huge = |start, end| {
            bytes_between(smaps, start, end, &["AnonHugePages", "Private_Hugetlb"]) >> 10
        };
        assert_eq!(huge(0x1000, 0x3000), 2048);
        assert_eq!(huge(0x3000, 0x5000), 4098);
        assert_eq!(huge(0x1000, 0x5000), 6146);
        assert_eq!(huge(0x1000, 0x2000), 0);
        assert_eq!(bytes_between(smaps, 0x1000, 0x5000, &["Size"]), 8 << 10);
    }
}
