//! Measured: page faults of a known kind. Each batch gets memory without mapped pages, makes first
//! touches that cause one page fault each, and compares them with what the kernel counted.
//!
//! Source: mmap(2), madvise(2), getrusage(2), proc(5) on smaps and on io; Linux mm/memory.c.

use std::io;
use std::ops::Range;
use std::path::Path;
use std::rc::Rc;

use crate::file::scratch::{CONTENT, FileMap, Scratch, Sharing};
use crate::memory::arena::{Arena, PageSize, base_page_bytes, huge_page_bytes, smaps_bytes};
use crate::memory::touch::{read_at, read_pages, write_pages};
use crate::sched::usage;

/// The pages that are touched, and hence what the kernel has to do for a touch.
#[derive(Clone, Debug)]
pub enum Pages {
    /// Of anonymous memory, written to: a page is found and cleared.
    Anonymous(PageSize),
    /// Of a file in the page cache, read through a shared mapping: a page is mapped.
    Cached(Rc<Scratch>),
    /// Of a file in the page cache, written to through a private mapping after they were read: a
    /// page is copied.
    CopyOnWrite(Rc<Scratch>),
    /// Of a file that is evicted before each batch, read through a shared mapping: a page is read
    /// from its device.
    Evicted(Rc<Scratch>),
}

impl Pages {
    fn file(&self) -> Option<&Scratch> {
        match self {
            Self::Anonymous(_) => None,
            Self::Cached(file) | Self::CopyOnWrite(file) | Self::Evicted(file) => Some(file),
        }
    }

    /// The name in smaps for the pages that a touch brings.
    fn in_smaps(&self) -> &'static str {
        match self {
            Self::Anonymous(PageSize::Huge) => "AnonHugePages",
            Self::Anonymous(PageSize::Base) | Self::CopyOnWrite(_) => "Anonymous",
            Self::Cached(_) | Self::Evicted(_) => "Rss",
        }
    }

    /// The size of one page in bytes.
    pub fn page_bytes(&self) -> usize {
        match self {
            Self::Anonymous(PageSize::Huge) => huge_page_bytes().unwrap_or(base_page_bytes()),
            _ => base_page_bytes(),
        }
    }

    /// Memory in which to touch `count` of them, `stride` bytes apart.
    fn map(&self, stride: usize, count: usize) -> io::Result<Memory> {
        match self {
            Self::Anonymous(size) => Arena::map(count * stride, *size).map(Memory::Anonymous),
            Self::Cached(file) => file.map(Sharing::ReadShared).map(Memory::File),
            Self::CopyOnWrite(file) => {
                let map = file.map(Sharing::WritePrivate)?;
                read_pages(map.as_slice(), stride, 0..count);
                Ok(Memory::File(map))
            }
            Self::Evicted(file) => {
                file.evict()?;
                file.map(Sharing::ReadShared).map(Memory::File)
            }
        }
    }
}

enum Memory {
    Anonymous(Arena),
    File(FileMap),
}

impl Memory {
    fn as_slice(&self) -> &[u8] {
        match self {
            Self::Anonymous(arena) => arena.as_slice(),
            Self::File(map) => map.as_slice(),
        }
    }

    /// Touches pages with these numbers. Returns the sum of what it read, if it reads.
    #[inline]
    fn touch(&mut self, pages: &Pages, stride: usize, numbers: Range<usize>) -> u64 {
        match self {
            Self::Anonymous(arena) => write_pages(arena.as_mut_slice(), stride, numbers),
            Self::File(map) if matches!(pages, Pages::CopyOnWrite(_)) => {
                write_pages(map.as_mut_slice(), stride, numbers);
            }
            Self::File(map) => return read_pages(map.as_slice(), stride, numbers),
        }
        0
    }
}

/// Batches of first touches, one after the other.
///
/// The next batch gets the pages that the last one gave back, the last ones first. So every batch touches all
/// pages: before it, untimed, those that are not its own. Whatever its size, it then finds the same share
/// of them in the caches, on the CPU's list of free pages and in the page tables. Only evicted pages come
/// from elsewhere, so for them a batch touches only its own.
pub struct PageFaults {
    pages: Pages,
    /// Bytes from one page to the next.
    stride: usize,
    /// How many pages there are. They are touched in ascending order; a batch's own are the last.
    count: usize,
    /// Where evicted pages are, in the order in which they are touched; empty for others.
    order: Vec<usize>,
    /// The first of `order` that the next batch touches. It moves on with each batch, so that the device does
    /// not read the same pages again and again.
    from: usize,
    memory: Option<Memory>,
    /// How many the last batch has touched.
    touched: usize,
    /// The sum of the first bytes of the last batch, if it read them.
    sum: u64,
    /// The counts before the last batch.
    before: Counts,
    counted: Counted,
}

/// The counts of all batches so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counted {
    /// First touches.
    pub touches: u64,
    /// Batches of them.
    pub batches: u64,
    /// Page faults: major ones for evicted pages, else minor ones.
    pub faults: u64,
    /// Bytes that were read from a device; of evicted pages only, else 0.
    pub read_bytes: u64,
}

