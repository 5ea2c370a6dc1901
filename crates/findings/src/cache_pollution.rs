//! Which cache level suffers least from which way of sending: by counted misses where the run has
//! them, else by how much longer it takes to read again what the caches held before.

use crate::finding::Finding;
use crate::ratio::{Difference, LogRatio};
use crate::send_crossover::{about, circumstances, comparable, groups};
use costof_model::point::Point;
use costof_model::rows::PointRow;
use costof_model::run_file::Run;
use costof_model::unit::Unit;

pub(crate) const KIND: &str = "cache_pollution";
/// Ways of sending that leave a copy out, each held against the one that makes all.
const FEWER: [&str; 2] = ["one_copy", "zero_copy"];
const ALL_COPIES: &str = "two_copy";
/// A level, its counter, and the time that stands for its misses.
const LEVELS: [(&str, &str, &str); 3] = [
    ("L1", "l1d_load_misses", "pollution_l1"),
    ("L2", "l2_load_misses", "pollution_l2"),
    ("L3", "llc_load_misses", "pollution_l3"),
];

/// What a level has of the fewer copies.
struct Change {
    level: &'static str,
    /// Whether it surely has less or more.
    is_sure: bool,
    /// As a share of what it has with all copies, below nothing where it has less; none where that
    /// cannot be told, as where that is nothing.
    share: Option<f64>,
    said: String,
    is_counted: bool,
}

/// A sentence for each link and kind of message, at the largest size at which all was measured:
/// there copies are most of what is done. Points for which others used the processors say nothing.
pub(crate) fn cache_pollution(run: &Run) -> Vec<Finding> {
    let (quiet, _) = comparable(run);
    groups(quiet.into_iter(), &["primitive", "size"])
        .iter()
        .filter_map(|(common, group)| found(run, group, common))
        .collect()
}

fn found(run: &Run, group: &[&PointRow], common: &Point) -> Option<Finding> {
    let size = |row: &PointRow| row.axes().find_number("size");
    let of = |primitive: &str, bytes: u64| {
        group.iter().copied().find(|row| {
            row.axes().find_word("primitive") == Some(primitive) && size(row) == Some(bytes)
        })
    };
    let mut sizes: Vec<u64> = group.iter().filter_map(|row| size(row)).collect();
    sizes.sort_unstable();
    let is_compared = |bytes: &&u64| {
        let fewer = FEWER
            .iter()
            .any(|primitive| of(primitive, **bytes).is_some());
        fewer && of(ALL_COPIES, **bytes).is_some()
    };
    let largest = *sizes.iter().rev().find(is_compared)?;
    let copying = of(ALL_COPIES, largest)?;
    let mut evidence = vec![copying.point.clone()];
    let mut said = Vec::new();
    let mut all: Vec<Change> = Vec::new();
    for primitive in FEWER {
        let Some(row) = of(primitive, largest) else {
            continue;
        };
        let changes: Vec<Change> = LEVELS
            .iter()
            .filter_map(|level| change(run, row, copying, *level))
            .collect();
        if changes.is_empty() {
            continue;
        }
        evidence.push(row.point.clone());
        said.push(format!("with {primitive} {}", told(&changes)));
        all.extend(changes);
    }
    let (counted, timed) = (
        "of the misses that the processor counts",
        "of what the sender's caches held before",
    );
    let measured = match all.iter().filter(|change| change.is_counted).count() {
        0 => timed.to_owned(),
        count if count == all.len() => counted.to_owned(),
        _ => format!("{counted}, and {timed}"),
    };
    let sends = format!(
        "over {}{} at {}",
        common.link,
        circumstances(run, common),
        about(largest as f64)
    );
    let sentence = match all.iter().any(|change| change.is_sure) {
        true => format!(
            "{measured}, against {ALL_COPIES} {sends}: {}",
            said.join("; ")
        ),
        false => format!("{measured}, {sends} no way of sending can be told to spare any level"),
    };
    (!said.is_empty()).then(|| Finding {
        kind: KIND.into(),
        sentence,
        advice: None,
        evidence,
    })
}

/// The levels that can be told, and which of them gains most: misses are held against misses alone,
/// and time against time.
fn told(changes: &[Change]) -> String {
    let (sure, unsure): (Vec<&Change>, Vec<&Change>) =
        changes.iter().partition(|change| change.is_sure);
    let unsure: Vec<&str> = unsure.iter().map(|change| change.level).collect();
    if sure.is_empty() {
        return format!("{} cannot be told", unsure.join(", "));
    }
    let said: Vec<&str> = sure.iter().map(|change| &*change.said).collect();
    let which = match (gains(&sure, true), gains(&sure, false)) {
        (None, None) => ", so that none suffers less".to_owned(),
        (Some(gains), None) | (None, Some(gains)) => format!(", so that {gains}"),
        (Some(counted), Some(timed)) => {
            format!(", so that of those counted {counted}, and of those timed {timed}")
        }
    };
    let rest = match unsure.as_slice() {
        [] => String::new(),
        levels => format!(" ({} cannot be told)", levels.join(", ")),
    };
    format!("{}{which}{rest}", said.join(", "))
}

/// Which of the levels that are counted, or else timed, gains most; none where none has less.
fn gains(sure: &[&Change], is_counted: bool) -> Option<String> {
    let falls = sure
        .iter()
        .filter(|change| change.is_counted == is_counted)
        .filter_map(|change| Some((change.share.filter(|share| *share < 0.0)?, change.level)));
    let falls: Vec<(f64, &str)> = falls.collect();
    let (_, level) = falls
        .iter()
        .min_by(|one, other| one.0.total_cmp(&other.0))?;
    Some(match falls.len() {
        1 => format!("{level} alone surely suffers less"),
        _ => format!("{level} suffers least"),
    })
}

