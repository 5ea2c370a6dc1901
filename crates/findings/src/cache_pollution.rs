//! Which way of sending spares which cache level most. Misses decide if the run counted them. Otherwise it is
//! the time: how much longer a read takes of data that the caches held before.

use crate::Kind;
use crate::figures::{Part, Value, figures, ns, part};
use crate::finding::Finding;
use crate::interval::Interval;
use crate::naming::place;
use crate::pairs::{Pair, pairs};
use crate::sends::comparable;
use costof_model::facts::{Cache, CacheKind};
use costof_model::rows::PointRow;
use costof_model::run_file::Run;
use costof_model::select::Group;
use costof_model::unit::display_bytes;

pub(crate) const SENTENCES: &str = r#"
[cache_pollution]
sentence = "{measured}, {result}[; {why}]"
why = "with two copies {three} pass through the sender's caches for a message (its fields, the buffer, the socket's), {two} with one copy (no buffer), none with zero copy unless it is copied later, and {caches}"
counted = "of the misses that the CPU counts"
timed = "of what the sender's caches held before"
counted_and_timed = "of the misses that the CPU counts, and of what the sender's caches held before"
sure = "compared with two_copy over {place} at {size}: {ways|; }"
unsure = "over {place} at {size} no way of sending certainly evicts less from any cache level"
unknown_way = "with {primitive} {unknown} unknown"
way = "with {primitive} {levels}: {gains}[ ({unknown} unknown)]"
misses = "{level} {middle} % ({low} % to {high} %)"
time = "reading {level} again takes [{after} longer][{after_none}no longer] instead of [{before} longer][{before_none}no longer] ({low} to {high} {by})"
none_gains = "no cache level loses less"
gains_alone = "only {level} certainly loses less"
gains_most = "{level} loses least"
both_gain = "of the counted levels {of_counted}, of the timed ones {of_timed}"
"#;

/// Ways of sending that make fewer copies. Each is compared with the one that makes all of them.
const FEWER: [&str; 2] = ["one_copy", "zero_copy"];
/// A level, its counter, and the time that is used if misses were not counted.
const LEVELS: [(&str, &str, &str); 3] = [
    ("L1", "l1d_load_misses", "pollution_l1"),
    ("L2", "l2_load_misses", "pollution_l2"),
    ("L3", "llc_load_misses", "pollution_l3"),
];

/// How a level differs with fewer copies.
struct Change {
    level: &'static str,
    /// Whether it surely has fewer or more misses, or less or more time.
    is_sure: bool,
    /// The change as a share of the value with all copies, negative for less; none if that share is unknown,
    /// for instance because that value is zero.
    share: Option<f64>,
    part: Part,
    is_counted: bool,
}

/// A finding for each link and kind of message, at the largest size at which everything was measured: there
/// copies are most of the work.
pub(crate) fn cache_pollution(run: &Run) -> Vec<Finding> {
    let groups = comparable(run).group_by(&["primitive", "size"]);
    let found = groups.iter().filter_map(|group| found(run, group));
    found.collect()
}

fn found(run: &Run, group: &Group<'_>) -> Option<Finding> {
    let changes = |pair: &Pair<'_>| -> Vec<Change> {
        let levels = LEVELS.iter();
        let changes = levels.filter_map(|level| change(run, pair.row, pair.other, *level));
        changes.collect()
    };
    let by_way = FEWER.map(|way| {
        let pairs = pairs(&group.rows, "size", "primitive", (way, "two_copy"));
        let mut largest_first = pairs.into_iter().rev().map(|pair| (pair, changes(&pair)));
        (way, largest_first.find(|(_, changes)| !changes.is_empty()))
    });
    let sizes = by_way
        .iter()
        .filter_map(|(_, found)| Some(found.as_ref()?.0.number));
    let size = sizes.max()?;
    let mut evidence = Vec::new();
    let mut ways = Vec::new();
    let mut all: Vec<Change> = Vec::new();
    for (primitive, found) in by_way {
        let Some((pair, changes)) = found.filter(|(pair, _)| pair.number == size) else {
            continue;
        };
        evidence.extend([pair.other, pair.row]);
        ways.push(compared(primitive, &changes));
        all.extend(changes);
    }
    let is_any = !ways.is_empty();
    let measured = match all.iter().filter(|change| change.is_counted).count() {
        0 => "timed",
        count if count == all.len() => "counted",
        _ => "counted_and_timed",
    };
    let is_sure = all.iter().any(|change| change.is_sure);
    let figures = figures()
        .choose("measured", measured)
        .with("place", place(run, &group.common))
        .with("size", Value::Size(size as f64))
        .parts("ways", ways)
        .choose("result", if is_sure { "sure" } else { "unsure" })
        .parts("why", is_sure.then(|| why(run, size)).flatten());
    is_any.then(|| Finding::new(Kind::CachePollution, evidence, figures))
}

