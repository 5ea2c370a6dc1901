//! `file.write`: what writing a block of a file costs, without waiting until it lasts.

use super::axes::{self, Pattern};
use super::expect;
use super::target_file::{self, TargetFile, may_stamp, report_cpu, require_all_by_device};
use crate::derived::with_throughput;
use crate::prelude::*;
use costof_os::file::writes::{How, Sync, Writer};
use std::cell::RefCell;

/// The fewest writes whose CPU time is counted.
const MIN_COUNTED: u64 = 16;

words! {
    /// Where the block goes.
    pub(crate) enum Cache {
        /// into the page cache, over a block that is there: the device gets it later
        Warm = "warm",
        /// to the device, past the page cache (O_DIRECT); the device may keep it in a cache of its own
        Direct = "direct",
    }
}

pub(crate) static PROBE: Probe = Probe::new::<Write>();

point! {
    /// What does writing a block of a file cost, without waiting until it is durable?
    ///
    /// pwrite(2) over the blocks of a file without a name (O_TMPFILE) that was written and synced
    /// before, so that no room has to be found. Each write carries its number, and what was written
    /// last is read back and compared. cache=warm, for which all of the file is read before, is a
    /// copy and a page marked dirty: the kernel writes pages back later, and a file that is larger
    /// than what may be dirty (vm.dirty_ratio) would measure the device.
    ///
    /// # Predicted from
    /// warm: the system call that os.syscall has measured, the copy that cpu.memcpy has, 30 to 500
    /// ns to mark a page, and 50 to 2,500 ns for what the file system notes of a write; direct:
    /// what file.read or os.page_fault has read from the same device, or times by its kind
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
    const METRICS: &'static [Metric] = metrics! {
        /// one block, time of many by their number
        cost: Nanoseconds Lower,
        /// each write; where it takes 100 readings of the clock
        latency: Nanoseconds Lower,
        /// bytes of blocks by the time that they cost
        throughput: BytesPerSecond Higher,
        /// CPU time of the writing thread for each KiB
        cpu: Nanoseconds Lower,
        /// of cache=direct: bytes that went to the device for each that was written: the smaller of
        /// /proc/self/io and the disk's own counter; absent where neither counts
        device_share: One Neither,
    };
    const AFTER: &'static [&'static str] =
        &["os.syscall", "cpu.memcpy", "os.page_fault", "file.read"];
    const CROSSINGS: &'static [&'static [&'static str]] =
        &[&["cache", "block"], &["cache", "pattern"]];
    const ROUNDS: u32 = 2;
    const BLOCKS_BY: &'static [&'static str] = &["size", "dir"];
    const ROLES: &'static [StartRole] = &[|launch| {
        role::<Write>(Writing {
            random: Rng::with_seed(launch.seed),
            ..Writing::default()
        })
    }];

    headlines! {
        "write 4 KiB into the page cache": {},
    }

    fn more_points(_: &Facts) -> Vec<Planned> {
        Planned::all([
            at(Cache::Direct, Pattern::Sequential, 1 << 20),
            at(Cache::Warm, Pattern::Sequential, 1 << 20),
        ])
    }

    fn memory_bytes(point: &At<Write>) -> u64 {
        point.size
    }

    fn predict(point: &At<Write>, facts: &Facts, known: &Known<'_>) -> Option<Prediction> {
        /// To make a page dirty.
        const MARK_PAGE_NS: Range = Range(30.0, 500.0);
        /// What a file system does for a write whatever its length: a lock, the file's time, a journal
        /// that learns of the write.
        const NOTE_NS: Range = Range(50.0, 2500.0);
        let block = point.block as f64;
        let cost = if point.is_direct() {
            let blocks = expect::Blocks {
                dir: &point.dir,
                block: point.block,
                jump: point.pattern.jumps(),
            };
            expect::request(blocks, facts, known)? + expect::bytes(blocks, facts)?
        } else {
            expect::call(known)?
                + Cost::new(NOTE_NS, "for what the file system notes")
                + Cost::new(
                    MARK_PAGE_NS * expect::pages(block),
                    "to find pages and mark them",
                )
                + expect::copy(known, block)?
        };
        cost.predict("cost")
    }

    fn derive(point: &At<Write>, reports: Vec<Report>) -> Report {
        with_throughput(reports, point.block)
    }
}

fn at(cache: Cache, pattern: Pattern, block: u64) -> Write {
    Write {
        cache,
        pattern,
        block,
        ..Write::default()
    }
}

#[derive(Default)]
struct Writing {
    random: Rng,
    target: Option<TargetFile>,
    writer: Option<Writer>,
    share: Option<f64>,
}

impl Write {
    fn is_direct(&self) -> bool {
        match self.cache {
            Cache::Warm => false,
            Cache::Direct => true,
        }
    }
}

