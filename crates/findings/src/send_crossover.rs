//! From which size on one way of sending beats another, under the same circumstances.

use crate::crossover::{Crossover, crossover};
use crate::finding::{Finding, grade_by_others};
use crate::ratio::LogRatio;
use costof_model::noise::Grade;
use costof_model::point::Point;
use costof_model::rows::PointRow;
use costof_model::run_file::Run;
use costof_model::unit::Better;

pub(crate) const PROBE: &str = "copy.send";
/// What is compared with what.
const PAIRS: [(&str, &str); 3] = [
    ("one_copy", "two_copy"),
    ("zero_copy", "two_copy"),
    ("zero_copy", "one_copy"),
];
/// The metrics that it is told by, and what they are called.
const METRICS: [(&str, &str); 2] = [
    ("cpu_sender", "by the sender's processor time"),
    ("throughput", "by throughput"),
];

/// From which size on one way of sending beats another by a metric, under the same circumstances.
#[derive(Clone, Debug, PartialEq)]
pub struct SendCrossover {
    /// What the points have in common: the link, and all axes but `primitive` and `size`.
    pub common: Point,
    /// The way that is better from some size on.
    pub better: &'static str,
    /// The way that it is held against.
    pub other: &'static str,
    /// What it is told by.
    pub metric: &'static str,
    /// From which size on.
    pub crossover: Crossover,
    /// The points that it follows from.
    pub evidence: Vec<Point>,
}

/// Each pair on each link, for each kind of message and by each metric; of sizes for which the
/// processors were not free, none.
pub fn send_crossovers(run: &Run) -> Vec<SendCrossover> {
    let rows: Vec<&PointRow> = run
        .points
        .iter()
        .filter(|row| row.point.probe == PROBE && grade_by_others(row) <= Grade::B)
        .collect();
    let mut done: Vec<Point> = Vec::new();
    let mut crossovers = Vec::new();
    for row in &rows {
        let common = alike(row, &["primitive", "size"]);
        if done.contains(&common) {
            continue;
        }
        let group: Vec<&PointRow> = rows
            .iter()
            .copied()
            .filter(|other| alike(other, &["primitive", "size"]) == common)
            .collect();
        for pair in PAIRS {
            let found = METRICS.map(|(metric, _)| found(run, &group, &common, pair, metric));
            crossovers.extend(found.into_iter().flatten());
        }
        done.push(common);
    }
    crossovers
}

/// A sentence for each pair on each link, and for each kind of message otherwise.
pub(crate) fn send_crossover(run: &Run) -> Vec<Finding> {
    let crossovers = send_crossovers(run);
    let of_pair = |crossover: &SendCrossover| {
        let SendCrossover { better, other, .. } = *crossover;
        (crossover.common.clone(), better, other)
    };
    let pairs = crossovers.chunk_by(|one, next| of_pair(one) == of_pair(next));
    pairs.map(|by_metric| said(run, by_metric)).collect()
}

/// The point without these axes: what points have in common that differ in nothing else.
pub(crate) fn alike(row: &PointRow, without: &[&str]) -> Point {
    let mut point = row.point.clone();
    point.axes.0.retain(|name, _| !without.contains(&&**name));
    point
}

/// What is not as usual about the messages of a point, from which some axes may have been taken, as
/// ` (source=cold, pages=2MiB)`.
pub(crate) fn circumstances(run: &Run, point: &Point) -> String {
    let Some(probe) = run.probe(&point.probe) else {
        return String::new();
    };
    let usual = probe.defaults();
    let others: Vec<String> = probe
        .axes
        .iter()
        .filter_map(|axis| {
            let value = point.axes.0.get(&axis.name)?;
            let differs = usual.0.get(&axis.name) != Some(value);
            differs.then(|| format!("{}={}", axis.name, axis.display(value)))
        })
        .collect();
    match others.is_empty() {
        true => String::new(),
        false => format!(" ({})", others.join(", ")),
    }
}