/// What passes through the caches with each way, and what they hold; none if the caches are unknown.
fn why(run: &Run, size: u64) -> Option<Part> {
    let mut caches: Vec<_> = run.facts()?.cpu.caches.iter().collect();
    caches.retain(|cache| cache.kind != CacheKind::Instruction);
    let holds =
        |cache: &&Cache| format!("L{} holds {}", cache.level, display_bytes(cache.size_bytes));
    let caches: Vec<String> = caches.iter().map(holds).collect();
    let figures = figures()
        .with("three", Value::Size(3.0 * size as f64))
        .with("two", Value::Size(2.0 * size as f64))
        .with("caches", caches.join(", "));
    (!caches.is_empty()).then_some(("why", figures))
}

/// The levels whose change is known, and the one that gains most. Misses are compared only with misses, and
/// times with times.
fn compared(primitive: &str, changes: &[Change]) -> Part {
    let (sure, unsure): (Vec<&Change>, Vec<&Change>) =
        changes.iter().partition(|change| change.is_sure);
    let unsure: Vec<&str> = unsure.iter().map(|change| change.level).collect();
    let unknown = (!unsure.is_empty()).then(|| unsure.join(", "));
    let figures = figures()
        .with("primitive", primitive)
        .maybe("unknown", unknown);
    if sure.is_empty() {
        return ("unknown_way", figures);
    }
    let gains = match (gains(&sure, true), gains(&sure, false)) {
        (None, None) => part("none_gains"),
        (Some(gains), None) | (None, Some(gains)) => gains,
        (Some(counted), Some(timed)) => {
            let both = crate::figures::figures().parts("of_counted", [counted]);
            ("both_gain", both.parts("of_timed", [timed]))
        }
    };
    let levels = sure.iter().map(|change| change.part.clone());
    (
        "way",
        figures.parts("levels", levels).parts("gains", [gains]),
    )
}

/// The level that gains most, among those that were counted or else timed; none if no level gains.
fn gains(sure: &[&Change], is_counted: bool) -> Option<Part> {
    let falls = sure.iter().filter(|change| change.is_counted == is_counted);
    let falls =
        falls.filter_map(|change| Some((change.share.filter(|share| *share < 0.0)?, change.level)));
    let falls: Vec<(f64, &str)> = falls.collect();
    let (_, level) = falls
        .iter()
        .min_by(|one, other| one.0.total_cmp(&other.0))?;
    let template = if falls.len() == 1 {
        "gains_alone"
    } else {
        "gains_most"
    };
    Some((template, figures().with("level", *level)))
}

