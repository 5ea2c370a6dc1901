//! Finds the size from which on one way of sending beats another under the same circumstances.

use crate::crossover::{Crossover, compare};
use crate::noise;
use crate::prelude::*;
use crate::sends::{MORE_ROOM, PROBE, comparable, falls_back, is_paced};
use std::collections::HashSet;

/// The two ways of each comparison, and its kind of finding.
const PAIRS: [(&str, &str, Kind); 3] = [
    ("sendmsg", "copy_and_send", Kind::OneCopyCrossover),
    ("msg_zerocopy", "copy_and_send", Kind::ZeroCopyCrossover),
    ("msg_zerocopy", "sendmsg", Kind::ZeroCopyCrossover),
];
/// The metrics of the comparison, and what each is called.
const METRICS: [(&str, &str); 2] =
    [("cpu_sender", "the sender's CPU time"), ("throughput", "throughput")];

const TOO_WIDE: &str = "unknown by any metric, as the intervals are too wide (--full narrows them)";

/// The sizes from which on one way of sending beats another by a metric, under the same circumstances.
#[derive(Clone, Debug, PartialEq)]
pub struct SendCrossover {
    /// What the points share: the link, and all axes except `primitive` and `size`.
    pub common: Point,
    /// The way that is better from some size on.
    pub better: &'static str,
    /// The other way.
    pub other: &'static str,
    kind: Kind,
    /// The metric.
    pub metric: &'static str,
    /// The sizes.
    pub crossover: Crossover,
    /// The points that it follows from.
    pub evidence: Vec<Point>,
}

/// The crossovers of each pair of ways, for each link, kind of message and metric. Sizes at which the kernel
/// had no room to send without a copy are left out.
pub fn send_crossovers(run: &Run) -> Vec<SendCrossover> {
    let groups = comparable(run).group_by(&["primitive", "size"]);
    let pairs = groups.iter().flat_map(|group| PAIRS.map(|pair| (group, pair)));
    let each = pairs.flat_map(|(group, pair)| METRICS.map(|(metric, _)| (group, pair, metric)));
    let found = each.filter_map(|(group, pair, metric)| finding(run, group, pair, metric));
    found.collect()
}

/// A finding for each pair of ways, link and kind of message; and findings about the points that could not be
/// compared.
pub(crate) fn send_crossover(run: &Run) -> Vec<Finding> {
    let crossovers = send_crossovers(run);
    let same_pair = |one: &SendCrossover, next: &SendCrossover| {
        one.common == next.common && (one.better, one.other) == (next.better, next.other)
    };
    let is_unknown = |found: &SendCrossover| matches!(found.crossover, Crossover::Unknown { .. });
    let (unknown, known): (Vec<_>, Vec<_>) =
        crossovers.chunk_by(same_pair).partition(|by_metric| by_metric.iter().all(is_unknown));
    let mut findings: Vec<Finding> = known.iter().map(|found| by_pair(run, found)).collect();
    for (better, other, _) in PAIRS {
        let is_it =
            |found: &&&[SendCrossover]| (found[0].better, found[0].other) == (better, other);
        let unknown: Vec<&[SendCrossover]> = unknown.iter().filter(is_it).copied().collect();
        findings.extend(match unknown[..] {
            [] => None,
            [one] => Some(by_pair(run, one)),
            _ => Some(of_pair(run, &unknown, TOO_WIDE)),
        });
    }
    findings.extend(paced(run, &comparable(run), &findings));
    let is_compared = |row: &PointRow| {
        let mut pairs = PAIRS.iter().flat_map(|(better, other, _)| [*better, *other]);
        pairs.any(|wanted| row.is_at("primitive", wanted))
    };
    let all = run.select_any(PROBE).filter(is_compared);
    let used: HashSet<&Point> = crossovers.iter().flat_map(|found| &found.evidence).collect();
    let no_room = all.clone().filter(falls_back);
    let unused = |row: &PointRow| !row.is_sound() && !falls_back(row) && !used.contains(&row.point);
    let unsound = all.clone().filter(unused);
    let noise = noise::described(&unsound).unwrap_or_default();
    findings.extend(left_out(&unsound, all.len(), &noise));
    let room = "there was no room to send without a copy (ENOBUFS)";
    let no_room = left_out(&no_room, all.len(), room);
    findings.extend(no_room.map(|found| found.advise(MORE_ROOM)));
    findings
}