/// Sizes at which both were measured, smallest first, with how many times as good the one is.
fn ratios<'a>(
    run: &Run,
    group: &[&'a PointRow],
    (better, other): (&str, &str),
    metric: &str,
) -> Vec<(u64, LogRatio, [&'a PointRow; 2])> {
    let of = |primitive: &str| {
        let rows = group.iter().copied();
        rows.filter(|row| row.axes().find_word("primitive") == Some(primitive))
            .filter_map(|row| Some((row.axes().find_number("size")?, row)))
            .collect::<Vec<_>>()
    };
    let others = of(other);
    let mut ratios: Vec<_> = of(better)
        .into_iter()
        .filter_map(|(size, row)| {
            let (_, other) = others.iter().find(|(other, _)| *other == size)?;
            let ratio = LogRatio::of(run, row, other, metric)?;
            let ratio = match row.estimate(metric)?.better {
                Better::Lower => ratio.reversed(),
                Better::Higher | Better::Neither => ratio,
            };
            Some((size, ratio, [row, *other]))
        })
        .collect();
    ratios.sort_by_key(|(size, ..)| *size);
    ratios
}

fn found(
    run: &Run,
    group: &[&PointRow],
    common: &Point,
    (better, other): (&'static str, &'static str),
    metric: &'static str,
) -> Option<SendCrossover> {
    let ratios = ratios(run, group, (better, other), metric);
    let sizes: Vec<(f64, LogRatio)> = ratios
        .iter()
        .map(|(size, ratio, _)| (*size as f64, *ratio))
        .collect();
    let rows = ratios.iter().flat_map(|(_, _, rows)| rows);
    Some(SendCrossover {
        common: common.clone(),
        better,
        other,
        metric,
        crossover: crossover(&sizes)?,
        evidence: rows.map(|row| row.point.clone()).collect(),
    })
}

/// What all metrics say of one pair.
fn said(run: &Run, by_metric: &[SendCrossover]) -> Finding {
    let SendCrossover {
        common,
        better,
        other,
        ..
    } = &by_metric[0];
    let said = by_metric.iter().map(|found| {
        let by = METRICS.iter().find(|(metric, _)| *metric == found.metric);
        let (_, by) = by.expect("it was found by one of them");
        format!("{by}{}", words(found.crossover))
    });
    let mut evidence: Vec<Point> = Vec::new();
    for point in by_metric.iter().flat_map(|found| &found.evidence) {
        if !evidence.contains(point) {
            evidence.push(point.clone());
        }
    }
    Finding {
        kind: "send_crossover".into(),
        sentence: format!(
            "{better} beats {other} over {}{}: {}",
            common.link,
            circumstances(run, common),
            said.collect::<Vec<_>>().join("; "),
        ),
        advice: paces(run, common, &evidence[0]),
        evidence,
    }
}

/// What to do where the congestion control was BBR, into a sink: nothing there takes time but the
/// sender, and pacing is most of what it does.
fn paces(run: &Run, common: &Point, measured: &Point) -> Option<String> {
    let is_usual = common.axes.find_word("congestion_control") == Some("default");
    let by_tcp = common.axes.find_word("over") == Some("tcp");
    let mut ends = run
        .launches
        .iter()
        .filter(|launch| launch.points.iter().any(|point| point.point == *measured))
        .flat_map(|launch| launch.noise.ends.values());
    let paced = ends.any(|end| end.congestion_control.as_deref() == Some("bbr"));
    (common.link == "sink" && by_tcp && is_usual && paced).then(|| {
        "bbr paces what it sends, which takes most of the time here: without it by --set \
         congestion_control=reno"
            .to_owned()
    })
}

fn words(crossover: Crossover) -> String {
    match crossover {
        Crossover::Everywhere { from } => format!(" at every size from {} on", about(from)),
        Crossover::From {
            about: Some(size),
            low: Some(low),
            high,
        } => format!(
            " from about {} on ({} to {})",
            about(size),
            about(low),
            about(high)
        ),
        Crossover::From {
            about: Some(size),
            low: None,
            high,
        } => format!(" from about {} on, {} at most", about(size), about(high)),
        Crossover::From {
            about: None, high, ..
        } => format!(" from {} on at the latest", about(high)),
        Crossover::Only { from, to } if from == to => format!(" at {} only", about(from)),
        Crossover::Only { from, to } => {
            format!(" from {} to {} only", about(from), about(to))
        }
        Crossover::Nowhere { up_to } => format!(" nowhere up to {}", about(up_to)),
        Crossover::Untold { low, high } => format!(
            " it cannot be told between {} and {}",
            about(low),
            about(high)
        ),
    }
}

/// A size with two digits.
pub(crate) fn about(bytes: f64) -> String {
    let (value, unit) = match bytes {
        small if small < 1000.0 => (small, "B"),
        middle if middle < 1000.0 * 1024.0 => (middle / 1024.0, "KiB"),
        large => (large / (1024.0 * 1024.0), "MiB"),
    };
    // A measured size has as many digits as it needs.
    if value >= 9.95 || (value - value.round()).abs() < 0.05 {
        let tens = if value >= 99.5 && value.fract() != 0.0 {
            10.0
        } else {
            1.0
        };
        return format!("{:.0}{unit}", (value / tens).round() * tens);
    }
    format!("{value:.1}{unit}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory_sample::{point_row, run};
    use costof_model::axis::Axes;
    use costof_model::noise::Warning;

    /// ns/KiB or B/s of a primitive at a size, known to 2 %.
    fn row(primitive: &'static str, kib: u64, metric: &'static str, value: f64) -> PointRow {
        let axes = Axes::default()
            .with("primitive", primitive)
            .with("size", kib << 10)
            .with("source", "cold");
        let mut row = point_row(PROBE, metric, axes, value, (0.98 * value, 1.02 * value));
        row.point.link = "sink".into();
        if metric == "throughput" {
            row.metrics[0].better = Better::Higher;
        }
        row
    }

    /// CPU µs per message of FACTS as they were found: two-copy, one-copy, zero-copy.
    const COLD: [(u64, f64, f64, f64); 4] = [
        (4, 1.41, 1.65, 3.57),
        (16, 3.31, 3.52, 3.99),
        (64, 10.1, 10.0, 7.1),
        (1024, 114.0, 124.0, 60.0),
    ];

    fn cold() -> Run {
        let mut run = run(&[]);
        for (kib, two, one, zero) in COLD {
            for (primitive, us) in [("two_copy", two), ("one_copy", one), ("zero_copy", zero)] {
                let ns_per_kib = us * 1000.0 / kib as f64;
                run.points
                    .push(row(primitive, kib, "cpu_sender", ns_per_kib));
            }
        }
        run
    }

    #[test]
    fn the_crossover_of_real_sends_is_told_with_its_interval() {
        let findings = send_crossover(&cold());
        let sentences: Vec<&str> = findings.iter().map(|found| &*found.sentence).collect();
        assert_eq!(
            sentences,
            [
                "one_copy beats two_copy over sink: by the sender's processor time \
                 nowhere up to 1MiB",
                "zero_copy beats two_copy over sink: by the sender's processor time \
                 from about 26KiB on (24KiB to 28KiB)",
                "zero_copy beats one_copy over sink: by the sender's processor time from about \
                 23KiB on (21KiB to 25KiB)",
            ]
        );
        assert_eq!(findings[1].evidence.len(), 8);
    }

    #[test]
    fn other_links_and_metrics_are_told_apart() {
        let mut run = cold();
        for primitive in ["two_copy", "zero_copy"] {
            for kib in [4, 64] {
                let mut row = row(primitive, kib, "throughput", 1e9);
                row.point.link = "loopback".into();
                run.points.push(row);
            }
        }
        let findings = send_crossover(&run);
        assert_eq!(findings.len(), 4);
        assert_eq!(
            findings[3].sentence,
            "zero_copy beats two_copy over loopback: by throughput it cannot be told between 4KiB and \
             64KiB"
        );
    }

    #[test]
    fn sizes_for_which_processors_were_not_free_do_not_count() {
        let mut run = cold();
        for row in &mut run.points {
            row.warnings.push(Warning {
                kind: "steal".into(),
                grade: Grade::C,
                what: String::new(),
                advice: String::new(),
            });
        }
        assert_eq!(send_crossover(&run), []);
    }

    #[test]
    fn one_size_or_one_primitive_says_nothing() {
        let mut run = run(&[]);
        run.points.push(row("two_copy", 4, "cpu_sender", 100.0));
        run.points.push(row("zero_copy", 4, "cpu_sender", 50.0));
        assert_eq!(send_crossover(&run), []);
        run.points.push(row("zero_copy", 64, "cpu_sender", 50.0));
        assert_eq!(send_crossover(&run), []);
    }

    #[test]
    fn sizes_have_two_digits_or_those_that_were_measured() {
        let sizes = [
            64.0,
            1024.0,
            1500.0,
            24_986.0,
            131_072.0,
            130_000.0,
            1_048_576.0,
            16_777_216.0,
        ];
        let written = sizes.map(about);
        let expected = [
            "64B", "1KiB", "1.5KiB", "24KiB", "128KiB", "130KiB", "1MiB", "16MiB",
        ];
        assert_eq!(written, expected);
    }
}
