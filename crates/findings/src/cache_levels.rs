//! Compares the levels of memory that a run measured with the caches that the machine claims.
//!
//! The levels come from a curve of random loads over many sizes. A cache ends at the size at which the cost
//! is half-way to the next level, because half of the loads miss it there. The knee of the curve is no
//! measure: a cache that is indexed by physical addresses gives way gradually, from about half its size on.

use crate::memory_latency::{Claim, Curve, Load, Server, WELL_INSIDE, claims, curves, why_less};
use crate::text::{bytes, list, maybe, ns, size, when};
use crate::{Finding, Kind};
use costof_model::{PointRow, Run};
use costof_stats::changepoints::{Level, half_way};

/// A cache that still serves loads at this many times its claimed size is larger than claimed.
const LARGER_THAN_CLAIMED: f64 = 2.0;

/// A claimed cache, with the levels on both sides of its end.
struct Cache<'a> {
    claim: &'a Claim,
    is_last: bool,
    /// Whether the cache has a level of its own.
    has_level: bool,
    /// The last level at or before it.
    inner: Level,
    /// The first level behind it.
    outer: Level,
    /// The name of what serves the outer level: `L3`, `main memory`.
    outer_name: String,
    /// The size at which the cost is half-way between the two levels.
    bytes: f64,
}

/// The end of a cache as claimed and as found.
#[derive(Clone, Debug, PartialEq)]
pub struct CacheEnd {
    /// The pages with which the end was found.
    pub pages: String,
    /// `L2`.
    pub name: String,
    /// The size that the machine claims, in bytes.
    pub claimed: u64,
    /// The size at which the cost is half-way to the next level, in bytes; none if the curve does not show
    /// it.
    pub found: Option<f64>,
}

/// Every claimed cache on each curve of random loads.
pub fn cache_ends(run: &Run) -> Vec<CacheEnd> {
    let mut ends = Vec::new();
    for curve in &curves(run) {
        let claims = claims(run, &curve.loads);
        let caches = caches(curve, &claims);
        ends.extend(claims.iter().map(|claim| {
            let mut with_level = caches.iter().filter(|cache| cache.has_level);
            let found = with_level.find(|cache| cache.claim == claim);
            CacheEnd {
                pages: curve.pages.to_owned(),
                name: claim.name(),
                claimed: claim.bytes,
                found: found.map(|cache| cache.bytes),
            }
        }));
    }
    ends
}

/// Findings about the caches in curves of random loads.
pub(crate) fn cache_levels(run: &Run) -> Vec<Finding> {
    let mut findings = Vec::new();
    for curve in curves(run).iter().filter(|curve| !curve.levels.is_empty()) {
        let claims = claims(run, &curve.loads);
        let caches = caches(curve, &claims);
        findings.push(all_levels(curve, &claims, &caches));
        findings.extend(caches.iter().filter_map(|cache| smaller(run, curve, cache)));
        findings.extend(caches.iter().filter_map(|cache| larger(run, curve, cache)));
    }
    findings
}

/// The claimed caches whose end the curve shows. A cache without a level of its own counts only if it is the
/// last one. For an inner one, the step after it could also be that of the next cache.
fn caches<'a>(curve: &Curve<'_>, claims: &'a [Claim]) -> Vec<Cache<'a>> {
    let servers = curve.servers(claims);
    let cache = |(position, claim): (usize, &'a Claim)| {
        let server = Server::Cache(position);
        let is_last = position + 1 == claims.len();
        let has_level = servers.contains(&server);
        let after = servers.iter().position(|other| *other > server)?;
        let inner = *curve.levels.get(after.checked_sub(1)?)?;
        let outer = curve.levels[after];
        let next_is_outer = servers[after] == Server::Cache(position + 1) || is_last;
        (next_is_outer && (has_level || is_last)).then(|| Cache {
            claim,
            is_last,
            has_level,
            inner,
            outer,
            outer_name: name(servers[after], claims),
            bytes: half_way(&curve.points(), &inner, &outer),
        })
    };
    claims.iter().enumerate().filter_map(cache).collect()
}

fn name(server: Server, claims: &[Claim]) -> String {
    match server {
        Server::Cache(position) => claims[position].name(),
        Server::Memory => "main memory".to_owned(),
    }
}

