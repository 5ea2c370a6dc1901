//! `file.read`: what reading a block of a file costs.

mod predict;

use super::axes::{self, Pattern};
use super::target_file::{self, ALL, TargetFile, has_blocks, is_there, temporary_name};
use crate::arenas;
use crate::derived::with_throughput;
use crate::prelude::*;
use costof_model::Text;
use costof_model::facts::Medium;
use costof_os::cpu::clock::{ClockId, now_ns};
use costof_os::file::cache;
use costof_os::file::data::Access;
use costof_os::file::order::Order;
use costof_os::file::reads::{self, Reader};
use costof_os::memory::arena::base_page_bytes;
use fastrand::Rng;
use std::cell::RefCell;
use std::io;

/// The file of the headlines, and the default: more than caches hold, and soon written.
const SIZE: u64 = 64 << 20;
/// The file over which a seek is measured.
const SEEK_SIZE: u64 = 1 << 30;
/// A share of bytes from the device at which none came from there.
const NONE: f64 = 0.01;
/// A latency is measured where it is so many readings of the clock.
const CLOCK_READS: f64 = 100.0;
/// Reads that are stamped before the time is looked at again, for each that is under way.
const STAMPED: u64 = 16;
/// Reads that a batch has for each that is under way at least, so that how it begins and ends
/// hardly counts.
const BATCH_PER_DEPTH: f64 = 32.0;
/// A stretch of a cold file that is read in order: long beside what the kernel reads ahead, which
/// is read in vain where the stretch ends.
const COLD_STRETCH_BYTES: u64 = 32 << 20;
/// Such stretches that a point has in a round, at most.
const STRETCHES: u64 = 64;
/// What is read once more and compared, byte by byte: so many blocks, fewer where those come to so
/// many bytes.
const COMPARED: u64 = 64;
const COMPARED_BYTES: u64 = 4 << 20;
/// What else may be asked of a file that cannot be read past the page cache.
const NOT_DIRECT: &str = "--set dir= for another folder, or another value of --set cache=";

words! {
    /// Where the file is before it is read.
    pub(crate) enum Cache {
        /// in the page cache, all of it, which is verified
        Warm = "warm",
        /// on its device, read into the page cache: evicted before (POSIX_FADV_DONTNEED), which is
        /// verified
        Cold = "cold",
        /// on its device, read past the page cache (O_DIRECT)
        Direct = "direct",
    }
}

words! {
    /// How a block is read.
    pub(crate) enum Engine {
        /// pread(2), one call a block
        Pread = "pread",
        /// io_uring, one io_uring_enter(2) for what is to be read next
        IoUring = "io_uring",
        /// a copy from a shared mapping, whose pages are mapped before where cache=warm
        Mmap = "mmap",
    }
}

words! {
    /// The pages of what is read into, not of the file.
    pub(crate) enum Pages {
        /// the smallest: a device is told of each stretch of them that happens to lie together, so that
        /// large direct reads differ from process to process
        Base = "4KiB",
        /// transparent huge pages, seen in smaps: a block lies together, and a device is told of it once
        Huge = "2MiB",
    }
}

pub(crate) static PROBE: Probe = Probe::new::<Read>();

point! {
    /// What does reading a block of a file cost, from memory and from its device?
    ///
    /// A file without a name (O_TMPFILE) is written, synced and read, block by block, into memory
    /// of the reader. Its words are what stands nowhere else, and once it is measured 64 blocks
    /// more are read and compared, fewer where they come to 4 MiB. warm: all of it is read once
    /// before, and must be in the page cache after; cold: evicted before each batch, until
    /// cachestat(2) (mincore(2) before Linux 6.5) finds no page; direct: O_DIRECT, aligned as
    /// STATX_DIOALIGN says. Where bytes should have come from the device and did not, or the other
    /// way round, there is no number. The kernel reads ahead as it does for programs that say
    /// nothing, but not where blocks come at random (POSIX_FADV_RANDOM, MADV_RANDOM); a cold file
    /// is read in order in stretches of up to 32 MiB, each from its beginning. The file system's
    /// own records of where the file lies are in memory always. A virtual disk may be served from
    /// memory of its host, and a disk from its own: what device_share shows is that bytes left this
    /// kernel.
    ///
    /// # Predicted from
    /// warm: the system call that os.syscall has measured and the copy that cpu.memcpy has, with 20
    /// to 150 ns a page to find it; from a device: the page that os.page_fault has read from the
    /// same one, or times by its kind; cold: what finding room for the pages and copying them adds
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
        pattern: Pattern = Pattern::of_reads(),
        block: u64 = axes::block(&[4 << 10, 256, 64 << 10, 1 << 20]),
        size: u64 = axes::size(&[SIZE, 128 << 10, 1 << 20, 16 << 20, 1 << 30]),
        /// how a block is read
        engine: Engine = words(),
        /// reads under way at once, by io_uring; of the others one is
        depth: u64 = count(1..=64, &[1]),
        /// the pages of the memory that is read into
        pages: Pages = words(),
        dir: Text = axes::dir(),
    }
}

