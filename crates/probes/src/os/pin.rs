//! `os.pin`: what pinning pages for input and output costs.

mod role;

use crate::prelude::*;
use role::Pinning;

words! {
    /// The system calls.
    pub(crate) enum How {
        /// a buffer registered with io_uring, and unregistered: pinned for long
        IoUring = "io_uring",
        /// pages lent to a pipe by vmsplice, and let go by splice to /dev/null: held for one transfer,
        /// as MSG_ZEROCOPY holds them
        Vmsplice = "vmsplice",
    }
}

pub(crate) static PROBE: Probe = Probe::new::<Pin>();

point! {
    /// What does it cost to pin a page for input and output?
    ///
    /// A buffer of the whole size, and one of a single page, is pinned and unpinned again and
    /// again; its pages are in memory. The cost is the slope: the difference of the two medians of
    /// a launch, divided by the number of pages by which the buffers differ. So it does not contain
    /// the system calls and what they do only once. With huge pages it is the cost of each 4 KiB in
    /// them. VmPin shows that io_uring pins. A byte that is changed after its page was lent, and is
    /// read changed, shows that vmsplice does not copy.
    ///
    /// # Predicted from
    /// reading an entry of the page table, two atomic changes of the page's count, and writing
    /// lists of pages: 90 to 280 cycles for a small page; for each 4 KiB of a huge page 4 to 40
    /// with io_uring, which counts many at once
    ///
    /// # Sources
    /// - Linux Documentation/core-api/pin_user_pages.rst
    /// - io_uring_register(2), vmsplice(2)
    /// - a course report on zero-copy sends asserts 2 to 5 µs per message for pinning, unmeasured
    ///
    /// # Needs
    /// - for io_uring: that it is not disabled (kernel.io_uring_disabled, seccomp), and locked
    ///   memory (ulimit -l) for the buffer, whole pages of it
    /// - for vmsplice: fs.pipe-max-size of at least the size
    /// - for 2MiB: transparent huge pages not set to never
    pub(crate) struct Pin of "os.pin" {
        /// the system calls
        how: How = words(),
        pages: Pages = Pages::axis(),
        // Several pages even where the smallest are of 64 KiB.
        /// the size of the buffer
        size: u64 = bytes(64 << 10..=1 << 30, &[1 << 20, 256 << 10]),
    }
}

impl Measure for Pin {
    const METRICS: &'static [Metric] = metrics! {
        /// one page of the smallest size, pinned and unpinned, without the system calls
        cost: Nanoseconds Lower,
        /// the whole buffer, pinned and unpinned, with both system calls
        whole_buffer: Nanoseconds Lower,
        /// a buffer of one page, pinned and unpinned, with both system calls
        one_page: Nanoseconds Lower,
        /// of io_uring: memory that the buffer has pinned, by VmPin; with huge pages, all of them
        pinned: Bytes Neither,
    };
    const AFTER: NameList = &["cpu.frequency"];
    const CROSSINGS: &'static [NameList] = &[&["how", "pages", "size"]];
    const ROUNDS: u32 = 2;
    const ROLES: &'static [StartRole] = &[alone::<_, Pinning>];

    headlines! {
        "pinning a page for I/O (io_uring)": {},
    }

    fn memory_bytes(point: &At<Self>) -> u64 {
        2 * point.size
    }

    fn predict(point: &At<Self>, _: &Facts, measured: &MeasuredRows<'_>) -> Option<Prediction> {
        let (cycles, because) = match (point.how, point.pages) {
            (How::IoUring, Pages::Huge) => {
                ((4.0, 40.0), "a page to note, and one change of a count for many")
            }
            // A pipe records each 4 KiB separately, whatever page they are part of.
            (How::Vmsplice, _) | (How::IoUring, Pages::Base) => (
                (90.0, 280.0),
                "an entry of the page table to read, a count to raise and to lower atomically, and \
                 lists of pages to write",
            ),
        };
        cost_cycles(measured, cycles, because)
    }

    /// The slope from one page to the whole buffer.
    fn derive(point: &At<Self>, reports: Vec<Report>) -> Report {
        let mut report = only(reports);
        let more_ns = derived::difference_ns(&report, "whole_buffer", "one_page");
        if let (Some(ns), Ok(pages)) = (more_ns, pages(point.size, base_page_bytes())) {
            derived::add(&mut report, "cost", ns / (pages - 1) as f64);
        }
        report
    }
}

/// How many pages of the smallest size the buffer has.
///
/// # Errors
/// If it is only one, so that there is no slope from one page to the whole.
fn pages(size: u64, page_bytes: usize) -> Result<usize> {
    let pages = (size as usize).div_ceil(page_bytes);
    if pages < 2 {
        unsupported!(
            "a buffer of {} is a single page of {} here, and the cost is the slope from one page \
             to several (--set size=… makes it larger)",
            display_bytes(size),
            display_bytes(page_bytes as u64)
        );
    }
    Ok(pages)
}

#[cfg(test)]
mod tests {
    use super::*;
    use costof_model::axis::Domain;

    #[test]
    fn a_single_page_has_no_slope_and_usual_sizes_have_one_on_any_page() {
        let Domain::Number { defaults, .. } = &PROBE.info.axes[2].domain else {
            panic!("the size is a number");
        };
        for size in defaults.iter() {
            assert!(pages(*size, 64 << 10).is_ok_and(|pages| pages >= 4));
        }
        let smallest = 64 << 10;
        assert_eq!(pages(smallest, 4 << 10).ok(), Some(16));
        let refused = pages(smallest, 64 << 10).unwrap_err();
        assert!(refused.reason.contains("a single page of 64"), "{refused}");
    }
}