/// Has all of the file in the page cache: direct writes, of a point before, have dropped what was there.
fn warm(target: &TargetFile, size: u64) -> Result<(), Failure> {
    target.read_into_cache(size)?;
    // None of what was just read: the kernel counts another file's pages, as of overlayfs, or the
    // file system has a cache of its own.
    if target.cached(size)? == 0 {
        return Ok(());
    }
    target.require_cached(size)
}

impl RoleAt<Write> for Writing {
    /// It waits for the device.
    fn blocks(&self, point: &At<Write>) -> bool {
        point.is_direct()
    }

    fn prepare(&mut self, point: &At<Write>, _: &Offers) -> Result<Offers, Failure> {
        self.writer = None;
        self.share = None;
        let (size, block, is_direct) = (point.size, point.block, point.is_direct());
        target_file::require_blocks(size, block)?;
        let target = TargetFile::reuse(&mut self.target, &point.dir)?;
        if is_direct {
            target.require_device("--set cache=warm")?;
            target.require_direct(block, "--set dir= for another folder, or --set cache=warm")?;
        }
        target.extend(size)?;
        if !is_direct {
            warm(target, size)?;
        }
        let sync = Sync::Nothing;
        let order = target_file::order(point.pattern, size, block, &mut self.random);
        let writer = Writer::new(&target.data, How { is_direct, sync }, order);
        self.writer = Some(target.check("write", writer)?);
        Ok(Offers::new())
    }

    fn run(&mut self, point: &At<Write>, meter: &mut Meter<'_>) -> Result<(), Failure> {
        let target = self.target.as_ref().expect("a prepared point has a file");
        let writer = self.writer.as_mut().expect("a prepared point has a writer");
        let before = target.counters(writer.written_bytes());
        let writer = RefCell::new(writer);
        let mut failed = FirstError::default();
        let mut write = |n: u64| failed.note(writer.borrow_mut().write(n));
        let mut half = meter.share(2);
        half.repeatable("cost", &mut write);
        if may_stamp(&half) {
            half.single("latency", || write(1));
        }
        if point.is_direct() {
            self.share = target.share_written(&before, writer.borrow().written_bytes());
        }
        target.check("write", failed.into_result())
    }

    fn finish(&mut self, point: &At<Write>, meter: &mut Meter<'_>) -> Result<(), Failure> {
        let target = self.target.as_ref().expect("a measured point has a file");
        let mut writer = self.writer.take().expect("a measured point has a writer");
        let count = target_file::quarter_of_time(meter).max(MIN_COUNTED);
        report_cpu(meter, count * point.block, || {
            target.check("write", writer.write(count))
        })?;
        if !target.check("write", writer.is_written(&target.data))? {
            fail!("the last block does not stand as it was written");
        }
        require_all_by_device(self.share, meter, |share| {
            format!(
                "for each byte written to a file in {} past the page cache, {share:.2} went to \
                 the device",
                target.folder()
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::tests::{alone, measure, measure_if_supported, supported, value};
    use costof_os::file::cache;

    #[test]
    fn blocks_go_where_the_point_says() {
        for cache in Cache::ALL.iter().copied() {
            for pattern in [Pattern::Random, Pattern::Sequential] {
                let axes = Write {
                    size: 4 << 20,
                    ..at(cache, pattern, 4096)
                };
                if let Some(report) = measure_if_supported(&axes) {
                    assert_eq!(report.allocations, 0, "{axes:?}");
                    assert!(value(&report, "throughput") > Some(0.0), "{axes:?}");
                    let share = value(&report, "device_share");
                    assert!(cache == Cache::Direct || share.is_none(), "{axes:?}");
                }
            }
        }
    }

    #[test]
    fn what_was_dropped_from_the_page_cache_is_there_again_for_a_warm_point() {
        let size = 100_000;
        let point = At::from(Write {
            size,
            ..at(Cache::Warm, Pattern::Random, 4096)
        });
        let _alone = alone();
        let mut role = Writing::default();
        for _ in 0..2 {
            if supported(role.prepare(&point, &Offers::new())).is_none() {
                return;
            }
            let target = role.target.as_ref().unwrap();
            match target.cached(size).unwrap() {
                0 => eprintln!("checked less: the kernel does not report what is cached"),
                cached => assert!(cached >= size, "{cached}"),
            }
            cache::evict(target.data.file(), target.data.len()).unwrap();
        }
    }

    #[test]
    fn sectors_are_not_split_and_a_file_has_blocks() {
        for (cache, block, size, says) in [
            (Cache::Direct, 256, 4 << 20, "256B"),
            (Cache::Warm, 1 << 20, 1 << 20, "fewer than four"),
        ] {
            let axes = at(cache, Pattern::Random, block);
            let failure = measure(Write { size, ..axes }).unwrap_err();
            assert!(failure.reason.contains(says), "{failure}");
        }
    }
}
