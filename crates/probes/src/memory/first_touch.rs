//! `memory.first_touch`: what bringing fresh memory in costs, by the size of its pages.

use crate::ends::partner_cpu;
use crate::os::page_fault::{self, PageFault};
use crate::prelude::*;
use crate::threads::Moved;
use costof_os::memory::first_touch::{FirstTouches, arena_bytes};
use costof_os::memory::userfault::FaultServer;

words! {
    /// How memory comes.
    pub(crate) enum How {
        /// a write to each 4 KiB: one page fault for each page
        Touch = "touch",
        /// one call for 2 MiB (MADV_POPULATE_WRITE), without page faults
        Populate = "populate",
        /// a write to each 4 KiB, whose page fault another thread on the same CPU answers (userfaultfd)
        Userfaultfd = "userfaultfd",
        /// the same with that thread on another CPU, both CPUs kept awake
        UserfaultfdCross = "userfaultfd_cross",
    }
}

impl How {
    /// Where the thread that answers page faults and the one that makes them run.
    fn server(self) -> Option<Cpus> {
        match self {
            How::Touch | How::Populate => None,
            How::Userfaultfd => Some(Cpus::Same),
            How::UserfaultfdCross => Some(Cpus::Cross),
        }
    }
}

/// What a cost is of.
const UNIT_BYTES: u64 = 4 << 10;
/// As many of 2 MiB are brought in for each batch, of which half are timed, at most.
const ARENAS: u64 = 32;

pub(crate) static PROBE: Probe = Probe::new::<FirstTouch>();

point! {
    /// What does fresh memory cost per 4 KiB, by the size of its pages?
    ///
    /// Mappings of 2 MiB are made untimed, one for each operation; then each 4 KiB is written to, or one call brings all in.
    /// The kernel's counts of page faults show that a fault brought a page of the size that is asked for. The mappings for
    /// smaller pages than 2 MiB are one page shorter, so that no huge page fits; if a size between is switched on
    /// too, the kernel takes that, and the point has no number. As in os.page_fault, the batch before has given these
    /// pages back. They are in the caches as far as 64 MiB fit: each batch brings in so much, and at most the last half is timed.
    /// In a virtual machine the host has then backed them. What the first touch since the machine started costs cannot be
    /// asked for, since a guest does not know which of its free pages the host has backed.
    ///
    /// With userfaultfd, the kernel passes each fault of the timed part to a second thread of the process, which reads it (read) and
    /// answers it with a page (UFFDIO_COPY); the first thread waits meanwhile. Each thread is pinned. The second one counts.
    ///
    /// # Predicted from
    /// a page fault (os.page_fault) for each page, and 4 KiB cleared at 6 to 20 GB/s; with userfaultfd, two context switches by a pipe
    /// on such CPUs (os.context_switch), whose system calls are as many, and 4 KiB copied
    ///
    /// # Sources
    /// - Linux Documentation/admin-guide/mm/transhuge.rst: multi-size THP, Linux 6.8
    /// - madvise(2), MADV_POPULATE_WRITE, Linux 5.14
    /// - userfaultfd(2); Linux Documentation/admin-guide/mm/userfaultfd.rst
    ///
    /// # Needs
    /// - for pages larger than 4 KiB: /sys/kernel/mm/transparent_hugepage/hugepages-SIZEkB/enabled that is not never; root
    ///   may write madvise to it
    /// - for userfaultfd: no seccomp filter that forbids it; before Linux 5.11 root, or vm.unprivileged_userfaultfd=1
    /// - for userfaultfd_cross: two CPUs (--cpu)
    pub(crate) struct FirstTouch of "memory.first_touch" {
        /// the pages, of which the kernel has those that are switched on
        pages: usize = bytes(4 << 10..=2 << 20, &[4 << 10, 16 << 10, 64 << 10, 256 << 10, 2 << 20]),
        /// how memory comes
        how: How = words(),
    }
}

impl Measure for FirstTouch {
    // 2: each batch brings in as much, whatever part of it is timed.
    const METHOD: u32 = 2;
    const METRICS: &'static [Metric] = metrics! {
        /// 4 KiB of fresh memory
        cost: Nanoseconds Lower,
        /// bytes that one page fault has brought
        mapped: Bytes Neither,
    };
    const AFTER: NameList = &["os.page_fault", "os.context_switch"];
    const CROSSINGS: &'static [NameList] = &[&["pages", "how"]];
    const BUDGET: Option<Budget> = Some(Budget::seconds(0, 5, 30));
    const ROUNDS: u32 = 2;
    const ROLES: &'static [StartRole] = &[alone::<_, Touching>];

    fn check_axes(point: &At<Self>) -> Result {
        if !point.pages.is_power_of_two() {
            unsupported!("pages have a power of two of bytes (--set pages=16KiB,64KiB)");
        }
        if point.how.server().is_some() && point.pages as u64 != UNIT_BYTES {
            unsupported!("userfaultfd answers pages of 4 KiB (--set pages=4KiB)");
        }
        Ok(())
    }

    fn processors(point: &At<Self>) -> usize {
        point.how.server().map_or(1, Cpus::count)
    }

    fn memory_bytes(_: &At<Self>) -> u64 {
        ARENAS * (2 << 20)
    }

    fn predict(point: &At<Self>, _: &Facts, measured: &MeasuredRows<'_>) -> Option<Prediction> {
        let small = PageFault { kind: page_fault::Kind::MinorAnonymous };
        let fault = expect::measured_cost(measured, &small, "for a page fault")?;
        if let Some(cpus) = point.how.server() {
            let switch = context_switch::measured_cost(cpus, Wake::Awake, measured)?;
            let copy = Cost::bytes(UNIT_BYTES as f64, (5.0, 20.0), "copied");
            return (fault * (0.7, 1.4) + switch * (1.2, 3.0) + copy).predict("cost");
        }
        // Without an exception, the kernel's work remains.
        let share = match point.how {
            How::Populate => (0.4, 1.1),
            _ => (0.7, 1.4),
        };
        if point.pages as u64 == UNIT_BYTES {
            return (fault * share).predict("cost");
        }
        let each = fault * (UNIT_BYTES as f64 / point.pages as f64);
        (each * share + Cost::bytes(UNIT_BYTES as f64, (6.0, 20.0), "cleared")).predict("cost")
    }

    fn derive(point: &At<Self>, reports: Vec<Report>) -> Report {
        let mut report = only(reports);
        derived::divide_cost(&mut report, arena_bytes(point.pages) as u64 / UNIT_BYTES);
        if point.how == How::Userfaultfd {
            derived::forget_disturbances(&mut report);
        }
        report
    }
}

