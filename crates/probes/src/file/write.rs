//! `file.write`: what writing a block of a file costs, without waiting until it lasts.

mod role;

use super::axes::{self, Pattern};
use super::expect;
use crate::prelude::*;
use role::Writing;

words! {
    /// Where the block goes.
    pub(crate) enum Cache {
        /// into the page cache, over an existing block: the device gets it later
        Warm = "warm",
        /// to the device, past the page cache (O_DIRECT); the device may keep it in a cache of its own
        Direct = "direct",
    }
}

pub(crate) static PROBE: Probe = Probe::new::<Write>();

point! {
    /// What does writing a block of a file cost, without waiting until it is durable?
    ///
    /// pwrite(2) overwrites the blocks of a file without a name (O_TMPFILE) that was written and
    /// synced before, so the file system does not have to find room. Each write carries its number,
    /// and what was written last is read back and compared. With cache=warm, all of the file is
    /// read before, and a write is a copy, plus marking a page dirty. The kernel writes pages back
    /// later; a file larger than the limit on dirty pages (vm.dirty_ratio) would measure the
    /// device.
    ///
    /// # Predicted from
    /// warm: a system call, and 0.7 to 2.5 opens and closes for the file system's record of a write
    /// (os.syscall), a copy (cpu.memcpy), 30 to 500 ns to mark a page; direct: a request to the same device
    /// (file.read or os.page_fault), or times by its kind
    ///
    /// # Sources
    /// - L. McVoy, C. Staelin, lmbench: Portable Tools for Performance Analysis, USENIX 1996, lmdd
    /// - pwrite(2), open(2) on O_DIRECT; Linux Documentation/admin-guide/sysctl/vm.rst on dirty
    ///   pages
    ///
    /// # Needs
    /// - a folder on a file system with the file's size free (--set dir=)
    pub(crate) struct Write of "file.write" {
        /// where the block goes
        cache: Cache = words(),
        pattern: Pattern = Pattern::writes(),
        block: u64 = axes::block(&[4 << 10, 64 << 10, 1 << 20]),
        size: u64 = axes::size(&[16 << 20]),
        dir: Text = axes::dir(),
    }
}

impl Measure for Write {
    const METRICS: &'static [Metric] = axes::BLOCK_METRICS;
    const AFTER: NameList = &["os.syscall", "cpu.memcpy", "os.page_fault", "file.read"];
    const CROSSINGS: &'static [NameList] = &[&["cache", "block"], &["cache", "pattern"]];
    const ROUNDS: u32 = 2;
    const IS_OF_ONE_CPU: bool = true;
    const BLOCKS_BY: NameList = &["size", "dir"];
    const ROLES: &'static [StartRole] = &[|launch| role::<Write>(Writing::start(launch))];

    headlines! {
        "write 4 KiB into the page cache": {},
    }

    fn more_points(_: &Facts) -> Vec<Planned> {
        Planned::all([
            at(Cache::Direct, Pattern::Sequential, 1 << 20),
            at(Cache::Warm, Pattern::Sequential, 1 << 20),
        ])
    }

    fn disk_bytes(point: &At<Self>) -> u64 {
        point.size
    }

    fn memory_bytes(point: &At<Self>) -> u64 {
        point.size
    }

    fn predict(point: &At<Self>, facts: &Facts, measured: &MeasuredRows<'_>) -> Option<Prediction> {
        /// Finding a page and marking it dirty.
        const MARK_PAGE_NS: Range = Range(30.0, 500.0);
        /// A file system's work for a write of any length, in opens and closes of a file: a lock, the
        /// file's time, beginning and ending a record of a journal.
        const NOTE: (f64, f64) = (0.7, 2.5);
        let block = point.block as f64;
        let cost = if point.is_direct() {
            let blocks =
                expect::Blocks { dir: &point.dir, block: point.block, jump: point.pattern.jumps() };
            expect::request(blocks, facts, measured)? + expect::bytes(blocks, facts)?
        } else {
            expect::call(measured)?
                + (syscall::measured_cost(measured, syscall::Call::Open)? * NOTE)
                    .named("what the file system notes")
                + Cost::new(MARK_PAGE_NS * expect::pages(block), "to find pages and mark them")
                + expect::copy(measured, block)?
        };
        cost.predict("cost")
    }

    fn derive(point: &At<Self>, reports: Vec<Report>) -> Report {
        derived::with_throughput(reports, point.block)
    }
}

fn at(cache: Cache, pattern: Pattern, block: u64) -> Write {
    Write { cache, pattern, block, ..Write::default() }
}

impl Write {
    fn is_direct(&self) -> bool {
        match self.cache {
            Cache::Warm => false,
            Cache::Direct => true,
        }
    }
}
