//! `os.page_fault`: what the first touch of a page costs.

mod predict;

use crate::prelude::*;
use costof_os::file::scratch::Scratch;
use costof_os::memory::arena::{PageSize, base_page_bytes, huge_page_bytes};
use costof_os::memory::page_faults::{PageFaults, Pages};
use std::cell::RefCell;
use std::io;
use std::rc::Rc;

/// Pages that are touched for each batch, and of the file. Half of them are always touched before
/// the timed ones, so that those are not the pages that the caches have had last.
const PAGES: usize = 1024;
/// The same for huge pages, of the usual 2 MiB: 128 MiB, so that half of them are more than most
/// last-level caches hold.
const HUGE_BYTES: usize = 128 << 20;
/// Longer than half of a batch takes, so that batches are always half and all of what may be timed:
/// how much of the caches they fill does not depend on how long a run may take.
const BATCH_NS: f64 = 20e6;
/// For faults that wait for a device.
const MAJOR_PAGES: usize = 128;
/// So that it takes several reads of a fast device, since the first one after the file was evicted
/// takes longer.
const MAJOR_BATCH_NS: f64 = 2.5e6;
/// The pages of the file lie this far apart: the kernel maps what is in the page cache around a
/// fault too, 64 KiB by default (`fault_around_bytes`), and so it finds one page.
const FILE_STRIDE: usize = 64 << 10;

words! {
    /// What the kernel has to do for it.
    pub(crate) enum Kind {
        /// find an empty page for anonymous memory and clear it; the first touch writes
        MinorAnonymous = "minor_anonymous",
        /// map a page of a file that is in the page cache (MAP_SHARED); the first touch reads
        MinorFile = "minor_file",
        /// copy a page that is mapped already (MAP_PRIVATE); the first write after a read
        CopyOnWrite = "copy_on_write",
        /// find a transparent huge page for anonymous memory and clear it
        Huge = "huge",
        /// read a page of a file from its device, without reading ahead
        Major = "major",
    }
}

pub(crate) static PROBE: Probe = Probe::new::<PageFault>();

point! {
    /// What does the first touch of a page cost?
    ///
    /// A fresh mapping is made for each batch, untimed, and one byte of each page is touched: of
    /// 1,024 pages the last 256 or 512 are timed, of 128 MiB of huge ones (two at least) the last
    /// quarter or half, of a device's up to 64. The pages are those that the batch before gave
    /// back, so they are in part in the caches (huge ones only in one of more than 64 MiB), and in
    /// a virtual machine the host has backed them already: the first use of memory since the
    /// machine started costs more. In the cost are the kernel's accounting (memory control groups)
    /// and, of 512 anonymous or 32 file pages, one page table. File pages lie 64 KiB apart with
    /// holes between, so that one fault maps one page. The file has no name and lies in the first
    /// of these folders that is on no file system in memory: TMPDIR or else /tmp, the current one,
    /// XDG_CACHE_HOME, HOME, /var/tmp. For `major` it is evicted (fsync, POSIX_FADV_DONTNEED),
    /// mapped with MADV_RANDOM and read in random order; a cache of the device or of the host may
    /// still serve it.
    ///
    /// # Predicted from
    /// the system call that os.syscall has measured, for entering the kernel and its handler;
    /// clearing or copying a page at 8 to 32 bytes a cycle; 50 to 400 ns to find one; huge pages
    /// cleared at 5 to 30 GB/s; a device by its kind
    ///
    /// # Sources
    /// - L. McVoy, C. Staelin, lmbench: Portable Tools for Performance Analysis, USENIX 1996,
    ///   lat_pagefault
    /// - CSE 221 System Measurement Project, 2014: 15.2 µs for two accesses to a mapped 40 GB file
    ///   on a 7,200 rpm disk, which never reached the disk
    /// - Linux Documentation/admin-guide/mm/transhuge.rst; mm/memory.c, do_fault_around
    ///
    /// # Needs
    /// - for files: a folder on a file system that is not in memory, with 8 MiB free; for major:
    ///   one that lets files be evicted, and /proc/thread-self/io
    /// - for huge: transparent huge pages not set to never, and twice 128 MiB of memory (or twice
    ///   two such pages, where they are larger), not fragmented
    pub(crate) struct PageFault of "os.page_fault" {
        /// what the kernel has to do for it
        kind: Kind = words(),
    }
}