impl Measure for Read {
    const METRICS: &'static [Metric] = metrics! {
        /// one block, time of many by their number
        cost: Nanoseconds Lower,
        /// each read, from when it is asked for until it is seen to be there; where it takes 100
        /// readings of the clock
        latency: Nanoseconds Lower,
        /// bytes of blocks by the time that they cost
        throughput: BytesPerSecond Higher,
        /// processor time of the reading thread for a KiB that it reads
        cpu: Nanoseconds Lower,
        /// bytes that came from the device for each that was read, by /proc/self/io and the disk's
        /// own counter, whichever says less: over 1 where more was read than asked for; absent
        /// where nobody can tell
        device_share: One Neither,
    };
    const AFTER: &'static [&'static str] = &["os.syscall", "cpu.memcpy", "os.page_fault"];
    const CROSSINGS: &'static [&'static [&'static str]] = &[&["cache", "pattern"]];
    const ROUNDS: u32 = 2;
    const BLOCKS_BY: &'static [&'static str] = &["size", "dir"];
    const ROLES: &'static [StartRole] = &[|launch| {
        role::<Read>(Reading {
            random: Rng::with_seed(launch.seed),
            ..Reading::default()
        })
    }];

    fn headlines(facts: &Facts) -> Vec<Headline> {
        let disk = temporary_name(facts).unwrap_or_else(|| "its disk".to_owned());
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
                Read {
                    size: SEEK_SIZE,
                    ..at(Cache::Direct, Pattern::Seek, 4 << 10)
                },
            ),
        ]
    }

    /// Blocks of each size from each place, and several reads under way.
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
        points.push(Read {
            engine: Engine::Mmap,
            ..at(Cache::Cold, Pattern::Random, 4 << 10)
        });
        points.push(Read {
            pages: Pages::Huge,
            ..at(Cache::Direct, Pattern::Sequential, 1 << 20)
        });
        Planned::all(points)
    }

    fn memory_bytes(point: &At<Read>) -> u64 {
        point.size
    }

    fn predict(point: &At<Read>, facts: &Facts, known: &Known<'_>) -> Option<Prediction> {
        predict::predict(point, facts, known)
    }

    fn derive(point: &At<Read>, reports: Vec<Report>) -> Report {
        with_throughput(reports, point.block)
    }
}

fn at(cache: Cache, pattern: Pattern, block: u64) -> Read {
    Read {
        cache,
        pattern,
        block,
        ..Read::default()
    }
}

#[derive(Default)]
struct Reading {
    random: Rng,
    /// Made once, for all points of the launch.
    place: Option<TargetFile>,
    reader: Option<Reader>,
    /// Which share of what was read in the timed batches came from the device.
    share: Option<f64>,
}

impl RoleAt<Read> for Reading {
    /// It waits for the device.
    fn blocks(&self, point: &At<Read>) -> bool {
        point.cache != Cache::Warm
    }

    fn prepare(&mut self, point: &At<Read>, _: &Offers) -> Result<Offers, Failure> {
        self.reader = None;
        self.share = None;
        can_be(point)?;
        let size = point.size;
        let place = TargetFile::again(&mut self.place, &point.dir)?;
        fits_the_place(point, place)?;
        place.extend(size)?;
        let is_random = point.pattern.jumps();
        let order = if is_random {
            target_file::random_order(size, point.block, apart(point), &mut self.random)
        } else {
            Order::sequential(size, point.block)
        };
        let access = match point.cache {
            Cache::Direct => Access::Direct,
            Cache::Warm | Cache::Cold if is_random => Access::CachedRandom,
            Cache::Warm | Cache::Cold => Access::Cached,
        };
        let file = place.data.open(access).map_err(|error| match access {
            Access::Direct => place.no_direct(&error.to_string(), NOT_DIRECT),
            _ => place.failed("open", &error),
        })?;
        let engine = engine(point);
        let mut reader = Reader::new(engine, file, order, is_random).map_err(|error| {
            let forbidden = match engine {
                reads::Engine::Uring(_) => {
                    " (kernel.io_uring_disabled, or a seccomp filter, may forbid it)"
                }
                _ => "",
            };
            Failure::unsupported(format!(
                "cannot read by {}: {error}{forbidden}",
                point.engine.word()
            ))
        })?;
        if point.pages == Pages::Huge {
            let memory = arenas::in_memory(reader.memory_bytes() as u64, arenas::Pages::Huge)?;
            reader = reader.into_memory(memory).expect("as much as it needs");
        }
        match point.cache {
            Cache::Warm => warm(place, &mut reader, size)?,
            Cache::Cold | Cache::Direct => evict(place, &reader)?,
        }
        self.reader = Some(reader);
        Ok(Offers::new())
    }

