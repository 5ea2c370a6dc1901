//! `file.read`: what reading a block of a file costs.

mod batch;
mod conditions;
mod predict;

use super::axes::{self, Pattern};
use super::target_file::{self, TargetFile, verify_last};
use crate::prelude::*;
use batch::Batch;
use costof_os::file::data::Access;
use costof_os::file::reads::{self, Reader};

/// The file of the headlines, and the default: larger than caches, and quickly written.
const SIZE: u64 = 64 << 20;
/// The file over which a seek is measured.
const SEEK_SIZE: u64 = 1 << 30;
/// Reads between two checks of the time, for each one in flight.
const STAMPED: u64 = 16;
/// The fewest reads of a batch for each one in flight, so that its beginning and end hardly count.
const BATCH_PER_DEPTH: f64 = 32.0;
/// The most stretches of a cold file that are read in order, per point and round.
const STRETCHES: u64 = 64;
/// Blocks that are read once more and compared byte by byte, and their most bytes together.
const COMPARED: u64 = 64;
const COMPARED_BYTES: u64 = 4 << 20;
/// What to set instead where a file cannot be read past the page cache.
const NOT_DIRECT: &str = "--set dir= for another folder, or another value of --set cache=";

words! {
    /// Where the file is before it is read.
    pub(crate) enum Cache {
        /// in the page cache, all of it; this is verified
        Warm = "warm",
        /// on its device, and read into the page cache: evicted before (POSIX_FADV_DONTNEED), which
        /// is verified
        Cold = "cold",
        /// on its device, read past the page cache (O_DIRECT)
        Direct = "direct",
    }

    /// How a block is read.
    pub(crate) enum Engine {
        /// pread(2), one call per block
        Pread = "pread",
        /// io_uring, one io_uring_enter(2) for all reads that are due
        IoUring = "io_uring",
        /// a copy from a shared mapping; with cache=warm, its pages are mapped before
        Mmap = "mmap",
    }

    /// The pages of the reader's memory, not of the file.
    pub(crate) enum Pages {
        /// the smallest: a request names each contiguous stretch of them, so large direct reads
        /// differ from process to process
        Base = "4KiB",
        /// transparent huge pages, verified in smaps: a block is contiguous, and a request names it
        /// once
        Huge = "2MiB",
    }
}

pub(crate) static PROBE: Probe = Probe::new::<Read>();

point! {
    /// What does reading a block of a file cost, from memory and from its device?
    ///
    /// A file without a name (O_TMPFILE) is written, synced and read, block by block, into memory of the
    /// reader. Every word of it is unique, and after the measurement 64 more blocks are read and compared
    /// (fewer if they come to 4 MiB). warm: all of it is read once before, and must be in the page cache
    /// afterwards. cold: it is evicted before each batch, until neither cachestat(2) nor mincore(2) finds a
    /// page. direct: O_DIRECT, aligned as STATX_DIOALIGN says. If bytes should have come from the
    /// device and did not, or the other way round, or if nothing shows it, there is no number: of an overlay,
    /// whose disk is not known, all disks of the machine count; a loop device's file may be in this kernel's
    /// cache. The kernel reads ahead as it does
    /// for programs that give no advice, but not for random blocks (POSIX_FADV_RANDOM, MADV_RANDOM). A cold
    /// file is read in order in stretches of up to 32 MiB, each from its beginning. The file system's own
    /// records of where the file lies are always in memory. A virtual disk may be served from its host's
    /// memory, and a disk from its own: device_share only shows that the reads left this kernel.
    ///
    /// # Predicted from
    /// warm: a system call (os.syscall) and a copy (cpu.memcpy), with 20 to 150 ns per page to find
    /// it; from a device: a page of the same one (os.page_fault), or times by its kind; cold: in
    /// addition finding room for the pages and copying them
    ///
    /// # Sources
    /// - L. McVoy, C. Staelin, lmbench: Portable Tools for Performance Analysis, USENIX 1996,
    ///   bw_file_rd, lat_fs
    /// - CSE 221 System Measurement Project, 2014: sequential and random reads of 4 KB with
    ///   O_DIRECT
    /// - open(2) on O_DIRECT, statx(2) on STATX_DIOALIGN, cachestat(2), posix_fadvise(2),
    ///   io_uring_enter(2)
    /// - fio(1), whose ioengine=psync, io_uring and mmap read alike
    ///
    /// # Needs
    /// - a folder on a file system that is not in memory, with the file's size free (--set dir=)
    /// - for io_uring: Linux 5.6, kernel.io_uring_disabled and seccomp filters that allow it
    /// - for cache=direct: a file system that can, and blocks of whole sectors
    pub(crate) struct Read of "file.read" {
        /// where the file is before it is read
        cache: Cache = words(),
        pattern: Pattern = Pattern::reads(),
        block: u64 = axes::block(&[4 << 10, 256, 64 << 10, 1 << 20]),
        size: u64 = axes::size(&[SIZE, 128 << 10, 1 << 20, 16 << 20, 1 << 30]),
        /// how a block is read
        engine: Engine = words(),
        /// reads in flight at once, by io_uring; one for the others
        depth: u64 = count(1..=64, &[1]),
        /// the pages of the reader's memory
        pages: Pages = words(),
        dir: Text = axes::dir(),
    }
}

