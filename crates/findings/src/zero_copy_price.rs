//! What a send without a copy takes that one with copies does not, and what it saves: why it does not
//! always pay.

use crate::finding::Finding;
use crate::ratio::LogRatio;
use crate::send_crossover::{about, circumstances, comparable, groups};
use costof_model::point::Point;
use costof_model::rows::PointRow;
use costof_model::run_file::Run;
use costof_model::unit::Unit;

pub(crate) const KIND: &str = "zero_copy_price";
const TIME: &str = "cpu_sender";
/// The part of `copy.parts` that taking completions is, and the one that looking up and holding the
/// pages of a message is.
const REAP: &str = "reap";
const PAGES: &str = "plain_buffer";

/// A sentence for what the kernel copies after all, one for what it does not, and one for the parts.
pub(crate) fn zero_copy_price(run: &Run) -> Vec<Finding> {
    let (quiet, _) = comparable(run);
    let groups = groups(quiet.into_iter(), &["primitive", "size"]);
    let prices: Vec<Price> = groups
        .iter()
        .filter_map(|(common, group)| price(run, group, common))
        .collect();
    let mut findings: Vec<Finding> = [false, true]
        .into_iter()
        .filter_map(|is_copied| said_of(&prices, is_copied))
        .collect();
    if !findings.is_empty() {
        findings.extend(parts(run));
    }
    findings
}

/// What it takes at one kind of message over one link.
struct Price {
    is_copied: bool,
    said: String,
    evidence: Vec<Point>,
}

fn said_of(prices: &[Price], is_copied: bool) -> Option<Finding> {
    let such: Vec<&Price> = prices
        .iter()
        .filter(|price| price.is_copied == is_copied)
        .collect();
    let said: Vec<&str> = such.iter().map(|price| &*price.said).collect();
    let why = match is_copied {
        true => "pages are held and completions come, and the copy is made all the same, later",
        false => {
            "holding pages and taking completions has its price for the smallest message too, \
                  and a copy grows with the size"
        }
    };
    (!said.is_empty()).then(|| Finding {
        kind: KIND.into(),
        sentence: format!(
            "zero_copy instead of two_copy takes the sender, {}: {why}",
            said.join("; ")
        ),
        advice: None,
        evidence: such
            .iter()
            .flat_map(|price| price.evidence.clone())
            .collect(),
    })
}

/// A size, how many nanoseconds of processor time more a message takes, and whether that is sure.
struct More<'a> {
    size: u64,
    ns: f64,
    is_sure: bool,
    rows: [&'a PointRow; 2],
}

fn price(run: &Run, group: &[&PointRow], common: &Point) -> Option<Price> {
    let of = |primitive: &'static str| {
        let rows = group.iter().copied();
        rows.filter(move |row| row.axes().find_word("primitive") == Some(primitive))
    };
    let mut all: Vec<More<'_>> = of("zero_copy")
        .filter_map(|zero| {
            let size = zero.axes().find_number("size")?;
            let copying =
                of("two_copy").find(|row| row.axes().find_number("size") == Some(size))?;
            let ratio = LogRatio::of(run, zero, copying, TIME)?;
            let copying_ns = copying.estimate(TIME)?.median * size as f64 / 1024.0;
            // By the ratio within launches: the medians may be of different ones.
            Some(More {
                size,
                ns: copying_ns * (ratio.middle.exp() - 1.0),
                is_sure: ratio.low > 0.0 || ratio.high < 0.0,
                rows: [zero, copying],
            })
        })
        .collect();
    all.sort_by_key(|more| more.size);
    let (smallest, largest) = match all.as_slice() {
        [smallest, .., largest] => (smallest, largest),
        _ => return None,
    };
    let copied = largest.rows[0].estimate("copied");
    Some(Price {
        is_copied: copied.is_some_and(|copied| copied.median > 0.5),
        said: format!(
            "over {}{} {}, {}",
            common.link,
            circumstances(run, common),
            said(smallest),
            said(largest),
        ),
        evidence: [smallest, largest]
            .iter()
            .flat_map(|more| more.rows.map(|row| row.point.clone()))
            .collect(),
    })
}

/// `1.13 µs more at 4KiB`.
fn said(more: &More<'_>) -> String {
    let size = about(more.size as f64);
    let ns = Unit::Nanoseconds.display(more.ns.abs());
    match (more.is_sure, more.ns > 0.0) {
        (false, _) => format!("about as much at {size}"),
        (true, true) => format!("{ns} more at {size}"),
        (true, false) => format!("{ns} less at {size}"),
    }
}