impl Measure for PageFault {
    const METRICS: &'static [Metric] = metrics! {
        /// one page fault; of `major`, in a row
        cost: Nanoseconds Lower,
        /// of `major`: single faults, each after the file was evicted
        latency: Nanoseconds Lower,
        /// page faults an access, as getrusage counts them: major ones for `major`
        faults: One Neither,
        /// what one fault has mapped, by smaps
        mapped: Bytes Neither,
        /// of `major`: read from a device for one fault, by /proc/thread-self/io
        read_bytes: Bytes Neither,
    };
    const AFTER: &'static [&'static str] = &["os.syscall", "cpu.frequency"];
    const ROUNDS: u32 = 2;
    const ROLES: &'static [StartRole] = &[|launch| {
        role::<PageFault>(Toucher {
            random: Rng::with_seed(launch.seed),
            ..Toucher::default()
        })
    }];

    headlines! {
        "page fault: anonymous memory": { kind: Kind::MinorAnonymous },
        "page fault: file in the page cache": { kind: Kind::MinorFile },
        "page fault: huge page": { kind: Kind::Huge },
        "page fault: read from the device": { kind: Kind::Major },
    }

    fn memory_bytes(point: &At<PageFault>) -> u64 {
        match point.kind {
            Kind::Huge => huge_page_bytes().map_or(0, |page| (most_huge_pages(page) * page) as u64),
            Kind::MinorAnonymous | Kind::MinorFile | Kind::CopyOnWrite | Kind::Major => 4 << 20,
        }
    }

    fn predict(point: &At<PageFault>, facts: &Facts, known: &Known<'_>) -> Option<Prediction> {
        predict::predict(point.kind, facts, known)
    }
}

#[derive(Default)]
struct Toucher {
    random: Rng,
    /// Made once, for all points that need it.
    file: Option<Rc<Scratch>>,
    /// The point's batches.
    faults: Option<PageFaults>,
}

impl Toucher {
    fn file(&mut self) -> Result<Rc<Scratch>, Failure> {
        let file = match self.file.take() {
            Some(file) => file,
            None => Rc::new(write_file()?),
        };
        Ok(Rc::clone(self.file.insert(file)))
    }
}

impl RoleAt<PageFault> for Toucher {
    fn prepare(&mut self, point: &At<PageFault>, _: &Offers) -> Result<Offers, Failure> {
        let (pages, count) = match point.kind {
            Kind::MinorAnonymous => (Pages::Anonymous(PageSize::Base), PAGES),
            Kind::MinorFile => (Pages::Cached(self.file()?), PAGES),
            Kind::CopyOnWrite => (Pages::CopyOnWrite(self.file()?), PAGES),
            Kind::Huge => (Pages::Anonymous(PageSize::Huge), huge_pages()?),
            Kind::Major => (Pages::Evicted(self.file()?), PAGES),
        };
        let stride = match pages {
            Pages::Anonymous(_) => pages.page_bytes(),
            _ => file_stride(),
        };
        let mut offsets: Vec<usize> = (0..count).map(|number| number * stride).collect();
        if let Pages::Evicted(_) = pages {
            self.random.shuffle(&mut offsets);
        }
        self.faults = Some(PageFaults::new(pages, offsets).map_err(refused)?);
        Ok(Offers::new())
    }

