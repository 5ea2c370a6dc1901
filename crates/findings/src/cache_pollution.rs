//! Which way of sending spares which cache level most. Misses decide if the run counted them. Otherwise it is
//! the time: how much longer a read takes of data that the caches held before.

use crate::prelude::*;
use crate::sends::comparable;
use costof_model::facts::CacheKind;

/// Ways of sending that make fewer copies. Each is compared with the one that makes all of them.
const FEWER: [&str; 2] = ["sendmsg", "msg_zerocopy"];
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
    /// The change in words.
    text: String,
    is_counted: bool,
}

/// A finding for each link and kind of message, at the largest size at which everything was measured: there
/// copies are most of the work.
pub(crate) fn cache_pollution(run: &Run) -> Vec<Finding> {
    let groups = comparable(run).group_by(&["primitive", "size"]);
    groups.iter().filter_map(|group| finding(run, group)).collect()
}

fn finding(run: &Run, group: &Group<'_>) -> Option<Finding> {
    let changes = |pair: &Pair<'_>| -> Vec<Change> {
        let level = |level: &_| change(run, pair.row, pair.other, *level);
        LEVELS.iter().filter_map(level).collect()
    };
    let by_way = FEWER.map(|way| {
        let pairs = pairs(&group.rows, "size", "primitive", (way, "copy_and_send"));
        let mut largest_first = pairs.into_iter().rev().map(|pair| (pair, changes(&pair)));
        (way, largest_first.find(|(_, changes)| !changes.is_empty()))
    });
    let sizes = by_way.iter().filter_map(|(_, found)| Some(found.as_ref()?.0.number));
    let largest = sizes.max()?;
    let (mut evidence, mut ways, mut all) = (Vec::new(), Vec::new(), Vec::new());
    for (primitive, found) in by_way {
        if let Some((pair, changes)) = found.filter(|(pair, _)| pair.number == largest) {
            evidence.extend([pair.other, pair.row]);
            ways.push(compared(primitive, &changes));
            all.extend(changes);
        }
    }
    let measured = match all.iter().filter(|change| change.is_counted).count() {
        0 => "of what the sender's caches held before",
        count if count == all.len() => "of the misses that the CPU counts",
        _ => "of the misses that the CPU counts, and of what the sender's caches held before",
    };
    let (place, at) = (place(run, &group.common), size(largest as f64));
    let sentence = if all.iter().any(|change| change.is_sure) {
        let ways = ways.join("; ");
        let why = maybe(why(run, largest), |why| format!("; {why}"));
        format!("{measured}, compared with copy_and_send over {place} at {at}: {ways}{why}")
    } else {
        format!(
            "{measured}, over {place} at {at} no way of sending certainly evicts less from any cache level"
        )
    };
    Some(Finding::new(Kind::CachePollution, evidence, sentence))
}

/// What passes through the caches with each way, and what they hold; none if the caches are unknown.
fn why(run: &Run, bytes_sent: u64) -> Option<String> {
    let caches = run.facts()?.cpu.caches.iter();
    let of_data = caches.filter(|cache| cache.kind != CacheKind::Instruction);
    let holds = of_data.map(|cache| format!("L{} holds {}", cache.level, bytes(cache.size_bytes)));
    let caches: Vec<String> = holds.collect();
    let [two, three] = [2.0, 3.0].map(|copies| size(copies * bytes_sent as f64));
    (!caches.is_empty()).then(|| {
        format!(
            "with two copies {three} pass through the sender's caches for a message (its fields, the buffer, \
             the socket's), {two} with one copy (no buffer), none with zero copy unless it is copied later, and {}",
            caches.join(", ")
        )
    })
}

/// The levels whose change is known, and the one that gains most. Misses are compared only with misses, and
/// times with times.
fn compared(primitive: &str, changes: &[Change]) -> String {
    let (sure, unsure): (Vec<&Change>, Vec<&Change>) =
        changes.iter().partition(|change| change.is_sure);
    let unsure: Vec<&str> = unsure.iter().map(|change| change.level).collect();
    let unknown = format!("{} unknown", unsure.join(", "));
    if sure.is_empty() {
        return format!("with {primitive} {unknown}");
    }
    let gains = match (gains(&sure, true), gains(&sure, false)) {
        (None, None) => "no cache level loses less".to_owned(),
        (Some(gains), None) | (None, Some(gains)) => gains,
        (Some(counted), Some(timed)) => {
            format!("of the counted levels {counted}, of the timed ones {timed}")
        }
    };
    let levels: Vec<&str> = sure.iter().map(|change| &*change.text).collect();
    let unknown = maybe((!unsure.is_empty()).then_some(unknown), |unknown| format!(" ({unknown})"));
    format!("with {primitive} {}: {gains}{unknown}", levels.join(", "))
}

/// The level that gains most, among those that were counted or else timed; none if no level gains.
fn gains(sure: &[&Change], is_counted: bool) -> Option<String> {
    let changes = sure.iter().filter(|change| change.is_counted == is_counted);
    let falls: Vec<(f64, &str)> = changes
        .filter_map(|change| Some((change.share.filter(|share| *share < 0.0)?, change.level)))
        .collect();
    let (_, level) = falls.iter().min_by(|one, other| one.0.total_cmp(&other.0))?;
    Some(match falls.len() {
        1 => format!("only {level} certainly loses less"),
        _ => format!("{level} loses least"),
    })
}