struct Touching {
    touches: FirstTouches,
    _awake: Awake,
}

impl Setup<FirstTouch> for Touching {
    fn blocks(point: &At<FirstTouch>) -> bool {
        point.how.server().is_some()
    }

    fn set_up(point: &At<FirstTouch>, launch: &Launch) -> Result<Touching> {
        FirstTouch::check_axes(point)?;
        arenas::ensure_fits(FirstTouch::memory_bytes(point))?;
        let (mut server, mut _awake) = (None, Awake::Unchanged);
        if let Some(cpus) = point.how.server() {
            // The thread begins where this one is.
            let _moved = Moved::to(partner_cpu(cpus, &launch.cpus)?)?;
            server = Some(FaultServer::start().or_unsupported("page faults cannot be served")?);
            _awake = ends::keep(cpus, Wake::Awake, &launch.cpus)?;
        }
        let touches = FirstTouches::new(point.pages, point.how == How::Populate, server);
        Ok(Touching { touches: touches.map_err(refused)?, _awake })
    }

    fn measure(&mut self, _: &At<FirstTouch>, meter: &mut Meter<'_>) -> Result {
        let touches = RefCell::new(&mut self.touches);
        let mut failed = FirstError::default();
        meter.used_up(
            "cost",
            ARENAS / 2,
            |n| touches.borrow_mut().prepare(n as usize, ARENAS as usize).map_err(refused),
            |_| failed.note(touches.borrow_mut().touch()),
        )?;
        failed.into_result().map_err(refused)
    }

    fn check(mut self, point: &At<FirstTouch>, meter: &mut Meter<'_>) -> Result {
        let mapped = self.touches.end().or_fail("the other thread")?;
        if !came_on(point.pages, mapped) {
            unsupported!(
                "a page fault brought {} instead of {}: memory is fragmented, or pages of another size are switched on \
                 (/sys/kernel/mm/transparent_hugepage/hugepages-*/enabled)",
                display_bytes(mapped as u64),
                display_bytes(point.pages as u64)
            );
        }
        meter.value("mapped", mapped);
        Ok(())
    }
}

/// Whether 9 in 10 pages were of this size, by the bytes that a fault has brought: where one was not, each of its small pages
/// faulted. Recording a batch may fault too.
fn came_on(page_bytes: usize, mapped: f64) -> bool {
    const WRONG_MAX: f64 = 0.1;
    let more_faults = page_bytes as f64 / mapped - 1.0;
    let small_in_one = page_bytes as f64 / UNIT_BYTES as f64;
    (-WRONG_MAX..=WRONG_MAX * (small_in_one - 1.0).max(1.0)).contains(&more_faults)
}

fn refused(error: io::Error) -> Failure {
    Failure::unsupported(format!("cannot have memory on such pages: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::os::context_switch::ContextSwitch;
    use crate::testing::{at, measured};

    #[test]
    fn few_small_pages_among_huge_ones_do_no_harm() {
        assert!(came_on(2 << 20, 1_797_558.0) && came_on(4 << 10, 4000.0));
        // All on small pages, every fifth, and on larger ones.
        assert!(!came_on(2 << 20, 4096.0) && !came_on(2 << 20, 20_000.0));
        assert!(!came_on(16 << 10, 65_536.0) && !came_on(16 << 10, 4096.0));
    }

    #[test]
    fn pages_of_other_sizes_than_powers_of_two_are_refused() {
        let check = |values| FirstTouch::check_axes(&At::from(at::<FirstTouch>(values)));
        assert!(check("pages=65536").is_ok());
        assert!(check("pages=65636").unwrap_err().reason.contains("power of two"));
        assert!(check("how=userfaultfd").is_ok());
        let refused = check("pages=65536 how=userfaultfd_cross").unwrap_err();
        assert!(refused.reason.contains("pages=4KiB"), "{refused}");
    }

    #[test]
    fn a_fault_that_a_thread_answers_takes_two_switches_more() {
        let rows = [
            measured(PageFault { kind: page_fault::Kind::MinorAnonymous }, 1000.0),
            measured(ContextSwitch::default(), 1500.0),
            measured(at::<ContextSwitch>("cpus=cross"), 5000.0),
        ];
        let range = |how, rows: &[_]| {
            let point = At::from(at::<FirstTouch>(how));
            let rows = MeasuredRows::new(rows);
            let expected = FirstTouch::predict(&point, &Facts::default(), &rows)?;
            Some((expected.low.round(), expected.high.round()))
        };
        assert_eq!(range("how=touch", &rows), Some((700.0, 1400.0)));
        assert_eq!(range("how=userfaultfd", &rows), Some((2705.0, 6719.0)));
        assert_eq!(range("how=userfaultfd_cross", &rows), Some((6905.0, 17_219.0)));
        assert_eq!(range("how=userfaultfd", &rows[..1]), None);
    }
}
