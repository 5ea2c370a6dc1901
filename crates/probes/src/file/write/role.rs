//! Writing blocks into the page cache, or past it.

use super::Write;
use crate::file::target_file::{self, TargetFile, may_stamp, report_cpu, require_all_by_device};
use crate::prelude::*;
use costof_os::file::writes::{How, Sync, Writer};

/// The fewest writes whose CPU time is counted.
const MIN_COUNTED: u64 = 16;

#[derive(Default)]
pub(super) struct Writing {
    random: Rng,
    target: Option<TargetFile>,
    writer: Option<Writer>,
    share: Option<f64>,
}

impl Writing {
    pub(super) fn start(launch: &Launch) -> Writing {
        Writing { random: Rng::with_seed(launch.seed), ..Writing::default() }
    }
}

/// Brings all of the file into the page cache: direct writes of an earlier point have dropped it.
fn warm(target: &TargetFile, size: u64) -> Result {
    target.read_into_cache(size)?;
    // The kernel counts none of the pages that were just read: the file system has a cache of its own.
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

    fn prepare(&mut self, point: &At<Write>, _: &Offers) -> Result<Offers> {
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

    fn run(&mut self, point: &At<Write>, meter: &mut Meter<'_>) -> Result {
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

    fn finish(&mut self, point: &At<Write>, meter: &mut Meter<'_>) -> Result {
        let target = self.target.as_ref().expect("a measured point has a file");
        let mut writer = self.writer.take().expect("a measured point has a writer");
        let count = target_file::quarter_of_time(meter).max(MIN_COUNTED);
        report_cpu(meter, count * point.block, || target.check("write", writer.write(count)))?;
        let is_written = target.check("write", writer.is_written(&target.data))?;
        ensure!(is_written, "the last block differs from what was written");
        if !point.is_direct() {
            return Ok(());
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
    use crate::file::axes::Pattern;
    use crate::file::tests::{alone, measure, measure_if_supported, supported, value};
    use crate::file::write::{Cache, at};
    use costof_os::file::cache;

    #[test]
    fn blocks_go_where_the_point_says() {
        for cache in Cache::ALL.iter().copied() {
            for pattern in [Pattern::Random, Pattern::Sequential] {
                let axes = Write { size: 4 << 20, ..at(cache, pattern, 4096) };
                let report = measure_if_supported(&axes);
                assert!(report.is_some() || cache == Cache::Direct, "{axes:?}: it needs no device");
                if let Some(report) = report {
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
        let point = At::from(Write { size, ..at(Cache::Warm, Pattern::Random, 4096) });
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