/// The change of a level.
fn change(
    run: &Run,
    row: &PointRow,
    copying: &PointRow,
    (level, counter, time): (&'static str, &'static str, &'static str),
) -> Option<Change> {
    if let Some(ratio) = Interval::log_ratio(run, row, copying, counter) {
        let percent = |log: f64| Value::Text(format!("{:+.0}", 100.0 * (log.exp() - 1.0)));
        let is_sure = ratio.differs();
        return Some(Change {
            level,
            is_sure,
            share: is_sure.then_some(ratio.middle.exp() - 1.0),
            part: (
                "misses",
                figures().with("level", level).interval(ratio, percent),
            ),
            is_counted: true,
        });
    }
    // The time is measured for one connection, however many follow it.
    let is_alone = row.number("threads").unwrap_or(1) == 1;
    let more = Interval::difference(run, row, copying, time).filter(|_| is_alone)?;
    let (before, after) = (seen(copying, time), seen(row, time));
    let time = |time: f64| {
        if time > 0.0 {
            ns(time)
        } else {
            "nothing".into()
        }
    };
    // A change of nothing cannot be a decrease.
    let is_sure = more.differs() && if more.middle < 0.0 { before } else { after }.is_some();
    let (low, high) = (more.low.abs(), more.high.abs());
    let figures = figures()
        .with("level", level)
        .maybe("after", after.map(ns))
        .when("after_none", after.is_none())
        .maybe("before", before.map(ns))
        .when("before_none", before.is_none())
        .with("low", time(low.min(high)))
        .with("high", time(low.max(high)))
        .with("by", if more.middle < 0.0 { "less" } else { "more" });
    Some(Change {
        level,
        is_sure,
        share: before
            .filter(|_| is_sure)
            .map(|before| (more.middle / before).max(-1.0)),
        part: ("time", figures),
        is_counted: false,
    })
}

/// How much longer it took to read what a cache held; none if that may have been nothing.
fn seen(row: &PointRow, time: &str) -> Option<f64> {
    let estimate = row.estimate(time)?;
    estimate
        .ci95
        .is_some_and(|(low, _)| low > 0.0)
        .then_some(estimate.median)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sends::PROBE;
    use crate::tests::{axes, begins, contains, ends, point_row, run, warn};
    use costof_model::noise::Grade;

    fn row(
        primitive: &'static str,
        size: u64,
        values: &[(&'static str, f64, (f64, f64))],
    ) -> PointRow {
        let axes = axes!(primitive, size);
        let mut row = point_row(PROBE, "cpu_sender", axes, 1.0, (1.0, 1.0));
        for &(name, median, ci95) in values {
            let mut metric = row.metrics[0].clone();
            (metric.name, metric.median, metric.ci95) = (name.into(), median, Some(ci95));
            row.metrics.push(metric);
        }
        row.point.link = "sink".into();
        row
    }

    /// From a run into the sink: cold messages of 1 MiB, three launches on a busy machine.
    fn measured(primitive: &'static str, l2: f64, l2_interval: (f64, f64)) -> PointRow {
        let values = [
            ("pollution_l1", 521.0, (17.0, 5306.0)),
            ("pollution_l2", l2, l2_interval),
            ("pollution_l3", -67_506.0, (-203_034.0, 58_176.0)),
        ];
        row(primitive, 1 << 20, &values)
    }

    #[test]
    fn the_level_that_surely_suffers_less_is_named_and_others_are_not() {
        let mut run = run(&[]);
        run.points = vec![
            row("two_copy", 4096, &[("pollution_l2", 5.0, (4.0, 6.0))]),
            measured("two_copy", 17_086.0, (10_313.0, 24_409.0)),
            measured("one_copy", 11_000.0, (3000.0, 21_000.0)),
            measured("zero_copy", -476.0, (-4644.0, 3065.0)),
        ];
        let findings = cache_pollution(&run);
        assert_eq!(findings.len(), 1);
        assert_eq!(
            findings[0].sentence(),
            "of what the sender's caches held before, compared with two_copy over sink at 1MiB: with one_copy L1, L2, L3 unknown; with zero_copy reading L2 again takes no longer instead of 17.1 µs longer (9.92 µs to 26.0 µs less): only L2 certainly loses less (L1, L3 unknown)"
        );
        assert_eq!(findings[0].evidence.len(), 3);
    }

    #[test]
    fn counted_misses_come_before_what_stands_for_them() {
        let of = |primitive, l1: f64, llc: f64| {
            let near = |value: f64| (0.99 * value, 1.01 * value);
            let values = [
                ("l1d_load_misses", l1, near(l1)),
                ("llc_load_misses", llc, near(llc)),
                ("pollution_l1", 1.0, (0.0, 2.0)),
            ];
            row(primitive, 4096, &values)
        };
        let mut run = run(&[]);
        run.points = vec![
            of("two_copy", 100.0, 50.0),
            of("one_copy", 90.0, 25.0),
            of("zero_copy", 110.0, 34.0),
        ];
        let sentence = cache_pollution(&run)[0].sentence();
        begins(
            &sentence,
            "of the misses that the CPU counts, compared with two_copy over sink at 4KiB: with one_copy L1 -10 % (-11 % to -9 %), L3 -50 % (-51 % to -49 %): L3 loses least",
        );
        ends(&sentence, "only L3 certainly loses less");
        let cache = |level, size_bytes| Cache {
            level,
            kind: CacheKind::Unified,
            size_bytes,
            ..Cache::default()
        };
        let facts = run.attempts[0].hosts.values_mut().next().unwrap();
        facts.cpu.caches = vec![cache(1, 32 << 10), cache(2, 1 << 20)];
        let why = "(no buffer), none with zero copy unless it is copied later, and L1 holds 32KiB, L2 holds 1MiB";
        let sentence = cache_pollution(&run)[0].sentence();
        contains(&sentence, "; with two copies 12KiB pass");
        ends(&sentence, why);
    }

    #[test]
    fn what_cannot_be_reported_of_any_level_is_said_shortly() {
        let mut run = run(&[]);
        for primitive in ["two_copy", "one_copy", "zero_copy"] {
            run.points.push(measured(primitive, 10.0, (-5.0, 25.0)));
        }
        assert_eq!(
            cache_pollution(&run)[0].sentence(),
            "of what the sender's caches held before, over sink at 1MiB no way of sending certainly evicts less from any cache level"
        );
        for row in &mut run.points {
            row.point.axes = row.point.axes.clone().with("threads", 4);
        }
        assert_eq!(cache_pollution(&run), []);
    }

    #[test]
    fn a_level_without_a_counter_is_timed_beside_those_that_have_one() {
        let of = |primitive, misses: f64, ns: f64| {
            let values = [
                ("l1d_load_misses", misses, (misses, misses)),
                ("pollution_l2", ns, (0.9 * ns, 1.1 * ns)),
            ];
            row(primitive, 4096, &values)
        };
        let mut run = run(&[]);
        run.points = vec![of("two_copy", 100.0, 1000.0), of("one_copy", 90.0, 100.0)];
        let sentence = cache_pollution(&run)[0].sentence();
        contains(&sentence, "counts, and of what the sender's caches held");
        ends(
            &sentence,
            "of the counted levels only L1 certainly loses less, of the timed ones only L2 certainly loses less",
        );
        for row in &mut run.points {
            warn(row, "others", Grade::D);
        }
        assert_eq!(cache_pollution(&run), []);
    }

    #[test]
    fn of_a_level_that_took_nothing_there_is_no_share() {
        let mut run = run(&[]);
        run.points = vec![
            measured("two_copy", -5000.0, (-6000.0, -4000.0)),
            measured("one_copy", -20_000.0, (-21_000.0, -19_000.0)),
            measured("zero_copy", 9000.0, (8000.0, 10_000.0)),
        ];
        assert_eq!(
            cache_pollution(&run)[0].sentence(),
            "of what the sender's caches held before, compared with two_copy over sink at 1MiB: with one_copy L1, L2, L3 unknown; with zero_copy reading L2 again takes 9.00 µs longer instead of no longer (12.6 µs to 15.4 µs more): no cache level loses less (L1, L3 unknown)"
        );
    }

    #[test]
    fn one_way_alone_says_nothing() {
        let mut run = run(&[]);
        run.points = vec![measured("two_copy", 1.0, (1.0, 1.0))];
        assert_eq!(cache_pollution(&run), []);
        run.points = vec![measured("zero_copy", 1.0, (1.0, 1.0))];
        assert_eq!(cache_pollution(&run), []);
    }
}
