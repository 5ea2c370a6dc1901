//! From which size on one way of sending beats another, under the same circumstances.

use crate::crossover::{Crossover, crossover};
use crate::finding::{Finding, grade_by_others};
use crate::ratio::LogRatio;
use crate::zero_copy::falls_back;
use costof_model::link::Link;
use costof_model::noise::Grade;
use costof_model::point::Point;
use costof_model::rows::PointRow;
use costof_model::run_file::Run;
use costof_model::unit::Better;
use std::collections::HashMap;

pub(crate) const PROBE: &str = "copy.send";
/// What is compared with what, and the kind of finding that this is.
const PAIRS: [(&str, &str, &str); 3] = [
    ("one_copy", "two_copy", ONE_COPY),
    ("zero_copy", "two_copy", ZERO_COPY),
    ("zero_copy", "one_copy", ZERO_COPY),
];
pub(crate) const ONE_COPY: &str = "one_copy_crossover";
pub(crate) const ZERO_COPY: &str = "zero_copy_crossover";
/// The kind of a finding about what disturbs a comparison, or keeps it from being one.
pub(crate) const DISTURBED: &str = "crossover_disturbed";
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
    /// What the finding is called that tells it.
    pub(crate) kind: &'static str,
    /// What it is told by.
    pub metric: &'static str,
    /// From which size on.
    pub crossover: Crossover,
    /// The points that it follows from.
    pub evidence: Vec<Point>,
}

/// Each pair on each link, for each kind of message and by each metric; of sizes for which the
/// processors were not free, or sends without a copy had no room, none.
pub fn send_crossovers(run: &Run) -> Vec<SendCrossover> {
    let (rows, _) = comparable(run);
    let mut crossovers = Vec::new();
    for (common, group) in groups(rows.into_iter(), &["primitive", "size"]) {
        for pair in PAIRS {
            let found = METRICS.map(|(metric, _)| found(run, &group, &common, pair, metric));
            crossovers.extend(found.into_iter().flatten());
        }
    }
    crossovers
}

/// Points for which the processors were free, and others; none of messages that were to be sent
/// without a copy and had no room for that, since they are not what they are called.
pub(crate) fn comparable(run: &Run) -> (Vec<&PointRow>, Vec<&PointRow>) {
    of_sends(run)
        .filter(|row| !falls_back(row))
        .partition(|row| grade_by_others(row) <= Grade::B)
}

fn of_sends(run: &Run) -> impl Iterator<Item = &PointRow> {
    run.points
        .iter()
        .filter(|row| row.point.probe == PROBE && row.axes().find_word("primitive").is_some())
}

/// A sentence for each pair on each link, and for each kind of message otherwise; of sizes for which
/// the processors were not free, that they were not.
pub(crate) fn send_crossover(run: &Run) -> Vec<Finding> {
    let crossovers = send_crossovers(run);
    let of_pair = |crossover: &SendCrossover| {
        let SendCrossover { better, other, .. } = *crossover;
        (crossover.common.clone(), better, other)
    };
    let pairs = crossovers.chunk_by(|one, next| of_pair(one) == of_pair(next));
    let mut findings: Vec<Finding> = pairs.map(|by_metric| said(run, by_metric)).collect();
    let (rows, busy) = comparable(run);
    findings.extend(paced(run, &rows, &findings));
    let without_room: Vec<&PointRow> = of_sends(run).filter(|row| falls_back(row)).collect();
    let all = [&rows, &busy, &without_room].map(|rows| rows.iter().filter(compared).count());
    let all = all.iter().sum();
    findings.extend(left_out(
        &busy,
        all,
        "others used their processors",
        "stop what else runs, or choose free processors by --cpu",
    ));
    findings.extend(left_out(
        &without_room,
        all,
        "there was no room to send without a copy (ENOBUFS)",
        "more room by a larger net.core.optmem_max (sysctl) or limit of locked memory (ulimit -l)",
    ));
    findings
}

/// Whether a way of sending is compared with another.
fn compared(row: &&&PointRow) -> bool {
    let primitive = row.axes().find_word("primitive");
    let mut pairs = PAIRS
        .iter()
        .flat_map(|(better, other, _)| [*better, *other]);
    pairs.any(|wanted| primitive == Some(wanted))
}

