//! `os.page_fault`: what the first touch of a page costs.

mod predict;
mod role;

use crate::prelude::*;
use costof_os::memory::arena::huge_page_bytes;
use role::{Toucher, most_huge_pages};

words! {
    /// What the kernel does at the fault.
    pub(crate) enum Kind {
        /// find an empty page for anonymous memory and clear it; the first touch writes
        MinorAnonymous = "minor_anonymous",
        /// map a page of a file that is in the page cache (MAP_SHARED); the first touch reads
        MinorFile = "minor_file",
        /// the same where the pages around it are in the page cache too, and are mapped with it:
        /// the first touch of a part of a program or a library
        MinorAround = "minor_around",
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
    /// Each batch makes a fresh mapping, untimed, and touches one byte of each page, in a loop of
    /// four or five instructions. Of 1,024 pages the last 256 or 512 are timed; of 128 MiB of huge
    /// pages (two at least) the last quarter or half; of a device's pages up to 64. The previous batch gave these pages back, so they are
    /// partly in the caches (of huge pages, at most one in 64 MiB is). In a virtual machine the
    /// host has backed them already: the first use of memory since the machine started costs more.
    /// The cost includes the kernel's accounting (memory control groups) and one page table for
    /// every 512 anonymous or 32 file pages. File pages lie 64 KiB apart with holes between, so one
    /// fault maps one page. For `minor_around` there are no holes: 256 places of a file of 16 MiB are
    /// touched, 64 KiB apart, the last 64 or 128 timed. The file was written 4 KiB at a time, so the
    /// page cache has single pages, as of most installed programs; of larger pieces (folios),
    /// mapping takes less. The file has no name and lies in the first of these folders that is not
    /// on a file system in memory: TMPDIR or else /tmp, the current folder, XDG_CACHE_HOME, HOME,
    /// /var/tmp. For `major` it is evicted (fsync, POSIX_FADV_DONTNEED), mapped with MADV_RANDOM
    /// and read in random order; a cache of the device or of the host may still serve it.
    ///
    /// # Predicted from
    /// 500 to 1,500 cycles for the exception and page walks; a fifth to three fifths of an open and
    /// close (os.syscall) for the kernel's code, which mitigations slow down alike; clearing or
    /// copying a page at 8 to 32 bytes per cycle; 600 to 12,000 cycles for 15 more pages; huge pages
    /// cleared at 6 to 20 GB/s; a device by its kind
    ///
    /// # Sources
    /// - L. McVoy, C. Staelin, lmbench: Portable Tools for Performance Analysis, USENIX 1996,
    ///   lat_pagefault
    /// - CSE 221 System Measurement Project, 2014: 15.2 µs for two accesses to a mapped 40 GB file
    ///   on a 7,200 rpm disk, which never reached the disk
    /// - Linux Documentation/admin-guide/mm/transhuge.rst; mm/memory.c, do_fault_around
    ///
    /// # Needs
    /// - for files: a folder on a file system that is not in memory, with 20 MiB free; for major:
    ///   one that lets files be evicted, and /proc/thread-self/io
    /// - for huge: transparent huge pages not set to never, and twice 128 MiB of memory (or twice
    ///   two such pages, where they are larger), not fragmented
    pub(crate) struct PageFault of "os.page_fault" {
        /// what the kernel does at the fault
        kind: Kind = words(),
    }
}

impl Measure for PageFault {
    // 2: pages are touched by a loop of four instructions.
    const METHOD: u32 = 2;
    const METRICS: &'static [Metric] = metrics! {
        /// one page fault; for `major`, in a row
        cost: Nanoseconds Lower,
        /// for `major`: single faults, each after the file was evicted
        latency: Nanoseconds Lower,
        /// page faults per access, by getrusage: major ones for `major`
        faults: One Neither,
        /// for `minor_around`: unmapping at the end what one fault mapped
        unmap: Nanoseconds Lower,
        /// bytes that one fault mapped, by smaps
        mapped: Bytes Neither,
        /// for `major`: bytes read from a device per fault, by /proc/thread-self/io
        read_bytes: Bytes Neither,
    };
    const AFTER: NameList = &["os.syscall", "cpu.frequency"];
    const ROUNDS: u32 = 2;
    const ROLES: &'static [StartRole] = &[|launch| role::<PageFault>(Toucher::start(launch))];

    headlines! {
        "page fault: anonymous memory": { kind: Kind::MinorAnonymous },
        "page fault: file in the page cache": { kind: Kind::MinorFile },
        "page fault: huge page": { kind: Kind::Huge },
        "page fault: read from the device": { kind: Kind::Major },
    }

    fn disk_bytes(point: &At<Self>) -> u64 {
        match point.kind {
            Kind::MinorFile | Kind::MinorAround | Kind::CopyOnWrite | Kind::Major => {
                PageFault::memory_bytes(point)
            }
            Kind::MinorAnonymous | Kind::Huge => 0,
        }
    }

    fn memory_bytes(point: &At<Self>) -> u64 {
        match point.kind {
            Kind::Huge => huge_page_bytes().map_or(0, |page| (most_huge_pages(page) * page) as u64),
            Kind::MinorAround => 16 << 20,
            Kind::MinorAnonymous | Kind::MinorFile | Kind::CopyOnWrite | Kind::Major => 4 << 20,
        }
    }

    fn predict(point: &At<Self>, facts: &Facts, measured: &MeasuredRows<'_>) -> Option<Prediction> {
        predict::predict(point.kind, facts, measured)
    }
}
