//! What small pages cost: the TLB misses of random loads, by the same loads on huge pages.

use crate::finding::Finding;
use crate::memory_latency::{Curve, Load, Server, claims, curves, facts, loads, ns};
use costof_model::run_file::Run;
use costof_model::unit::display_bytes;

const SMALL: &str = "4KiB";
const HUGE: &str = "2MiB";

/// What loads on small and on huge pages say about the TLB.
pub(crate) fn page_sizes(run: &Run) -> Vec<Finding> {
    main_memory(run)
        .into_iter()
        .chain(inside_a_cache(run))
        .collect()
}

/// The largest working set that was measured on both, where it is beyond all caches.
fn main_memory(run: &Run) -> Option<Finding> {
    let by_pages = loads(run);
    let of = |wanted: &str| by_pages.iter().find(|(pages, _)| *pages == wanted);
    let (_, small) = of(SMALL)?;
    let (_, huge) = of(HUGE)?;
    let same = |load: &Load<'_>| huge.iter().find(|other| other.bytes == load.bytes).copied();
    let (small, huge) = small
        .iter()
        .rev()
        .find_map(|load| Some((*load, same(load)?)))?;
    let last = claims(run, &[small]).last()?.bytes;
    let ((small_low, small_high), (huge_low, huge_high)) = (small.interval()?, huge.interval()?);
    if small.bytes <= last || small_low <= huge_high {
        return None;
    }
    let virtual_machine = facts(run)?.virtualization.virtual_machine == Some(true);
    let host = if virtual_machine {
        " (the host's own pages are in both)"
    } else {
        ""
    };
    Some(Finding {
        kind: "small_pages".into(),
        sentence: format!(
            "with {} in use a random load costs {} on {SMALL} pages and {} on {HUGE} pages: \
             small pages add {} to {} by TLB misses{host}",
            display_bytes(small.bytes),
            ns(small.cost_ns),
            ns(huge.cost_ns),
            ns(small_low - huge_high),
            ns(small_high - huge_low),
        ),
        advice: Some(
            "put large data that is used at random on huge pages: madvise(MADV_HUGEPAGE)"
                .to_owned(),
        ),
        evidence: vec![small.point(), huge.point()],
    })
}

/// A level inside a cache that has another one before it: with small pages, the reach of a TLB.
fn inside_a_cache(run: &Run) -> Option<Finding> {
    let curves = curves(run);
    let of = |wanted: &str| curves.iter().find(|curve| curve.pages == wanted);
    let small = of(SMALL)?;
    let claims = claims(run, &small.loads);
    let servers = small.servers(&claims);
    let after = (1..servers.len())
        .find(|after| servers[*after] == servers[after - 1] && servers[*after] != Server::Memory)?;
    let (before, after) = (&small.levels[after - 1], &small.levels[after]);
    let (inner, outer) = (&small.loads[before.last], &small.loads[after.first]);
    if inner.interval()?.1 >= outer.interval()?.0 {
        return None;
    }
    let step = format!(
        "on {SMALL} pages a load steps from {} to {} between {} and {}, inside the {} that is \
         claimed",
        ns(before.cost),
        ns(after.cost),
        display_bytes(inner.bytes),
        display_bytes(outer.bytes),
        match servers[small.levels.iter().position(|level| level == after)?] {
            Server::Cache(position) => claims[position].name(),
            Server::Memory => return None,
        }
    );
    let (because, advice, witness) = beside_huge_pages(of(HUGE), outer)?;
    Some(Finding {
        kind: "tlb_reach".into(),
        sentence: format!("{step}: {because}"),
        advice,
        evidence: [inner, outer]
            .into_iter()
            .chain(witness)
            .map(Load::point)
            .collect(),
    })
}

/// What the same size on huge pages says of a step; `None` where it shows the step too.
fn beside_huge_pages<'a>(
    huge: Option<&'a Curve<'a>>,
    outer: &Load<'_>,
) -> Option<(String, Option<String>, Option<&'a Load<'a>>)> {
    let same = huge.and_then(|huge| huge.loads.iter().find(|load| load.bytes == outer.bytes));
    let Some(same) = same else {
        return Some((
            "it may be the reach of a TLB".to_owned(),
            Some("`costof run memory.latency` shows whether it is".to_owned()),
            None,
        ));
    };
    (same.interval()?.1 < outer.interval()?.0).then(|| {
        let because = format!(
            "it is the reach of a TLB, since on {HUGE} pages {} still cost {}",
            display_bytes(same.bytes),
            ns(same.cost_ns)
        );
        (because, None, Some(same))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory_sample::{
        CLAIMED, REAL_HUGE_PAGES, REAL_SMALL_PAGES, add, run, sizes_kib, staircase, step,
    };

    #[test]
    fn the_largest_size_on_both_pages_tells_what_small_ones_cost() {
        let mut run = run(&CLAIMED);
        add(&mut run, "4KiB", &REAL_SMALL_PAGES, 0.02);
        assert_eq!(page_sizes(&run), []);
        add(&mut run, "2MiB", &REAL_HUGE_PAGES, 0.02);
        let findings = page_sizes(&run);
        let [finding] = &findings[..] else {
            panic!("{findings:#?}");
        };
        assert_eq!(
            finding.sentence,
            "with 512MiB in use a random load costs 157 ns on 4KiB pages and 146 ns on 2MiB pages: \
             small pages add 4.94 ns to 17.1 ns by TLB misses (the host's own pages are in both)"
        );
        assert_eq!(sizes_kib(&finding.evidence), [524_288, 524_288]);
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
        let caches = || {
            vec![
                step(2.2, 56.0, 0.3),
                step(9.0, 1500.0, 1.0),
                step(130.0, 34_000.0, 2.5),
            ]
        };
        let mut with_tlb = caches();
        with_tlb.push(step(1.5, 300.0, 0.7));
        let mut run = run(&CLAIMED);
        add(&mut run, "4KiB", &staircase(0.9, &with_tlb), 0.02);
        let findings = page_sizes(&run);
        let [maybe] = &findings[..] else {
            panic!("{findings:#?}");
        };
        assert!(
            maybe
                .sentence
                .contains("inside the L2 that is claimed: it may be"),
            "{}",
            maybe.sentence
        );
        let mut proven = run.clone();
        add(&mut proven, "2MiB", &staircase(0.9, &caches()), 0.02);
        let findings = page_sizes(&proven);
        assert!(
            findings[0].sentence.contains("it is the reach of a TLB"),
            "{findings:#?}"
        );
        add(&mut run, "2MiB", &staircase(0.9, &with_tlb), 0.02);
        assert_eq!(page_sizes(&run), []);
    }
}