/// What `copy.parts` says of it, where the run has it.
fn parts(run: &Run) -> Option<Finding> {
    let of = |part: &'static str| {
        run.points.iter().filter(move |row| {
            row.point.probe == "copy.parts" && row.axes().find_word("part") == Some(part)
        })
    };
    let cost = |row: &PointRow| Some(row.estimate("cost")?.median);
    let mut reaped: Vec<(u64, f64, &PointRow)> = of(REAP)
        .filter_map(|row| Some((row.axes().find_number("batch")?, cost(row)?, row)))
        .collect();
    reaped.sort_by_key(|(batch, ..)| *batch);
    let mut held: Vec<(u64, f64, &PointRow)> = of(PAGES)
        .filter_map(|row| Some((row.axes().find_number("size")?, cost(row)?, row)))
        .collect();
    held.sort_by_key(|(size, ..)| *size);
    let ns = |ns: f64| Unit::Nanoseconds.display(ns);
    let mut said = Vec::new();
    let batch = |batch: u64| match batch {
        1 => "alone".to_owned(),
        many => format!("in batches of {many}"),
    };
    if let (Some(least), Some(most)) = (reaped.first(), reaped.last()) {
        let one = format!("a completion {} {}", ns(least.1), batch(least.0));
        said.push(match least.0 == most.0 {
            true => one,
            false => format!("{one} to {} {}", ns(most.1), batch(most.0)),
        });
    }
    if let (Some(least), Some(most)) = (held.first(), held.last()) {
        let at = |(size, cost, _): &(u64, f64, &PointRow)| {
            format!("{} at {}", ns(*cost), about(*size as f64))
        };
        let one = format!("finding and holding pages {}", at(least));
        said.push(match least.0 == most.0 {
            true => one,
            false => format!("{one} to {}", at(most)),
        });
    }
    let evidence: Vec<Point> = [reaped.first(), reaped.last(), held.first(), held.last()]
        .into_iter()
        .flatten()
        .map(|(_, _, row)| row.point.clone())
        .collect();
    (!said.is_empty()).then(|| Finding {
        kind: KIND.into(),
        sentence: format!("of what asking for no copy takes: {}", said.join("; ")),
        advice: None,
        evidence,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory_sample::{launch, point_row, run};
    use crate::send_crossover::PROBE;
    use costof_model::axis::Axes;

    fn send(primitive: &'static str, kib: u64, ns_per_kib: f64, copied: f64) -> PointRow {
        let axes = Axes::default()
            .with("primitive", primitive)
            .with("size", kib << 10);
        let near = (0.98 * ns_per_kib, 1.02 * ns_per_kib);
        let mut row = point_row(PROBE, TIME, axes, ns_per_kib, near);
        let mut metric = row.metrics[0].clone();
        (metric.name, metric.median) = ("copied".into(), copied);
        row.metrics.push(metric);
        row.point.link = "sink".into();
        row
    }

    fn part(part: &'static str, axis: &'static str, value: u64, ns: f64) -> PointRow {
        let axes = Axes::default().with("part", part).with(axis, value);
        point_row("copy.parts", "cost", axes, ns, (ns, ns))
    }

    /// Of a run into the sink, cached messages on 4 KiB pages.
    #[test]
    fn what_it_takes_and_saves_is_told_at_the_smallest_and_the_largest() {
        let mut run = run(&[]);
        assert_eq!(zero_copy_price(&run), []);
        run.points = vec![
            send("two_copy", 4, 945.0, 0.0),
            send("two_copy", 64, 155.0, 0.0),
            send("two_copy", 1024, 101.0, 0.0),
            send("zero_copy", 4, 1294.0, 0.0),
            send("zero_copy", 64, 122.0, 0.0),
            send("zero_copy", 1024, 42.0, 0.0),
            part("reap", "batch", 1, 600.0),
            part("reap", "batch", 64, 12.0),
            part("plain_buffer", "size", 4096, 310.0),
            part("plain_buffer", "size", 64_000, 800.0),
        ];
        let found = zero_copy_price(&run);
        let sentences: Vec<&str> = found.iter().map(|found| &*found.sentence).collect();
        assert_eq!(
            sentences,
            [
                "zero_copy instead of two_copy takes the sender, over sink 1.40 µs more at 4KiB, \
                 60.4 µs less at 1MiB: holding pages and taking completions has its price for the \
                 smallest message too, and a copy grows with the size",
                "of what asking for no copy takes: a completion 600 ns alone to 12.0 ns in batches of \
                 64; finding and holding pages 310 ns at 4KiB to 800 ns at 63KiB",
            ]
        );
    }

    /// As on a machine that is slower in some launches.
    #[test]
    fn more_and_less_are_those_of_the_same_launches() {
        let mut run = run(&[]);
        let rows = [
            send("two_copy", 4, 100.0, 0.0),
            send("two_copy", 1024, 100.0, 0.0),
            send("zero_copy", 4, 90.0, 0.0),
            send("zero_copy", 1024, 150.0, 0.0),
        ];
        for slow in [1.0, 2.0, 3.0] {
            let cost = [100.0, 100.0, 120.0, 50.0].map(|cost| [(TIME, slow * cost)]);
            let points: Vec<_> = rows
                .iter()
                .zip(&cost)
                .map(|(row, of)| (row, &of[..]))
                .collect();
            launch(&mut run, &points);
        }
        run.points = rows.to_vec();
        let sentence = &zero_copy_price(&run)[0].sentence;
        assert!(
            sentence.contains("80.0 ns more at 4KiB, 51.2 µs less at 1MiB"),
            "{sentence}"
        );
    }

    #[test]
    fn a_copy_that_is_made_all_the_same_is_why() {
        let mut run = run(&[]);
        run.points = vec![
            send("two_copy", 4, 100.0, 0.0),
            send("two_copy", 1024, 100.0, 0.0),
            send("zero_copy", 4, 101.0, 1.0),
            send("zero_copy", 1024, 150.0, 1.0),
        ];
        let sentence = &zero_copy_price(&run)[0].sentence;
        assert!(
            sentence.contains("about as much at 4KiB, 51.2 µs more at 1MiB: pages are held"),
            "{sentence}"
        );
        assert!(
            sentence.ends_with("the copy is made all the same, later"),
            "{sentence}"
        );
    }
}
