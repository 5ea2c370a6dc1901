//! `os.mmap`: what mapping memory, touching it and unmapping it costs.

use crate::arenas;
use crate::expect::cost_ns;
use crate::literal::{cost, list, metric, text, word, words};
use crate::os::syscall;
use costof_measure::meter::Meter;
use costof_measure::probe::{Probe, Role, the_only_report};
use costof_measure::statistics::quantile::median;
use costof_model::axis::{Axes, Axis, Domain};
use costof_model::facts::Facts;
use costof_model::failure::Failure;
use costof_model::point::{Headline, Planned, Point};
use costof_model::prediction::{Known, Prediction};
use costof_model::probe_info::ProbeInfo;
use costof_model::protocol::Offers;
use costof_model::unit::{Better, Unit, display_bytes};
use costof_os::arena::base_page_bytes;
use costof_os::mappings::{NoHugePages, Pages, map_touch_unmap, stamped};
use costof_os::usage;
use std::io;
use std::sync::LazyLock;

/// Repetitions whose parts are timed, and whose faults are counted.
const REPETITIONS: u64 = 501;

pub(crate) static PROBE: Probe = Probe {
    info: LazyLock::new(|| ProbeInfo {
        id: text("os.mmap"),
        method: 1,
        question: text("What does it cost to map memory, touch one page of it and unmap it?"),
        axes: list![
            Axis {
                name: text("size"),
                about: text("the size of the mapping, whatever of it is touched"),
                domain: Domain::Number {
                    unit: Unit::Bytes,
                    low: 4 << 10,
                    high: 1 << 40,
                    usual: list![4 << 10, 1 << 20, 1 << 30],
                },
            },
            words(
                "populate",
                "whether the mapping comes with its pages",
                list![
                    word("no", "the touch of the first page brings that page"),
                    word("yes", "MAP_POPULATE brings all pages, and the touch none"),
                ],
            ),
        ],
        crossings: list![],
        metrics: list![
            cost("mmap, one page touched, munmap: the three together"),
            metric(
                "map",
                Unit::Nanoseconds,
                Better::Lower,
                "mmap alone, stamped: the median",
            ),
            metric(
                "touch",
                Unit::Nanoseconds,
                Better::Lower,
                "the touch alone, stamped: the median",
            ),
            metric(
                "unmap",
                Unit::Nanoseconds,
                Better::Lower,
                "munmap alone, with the page and the page tables to be freed, stamped: the median",
            ),
            metric(
                "faults",
                Unit::One,
                Better::Neither,
                "pages that the kernel brought each time, as getrusage counts them",
            ),
        ],
        how: text(
            "Private anonymous memory is mapped (MAP_NORESERVE), its first byte is written, and it \
             is unmapped, in a loop, in 4 KiB pages also where huge ones are always on \
             (PR_SET_THP_DISABLE). Page and page tables are those given back just before, so they \
             are in the caches. The three parts come from 501 more repetitions with readings of \
             the clock between them, less what a reading costs. No other thread of the process runs: \
             one on another processor would have to be interrupted at munmap.",
        ),
        sources: list![
            text(
                "L. McVoy, C. Staelin, lmbench: Portable Tools for Performance Analysis, USENIX 1996, lat_mmap"
            ),
            text("mmap(2), munmap(2)"),
        ],
        predicted_from: text(
            "opening and closing a file, which os.syscall has measured: two system calls too, that allocate and free an object; a page fault that os.page_fault has measured; and flushing the TLB",
        ),
        after: list![text("os.syscall"), text("os.page_fault")],
        needs: list![text(
            "Linux 3.15; with populate, as much free memory as the size"
        )],
        roles: list![text("only")],
    }),
    rounds: 2,
    blocks_by: &[],
    least_ns: |_| 0.0,
    memory_bytes: |point| match pages(point) {
        Pages::OnTouch => 0,
        Pages::Populated => point.axes.number("size"),
    },
    processors: |_| 1,
    headlines: |_| {
        vec![Headline::new(
            "mmap, touch of one page, munmap",
            PROBE.info.defaults(),
        )]
    },
    more_points: |_| {
        let populated = Axes::default().with("populate", "yes");
        Planned::anywhere(vec![populated.with("size", 1 << 20)])
    },
    budget: None,
    predict,
    roles: &[|_| {
        Ok(Box::new(Mapping {
            no_huge_pages: None,
            failed: None,
        }))
    }],
    derive: the_only_report,
};