#[derive(Clone, Copy, Default)]
struct Counts {
    faults: u64,
    read_bytes: u64,
}

impl PageFaults {
    /// Touches `count` of these pages, `stride` bytes apart: evicted ones in the order that `shuffle` makes of
    /// their offsets, others in ascending order. Nothing is mapped yet. Pages of a file that should be in the
    /// page cache are read once, and none of the holes between them.
    ///
    /// # Errors
    ///
    /// Those of mapping the file; for evicted pages, the reason if the kernel does not count what was read
    /// from a device.
    pub fn new(
        pages: Pages,
        stride: usize,
        count: usize,
        shuffle: impl FnOnce(&mut [usize]),
    ) -> io::Result<Self> {
        let mut order = Vec::new();
        match &pages {
            Pages::Cached(file) | Pages::CopyOnWrite(file) => {
                read_pages(file.map(Sharing::ReadShared)?.as_slice(), stride, 0..count);
            }
            Pages::Evicted(_) => {
                usage::device_read_bytes()?;
                order.extend((0..count).map(|number| number * stride));
                shuffle(&mut order);
            }
            Pages::Anonymous(_) => {}
        }
        Ok(Self {
            pages,
            stride,
            count,
            order,
            from: 0,
            memory: None,
            touched: 0,
            sum: 0,
            before: Counts::default(),
            counted: Counted::default(),
        })
    }

    /// How many pages are touched for a batch, at most.
    pub fn pages(&self) -> usize {
        self.count
    }

    /// Maps memory of which all pages exist except the next `count`, which are touched last.
    ///
    /// # Errors
    ///
    /// The errors of mmap(2), madvise(2) and posix_fadvise(2).
    pub fn prepare(&mut self, count: usize) -> io::Result<()> {
        self.count()?;
        self.memory = None;
        if let Pages::Evicted(_) = self.pages {
            self.from += self.touched;
            if self.from + count > self.count {
                self.from = 0;
            }
        }
        self.touched = 0;
        let mut memory = self.pages.map(self.stride, self.count)?;
        memory.touch(&self.pages, self.stride, 0..self.not_timed(count));
        self.memory = Some(memory);
        self.before = self.counts()?;
        Ok(())
    }

    /// Touches these: the measured operation.
    ///
    /// # Panics
    ///
    /// If fewer are prepared.
    pub fn touch(&mut self, count: usize) {
        let memory = self.memory.as_mut().expect("a batch is prepared");
        self.sum = match self.pages {
            Pages::Evicted(_) => {
                read_at(memory.as_slice(), &self.order[self.from..self.from + count])
            }
            _ => memory.touch(&self.pages, self.stride, self.count - count..self.count),
        };
        self.touched = count;
    }

    /// Maps memory of which the first `count` pages exist, to unmap it.
    ///
    /// # Errors
    ///
    /// Those of [`PageFaults::prepare`].
    pub fn prepare_unmap(&mut self, count: usize) -> io::Result<()> {
        self.prepare(self.count)?;
        let memory = self.memory.as_mut().expect("it is prepared");
        memory.touch(&self.pages, self.stride, 0..count);
        Ok(())
    }

    /// Unmaps it: the measured operation.
    pub fn unmap(&mut self) {
        self.memory = None;
    }

    /// How many pages are touched before a batch of `count`.
    fn not_timed(&self, count: usize) -> usize {
        match self.pages {
            Pages::Evicted(_) => 0,
            _ => self.count - count,
        }
    }

    fn count(&mut self) -> io::Result<()> {
        if self.touched > 0 {
            let now = self.counts()?;
            self.counted.faults += now.faults - self.before.faults;
            self.counted.read_bytes += now.read_bytes - self.before.read_bytes;
            self.counted.touches += self.touched as u64;
            self.counted.batches += 1;
        }
        Ok(())
    }

    fn counts(&self) -> io::Result<Counts> {
        let usage = usage::thread();
        Ok(match self.pages {
            Pages::Evicted(_) => {
                Counts { faults: usage.major_faults, read_bytes: usage::device_read_bytes()? }
            }
            _ => Counts { faults: usage.minor_faults, read_bytes: 0 },
        })
    }

    /// Ends the batches. Returns the counts of all of them.
    ///
    /// # Errors
    ///
    /// If the kernel no longer counts what was read from a device.
    pub fn end(&mut self) -> io::Result<Counted> {
        self.count()?;
        Ok(self.counted)
    }

    /// Bytes that one touch has mapped, by smaps, of the last batch and of what was touched before it; zero
    /// for huge pages if the kernel gave small ones.
    ///
    /// # Errors
    ///
    /// When /proc/self/smaps cannot be read.
    pub fn mapped_bytes(&self) -> io::Result<f64> {
        let memory = self.memory.as_ref().expect("a batch was touched");
        let touched = self.not_timed(self.touched) + self.touched;
        Ok(smaps_bytes(memory.as_slice(), &[self.pages.in_smaps()])? as f64 / touched as f64)
    }