    fn run(&mut self, point: &At<Read>, meter: &mut Meter<'_>) -> Result<(), Failure> {
        let place = self.place.as_ref().expect("a prepared point has a file");
        let reader = self.reader.as_mut().expect("a prepared point has a reader");
        let is_cold = point.cache == Cache::Cold;
        let depth = point.depth;
        let most = most_at_once(point, reader);
        // Preparing and reading take turns.
        let reader = RefCell::new(reader);
        let failed = RefCell::new(FirstError::default());
        let read = |n: u64| failed.borrow_mut().note(reader.borrow_mut().read(n));
        let prepare = || {
            if is_cold {
                evict(place, &reader.borrow())?;
            }
            if most.is_stretch {
                reader.borrow_mut().rewind();
            }
            Ok(())
        };
        if depth > 1 {
            let each = time_ns(meter, || read(8 * depth)) / (8 * depth) as f64;
            meter.batches_last(BATCH_PER_DEPTH * depth as f64 * each);
        }
        let before = (place.counters(), reader.borrow().read_bytes());
        let mut half = meter.share(2);
        match (is_cold, most.is_stretch) {
            (_, true) => half.repeat(STRETCHES, |meter| {
                prepare()?;
                let ns = time_ns(meter, || read(most.blocks));
                meter.batch_done("cost", most.blocks, ns);
                Ok(())
            })?,
            (true, _) => half.used_up("cost", most.blocks, |_| prepare(), read)?,
            (false, _) => half.repeatable("cost", read),
        }
        let clock = half.clock();
        let each_ns = half.cost_ns("cost").unwrap_or(0.0);
        if each_ns >= CLOCK_READS * clock.read_ns() {
            let stamped = if most.is_stretch {
                most.blocks
            } else {
                (STAMPED * depth).min(most.blocks)
            };
            half.repeat(u64::MAX, |meter| {
                prepare()?;
                let each = |start: u64, end: u64| {
                    meter.latency("latency", clock.ns(end.saturating_sub(start)));
                };
                let read = reader.borrow_mut().read_each(stamped, || clock.end(), each);
                read.map_err(|error| place.failed("read", &error))
            })?;
        }
        let bytes = reader.borrow().read_bytes() - before.1;
        self.share = place.share_read(&before.0, bytes);
        let read = failed.into_inner().into_result();
        read.map_err(|error| place.failed("read", &error))
    }

    /// That the file was read, where it came from, and what that took of the processor.
    fn finish(&mut self, point: &At<Read>, meter: &mut Meter<'_>) -> Result<(), Failure> {
        let place = self.place.as_ref().expect("a measured point has a file");
        let mut reader = self.reader.take().expect("a measured point has a reader");
        let failed = |error| place.failed("read", &error);
        is_there(&reader)?;
        let is_cold = point.cache == Cache::Cold;
        if is_cold {
            evict(place, &reader)?;
            reader.rewind();
        }
        let (depth, block) = (point.depth, point.block);
        let each_ns = meter.cost_ns("cost").unwrap_or(1.0);
        let wanted = (meter.time_ns() / 4.0 / each_ns) as u64;
        let most = most_at_once(point, &reader);
        let count = if most.is_stretch {
            most.blocks
        } else {
            wanted.max(STAMPED * depth).min(most.blocks)
        };
        let before = now_ns(ClockId::ThreadCpu);
        reader.read(count).map_err(failed)?;
        let cpu_ns = now_ns(ClockId::ThreadCpu) - before;
        meter.value("cpu", cpu_ns as f64 / (count * block) as f64 * 1024.0);
        for _ in 0..(COMPARED_BYTES / block).min(COMPARED) {
            reader.read(1).map_err(failed)?;
            is_there(&reader)?;
        }
        if let Some(share) = self.share {
            meter.value("device_share", share);
            came_from_where_it_should(point, place, share)?;
        }
        Ok(())
    }
}