impl Measure for Read {
    const METRICS: &'static [Metric] = axes::BLOCK_METRICS;
    const AFTER: NameList = &["os.syscall", "cpu.memcpy", "os.page_fault"];
    const CROSSINGS: &'static [NameList] = &[&["cache", "pattern"]];
    const ROUNDS: u32 = 2;
    const IS_OF_ONE_CPU: bool = true;
    const BLOCKS_BY: NameList = &["size", "dir"];
    const ROLES: &'static [StartRole] = &[|launch| {
        role::<Read>(Reading { random: Rng::with_seed(launch.seed), ..Reading::default() })
    }];

    fn relations() -> Vec<Relation> {
        vec![
            // With several in flight, a device may copy more than one core does.
            Relation::because("one read waits for the device, the other only for memory")
                .these("cache", Cache::Direct.word())
                .these("depth", 1)
                .those("cache", Cache::Warm.word()),
            Relation::because("data on the device is read into the page cache first")
                .these("cache", Cache::Cold.word())
                .those("cache", Cache::Warm.word()),
        ]
    }

    fn headlines(facts: &Facts) -> Vec<Headline> {
        let disk = target_file::temporary_name(facts);
        vec![
            Headline::new(
                format!("read 4 KiB randomly from {disk}"),
                at(Cache::Direct, Pattern::Random, 4 << 10),
            ),
            Headline::new(
                format!("read 1 MiB sequentially from {disk}"),
                at(Cache::Direct, Pattern::Sequential, 1 << 20),
            ),
            Headline::new(
                "disk seek",
                Read { size: SEEK_SIZE, ..at(Cache::Direct, Pattern::Seek, 4 << 10) },
            ),
        ]
    }

    /// Blocks of each size from each place, and several reads in flight.
    fn more_points(_: &Facts) -> Vec<Planned> {
        let mut points = Vec::new();
        for cache in [Cache::Cold, Cache::Direct] {
            for block in [64 << 10, 1 << 20] {
                points.push(at(cache, Pattern::Random, block));
                points.push(at(cache, Pattern::Sequential, block));
            }
        }
        points.extend([1, 4, 16, 64].map(|depth| Read {
            engine: Engine::IoUring,
            depth,
            ..at(Cache::Direct, Pattern::Random, 4 << 10)
        }));
        points.push(Read { engine: Engine::Mmap, ..at(Cache::Cold, Pattern::Random, 4 << 10) });
        points.push(Read { pages: Pages::Huge, ..at(Cache::Direct, Pattern::Sequential, 1 << 20) });
        Planned::all(points)
    }

    fn check_axes(point: &At<Self>) -> Result {
        conditions::check_axes(point)
    }

    fn disk_bytes(point: &At<Self>) -> u64 {
        point.size
    }

    fn memory_bytes(point: &At<Self>) -> u64 {
        point.size
    }

    fn predict(point: &At<Self>, facts: &Facts, measured: &MeasuredRows<'_>) -> Option<Prediction> {
        predict::predict(point, facts, measured)
    }

    fn derive(point: &At<Self>, reports: Vec<Report>) -> Report {
        derived::with_throughput(reports, point.block)
    }
}

fn at(cache: Cache, pattern: Pattern, block: u64) -> Read {
    Read { cache, pattern, block, ..Read::default() }
}

#[derive(Default)]
struct Reading {
    random: Rng,
    /// Made once, for all points of the launch.
    target: Option<TargetFile>,
    reader: Option<Reader>,
    /// The share of the bytes read in the timed batches that came from the device.
    share: Option<f64>,
}

impl RoleAt<Read> for Reading {
    /// It waits for the device.
    fn blocks(&self, point: &At<Read>) -> bool {
        point.cache != Cache::Warm
    }

    fn prepare(&mut self, point: &At<Read>, _: &Offers) -> Result<Offers> {
        self.reader = None;
        self.share = None;
        conditions::check_axes(point)?;
        let target = TargetFile::reuse(&mut self.target, &point.dir)?;
        conditions::check_target(point, target)?;
        target.extend(point.size)?;
        let mut reader = open(point, target, &mut self.random)?;
        if point.pages == Pages::Huge {
            let memory = arenas::in_memory(reader.memory_bytes() as u64, arenas::Pages::Huge)?;
            reader = reader.into_memory(memory).expect("as much as it needs");
        }
        match point.cache {
            Cache::Warm => warm(target, &mut reader, point.size)?,
            Cache::Cold | Cache::Direct => evict(target, &reader)?,
        }
        self.reader = Some(reader);
        Ok(Offers::new())
    }