    /// Whether the last batch, if it read, has read what the file contains.
    pub fn read_the_content(&self) -> bool {
        match self.pages {
            Pages::Cached(_) | Pages::Evicted(_) => {
                self.sum == self.touched as u64 * u64::from(CONTENT)
            }
            Pages::Anonymous(_) | Pages::CopyOnWrite(_) => true,
        }
    }

    /// Where the file lies; `None` for anonymous memory.
    pub fn folder(&self) -> Option<&Path> {
        self.pages.file().map(Scratch::folder)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COUNT: usize = 16;
    const STRIDE: usize = 1 << 20;

    #[test]
    fn each_touch_is_one_fault_that_maps_one_page() {
        let mut all = vec![Pages::Anonymous(PageSize::Base)];
        match Scratch::write(COUNT, STRIDE).map(Rc::new) {
            Ok(file) => {
                all.push(Pages::Cached(Rc::clone(&file)));
                all.push(Pages::CopyOnWrite(file));
            }
            Err(error) => eprintln!("checked less: {error}"),
        }
        for pages in all {
            let stride = pages.file().map_or(base_page_bytes(), |_| STRIDE);
            let mut faults = PageFaults::new(pages.clone(), stride, COUNT, |_| ()).unwrap();
            for count in [COUNT, 1, COUNT / 2] {
                faults.prepare(count).unwrap();
                faults.touch(count);
            }
            let counted = faults.end().unwrap();
            assert_eq!((counted.touches, counted.batches), (25, 3), "{pages:?}");
            assert!((25..=30).contains(&counted.faults), "{pages:?} {counted:?}");
            let mapped = faults.mapped_bytes().unwrap();
            assert_eq!(mapped, pages.page_bytes() as f64, "{pages:?}");
            assert!(faults.read_the_content(), "{pages:?}");
        }
    }

    /// As of a program's code.
    #[test]
    fn a_file_without_holes_is_mapped_in_pieces() {
        let Ok(file) = Scratch::write(COUNT * 16, base_page_bytes()).map(Rc::new) else {
            eprintln!("skipped: no folder on a disk to write to");
            return;
        };
        let stride = 16 * base_page_bytes();
        let mut faults = PageFaults::new(Pages::Cached(file), stride, COUNT, |_| ()).unwrap();
        for _ in 0..2 {
            faults.prepare(COUNT / 2).unwrap();
            faults.touch(COUNT / 2);
        }
        let memory = |faults: &PageFaults| {
            faults.memory.as_ref().map(|memory| smaps_bytes(memory.as_slice(), &["Rss"]).unwrap())
        };
        let all = memory(&faults);
        faults.prepare_unmap(COUNT / 2).unwrap();
        assert!(memory(&faults) > Some(0) && memory(&faults) < all);
        faults.unmap();
        assert_eq!(memory(&faults), None);
        assert_eq!(
            faults.end().unwrap().touches,
            COUNT as u64,
            "nothing is timed when it is unmapped"
        );
        faults.prepare(COUNT / 2).unwrap();
        faults.touch(COUNT / 2);
        // 64 KiB, which is one page on some machines.
        let is_one = base_page_bytes() >= 64 << 10;
        assert!(is_one || faults.mapped_bytes().unwrap() > base_page_bytes() as f64);
        assert!(faults.read_the_content());
    }

    #[test]
    fn what_a_batch_does_not_time_is_touched_before_it() {
        let pages = Pages::Anonymous(PageSize::Base);
        let mut faults = PageFaults::new(pages, base_page_bytes(), COUNT, |_| ()).unwrap();
        faults.prepare(1).unwrap();
        let Some(Memory::Anonymous(arena)) = &faults.memory else {
            panic!("anonymous memory is prepared");
        };
        let there = smaps_bytes(arena.as_slice(), &["Anonymous"]).unwrap();
        assert_eq!(there, ((COUNT - 1) * base_page_bytes()) as u64);
    }

    #[test]
    fn evicted_pages_are_other_ones_in_each_batch() {
        let Ok(file) = Scratch::write(COUNT, STRIDE).map(Rc::new) else {
            eprintln!("skipped: no folder on a disk to write to");
            return;
        };
        let shuffle = |order: &mut [usize]| order.reverse();
        let Ok(mut faults) = PageFaults::new(Pages::Evicted(file), STRIDE, COUNT, shuffle) else {
            eprintln!("skipped: what is read from devices is not counted");
            return;
        };
        assert_eq!(faults.order[..2], [15 * STRIDE, 14 * STRIDE]);
        let mut from = Vec::new();
        for _ in 0..4 {
            faults.prepare(6).unwrap();
            from.push(faults.from);
            faults.touch(6);
            assert!(faults.read_the_content());
        }
        assert_eq!(from, [0, 6, 0, 6]);
    }
}