struct Mapping {
    no_huge_pages: Option<NoHugePages>,
    /// What a call answered, where it failed.
    failed: Option<io::Error>,
}

fn size(point: &Point) -> usize {
    point.axes.number("size") as usize
}

fn pages(point: &Point) -> Pages {
    match point.axes.word("populate") {
        "yes" => Pages::Populated,
        _ => Pages::OnTouch,
    }
}

impl Role for Mapping {
    fn prepare(&mut self, point: &Point, _: &Offers) -> Result<Offers, Failure> {
        let (size, pages) = (size(point), pages(point));
        if pages == Pages::Populated && !arenas::fits(size as u64) {
            return Err(arenas::does_not_fit(size as u64));
        }
        if self.no_huge_pages.is_none() {
            self.no_huge_pages = Some(NoHugePages::begin().map_err(|error| {
                Failure::unsupported(format!("cannot keep to small pages: {error}"))
            })?);
        }
        // So that a mapping that is refused (ulimit -v) is told before it is timed.
        map_touch_unmap(size, pages, 1).map_err(|error| {
            let size = display_bytes(size as u64);
            Failure::unsupported(format!("cannot map {size}: {error} (ulimit -v limits it)"))
        })?;
        Ok(Offers::new())
    }

    fn run(&mut self, point: &Point, meter: &mut Meter<'_>) -> Result<(), Failure> {
        let (size, pages) = (size(point), pages(point));
        let failed = &mut self.failed;
        meter.repeatable("cost", |n| {
            if let Err(error) = map_touch_unmap(size, pages, n) {
                *failed = Some(error);
            }
        });
        Ok(())
    }

    fn finish(&mut self, point: &Point, meter: &mut Meter<'_>) -> Result<(), Failure> {
        let failed = |error| Failure::error(format!("mapping memory failed: {error}"));
        if let Some(error) = self.failed.take() {
            return Err(failed(error));
        }
        let (size, pages) = (size(point), pages(point));
        let each = match pages {
            Pages::OnTouch => 1,
            Pages::Populated => size.div_ceil(base_page_bytes()) as u64,
        };
        // Many pages are counted, and timed, well enough in fewer repetitions.
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
        if faults < expected || faults > 1.05 * expected + 1.0 {
            return Err(Failure::error(format!(
                "the kernel brought {faults:.2} pages where {each} were meant"
            )));
        }
        Ok(())
    }
}

/// Freeing a page and flushing the TLB.
const FREEING_NS: (f64, f64) = (100.0, 600.0);
/// A mapping of this size has page tables of its own, on two levels.
const OWN_TABLES_BYTES: u64 = 1 << 30;

fn predict(point: &Point, _: &Facts, known: &Known<'_>) -> Option<Prediction> {
    let open_ns = syscall::one_thread_ns(known, "open")?;
    let fault_ns = known.primary("os.page_fault", &[("kind", "minor_anonymous")])?;
    let size = point.axes.number("size");
    let (pages, tables) = match pages(point) {
        Pages::Populated => (size.div_ceil(4096), 0),
        Pages::OnTouch if size >= OWN_TABLES_BYTES => (1, 2),
        Pages::OnTouch => (1, 0),
    };
    // Of many pages that come together each is cheaper; one that comes alone may be dearer.
    let times = if pages > 1 { (0.3, 1.2) } else { (0.5, 2.0) };
    let brought = (pages + tables) as f64;
    cost_ns(
        0.5 * open_ns + times.0 * brought * fault_ns + FREEING_NS.0,
        1.5 * open_ns + times.1 * brought * fault_ns + FREEING_NS.1,
        format!(
            "2 system calls that allocate and free a mapping, like 0.5 to 1.5 of an open and close \
             of {open_ns:.0} ns; {pages} pages and {tables} page tables of its own, each like {} \
             to {} of a page fault of {fault_ns:.0} ns; {:.0} to {:.0} ns to free pages and flush \
             the TLB",
            times.0, times.1, FREEING_NS.0, FREEING_NS.1
        ),
    )
}