/// The points of `all` that were not compared for this reason.
fn left_out(rows: &Select<'_>, all: usize, reason: &str) -> Option<Finding> {
    let count = rows.len();
    let sentence = format!(
        "no crossover: {count} of the {all} points that compare ways of sending are not used: {reason}"
    );
    let is_any = !rows.is_empty() && all > 2;
    is_any.then(|| Finding::new(Kind::CrossoverDisturbed, rows.iter().copied(), sentence))
}

fn finding(
    run: &Run,
    group: &Group<'_>,
    (better, other, kind): (&'static str, &'static str, Kind),
    metric: &'static str,
) -> Option<SendCrossover> {
    let (crossover, rows) = compare(run, &group.rows, "primitive", (better, other), metric, 2)?;
    Some(SendCrossover {
        common: group.common.clone(),
        better,
        other,
        kind,
        metric,
        crossover,
        evidence: rows.iter().map(|row| row.point.clone()).collect(),
    })
}

/// One finding from the crossovers of a pair by all metrics.
fn by_pair(run: &Run, by_metric: &[SendCrossover]) -> Finding {
    let metrics = by_metric.iter().map(|found| {
        let name = METRICS.iter().find(|(metric, _)| *metric == found.metric);
        format!("by {} {}", name.map_or("", |(_, name)| name), found.crossover.text())
    });
    of_pair(run, &[by_metric], &metrics.collect::<Vec<_>>().join("; "))
}

/// A finding about a pair in these places, with what its crossovers are.
fn of_pair(run: &Run, places: &[&[SendCrossover]], crossovers: &str) -> Finding {
    let first = &places[0][0];
    let evidence = places.concat().into_iter().flat_map(|found| found.evidence);
    let places: Vec<String> = places.iter().map(|found| place(run, &found[0].common)).collect();
    let (better, other, places) = (first.better, first.other, places.join(", "));
    let sentence = format!("{better} beats {other} over {places}: {crossovers}");
    Finding::of_points(first.kind, evidence.collect(), sentence)
}