    fn run(&mut self, point: &At<PageFault>, meter: &mut Meter<'_>) -> Result<(), Failure> {
        let faults = self.faults.as_mut().expect("a prepared point has faults");
        let is_major = point.kind == Kind::Major;
        let (most, batch_ns) = if is_major {
            (MAJOR_PAGES, MAJOR_BATCH_NS)
        } else {
            ((faults.pages() / 2).max(2), BATCH_NS)
        };
        meter.batches_last(batch_ns);
        // Preparing and touching take turns.
        let faults = RefCell::new(faults);
        meter.used_up(
            "cost",
            most as u64,
            |n| faults.borrow_mut().prepare(n as usize).map_err(refused),
            |n| faults.borrow_mut().touch(n as usize),
        )?;
        if is_major {
            meter.single_used_up(
                "latency",
                || faults.borrow_mut().prepare(1).map_err(refused),
                || faults.borrow_mut().touch(1),
            )?;
        }
        Ok(())
    }

    /// That each access was one fault which brought one page, and where it came from.
    fn finish(&mut self, point: &At<PageFault>, meter: &mut Meter<'_>) -> Result<(), Failure> {
        let mut faults = self.faults.take().expect("a measured point has had faults");
        let counted = faults.end().map_err(refused)?;
        let touches = counted.touches as f64;
        let each = counted.faults as f64 / touches;
        let mapped = faults
            .mapped_bytes()
            .or_unsupported("cannot see what was mapped")?;
        meter.value("faults", each);
        meter.value("mapped", mapped);
        let page = match point.kind {
            Kind::Huge => huge_page_bytes().unwrap_or(0),
            Kind::MinorAnonymous | Kind::MinorFile | Kind::CopyOnWrite | Kind::Major => {
                base_page_bytes()
            }
        } as f64;
        if let (Kind::Major, Some(folder)) = (point.kind, faults.folder()) {
            let read = counted.read_bytes as f64 / touches;
            meter.value("read_bytes", read);
            if each < 0.99 || read < 0.99 * page {
                unsupported!(
                    "an evicted page of a file in {} had {each:.2} major faults and {read:.0} \
                     bytes read from a device: its file system keeps files in memory, or another \
                     machine serves it (TMPDIR names a folder on a disk)",
                    folder.display()
                );
            }
        }
        if point.kind == Kind::Huge && mapped < page {
            return Err(arenas::not_huge(mapped as u64, page as u64));
        }
        // What records a batch may fault once too.
        let most = 1.01 + counted.batches as f64 / touches;
        ensure!(
            (0.99..=most).contains(&each) && mapped == page,
            "an access was {each:.3} page faults of this kind and mapped {} where one of {} was \
             meant",
            display_bytes(mapped as u64),
            display_bytes(page as u64)
        );
        ensure!(faults.read_the_content(), "the file's content was not read");
        Ok(())
    }
}

fn file_stride() -> usize {
    FILE_STRIDE.max(base_page_bytes())
}

fn write_file() -> Result<Scratch, Failure> {
    Scratch::write(PAGES, file_stride()).map_err(|error| {
        Failure::unsupported(format!(
            "{error} (TMPDIR names a folder on a disk with {} free)",
            display_bytes((PAGES * base_page_bytes()) as u64)
        ))
    })
}

/// As many as are touched for a batch where memory allows.
fn most_huge_pages(page_bytes: usize) -> usize {
    (HUGE_BYTES / page_bytes).max(2)
}

/// As many as fit with room to spare, of which a batch needs two.
fn huge_pages() -> Result<usize, Failure> {
    let page_bytes = huge_page_bytes()
        .ok_or_else(|| Failure::unsupported("this kernel has no transparent huge pages"))?;
    (2..=most_huge_pages(page_bytes))
        .rev()
        .find(|pages| arenas::fits(2 * (pages * page_bytes) as u64))
        .ok_or_else(|| arenas::does_not_fit(4 * page_bytes as u64))
}

fn refused(error: io::Error) -> Failure {
    Failure::unsupported(format!("cannot have page faults of this kind: {error}"))
}