fn all_levels(curve: &Curve<'_>, claims: &[Claim], caches: &[Cache<'_>]) -> Finding {
    let servers = curve.servers(claims);
    let level = |(position, level): (usize, &Level)| {
        let [from, to] = [level.first, level.last].map(|at| bytes(curve.loads[at].bytes));
        let sizes = match position {
            _ if level.last + 1 == curve.loads.len() => format!("from {from} on"),
            0 => format!("up to {to}"),
            _ => format!("from {from} to {to}"),
        };
        let server = servers.get(position);
        let still = when(position > 0 && server == servers.get(position - 1), "still ");
        let by = maybe(server, |server| format!(" ({still}{})", name(*server, claims)));
        format!("{} {sizes}{by}", ns(level.cost))
    };
    let levels: Vec<String> = curve.levels.iter().enumerate().map(level).collect();
    // What has no level of its own has no end either: another finding says that it has none.
    let with_level = caches.iter().filter(|cache| cache.has_level).map(|cache| {
        let (claim, found) = (cache.claim, size(cache.bytes));
        format!("the {} at {found} ({} claimed)", claim.name(), bytes(claim.bytes))
    });
    let ends = list("; half of the loads miss ", &with_level.collect::<Vec<_>>(), ", ");
    let (pages, levels) = (curve.pages, levels.join(", "));
    let sentence = format!("a random load on {pages} pages costs {levels}{ends}");
    let at_ends = curve.levels.iter().flat_map(|level| [level.first, level.last]);
    Finding::new(Kind::MemoryLevels, at_ends.map(|at| curve.loads[at].row), sentence)
}

/// A cache that serves less than half of the loads to a working set well inside its claim.
fn smaller(run: &Run, curve: &Curve<'_>, cache: &Cache<'_>) -> Option<Finding> {
    let limit = WELL_INSIDE * cache.claim.bytes as f64;
    let middle = f64::midpoint(cache.inner.cost, cache.outer.cost);
    let misses = |load: &&Load<'_>| load.interval().is_some_and(|interval| interval.0 >= middle);
    let mut inside = curve.loads.iter().filter(|load| load.bytes as f64 <= limit);
    let witness = inside.find(misses)?;
    // Noise can lift one point, so the curve as a whole has to agree.
    if cache.bytes > limit {
        return None;
    }
    let outer_from = &curve.loads[cache.outer.first];
    let last_inside = &curve.loads[cache.inner.last];
    let (gets, rely_on) = match cache.has_level {
        true => {
            (format!("this process gets about {}", size(cache.bytes)), bytes(last_inside.bytes))
        }
        false => ("the curve shows no level for it".to_owned(), "none".to_owned()),
    };
    let (outer, outer_cost) = (&cache.outer_name, ns(cache.outer.cost));
    let shown_by = if outer_from.bytes as f64 <= limit {
        let from = bytes(outer_from.bytes);
        format!("from {from} on a load costs about what {outer} costs, {outer_cost}")
    } else {
        let (at, cost) = (bytes(witness.bytes), ns(witness.cost_ns));
        let inner_cost = ns(cache.inner.cost);
        format!(
            "at {at} a load costs {cost}, at least half-way from {inner_cost} to what {outer} costs, {outer_cost}"
        )
    };
    let (claim, pages) = (cache.claim.sentence(), curve.pages);
    let sentence = format!("{claim}, and on {pages} pages {gets}: {shown_by}");
    let why = why_less(run, cache.claim, cache.is_last);
    let evidence = by_size([last_inside, witness, outer_from]);
    let found = Finding::new(Kind::CacheSmallerThanClaimed, evidence, sentence);
    Some(found.advise(format!("{why}: rely on {rely_on} of it, and measure again at another time")))
}

/// A cache that still serves most loads of a working set far beyond its claim.
fn larger(run: &Run, curve: &Curve<'_>, cache: &Cache<'_>) -> Option<Finding> {
    let limit = LARGER_THAN_CLAIMED * cache.claim.bytes as f64;
    let middle = f64::midpoint(cache.inner.cost, cache.outer.cost);
    let hits = |load: &&Load<'_>| load.interval().is_some_and(|interval| interval.1 <= middle);
    let largest_first = curve.loads.iter().rev();
    let mut beyond = largest_first.filter(|load| load.bytes as f64 >= limit);
    let witness = beyond.find(hits)?;
    if !cache.has_level || cache.bytes < limit {
        return None;
    }
    let sentence = format!(
        "{claim}, and on {pages} pages this process gets about {gets}: at {at} a load still costs {cost}, and {outer} \
         costs {outer_cost}",
        claim = cache.claim.sentence(),
        pages = curve.pages,
        gets = size(cache.bytes),
        at = bytes(witness.bytes),
        cost = ns(witness.cost_ns),
        outer = cache.outer_name,
        outer_cost = ns(cache.outer.cost),
    );
    let advice = "the claim is the hypervisor's, not the CPU's: do not size data by it";
    let evidence = by_size([witness, &curve.loads[cache.outer.first]]);
    let found = Finding::new(Kind::CacheLargerThanClaimed, evidence, sentence);
    Some(found.advise(when(run.is_virtual(), advice)))
}