/// The points behind crossovers that BBR paces, and their links.
fn paced(run: &Run, rows: &Select<'_>, found: &[Finding]) -> Option<Finding> {
    let paced = rows.clone().filter(|row| {
        let mut evidence = found.iter().flat_map(|found| &found.evidence);
        evidence.any(|point| *point == row.point) && is_paced(run, row)
    });
    let mut links: Vec<&str> = paced.iter().map(|row| &*row.point.link).collect();
    links.sort_unstable();
    links.dedup();
    let sentence = format!(
        "bbr paces TCP over {}: the crossovers include that delay, which is most of the time in a sink",
        links.join(", ")
    );
    let advice = "`--set congestion_control=reno` measures without it";
    let found = || Finding::new(Kind::CrossoverDisturbed, paced, sentence).advise(advice);
    (!links.is_empty()).then(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{RowExt, add_metric, axes, begins, known_row, launch, reads, run, warn};
    use costof_model::{Better, Grade};

    /// A primitive's ns/KiB or B/s at a size, with an uncertainty of 2 %.
    fn row(primitive: &'static str, kib: u64, metric: &'static str, value: f64) -> PointRow {
        let axes = axes!(primitive, size = kib << 10, source = "cold");
        let mut row = known_row(PROBE, metric, axes, value, 0.02).over("sink");
        if metric == "throughput" {
            row.metrics[0].better = Better::Higher;
        }
        row
    }

    /// Measured CPU µs per message: two-copy, one-copy, zero-copy.
    const COLD: [(u64, f64, f64, f64); 4] = [
        (4, 1.41, 1.65, 3.57),
        (16, 3.31, 3.52, 3.99),
        (64, 10.1, 10.0, 7.1),
        (1024, 114.0, 124.0, 60.0),
    ];

    fn cold() -> Run {
        let mut run = run(&[]);
        for (kib, two, one, zero) in COLD {
            for (primitive, us) in
                [("copy_and_send", two), ("sendmsg", one), ("msg_zerocopy", zero)]
            {
                let ns_per_kib = us * 1000.0 / kib as f64;
                run.points.push(row(primitive, kib, "cpu_sender", ns_per_kib));
            }
        }
        run
    }

    #[test]
    fn the_crossover_of_real_sends_is_reported_with_its_interval() {
        let findings = send_crossover(&cold());
        reads!(&findings);
        assert_eq!(findings[1].evidence.len(), 8);
    }

    /// With 4 and 8 threads, the crossover is unknown, in one sentence.
    #[test]
    fn places_where_nothing_can_be_told_share_a_sentence() {
        let mut run = cold();
        for threads in [4, 8] {
            for primitive in ["copy_and_send", "sendmsg"] {
                for kib in [4, 64] {
                    let mut row = row(primitive, kib, "cpu_sender", 1000.0);
                    row.point.axes = row.point.axes.with("threads", threads);
                    row.metrics[0].ci95 = Some((500.0, 2000.0));
                    run.points.push(row);
                }
            }
        }
        let sentences: Vec<String> =
            send_crossover(&run).iter().map(|found| found.sentence.clone()).collect();
        assert_eq!(sentences.len(), 4, "{sentences:?}");
        begins(&sentences[3], "sendmsg beats copy_and_send over sink");
        assert!(sentences[3].contains(", sink"), "{sentences:?}");
        assert!(sentences[3].contains(": unknown by any metric"), "{sentences:?}");
    }

    #[test]
    fn other_links_and_metrics_are_distinguished() {
        let mut run = cold();
        for primitive in ["copy_and_send", "msg_zerocopy"] {
            for kib in [4, 64] {
                let row = row(primitive, kib, "throughput", 1e9).over("loopback");
                run.points.push(row);
            }
        }
        let findings = send_crossover(&run);
        assert_eq!(findings.len(), 4);
        reads!([&findings[3].sentence]);
    }

    #[test]
    fn sizes_that_noise_decides_do_not_count() {
        let mut run = cold();
        for row in &mut run.points {
            warn(row, "steal", Grade::D);
        }
        let findings = send_crossover(&run);
        reads!(&findings);
    }

    #[test]
    fn sends_that_took_turns_are_compared_on_a_busy_machine_too() {
        let mut run = cold();
        let quiet = send_crossover(&run);
        let rows = run.points.clone();
        for slow in [1.0, 4.0, 2.0, 3.0] {
            let values = rows.iter().map(|row| {
                let ns = row.median("cpu_sender").unwrap();
                [("cpu_sender", slow * ns)]
            });
            let values: Vec<_> = values.collect();
            let points: Vec<_> = rows.iter().zip(&values).collect();
            let points: Vec<_> = points.iter().map(|(row, of)| (*row, &of[..])).collect();
            launch(&mut run, &points);
        }
        for row in &mut run.points {
            warn(row, "steal", Grade::D);
        }
        let busy = send_crossover(&run);
        assert_eq!(busy.len(), 3, "nothing is left out");
        let kinds = |found: &[Finding]| found.iter().map(|it| it.kind).collect::<Vec<_>>();
        assert_eq!(kinds(&busy), kinds(&quiet));
        assert!(busy[1].sentence.contains("from about 26KiB on"));
        let all = noise::findings(&run);
        assert!(busy.iter().all(|found| all.contains(found)), "{all:#?}");
    }

    #[test]
    fn sends_that_had_no_room_to_go_without_a_copy_are_none_without() {
        let mut run = cold();
        for row in &mut run.points {
            add_metric(row, "fallbacks", 0.001);
        }
        let shown = send_crossover(&run);
        assert_eq!(shown.len(), 3);
        for row in &mut run.points {
            if row.axes().find_word("primitive") == Some("msg_zerocopy") {
                row.metrics[1].median = 1.0;
            }
        }
        let findings = send_crossover(&run);
        assert_eq!(findings.len(), 2);
        assert_eq!(findings[0], shown[0]);
        reads!([&findings[1].sentence]);
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
        begins(&last.sentence, "bbr paces TCP over sink");
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
        run.points.push(row("copy_and_send", 4, "cpu_sender", 100.0));
        run.points.push(row("msg_zerocopy", 4, "cpu_sender", 50.0));
        assert_eq!(send_crossover(&run), []);
        run.points.push(row("msg_zerocopy", 64, "cpu_sender", 50.0));
        assert_eq!(send_crossover(&run), []);
    }

    #[test]
    fn sizes_have_two_digits_or_those_that_were_measured() {
        let sizes =
            [64.0, 1024.0, 1500.0, 24_986.0, 131_072.0, 130_000.0, 1_048_576.0, 16_777_216.0];
        let written = sizes.map(crate::text::size);
        let expected = ["64B", "1KiB", "1.5KiB", "24KiB", "128KiB", "130KiB", "1MiB", "16MiB"];
        assert_eq!(written, expected);
    }
}
