//! What small pages cost: the TLB misses of random loads, found by comparison with the same loads on huge
//! pages.

use crate::memory_latency::{Load, claims, loads};
use crate::prelude::*;

const SMALL: &str = "4KiB";
const HUGE: &str = "2MiB";

/// What TLB misses add, from loads on small and on huge pages.
pub(crate) fn page_sizes(run: &Run) -> Vec<Finding> {
    main_memory(run).into_iter().collect()
}

/// Compares the largest working set that was measured on both, if it lies beyond all caches.
fn main_memory(run: &Run) -> Option<Finding> {
    let by_pages = loads(run);
    let on = |wanted: &str| by_pages.iter().find(|(pages, _)| *pages == wanted);
    let ((_, small), (_, huge)) = (on(SMALL)?, on(HUGE)?);
    let same = |load: &Load<'_>| huge.iter().find(|other| other.bytes == load.bytes).copied();
    let mut largest_first = small.iter().rev();
    let (small, huge) = largest_first.find_map(|load| Some((*load, same(load)?)))?;
    let last = claims(run, &[small]).last()?.bytes;
    let (low, high) = surely_more(small.interval()?, huge.interval()?)?;
    let sentence = format!(
        "with {memory} in use a random load costs {small} on 4KiB pages and {huge} on 2MiB pages: small pages add \
         {more} in TLB misses{guest}",
        memory = bytes(small.bytes),
        small = ns(small.cost_ns),
        huge = ns(huge.cost_ns),
        more = range((low, high), ns),
        guest = when(run.is_virtual(), " (the host's page tables are part of both)"),
    );
    let advice = "put large data that is used at random on huge pages: madvise(MADV_HUGEPAGE)";
    let found = || Finding::new(Kind::SmallPages, [small.row, huge.row], sentence).advise(advice);
    (small.bytes > last).then(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{CLAIMED, REAL_HUGE_PAGES, REAL_SMALL_PAGES, add, reads, run, sizes_kib};

    #[test]
    fn the_largest_size_on_both_pages_tells_what_small_ones_cost() {
        let mut run = run(&CLAIMED);
        add(&mut run, "4KiB", &REAL_SMALL_PAGES, 0.02);
        assert_eq!(page_sizes(&run), []);
        add(&mut run, "2MiB", &REAL_HUGE_PAGES, 0.02);
        let findings = page_sizes(&run);
        reads!(&findings);
        assert_eq!(sizes_kib(&findings[0].evidence), [524_288, 524_288]);
    }

    #[test]
    fn overlapping_intervals_say_nothing() {
        let mut run = run(&CLAIMED);
        add(&mut run, "4KiB", &REAL_SMALL_PAGES, 0.04);
        add(&mut run, "2MiB", &REAL_HUGE_PAGES, 0.04);
        assert_eq!(page_sizes(&run), []);
    }
}
