//! References to caches whose cost does not match the claims of the machine. They come from single points, as
//! in the latency table: one well inside each claimed cache, and one in main memory.
//!
//! Finds nothing if the run has a curve, which shows it better.

use crate::memory_latency::{Claim, Load, WELL_INSIDE, claims, curves, loads, why_less};
use crate::text::{bytes, maybe, ns, when};
use crate::{Finding, Kind};
use costof_model::Run;

/// A cache is useful if a reference costs less than this share of one to the next level.
const SAVES_BELOW: f64 = 0.7;

/// A working set of this many times the size of a cache lies beyond it.
const BEYOND: f64 = 1.5;

/// A reference to a level of memory.
struct Reference<'a> {
    /// The claimed cache that it should hit; `None` for main memory.
    claim: Option<&'a Claim>,
    is_last: bool,
    load: Load<'a>,
}

/// Findings about the caches in single points.
pub(crate) fn cache_references(run: &Run) -> Vec<Finding> {
    let curves = curves(run);
    let mut findings = Vec::new();
    for (pages, loads) in loads(run) {
        if curves.iter().any(|curve| curve.pages == pages) {
            continue;
        }
        let claims = claims(run, &loads);
        let references = references(&claims, &loads);
        for (position, reference) in references.iter().enumerate() {
            let farther = &references[position + 1..];
            let as_much = costs_as_the_next(reference, farther)
                .or_else(|| costs_as_predicted_of_a_farther_one(reference, farther));
            let Some((compared, other)) = as_much else {
                continue;
            };
            let (named, cost) = (reference.name(), ns(reference.load.cost_ns));
            let sentence = format!("on {pages} pages, {named} costs {cost}{compared}");
            let why = maybe(reference.claim, |claim| {
                let why = why_less(run, claim, reference.is_last);
                format!("{why}: `costof run memory.latency` shows how much is left")
            });
            let small = ", and measures on 2MiB pages too, which avoid most TLB misses";
            let evidence = [reference.load.row, other.load.row];
            let found = Finding::new(Kind::CacheReferenceTooExpensive, evidence, sentence);
            findings.push(found.advise(why + when(pages == "4KiB", small)));
        }
    }
    findings
}

/// The load nearest to half of each claimed size, and the one farthest beyond the last cache.
fn references<'a>(claims: &'a [Claim], loads: &[Load<'a>]) -> Vec<Reference<'a>> {
    let mut found = Vec::new();
    let mut beyond = 0.0;
    for (position, claim) in claims.iter().enumerate() {
        let bytes = claim.bytes as f64;
        let distance = |load: &Load<'_>| (load.bytes as f64 / (bytes / 2.0)).ln().abs();
        let inside = loads
            .iter()
            .filter(|load| load.bytes as f64 > beyond && load.bytes as f64 <= WELL_INSIDE * bytes);
        let nearest = inside.min_by(|one, other| distance(one).total_cmp(&distance(other)));
        found.extend(nearest.map(|load| Reference {
            claim: Some(claim),
            is_last: position + 1 == claims.len(),
            load: *load,
        }));
        beyond = BEYOND * bytes;
    }
    let is_beyond = |load: &&Load<'_>| beyond > 0.0 && load.bytes as f64 > beyond;
    found.extend(loads.last().filter(is_beyond).map(|load| Reference {
        claim: None,
        is_last: false,
        load: *load,
    }));
    found
}

/// Whether a reference costs about as much as one to the next level, by both intervals: the rest of the
/// sentence, and that reference.
fn costs_as_the_next<'a>(
    reference: &Reference<'_>,
    farther: &'a [Reference<'a>],
) -> Option<(String, &'a Reference<'a>)> {
    let next = farther.first()?;
    let (low, _) = reference.load.interval()?;
    let (_, next_high) = next.load.interval()?;
    let (named, cost) = (next.name(), ns(next.load.cost_ns));
    let compared = format!(", and {named} costs {cost}: the cache saves little or nothing there");
    (low >= SAVES_BELOW * next_high).then_some((compared, next))
}

/// Whether a reference costs more than predicted, and as much as was predicted for a farther level.
fn costs_as_predicted_of_a_farther_one<'a>(
    reference: &Reference<'_>,
    farther: &'a [Reference<'a>],
) -> Option<(String, &'a Reference<'a>)> {
    let expected = reference.load.row.prediction.as_ref()?;
    let (low, _) = reference.load.interval()?;
    if expected.metric != "cost" || low <= expected.high {
        return None;
    }
    let cost = reference.load.cost_ns;
    let like = farther.iter().find(|other| {
        let prediction = other.load.row.prediction.as_ref();
        let of_cost = prediction.filter(|prediction| prediction.metric == "cost");
        of_cost.is_some_and(|of_other| (of_other.low..=of_other.high).contains(&cost))
    })?;
    let (most, named) = (ns(expected.high), like.name());
    Some((format!(" instead of at most {most}: as much as predicted for {named}"), like))
}

impl Reference<'_> {
    /// Names the reference: `an L3 reference (16MiB of the 32MiB claimed)`.
    fn name(&self) -> String {
        let size = bytes(self.load.bytes);
        match self.claim {
            None => format!("a main memory reference ({size})"),
            Some(claim) => {
                let (cache, claimed) = (claim.name(), bytes(claim.bytes));
                format!("an {cache} reference ({size} of the {claimed} claimed)")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{CLAIMED, REAL_SMALL_PAGES, add, contains, expect, reads, run, sizes_kib};

    /// The table's points: half of each claim, and four times the last.
    fn table(first: f64, second: f64, third: f64, memory: f64, share: f64) -> Run {
        let mut run = run(&CLAIMED);
        let points = [(24., first), (512., second), (16384., third), (131_072., memory)];
        let expected = [(0.7, 1.3), (2., 5.), (7., 36.), (60., 180.)];
        for (point, (low, high)) in points.iter().zip(expected) {
            add(&mut run, "4KiB", &[*point], share);
            expect(&mut run, low, high);
        }
        run
    }

    #[test]
    fn a_machine_that_gives_what_it_claims_is_left_alone() {
        assert_eq!(cache_references(&table(0.9, 3.5, 13.0, 141.0, 0.02)), []);
        assert_eq!(cache_references(&run(&CLAIMED)), []);
    }

    #[test]
    fn a_third_cache_as_dear_as_main_memory_is_found() {
        let findings = cache_references(&table(0.9, 3.5, 115.0, 141.0, 0.02));
        reads!(&findings);
        let advice = findings[0].advice.clone().unwrap();
        contains(&advice, "costof run memory.latency");
        contains(&advice, "TLB");
        assert_eq!(sizes_kib(&findings[0].evidence), [16384, 131_072]);
    }

    #[test]
    fn overlapping_intervals_say_nothing() {
        assert_eq!(cache_references(&table(0.9, 3.5, 115.0, 141.0, 0.7)), []);
        assert_eq!(cache_references(&table(0.9, 10.0, 13.0, 141.0, 0.6)), []);
    }

    #[test]
    fn a_second_cache_that_costs_what_a_third_should_is_found() {
        let findings = cache_references(&table(0.9, 8.0, 13.0, 141.0, 0.02));
        reads!(&findings);
        assert!(findings[0].advice.as_ref().unwrap().contains("hardware thread"));
    }

    #[test]
    fn a_curve_says_it_better() {
        let mut run = table(0.9, 3.5, 115.0, 141.0, 0.02);
        add(&mut run, "4KiB", &REAL_SMALL_PAGES, 0.02);
        assert_eq!(cache_references(&run), []);
    }
}