/// The change of a level.
fn change(
    run: &Run,
    row: &PointRow,
    copying: &PointRow,
    (level, counter, time): (&'static str, &'static str, &'static str),
) -> Option<Change> {
    if let Some(ratio) = Interval::log_ratio(run, row, copying, counter) {
        let [low, middle, high] =
            [ratio.low, ratio.middle, ratio.high].map(|log| 100.0 * (log.exp() - 1.0));
        let is_sure = ratio.differs();
        return Some(Change {
            level,
            is_sure,
            share: is_sure.then_some(ratio.middle.exp() - 1.0),
            text: format!("{level} {middle:+.0} % ({low:+.0} % to {high:+.0} %)"),
            is_counted: true,
        });
    }
    // The time is measured for one connection, however many follow it.
    let is_alone = row.number("threads").unwrap_or(1) == 1;
    let more = Interval::difference(run, row, copying, time).filter(|_| is_alone)?;
    let (before, after) = (seen(copying, time), seen(row, time));
    let [was, is] = [before, after].map(|longer| match longer {
        Some(longer) => format!("{} longer", ns(longer)),
        None => "no longer".to_owned(),
    });
    let (low, high) = (more.low.abs(), more.high.abs());
    let time = |time| {
        if time > 0.0 { ns(time) } else { "nothing".to_owned() }
    };
    let by = range((low.min(high), low.max(high)), time);
    let is_less = more.middle < 0.0;
    let way = if is_less { "less" } else { "more" };
    // A change of nothing cannot be a decrease.
    let is_sure = more.differs() && if is_less { before } else { after }.is_some();
    let share = before.map(|before| (more.middle / before).max(-1.0));
    Some(Change {
        level,
        is_sure,
        share: share.filter(|_| is_sure),
        text: format!("reading {level} again takes {is} instead of {was} ({by} {way})"),
        is_counted: false,
    })
}

/// How much longer it took to read what a cache held; none if that may have been nothing.
fn seen(row: &PointRow, time: &str) -> Option<f64> {
    let estimate = row.estimate(time)?;
    let is_something = estimate.ci95.is_some_and(|(low, _)| low > 0.0);
    is_something.then_some(estimate.median)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sends::PROBE;
    use crate::tests::{axes, contains, ends, point_row, reads, run, warn};
    use costof_model::Grade;

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
            row("copy_and_send", 4096, &[("pollution_l2", 5.0, (4.0, 6.0))]),
            measured("copy_and_send", 17_086.0, (10_313.0, 24_409.0)),
            measured("sendmsg", 11_000.0, (3000.0, 21_000.0)),
            measured("msg_zerocopy", -476.0, (-4644.0, 3065.0)),
        ];
        let findings = cache_pollution(&run);
        reads!(&findings);
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
            of("copy_and_send", 100.0, 50.0),
            of("sendmsg", 90.0, 25.0),
            of("msg_zerocopy", 110.0, 34.0),
        ];
        reads!(cache_pollution(&run));
        let cache = |level, size_bytes| costof_model::facts::Cache {
            level,
            kind: CacheKind::Unified,
            size_bytes,
            ..costof_model::facts::Cache::default()
        };
        let facts = run.attempts[0].hosts.values_mut().next().unwrap();
        facts.cpu.caches = vec![cache(1, 32 << 10), cache(2, 1 << 20)];
        let sentence = cache_pollution(&run)[0].sentence.clone();
        contains(&sentence, "12KiB pass");
        ends(&sentence, "L1 holds 32KiB, L2 holds 1MiB");
    }

    #[test]
    fn what_cannot_be_reported_of_any_level_is_said_shortly() {
        let mut run = run(&[]);
        for primitive in ["copy_and_send", "sendmsg", "msg_zerocopy"] {
            run.points.push(measured(primitive, 10.0, (-5.0, 25.0)));
        }
        reads!(cache_pollution(&run));
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
        run.points = vec![of("copy_and_send", 100.0, 1000.0), of("sendmsg", 90.0, 100.0)];
        reads!(cache_pollution(&run));
        for row in &mut run.points {
            warn(row, "others", Grade::D);
        }
        assert_eq!(cache_pollution(&run), []);
    }

    #[test]
    fn of_a_level_that_took_nothing_there_is_no_share() {
        let mut run = run(&[]);
        run.points = vec![
            measured("copy_and_send", -5000.0, (-6000.0, -4000.0)),
            measured("sendmsg", -20_000.0, (-21_000.0, -19_000.0)),
            measured("msg_zerocopy", 9000.0, (8000.0, 10_000.0)),
        ];
        reads!(cache_pollution(&run));
    }

    #[test]
    fn one_way_alone_says_nothing() {
        let mut run = run(&[]);
        run.points = vec![measured("copy_and_send", 1.0, (1.0, 1.0))];
        assert_eq!(cache_pollution(&run), []);
        run.points = vec![measured("msg_zerocopy", 1.0, (1.0, 1.0))];
        assert_eq!(cache_pollution(&run), []);
    }
}