/// By how much less or more a level has.
fn change(
    run: &Run,
    row: &PointRow,
    copying: &PointRow,
    (level, counter, time): (&'static str, &'static str, &'static str),
) -> Option<Change> {
    if let Some(ratio) = LogRatio::of(run, row, copying, counter) {
        let [low, share, high] = [ratio.low, ratio.middle, ratio.high].map(|log| log.exp() - 1.0);
        let surely = low > 0.0 || high < 0.0;
        let percent = |share: f64| format!("{:+.0} %", 100.0 * share);
        return Some(Change {
            level,
            is_sure: surely,
            share: surely.then_some(share),
            said: format!(
                "{level} {} ({} to {})",
                percent(share),
                percent(low),
                percent(high)
            ),
            is_counted: true,
        });
    }
    // That is seen of one connection alone, however many follow it.
    let is_alone = row.axes().find_number("threads").unwrap_or(1) == 1;
    let difference = Difference::of(run, row, copying, time).filter(|_| is_alone)?;
    let (before, after) = (copying.estimate(time)?.median, row.estimate(time)?.median);
    let surely = difference.low > 0.0 || difference.high < 0.0;
    let ns = |ns: f64| match ns > 0.0 {
        true => Unit::Nanoseconds.display(ns),
        false => "nothing".to_owned(),
    };
    let by = match difference.middle < 0.0 {
        true => "less",
        false => "more",
    };
    let longer = |time: f64| match time > 0.0 {
        true => format!("{} longer", ns(time)),
        false => "no longer".to_owned(),
    };
    let (low, high) = (difference.low.abs(), difference.high.abs());
    let share = (surely && before > 0.0).then(|| (difference.middle / before).max(-1.0));
    Some(Change {
        level,
        // Less than nothing is no less.
        is_sure: surely && (before > 0.0 || difference.middle > 0.0),
        share,
        said: format!(
            "{level} takes {} instead of {} to read again ({} to {} {by})",
            longer(after),
            longer(before),
            ns(low.min(high)),
            ns(low.max(high)),
        ),
        is_counted: false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory_sample::{point_row, run};
    use crate::send_crossover::PROBE;
    use costof_model::axis::Axes;

    /// A median and its interval of each of these metrics.
    fn row(
        primitive: &'static str,
        size: u64,
        values: &[(&'static str, f64, (f64, f64))],
    ) -> PointRow {
        let axes = Axes::default()
            .with("primitive", primitive)
            .with("size", size);
        let mut row = point_row(PROBE, "cpu_sender", axes, 1.0, (1.0, 1.0));
        for &(name, median, ci95) in values {
            let mut metric = row.metrics[0].clone();
            (metric.name, metric.median, metric.ci95) = (name.into(), median, Some(ci95));
            row.metrics.push(metric);
        }
        row.point.link = "sink".into();
        row
    }

    /// Of a run into the sink, cold messages of 1 MiB, three launches on a busy machine.
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
            findings[0].sentence,
            "of what the sender's caches held before, against two_copy over sink at 1MiB: with one_copy \
             L1, L2, L3 cannot be told; with zero_copy L2 takes no longer instead of 17.1 µs \
             longer to read again (9.92 µs to 26.0 µs less), so that L2 alone surely suffers less (L1, L3 cannot be \
             told)"
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
        let sentence = &cache_pollution(&run)[0].sentence;
        assert!(
            sentence.starts_with(
                "of the misses that the processor counts, against two_copy over sink at 4KiB: with \
                 one_copy L1 -10 % (-11 % to -9 %), L3 -50 % (-51 % to -49 %), so that L3 suffers least"
            ),
            "{sentence}"
        );
        assert!(
            sentence.ends_with("so that L3 alone surely suffers less"),
            "{sentence}"
        );
    }

    #[test]
    fn what_cannot_be_told_of_any_level_is_said_shortly() {
        let mut run = run(&[]);
        for primitive in ["two_copy", "one_copy", "zero_copy"] {
            run.points.push(measured(primitive, 10.0, (-5.0, 25.0)));
        }
        assert_eq!(
            cache_pollution(&run)[0].sentence,
            "of what the sender's caches held before, over sink at 1MiB no way of sending can be told \
             to spare any level"
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
        let sentence = &cache_pollution(&run)[0].sentence;
        assert!(
            sentence.contains("counts, and of what the sender's caches held"),
            "{sentence}"
        );
        assert!(
            sentence.ends_with(
                "so that of those counted L1 alone surely suffers less, and of those timed L2 alone \
                 surely suffers less"
            ),
            "{sentence}"
        );
        for row in &mut run.points {
            row.warnings.push(costof_model::noise::Warning {
                kind: "others".into(),
                grade: costof_model::noise::Grade::D,
                what: String::new(),
                advice: String::new(),
            });
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
            cache_pollution(&run)[0].sentence,
            "of what the sender's caches held before, against two_copy over sink at 1MiB: with one_copy \
             L1, L2, L3 cannot be told; with zero_copy L2 takes 9.00 µs longer instead of no longer to \
             read again (12.6 µs to 15.4 µs more), so that none suffers less (L1, L3 cannot be told)"
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