/// Points of `all` that could have been compared, but for this reason.
fn left_out(rows: &[&PointRow], all: usize, reason: &str, advice: &str) -> Option<Finding> {
    let rows: Vec<&PointRow> = rows.iter().filter(compared).copied().collect();
    (!rows.is_empty() && all > 2).then(|| Finding {
        kind: DISTURBED.into(),
        sentence: format!(
            "{} of the {all} points by which ways of sending are compared are in no crossover, as \
             {reason}",
            rows.len()
        ),
        advice: Some(advice.to_owned()),
        evidence: rows.iter().map(|row| row.point.clone()).collect(),
    })
}

/// Points that differ in these axes alone, and what they have in common.
pub(crate) fn groups<'a>(
    rows: impl Iterator<Item = &'a PointRow>,
    axes: &[&str],
) -> Vec<(Point, Vec<&'a PointRow>)> {
    let mut groups: Vec<(Point, Vec<&PointRow>)> = Vec::new();
    let mut known: HashMap<Point, usize> = HashMap::new();
    for row in rows {
        let common = alike(row, axes);
        match known.get(&common) {
            Some(&at) => groups[at].1.push(row),
            None => {
                known.insert(common.clone(), groups.len());
                groups.push((common, vec![row]));
            }
        }
    }
    groups
}

