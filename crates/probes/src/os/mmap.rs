//! `os.mmap`: what mapping memory, touching it and unmapping it costs.

use crate::os::page_fault::PageFault;
use crate::prelude::*;
use costof_os::memory::mappings::{NoHugePages, Pages, map_touch_unmap, stamped};

/// Repetitions whose parts are timed, and whose faults are counted.
const REPETITIONS: u64 = 501;

words! {
    /// Whether all pages are mapped at once.
    pub(crate) enum Populate {
        /// only the page that is touched is mapped, by its fault
        No = "no",
        /// MAP_POPULATE maps all pages, so touching causes no fault
        Yes = "yes",
    }
}

pub(crate) static PROBE: Probe = Probe::new::<Mmap>();

point! {
    /// What does it cost to map memory, touch one page of it and unmap it?
    ///
    /// Private anonymous memory is mapped (MAP_NORESERVE), its first byte is written, and it is
    /// unmapped, in a loop. Pages are 4 KiB, even where huge ones are always on
    /// (PR_SET_THP_DISABLE). The page and the page tables were freed just before, so they are in
    /// the caches. The three parts come from 501 more repetitions with clock readings between
    /// them, minus the cost of a reading. No other thread of the process runs: munmap would have to
    /// interrupt one on another CPU.
    ///
    /// # Predicted from
    /// 1.2 to 4 times opening and closing a file (os.syscall), which are also two system calls that
    /// allocate and free an object; a page fault (os.page_fault); flushing the TLB
    ///
    /// # Sources
    /// - L. McVoy, C. Staelin, lmbench: Portable Tools for Performance Analysis, USENIX 1996,
    ///   lat_mmap
    /// - mmap(2), munmap(2)
    ///
    /// # Needs
    /// - Linux 3.15; with populate, as much free memory as the size
    pub(crate) struct Mmap of "os.mmap" {
        /// the size of the mapping, however much of it is touched
        size: usize = bytes(4 << 10..=1 << 40, &[4 << 10, 1 << 20, 1 << 30]),
        /// whether all pages are mapped at once
        populate: Populate = words(),
    }
}

impl Measure for Mmap {
    const METRICS: &'static [Metric] = metrics! {
        /// mmap, one page touched, munmap: the three together
        cost: Nanoseconds Lower,
        /// mmap alone, stamped; the median
        map: Nanoseconds Lower,
        /// the touch alone, stamped; the median
        touch: Nanoseconds Lower,
        /// munmap alone, including freeing the page and the page tables, stamped; the median
        unmap: Nanoseconds Lower,
        /// pages that the kernel mapped each time, by getrusage
        faults: One Neither,
    };
    const AFTER: NameList = &["os.syscall", "os.page_fault"];
    const ROUNDS: u32 = 2;
    const ROLES: &'static [StartRole] = &[alone::<_, NoHugePages>];

    headlines! {
        "mmap, touch of one page, munmap": {},
    }

    fn more_points(_: &Facts) -> Vec<Planned> {
        Planned::all([Mmap { size: 1 << 20, populate: Populate::Yes }])
    }

    fn memory_bytes(point: &At<Self>) -> u64 {
        match point.populate {
            Populate::No => 0,
            Populate::Yes => point.size as u64,
        }
    }

    fn predict(point: &At<Self>, _: &Facts, measured: &MeasuredRows<'_>) -> Option<Prediction> {
        let (pages, tables) = match point.populate {
            Populate::Yes => (point.size.div_ceil(4096), 0),
            Populate::No if point.size >= OWN_TABLES_BYTES => (1, 2),
            Populate::No => (1, 0),
        };
        // Each of many pages mapped together is cheaper; a page mapped alone may cost more.
        let times = if pages > 1 { (0.3, 1.0) } else { (0.8, 2.0) };
        let fault = measured_cost(measured, &PageFault::default(), "for a page fault")? * times;
        // Two system calls that allocate and free a mapping and change a tree of them, where those
        // for a file only look one up; and page tables, which the second one frees.
        let calls = syscall::measured_cost(measured, syscall::Call::Open)? * (1.2, 4.0);
        let brought = (fault * (pages + tables) as f64).named("pages and page tables");
        let freed = Cost::new((100.0, 600.0), "to free pages and flush the TLB");
        (calls + brought + freed).predict("cost")
    }
}

fn pages(point: &At<Mmap>) -> Pages {
    match point.populate {
        Populate::Yes => Pages::Populated,
        Populate::No => Pages::OnTouch,
    }
}

fn failed(error: io::Error) -> Failure {
    Failure::error(format!("mapping memory failed: {error}"))
}

impl Setup<Mmap> for NoHugePages {
    fn set_up(point: &At<Mmap>, _: &Launch) -> Result<NoHugePages> {
        let (size, pages) = (point.size, pages(point));
        arenas::ensure_fits(Mmap::memory_bytes(point))?;
        let no_huge_pages = NoHugePages::begin().or_unsupported("cannot keep to small pages")?;
        // A mapping that is refused (ulimit -v) is refused before anything is timed.
        map_touch_unmap(size, pages, 1).or_unsupported_hint(
            format_args!("cannot map {}", display_bytes(size as u64)),
            "ulimit -v limits it",
        )?;
        Ok(no_huge_pages)
    }

    fn measure(&mut self, point: &At<Mmap>, meter: &mut Meter<'_>) -> Result {
        let (size, pages) = (point.size, pages(point));
        repeat_fallible(meter, "cost", |n| map_touch_unmap(size, pages, n)).map_err(failed)
    }

    fn check(self, point: &At<Mmap>, meter: &mut Meter<'_>) -> Result {
        let (size, pages) = (point.size, pages(point));
        let each = match pages {
            Pages::OnTouch => 1,
            Pages::Populated => size.div_ceil(base_page_bytes()) as u64,
        };
        // Fewer repetitions are enough to count and time many pages.
        let repetitions = (REPETITIONS / each).max(5);
        let mut parts = [const { Vec::new() }; 3];
        for part in &mut parts {
            part.reserve(repetitions as usize);
        }
        let clock = meter.clock();
        let before = usage::thread();
        for _ in 0..repetitions {
            let stamps = stamped(size, pages, || clock.end()).map_err(failed)?;
            for (part, ends) in parts.iter_mut().zip(stamps.windows(2)) {
                part.push(clock.ns(ends[1].saturating_sub(ends[0])) - clock.read_ns());
            }
        }
        let faults = usage::thread().since(&before).minor_faults;
        for (name, part) in ["map", "touch", "unmap"].into_iter().zip(parts) {
            meter.value(name, median(&part).expect("there are repetitions"));
        }
        let faults = faults as f64 / repetitions as f64;
        meter.value("faults", faults);
        let expected = each as f64;
        ensure!(
            (expected..=1.05 * expected + 1.0).contains(&faults),
            "the kernel mapped {faults:.2} pages instead of {each}"
        );
        Ok(())
    }
}

/// A mapping of this size needs page tables of its own, on two levels.
const OWN_TABLES_BYTES: usize = 1 << 30;
