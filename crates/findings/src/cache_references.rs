//! References to caches whose cost does not match the claims of the machine. They come from single points, as
//! in the latency table: one well inside each claimed cache, and one in main memory.
//!
//! Finds nothing if the run has a curve, which shows it better.

use crate::Kind;
use crate::figures::{Figures, Part, bytes, figures, ns};
use crate::finding::Finding;
use crate::memory_latency::{Claim, Load, WELL_INSIDE, claims, curves, loads, why_less};
use costof_model::run_file::Run;

pub(crate) const SENTENCES: &str = r#"
[cache_reference_too_dear]
sentence = "on {pages} pages, {reference} costs {cost}[, and {other} costs {next_cost}: the cache saves little or nothing there][ instead of at most {expected}: as much as predicted for {other}]"
cache_reference = "an {cache} reference ({size} of the {claimed} claimed)"
memory_reference = "a main memory reference ({size})"
advice = "[{why}: `costof run memory.latency` shows how much is left][{small}, and measures on 2MiB pages too, which avoid most TLB misses]"
"#;

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
            let found = costs_as_the_next(reference, farther)
                .or_else(|| costs_as_predicted_of_a_farther_one(reference, farther));
            findings.extend(found.map(|(figures, other)| {
                let figures = figures
                    .with("pages", pages)
                    .when("small", pages == "4KiB")
                    .with("cost", ns(reference.load.cost_ns))
                    .parts("reference", [reference.named()])
                    .parts("other", [other.named()])
                    .maybe(
                        "why",
                        reference
                            .claim
                            .map(|claim| why_less(run, claim, reference.is_last)),
                    );
                let evidence = [reference.load.row, other.load.row];
                Finding::new(Kind::CacheReferenceTooExpensive, evidence, figures)
            }));
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
    let memory = loads
        .last()
        .filter(|load| beyond > 0.0 && load.bytes as f64 > beyond);
    found.extend(memory.map(|load| Reference {
        claim: None,
        is_last: false,
        load: *load,
    }));
    found
}

/// Whether a reference costs about as much as one to the next level, by both intervals.
fn costs_as_the_next<'a>(
    reference: &Reference<'_>,
    farther: &'a [Reference<'a>],
) -> Option<(Figures, &'a Reference<'a>)> {
    let next = farther.first()?;
    let (low, _) = reference.load.interval()?;
    let (_, next_high) = next.load.interval()?;
    let figures = figures().with("next_cost", ns(next.load.cost_ns));
    (low >= SAVES_BELOW * next_high).then_some((figures, next))
}

/// Whether a reference costs more than predicted, and as much as was predicted for a farther level.
fn costs_as_predicted_of_a_farther_one<'a>(
    reference: &Reference<'_>,
    farther: &'a [Reference<'a>],
) -> Option<(Figures, &'a Reference<'a>)> {
    let predicted = |load: &Load<'a>| {
        let prediction = load.row.prediction.as_ref();
        prediction.filter(|prediction| prediction.metric == "cost")
    };
    let expected = reference.load.row.prediction.as_ref()?;
    let (low, _) = reference.load.interval()?;
    if expected.metric != "cost" || low <= expected.high {
        return None;
    }
    let cost = reference.load.cost_ns;
    let like = farther.iter().find(|other| {
        let prediction = predicted(&other.load);
        prediction.is_some_and(|of_other| (of_other.low..=of_other.high).contains(&cost))
    })?;
    Some((figures().with("expected", ns(expected.high)), like))
}

impl Reference<'_> {
    /// Names the reference: `an L3 reference (16MiB of the 32MiB claimed)`.
    fn named(&self) -> Part {
        let size = figures().with("size", bytes(self.load.bytes));
        match self.claim {
            None => ("memory_reference", size),
            Some(claim) => {
                let claimed = size.with("claimed", bytes(claim.bytes));
                ("cache_reference", claimed.with("cache", claim.name()))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{CLAIMED, REAL_SMALL_PAGES, add, contains, expect, run, sizes_kib};

    /// The table's points: half of each claim, and four times the last.
    fn table(first: f64, second: f64, third: f64, memory: f64, share: f64) -> Run {
        let mut run = run(&CLAIMED);
        let points = [
            (24., first),
            (512., second),
            (16384., third),
            (131_072., memory),
        ];
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
        let [finding] = &findings[..] else {
            panic!("{findings:#?}");
        };
        assert_eq!(
            finding.sentence(),
            "on 4KiB pages, an L3 reference (16MiB of the 32MiB claimed) costs 115 ns, and a main memory reference (128MiB) costs 141 ns: the cache saves little or nothing there"
        );
        let advice = finding.advice().unwrap();
        contains(
            &advice,
            "`costof run memory.latency` shows how much is left",
        );
        contains(&advice, "TLB");
        assert_eq!(sizes_kib(&finding.evidence), [16384, 131_072]);
    }

    #[test]
    fn overlapping_intervals_say_nothing() {
        assert_eq!(cache_references(&table(0.9, 3.5, 115.0, 141.0, 0.7)), []);
        assert_eq!(cache_references(&table(0.9, 10.0, 13.0, 141.0, 0.6)), []);
    }

    #[test]
    fn a_second_cache_that_costs_what_a_third_should_is_found() {
        let findings = cache_references(&table(0.9, 8.0, 13.0, 141.0, 0.02));
        let [finding] = &findings[..] else {
            panic!("{findings:#?}");
        };
        assert_eq!(
            finding.sentence(),
            "on 4KiB pages, an L2 reference (512KiB of the 1MiB claimed) costs 8.00 ns instead of at most 5.00 ns: as much as predicted for an L3 reference (16MiB of the 32MiB claimed)"
        );
        assert!(
            finding
                .advice()
                .as_ref()
                .unwrap()
                .contains("hardware thread")
        );
    }

    #[test]
    fn a_curve_says_it_better() {
        let mut run = table(0.9, 3.5, 115.0, 141.0, 0.02);
        add(&mut run, "4KiB", &REAL_SMALL_PAGES, 0.02);
        assert_eq!(cache_references(&run), []);
    }
}
