//! `file.cache_size`: up to which size a file that is read again comes from memory.

mod role;

use super::{axes, expect};
use crate::prelude::*;
use role::Rereader;

/// The size of a read.
const BLOCK: u64 = 1 << 20;
/// The largest size planned by default, approximately: a launch writes this much, and reads it a
/// dozen times.
const MAX_PLANNED_BYTES: u64 = 4 << 30;
/// Sizes, as shares of the memory that the kernel and the limits leave for the cache.
const SHARES: [f64; 12] = [0.25, 0.4, 0.55, 0.7, 0.8, 0.85, 0.9, 0.95, 1.0, 1.05, 1.1, 1.2];

pub(crate) static PROBE: Probe = Probe::new::<CacheSize>();

point! {
    /// Up to which size does a file that is read again come from memory?
    ///
    /// A file without a name is written, synced and evicted, so none of it is dirty, and the limit
    /// on dirty pages (vm.dirty_ratio) cannot distort the result. It is read from beginning to end;
    /// where the page cache then lacks some of it, it is evicted and read once more, so that what
    /// earlier points of the launch left there does not count. Then up to 512 MiB of it are read
    /// again from the beginning, in blocks of 1 MiB. The kernel evicts what was read longest ago:
    /// of a file that is larger than the cache, the beginning is gone, and reading it again evicts
    /// what comes next, so nothing comes from memory. At last the file is mapped (MADV_RANDOM), and
    /// 256 of its pages are touched at random: a minor fault where the page is in memory, a major
    /// one where it is not. A launch writes the largest size once. If a control group, or the
    /// machine, leaves up to 4 GiB, the plan has sizes around that. Otherwise the sizes have to be
    /// named (--set size=); the finding below the table says which ones. They take minutes, and as
    /// much disk space as there is memory.
    ///
    /// # Predicted from
    /// available memory, or the limit of the control group where that is less: below 0.8 of it a
    /// copy (cpu.memcpy), above 1.15 of it a read of the device by its kind, in between anything
    /// from one to the other
    ///
    /// # Sources
    /// - CSE 221 System Measurement Project, 2014: files of 0.5 to 14 GB, 8 GB/s inside the cache,
    ///   whose size of 4 GB was probably a limit of dirty pages: pages that are only read stay; 15.2
    ///   µs for two accesses to a mapped file larger than memory
    /// - Linux Documentation/admin-guide/cgroup-v2.rst on memory.max; mm/workingset.c;
    ///   admin-guide/sysctl/vm.rst
    ///
    /// # Needs
    /// - a folder on a file system that is not in memory, with more free than there is memory
    ///   (--set dir=), and minutes (--timeout for a slow disk); a control group with a memory limit
    ///   makes it seconds
    pub(crate) struct CacheSize of "file.cache_size" {
        /// bytes of the file; sizes that would fill its disk are refused
        size: u64 = bytes(4 << 20..=1 << 40, &[64 << 20]),
        dir: Text = axes::dir(),
    }
}

impl Measure for CacheSize {
    // 2: a file is evicted where earlier points left a part of it in the page cache, not each time.
    const METHOD: u32 = 2;
    const METRICS: &'static [Metric] = metrics! {
        /// a block of 1 MiB of a file that was read just before, from its beginning on
        cost: Nanoseconds Lower,
        /// bytes of blocks divided by their time
        throughput: BytesPerSecond Higher,
        /// bytes that came from the device, divided by the bytes read again: the smaller of
        /// /proc/self/io and the disk's own counter; absent where neither counts
        device_share: One Neither,
        /// bytes of the file that were in the page cache after it had been read once, by
        /// cachestat(2) or mincore(2)
        cached: Bytes Neither,
        /// the first touch of a random page of the mapped file, after that
        fault: Nanoseconds Lower,
    };
    const AFTER: NameList = &["os.syscall", "cpu.memcpy", "os.page_fault", "file.read"];
    const IS_OF_ONE_CPU: bool = true;
    const BLOCKS_BY: NameList = &["dir"];
    const BUDGET: Option<Budget> = Some(Budget::seconds(10, 30, 60));
    const ROLES: &'static [StartRole] = &[|launch| role::<CacheSize>(Rereader::start(launch))];

    /// None where that is more than a run should write by default; `--set size=` asks for it.
    fn more_points(facts: &Facts) -> Vec<Planned> {
        let most = facts.most_cached_bytes();
        let Some(most) = most.filter(|most| *most <= MAX_PLANNED_BYTES) else {
            return Vec::new();
        };
        let sizes = SHARES.map(|share| (share * most as f64) as u64 / BLOCK * BLOCK);
        let sizes = sizes.into_iter().filter(|size| *size >= 4 << 20);
        let points = sizes.map(|size| CacheSize { size, ..CacheSize::default() });
        Planned::all(points)
    }

    fn disk_bytes(point: &At<Self>) -> u64 {
        point.size
    }

    fn least_ns(point: &At<Self>) -> f64 {
        point.size as f64
    }

    fn predict(point: &At<Self>, facts: &Facts, measured: &MeasuredRows<'_>) -> Option<Prediction> {
        /// Below the first share of the available memory everything comes from memory; above the
        /// second, nothing.
        const ALL_OR_NOTHING: (f64, f64) = (0.8, 1.15);
        let share = point.size as f64 / facts.most_cached_bytes()? as f64;
        let memory = expect::cached(measured, BLOCK as f64)?;
        let rates = expect::rates(&point.dir, facts)?;
        let device = Cost::bytes(BLOCK as f64, rates, "from the device");
        let device = device + memory.clone() * (0.0, 1.0);
        let cost = if share < ALL_OR_NOTHING.0 {
            memory
        } else if share > ALL_OR_NOTHING.1 {
            device
        } else {
            memory.up_to(device)
        };
        let name = format!("at {share:.2} of what may be cached");
        cost.named(name).predict("cost")
    }

    fn derive(_: &At<Self>, reports: Vec<Report>) -> Report {
        derived::with_throughput(reports, BLOCK)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::tests::{measure_if_supported, value};
    use crate::testing::names;

    #[test]
    fn sizes_lie_around_what_may_be_kept() {
        let mut facts = Facts::default();
        assert_eq!(CacheSize::more_points(&facts), []);
        facts.memory.available_bytes = Some(8 << 30);
        facts.inherited.cgroup.memory_limit_bytes = Some(400 << 20);
        let planned = CacheSize::more_points(&facts);
        let sizes: Vec<u64> =
            planned.iter().map(|planned| planned.axes.number("size") >> 20).collect();
        assert_eq!(sizes.len(), SHARES.len());
        assert!(sizes.contains(&400) && sizes.contains(&480), "{sizes:?}");
        assert!(sizes.windows(2).all(|pair| pair[0] < pair[1]), "{sizes:?}");
        facts.inherited.cgroup.memory_limit_bytes = None;
        assert_eq!(CacheSize::more_points(&facts), [], "8 GiB are not written unasked");
    }

    #[test]
    fn a_small_file_that_is_read_again_comes_from_memory() {
        let small = CacheSize { size: 8 << 20, ..CacheSize::default() };
        if let Some(report) = measure_if_supported(&small) {
            assert_eq!(value(&report, "cached"), Some((8 << 20) as f64));
            assert!(names(&report).contains(&"fault"));
            let share = value(&report, "device_share");
            assert!(share.is_none_or(|share| share < 0.01), "{share:?}");
        }
    }
}
