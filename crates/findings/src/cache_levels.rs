//! Compares the levels of memory that a run measured with the caches that the machine claims.
//!
//! The levels come from a curve of random loads over many sizes. A cache ends at the size at which the cost
//! is half-way to the next level, because half of the loads miss it there. The knee of the curve is no
//! measure: a cache that is indexed by physical addresses gives way gradually, from about half its size on.

use crate::memory_latency::{Claim, Curve, Server, claims, curves};
use crate::prelude::*;
use costof_stats::changepoints::{Level, half_way};

/// A claimed cache.
struct Cache<'a> {
    claim: &'a Claim,
    /// Whether the cache has a level of its own.
    has_level: bool,
    /// The size at which the cost is half-way to the first level behind it.
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

/// The levels of each curve of random loads, and the caches that end there.
pub(crate) fn cache_levels(run: &Run) -> Vec<Finding> {
    let curves = curves(run).into_iter().filter(|curve| !curve.levels.is_empty());
    let found = curves.map(|curve| {
        let claims = claims(run, &curve.loads);
        all_levels(&curve, &claims, &caches(&curve, &claims))
    });
    found.collect()
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
        let inner = curve.levels.get(after.checked_sub(1)?)?;
        let outer = &curve.levels[after];
        let next_is_outer = servers[after] == Server::Cache(position + 1) || is_last;
        (next_is_outer && (has_level || is_last)).then(|| Cache {
            claim,
            has_level,
            bytes: half_way(&curve.points(), inner, outer),
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
    let of = |has_level: bool, end: fn(&Cache<'_>) -> String| -> Vec<String> {
        let caches = caches.iter().filter(|cache| cache.has_level == has_level);
        let of = |cache: &Cache<'_>| {
            let (name, claimed) = (cache.claim.name(), bytes(cache.claim.bytes));
            format!("the {name}{} ({claimed} claimed)", end(cache))
        };
        caches.map(of).collect()
    };
    let ends = of(true, |cache| format!(" at {}", size(cache.bytes)));
    let ends = list("; half of the loads miss ", &ends, ", ");
    // What has no level of its own has no end either.
    let gone = list("; no level is that of ", &of(false, |_| String::new()), ", ");
    let (pages, levels) = (curve.pages, levels.join(", "));
    let sentence = format!("a random load on {pages} pages costs {levels}{ends}{gone}");
    let at_ends = curve.levels.iter().flat_map(|level| [level.first, level.last]);
    Finding::new(Kind::MemoryLevels, at_ends.map(|at| curve.loads[at].row), sentence)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{
        CLAIMED, REAL_SMALL_PAGES, REAL_TAKEN, add, contains, ends, reads, run, sizes_kib,
        staircase, step,
    };

    /// A machine with an L3 of `kib`.
    fn with_third_cache_of(kib: f64) -> Run {
        let steps = [step(2.2, 56.0, 0.3), step(9.0, 1100.0, 1.0), step(130.0, kib, 1.5)];
        let mut run = run(&CLAIMED);
        add(&mut run, "2MiB", &staircase(0.9, &steps), 0.02);
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
    fn a_cache_that_is_mostly_taken_ends_before_its_claim() {
        let findings = cache_levels(&with_third_cache_of(7000.0));
        assert_eq!(findings.len(), 1, "{findings:#?}");
        contains(&findings[0].sentence, "the L3 at 6.9MiB (32MiB claimed)");
    }

    #[test]
    fn a_cache_that_is_gone_has_no_level() {
        let mut run = run(&CLAIMED);
        add(&mut run, "2MiB", &REAL_TAKEN, 0.02);
        let findings = cache_levels(&run);
        assert_eq!(findings.len(), 1, "{findings:#?}");
        reads!(&findings);
        let l3 = cache_ends(&run).into_iter().find(|end| end.name == "L3");
        assert_eq!(l3.unwrap().found, None);
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