fn engine(point: &Read) -> reads::Engine {
    match point.engine {
        Engine::Pread => reads::Engine::Pread,
        Engine::IoUring => reads::Engine::Uring(point.depth as u32),
        Engine::Mmap => reads::Engine::Map,
    }
}

/// How far blocks at random lie apart at least: of blocks that share a page one alone is read where
/// the page must not be in memory.
fn apart(point: &Read) -> u64 {
    match point.cache {
        Cache::Cold => point.block.max(base_page_bytes() as u64),
        Cache::Warm | Cache::Direct => point.block,
    }
}

/// How many blocks are read before the file is evicted again.
#[derive(Clone, Copy)]
struct Most {
    blocks: u64,
    /// Whether it is always as many, from the file's beginning on: the kernel reads ahead of who
    /// reads in order, in vain where that ends soon; and half as many do not take half the time.
    is_stretch: bool,
}

fn most_at_once(point: &At<Read>, reader: &Reader) -> Most {
    let is_cold = point.cache == Cache::Cold;
    let is_stretch = is_cold && point.pattern == Pattern::Sequential;
    let in_stretch = COLD_STRETCH_BYTES / point.block;
    Most {
        blocks: match (is_cold, is_stretch) {
            (true, true) => reader.blocks().min(in_stretch),
            (true, false) => reader.blocks(),
            (false, _) => u64::MAX,
        },
        is_stretch,
    }
}

/// Whether the axes go together.
fn can_be(point: &At<Read>) -> Result<(), Failure> {
    if point.depth > 1 && point.engine != Engine::IoUring {
        unsupported!("several reads under way at once are for io_uring (--set engine=io_uring)");
    }
    if point.engine == Engine::Mmap && point.cache == Cache::Direct {
        unsupported!(
            "a mapping is one of the page cache, which direct reads go past (--set cache=cold)"
        );
    }
    has_blocks(point.size, point.block)
}

/// Whether what the file lies on can answer the point, before anything is written there.
fn fits_the_place(point: &At<Read>, place: &TargetFile) -> Result<(), Failure> {
    if point.pattern == Pattern::Seek {
        if place.medium != Medium::Rotational {
            unsupported!(
                "nothing seeks: {} lies on {}, which is not known to turn (--set dir= for a \
                 folder on a rotational disk)",
                place.folder(),
                place.name
            );
        }
        if point.cache == Cache::Warm {
            unsupported!("nothing seeks in the page cache (--set cache=direct)");
        }
    }
    match point.cache {
        Cache::Warm => Ok(()),
        Cache::Cold => place.must_have_a_device("--set cache=warm"),
        Cache::Direct => {
            place.must_have_a_device("--set cache=warm")?;
            place.must_be_direct(point.block, NOT_DIRECT)
        }
    }
}

/// Has all of the file in the page cache, and its mapping's pages mapped.
fn warm(place: &TargetFile, reader: &mut Reader, size: u64) -> Result<(), Failure> {
    place.read_into_cache(size)?;
    let read = reader.read(reader.blocks());
    read.map_err(|error| place.failed("read", &error))?;
    reader.rewind();
    place.must_be_cached(size)
}

/// Has none of the file in the page cache.
fn evict(place: &TargetFile, reader: &Reader) -> Result<(), Failure> {
    let failed = |error: io::Error| place.failed("evict", &error);
    reader.unmap_pages().map_err(failed)?;
    let left = cache::evict(place.data.file(), place.data.len()).map_err(failed)?;
    match left {
        0 => Ok(()),
        left => Err(Failure::unsupported(format!(
            "{} KiB of a file in {} stay in the page cache when it is evicted: {} keeps them \
             (--set dir= for another folder)",
            left >> 10,
            place.folder(),
            place.name
        ))),
    }
}

fn came_from_where_it_should(
    point: &At<Read>,
    place: &TargetFile,
    share: f64,
) -> Result<(), Failure> {
    let (meant, right) = match point.cache {
        Cache::Warm => ("from memory", share <= NONE),
        Cache::Cold | Cache::Direct => ("from the device", share >= ALL),
    };
    if right {
        return Ok(());
    }
    Err(Failure::unsupported(format!(
        "for each byte read from a file in {}, {share:.2} came from the device, where all should \
         have come {meant}",
        place.folder()
    )))
}

/// How long it takes, by this meter's clock.
fn time_ns(meter: &Meter<'_>, operation: impl FnOnce()) -> f64 {
    let clock = meter.clock();
    let start = clock.start();
    operation();
    clock.ns(clock.end().saturating_sub(start))
}

#[cfg(test)]
mod tests;