/// The rows of these loads, sorted by size.
fn by_size<'a, const N: usize>(mut loads: [&Load<'a>; N]) -> [&'a PointRow; N] {
    loads.sort_by_key(|load| load.bytes);
    loads.map(|load| load.row)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{
        CLAIMED, REAL_SMALL_PAGES, REAL_TAKEN, add, contains, ends, reads, run, sizes_kib,
        staircase, step,
    };
    /// A machine that claims `claimed`, with an L3 of `kib`.
    fn with_third_cache_of(kib: f64, claimed: &[u64], share: f64) -> Run {
        let steps = [step(2.2, 56.0, 0.3), step(9.0, 1100.0, 1.0), step(130.0, kib, 1.5)];
        let mut run = run(claimed);
        add(&mut run, "2MiB", &staircase(0.9, &steps), share);
        run
    }

    #[test]
    fn a_real_curve_gives_its_levels_and_nothing_to_complain_of() {
        let mut run = run(&CLAIMED);
        add(&mut run, "4KiB", &REAL_SMALL_PAGES, 0.02);
        let findings = cache_levels(&run);
        assert_eq!(findings.len(), 1, "{findings:#?}");
        reads!(&findings);
        assert_eq!(
            sizes_kib(&findings[0].evidence),
            [16, 40, 64, 384, 2048, 12288, 65536, 524_288]
        );
    }

    #[test]
    fn a_cache_that_is_mostly_taken_is_smaller_than_claimed() {
        let findings = cache_levels(&with_third_cache_of(7000.0, &CLAIMED, 0.02));
        let [_, smaller] = &findings[..] else {
            panic!("{findings:#?}");
        };
        assert_eq!(smaller.kind, Kind::CacheSmallerThanClaimed);
        reads!([&smaller.sentence]);
        assert!(smaller.advice.as_ref().unwrap().contains("neighbours"));
        assert_eq!(sizes_kib(&smaller.evidence), [3072, 8192, 10240]);
    }

    #[test]
    fn a_cache_that_is_gone_has_no_level() {
        let mut run = run(&CLAIMED);
        add(&mut run, "2MiB", &REAL_TAKEN, 0.02);
        let findings = cache_levels(&run);
        let [_, gone] = &findings[..] else {
            panic!("{findings:#?}");
        };
        reads!([&gone.sentence]);
        let levels = findings[0].sentence.clone();
        assert!(!levels.contains("the L3 at"), "{levels}");
        let l3 = cache_ends(&run).into_iter().find(|end| end.name == "L3");
        assert_eq!(l3.unwrap().found, None);
        assert!(gone.advice.as_ref().unwrap().contains("rely on none of it"));
        assert_eq!(sizes_kib(&gone.evidence), [384, 2560]);
    }

    #[test]
    fn nothing_is_claimed_of_points_that_do_not_carry_it() {
        let wide = cache_levels(&with_third_cache_of(7000.0, &CLAIMED, 0.8));
        assert_eq!(wide.len(), 1, "{wide:#?}");
        let mut few_launches = with_third_cache_of(7000.0, &CLAIMED, 0.02);
        for row in &mut few_launches.points {
            row.metrics[0].ci95 = None;
        }
        assert_eq!(cache_levels(&few_launches), []);
    }

    #[test]
    fn a_cache_can_be_larger_than_claimed() {
        let findings =
            cache_levels(&with_third_cache_of(34_000.0, &[48 << 10, 1 << 20, 8 << 20], 0.02));
        let [_, larger] = &findings[..] else {
            panic!("{findings:#?}");
        };
        assert_eq!(larger.kind, Kind::CacheLargerThanClaimed);
        contains(&larger.sentence, "claims 8MiB of L3");
        contains(&larger.sentence, "gets about 33MiB");
    }

    #[test]
    fn an_inner_cache_is_held_against_its_claim_too() {
        let findings =
            cache_levels(&with_third_cache_of(34_000.0, &[48 << 10, 4 << 20, 32 << 20], 0.02));
        let [_, smaller] = &findings[..] else {
            panic!("{findings:#?}");
        };
        contains(&smaller.sentence, "4MiB of L2");
        contains(&smaller.sentence, "about 1.1MiB: from 1536KiB on");
    }

    #[test]
    fn a_curve_that_ends_inside_the_last_cache_says_nothing_of_its_size() {
        let mut run = run(&[48 << 10, 1 << 20, 4 << 20]);
        let inside: Vec<_> =
            REAL_SMALL_PAGES.iter().copied().filter(|(kib, _)| *kib < 12_000.0).collect();
        add(&mut run, "4KiB", &inside, 0.02);
        let findings = cache_levels(&run);
        assert_eq!(findings.len(), 1, "{findings:#?}");
        contains(&findings[0].sentence, "from 2MiB on (L3)");
    }

    #[test]
    fn without_claims_the_levels_have_no_names() {
        let mut run = run(&[]);
        add(&mut run, "4KiB", &REAL_SMALL_PAGES, 0.02);
        for attempts in [run.attempts.clone(), Vec::new()] {
            run.attempts = attempts;
            let findings = cache_levels(&run);
            assert_eq!(findings.len(), 1);
            ends(&findings[0].sentence, "147 ns from 64MiB on");
        }
    }

    #[test]
    fn few_sizes_are_no_curve() {
        let mut run = run(&CLAIMED);
        add(&mut run, "4KiB", &REAL_SMALL_PAGES[..11], 0.02);
        assert_eq!(cache_levels(&run), []);
    }
}
