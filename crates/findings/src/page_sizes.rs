//! What small pages cost: the TLB misses of random loads, found by comparison with the same loads on huge
//! pages.

use crate::memory_latency::{Load, Server, claims, curves, loads};
use crate::pairs::surely_more;
use crate::text::{bytes, ns, range, when};
use crate::{Finding, Kind};
use costof_model::Run;

const SMALL: &str = "4KiB";
const HUGE: &str = "2MiB";

/// The findings about the TLB from loads on small and on huge pages.
pub(crate) fn page_sizes(run: &Run) -> Vec<Finding> {
    let found = [main_memory(run), inside_a_cache(run)];
    found.into_iter().flatten().collect()
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

/// Finds a second level inside a cache. With small pages, the step between the two is the reach of a TLB.
fn inside_a_cache(run: &Run) -> Option<Finding> {
    let curves = curves(run);
    let on = |wanted: &str| curves.iter().find(|curve| curve.pages == wanted);
    let small = on(SMALL)?;
    let claims = claims(run, &small.loads);
    let servers = small.servers(&claims);
    let (at, cache) = (1..servers.len()).find_map(|at| match servers[at] {
        Server::Cache(cache) if servers[at - 1] == servers[at] => Some((at, cache)),
        _ => None,
    })?;
    let (before, after) = (&small.levels[at - 1], &small.levels[at]);
    let (inner, outer) = (&small.loads[before.last], &small.loads[after.first]);
    let (outer_low, _) = outer.interval()?;
    if inner.interval()?.1 >= outer_low {
        return None;
    }
    // The same size on huge pages. If the step is there too, the TLB is not its cause.
    let same = on(HUGE).and_then(|huge| huge.loads.iter().find(|load| load.bytes == outer.bytes));
    if same.is_some_and(|same| same.interval().is_none_or(|(_, high)| high >= outer_low)) {
        return None;
    }
    let (from, to) = (bytes(inner.bytes), bytes(outer.bytes));
    let cause = match same {
        Some(same) => {
            let cost = ns(same.cost_ns);
            format!("it is the reach of a TLB, since on 2MiB pages {to} still cost {cost}")
        }
        None => "it may be the reach of a TLB".to_owned(),
    };
    let (before, after, cache) = (ns(before.cost), ns(after.cost), claims[cache].name());
    let sentence = format!(
        "on 4KiB pages a load steps from {before} to {after} between {from} and {to}, inside the claimed {cache}: \
         {cause}"
    );
    let evidence = [inner, outer].into_iter().chain(same).map(|load| load.row);
    let advice = when(same.is_none(), "`costof run memory.latency` shows whether it is");
    Some(Finding::new(Kind::TlbReach, evidence, sentence).advise(advice))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{
        CLAIMED, REAL_HUGE_PAGES, REAL_SMALL_PAGES, add, contains, reads, run, sizes_kib,
        staircase, step,
    };

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

    #[test]
    fn a_step_inside_a_cache_is_the_reach_of_a_tlb_where_huge_pages_lack_it() {
        let caches =
            || vec![step(2.2, 56.0, 0.3), step(9.0, 1500.0, 1.0), step(130.0, 34_000.0, 2.5)];
        let mut with_tlb = caches();
        with_tlb.push(step(1.5, 300.0, 0.7));
        let mut run = run(&CLAIMED);
        add(&mut run, "4KiB", &staircase(0.9, &with_tlb), 0.02);
        let findings = page_sizes(&run);
        let [maybe] = &findings[..] else {
            panic!("{findings:#?}");
        };
        assert_eq!(maybe.kind, Kind::TlbReach);
        contains(&maybe.sentence, "L2: it may be");
        let mut proven = run.clone();
        add(&mut proven, "2MiB", &staircase(0.9, &caches()), 0.02);
        let findings = page_sizes(&proven);
        assert_eq!(findings[0].kind, Kind::TlbReach);
        contains(&findings[0].sentence, "it is the reach");
        add(&mut run, "2MiB", &staircase(0.9, &with_tlb), 0.02);
        assert_eq!(page_sizes(&run), []);
    }
}