/// The point without these axes.
fn alike(row: &PointRow, without: &[&str]) -> Point {
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

/// Sizes at which both ways on an axis were measured, smallest first, with how many times as good the
/// one is; none by a metric of which neither more nor less is better.
pub(crate) fn ratios<'a>(
    run: &Run,
    group: &[&'a PointRow],
    axis: &str,
    (better, other): (&str, &str),
    metric: &str,
) -> Vec<(u64, LogRatio, [&'a PointRow; 2])> {
    let of = |way: &str| {
        let rows = group.iter().copied();
        rows.filter(|row| row.axes().find_word(axis) == Some(way))
            .filter_map(|row| Some((row.axes().find_number("size")?, row)))
            .collect::<Vec<_>>()
    };
    let mut others: HashMap<u64, &PointRow> = HashMap::new();
    for (size, row) in of(other) {
        others.entry(size).or_insert(row);
    }
    let mut ratios: Vec<_> = of(better)
        .into_iter()
        .filter_map(|(size, row)| {
            let other = *others.get(&size)?;
            let ratio = LogRatio::of(run, row, other, metric)?;
            let ratio = match row.estimate(metric)?.better {
                Better::Lower => ratio.reversed(),
                Better::Higher => ratio,
                Better::Neither => return None,
            };
            Some((size, ratio, [row, other]))
        })
        .collect();
    ratios.sort_by_key(|(size, ..)| *size);
    ratios
}

fn found(
    run: &Run,
    group: &[&PointRow],
    common: &Point,
    (better, other, kind): (&'static str, &'static str, &'static str),
    metric: &'static str,
) -> Option<SendCrossover> {
    let ratios = ratios(run, group, "primitive", (better, other), metric);
    let sizes: Vec<(f64, LogRatio)> = ratios
        .iter()
        .map(|(size, ratio, _)| (*size as f64, *ratio))
        .collect();
    let rows = ratios.iter().flat_map(|(_, _, rows)| rows);
    Some(SendCrossover {
        common: common.clone(),
        better,
        other,
        kind,
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
        kind,
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
        kind: (*kind).into(),
        sentence: format!(
            "{better} beats {other} over {}{}: {}",
            common.link,
            circumstances(run, common),
            said.collect::<Vec<_>>().join("; "),
        ),
        advice: None,
        evidence,
    }
}

/// Whether BBR paces what TCP sends at this point over a link of this machine, which has no rate that
/// pacing could find.
pub(crate) fn is_paced(run: &Run, row: &PointRow) -> bool {
    let here = matches!(
        row.point.link.parse(),
        Ok(Link::Loopback | Link::Veth | Link::Sink)
    );
    let by_tcp = row.axes().find_word("over") == Some("tcp");
    let asked = row.axes().find_word("congestion_control");
    let mut launches = run.launches.iter().filter(|launch| {
        let mut points = launch.points.iter();
        points.any(|point| point.point == row.point)
    });
    let mut usual = || {
        launches.any(|launch| {
            let mut ends = launch.noise.ends.values();
            ends.any(|end| end.congestion_control.as_deref() == Some("bbr"))
        })
    };
    here && by_tcp && (asked == Some("bbr") || asked == Some("default") && usual())
}

/// What to do where it is, of all that crossovers were told from.
fn paced(run: &Run, rows: &[&PointRow], told: &[Finding]) -> Option<Finding> {
    let is_told = |row: &&&PointRow| {
        let mut evidence = told.iter().flat_map(|found| &found.evidence);
        evidence.any(|point| *point == row.point)
    };
    let paced = rows.iter().filter(is_told);
    let paced: Vec<&&PointRow> = paced.filter(|row| is_paced(run, row)).collect();
    let mut links: Vec<&str> = paced.iter().map(|row| &*row.point.link).collect();
    links.sort_unstable();
    links.dedup();
    (!links.is_empty()).then(|| Finding {
        kind: DISTURBED.into(),
        sentence: format!(
            "bbr paces what TCP sends over {}: the crossovers have the time in them that this takes, \
             which in a sink is most of it",
            links.join(", ")
        ),
        advice: Some("without it by --set congestion_control=reno".to_owned()),
        evidence: paced.iter().map(|row| row.point.clone()).collect(),
    })
}

/// From where on, as it stands behind what it is about.
pub(crate) fn words(crossover: Crossover) -> String {
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
        Crossover::Nowhere { up_to } => format!(" nowhere for certain up to {}", about(up_to)),
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

    /// CPU µs per message as they were found: two-copy, one-copy, zero-copy.
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
                 nowhere for certain up to 1MiB",
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
        let findings = send_crossover(&run);
        assert_eq!(findings.len(), 1);
        assert_eq!(
            findings[0].sentence,
            "12 of the 12 points by which ways of sending are compared are in no crossover, as others \
             used their processors"
        );
    }

    #[test]
    fn sends_that_had_no_room_to_go_without_a_copy_are_none_without() {
        let mut run = cold();
        for row in &mut run.points {
            let mut fallbacks = row.metrics[0].clone();
            (fallbacks.name, fallbacks.median) = ("fallbacks".into(), 0.001);
            row.metrics.push(fallbacks);
        }
        let told = send_crossover(&run);
        assert_eq!(told.len(), 3);
        for row in &mut run.points {
            if row.axes().find_word("primitive") == Some("zero_copy") {
                row.metrics[1].median = 1.0;
            }
        }
        let findings = send_crossover(&run);
        assert_eq!(findings.len(), 2);
        assert_eq!(findings[0], told[0]);
        assert_eq!(
            findings[1].sentence,
            "4 of the 12 points by which ways of sending are compared are in no crossover, as there \
             was no room to send without a copy (ENOBUFS)"
        );
    }

    #[test]
    fn a_paced_machine_says_so_once() {
        let mut run = cold();
        for row in &mut run.points {
            row.point.axes = row.point.axes.clone().with("over", "tcp");
            row.point.axes = row.point.axes.clone().with("congestion_control", "bbr");
        }
        let findings = send_crossover(&run);
        assert_eq!(findings.len(), 4);
        let last = &findings[3];
        assert!(
            last.sentence
                .starts_with("bbr paces what TCP sends over sink")
        );
        assert!(last.advice.as_ref().unwrap().contains("reno"));
        for row in &mut run.points {
            row.point.axes = row.point.axes.clone().with("congestion_control", "reno");
        }
        assert_eq!(send_crossover(&run).len(), 3);
    }

    #[test]
    fn threads_and_pages_are_circumstances_of_their_own() {
        let mut run = cold();
        let four = run.points.clone().into_iter().map(|mut row| {
            row.point.axes = row.point.axes.with("threads", 4);
            row
        });
        let four: Vec<PointRow> = four.collect();
        run.points.extend(four);
        let findings = send_crossover(&run);
        assert_eq!(findings.len(), 6);
        assert!(findings.iter().all(|found| found.evidence.len() == 8));
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