    fn run(&mut self, point: &At<Read>, meter: &mut Meter<'_>) -> Result {
        let target = self.target.as_ref().expect("a prepared point has a file");
        let reader = self.reader.as_mut().expect("a prepared point has a reader");
        let depth = point.depth;
        let batch = Batch::new(point, reader);
        // Preparing and reading alternate.
        let reader = RefCell::new(reader);
        let failed = RefCell::new(FirstError::default());
        let read = |n: u64| failed.borrow_mut().note(reader.borrow_mut().read(n));
        let prepare = || batch.prepare(target, &mut reader.borrow_mut());
        if depth > 1 {
            let each = time_ns(meter, || read(8 * depth)) / (8 * depth) as f64;
            meter.batches_last(BATCH_PER_DEPTH * depth as f64 * each);
        }
        let before = target.counters(reader.borrow().read_bytes());
        let mut half = meter.share(2);
        match batch {
            Batch::Any => half.repeatable("cost", read),
            Batch::UpTo(blocks) => half.used_up("cost", blocks, |_| prepare(), read)?,
            Batch::Stretch(blocks) => half.repeat(STRETCHES, |meter| {
                prepare()?;
                let ns = time_ns(meter, || read(blocks));
                meter.batch_done("cost", blocks, ns);
                Ok(())
            })?,
        }
        if target_file::may_stamp(&half) {
            let clock = half.clock();
            let count = batch.count(STAMPED * depth);
            half.repeat(u64::MAX, |meter| {
                prepare()?;
                let each = |start: u64, end: u64| {
                    meter.latency("latency", clock.ns(end.saturating_sub(start)));
                };
                let read = reader.borrow_mut().read_each(count, || clock.end(), each);
                target.check("read", read)
            })?;
        }
        self.share = target.share_read(&before, reader.borrow().read_bytes());
        target.check("read", failed.into_inner().into_result())
    }

    /// Checks that the file was read and where it came from, and counts the CPU time.
    fn finish(&mut self, point: &At<Read>, meter: &mut Meter<'_>) -> Result {
        let target = self.target.as_ref().expect("a measured point has a file");
        let mut reader = self.reader.take().expect("a measured point has a reader");
        verify_last(&reader)?;
        let batch = Batch::new(point, &reader);
        if point.cache == Cache::Cold {
            evict(target, &reader)?;
            reader.rewind();
        }
        let block = point.block;
        let count = batch.count(target_file::quarter_of_time(meter).max(STAMPED * point.depth));
        target_file::report_cpu(meter, count * block, || target.check("read", reader.read(count)))?;
        for _ in 0..(COMPARED_BYTES / block).min(COMPARED) {
            target.check("read", reader.read(1))?;
            verify_last(&reader)?;
        }
        match self.share {
            Some(share) => {
                meter.value("device_share", share);
                conditions::check_share(point, target, share)
            }
            None if point.cache == Cache::Warm => Ok(()),
            None => Err(target_file::unknown_share()),
        }
    }
}

/// A reader of the point's blocks.
fn open(point: &At<Read>, target: &TargetFile, random: &mut Rng) -> Result<Reader> {
    let (size, block, is_random) = (point.size, point.block, point.pattern.jumps());
    let order = match point.cache {
        // Only one block per page is read where the page must not be in memory.
        Cache::Cold if is_random => {
            let apart = block.max(base_page_bytes() as u64);
            target_file::random_order(size, block, apart, random)
        }
        Cache::Cold | Cache::Warm | Cache::Direct => {
            target_file::order(point.pattern, size, block, random)
        }
    };
    let file = match point.cache {
        Cache::Direct => (target.data.open(Access::Direct))
            .map_err(|error| target.not_direct(&error.to_string(), NOT_DIRECT)),
        Cache::Warm | Cache::Cold if is_random => {
            target.check("open", target.data.open(Access::CachedRandom))
        }
        Cache::Warm | Cache::Cold => target.check("open", target.data.open(Access::Cached)),
    }?;
    let (engine, hint) = match point.engine {
        Engine::Pread => (reads::Engine::Pread, ""),
        Engine::Mmap => (reads::Engine::Map, ""),
        Engine::IoUring => (
            reads::Engine::Uring(point.depth as u32),
            " (kernel.io_uring_disabled, or a seccomp filter, may forbid it)",
        ),
    };
    Reader::new(engine, file, order, is_random).map_err(|error| {
        let engine = point.engine.word();
        // Of other errors, the text says it all.
        let hint = error.raw_os_error().map_or("", |_| hint);
        Failure::unsupported(format!("cannot read by {engine}: {error}{hint}"))
    })
}

/// Brings all of the file into the page cache, and maps its mapping's pages.
fn warm(target: &TargetFile, reader: &mut Reader, size: u64) -> Result {
    target.read_into_cache(size)?;
    target.check("read", reader.read(reader.blocks()))?;
    reader.rewind();
    target.require_cached(size)
}

/// Evicts all of the file from the page cache.
fn evict(target: &TargetFile, reader: &Reader) -> Result {
    target.check("evict", reader.unmap_pages())?;
    target.evict()
}

/// The duration, by this meter's clock.
fn time_ns(meter: &Meter<'_>, operation: impl FnOnce()) -> f64 {
    let clock = meter.clock();
    let start = clock.start();
    operation();
    clock.ns(clock.end().saturating_sub(start))
}

#[cfg(test)]
mod tests;
