//! What a send without a copy costs in addition, and what it saves: why it does not always pay off.

use crate::prelude::*;
use crate::sends::comparable;

const TIME: &str = "cpu_sender";

/// A finding about the sends that the kernel copies after all, one about the others, and one about their completions.
pub(crate) fn zero_copy_price(run: &Run) -> Vec<Finding> {
    let groups = comparable(run).group_by(&["primitive", "size"]);
    let prices: Vec<Price<'_>> = groups.iter().filter_map(|group| price(run, group)).collect();
    let found = [false, true].into_iter();
    let mut findings: Vec<Finding> = found.filter_map(|copied| found_of(&prices, copied)).collect();
    if !findings.is_empty() {
        findings.extend(completions(run));
    }
    findings
}

/// The price for one kind of message over one link.
struct Price<'a> {
    is_copied: bool,
    text: String,
    rows: Vec<&'a PointRow>,
}

fn found_of(prices: &[Price<'_>], is_copied: bool) -> Option<Finding> {
    let such = || prices.iter().filter(|price| price.is_copied == is_copied);
    let why = match is_copied {
        true => "pages are held, completions are handled, and the kernel still copies later",
        false => {
            "holding pages and handling completions cost something even for the smallest message, while a \
                  copy grows with the size"
        }
    };
    let places: Vec<&str> = such().map(|price| &*price.text).collect();
    let all = places.join("; ");
    let sentence =
        format!("compared with copy_and_send, msg_zerocopy takes the sender {all}: {why}");
    let evidence = such().flat_map(|price| price.rows.iter().copied());
    (!places.is_empty()).then(|| Finding::new(Kind::ZeroCopyPrice, evidence, sentence))
}

/// A size, how much more CPU time a message takes, and whether that is sure.
struct More<'a> {
    size: u64,
    ns: f64,
    is_sure: bool,
    rows: [&'a PointRow; 2],
}

impl More<'_> {
    fn text(&self) -> String {
        let (time, size) = (ns(self.ns.abs()), size(self.size as f64));
        match (self.is_sure, self.ns > 0.0) {
            (false, _) => format!("about as much at {size}"),
            (true, true) => format!("{time} more at {size}"),
            (true, false) => format!("{time} less at {size}"),
        }
    }
}

fn price<'a>(run: &Run, group: &Group<'a>) -> Option<Price<'a>> {
    let pairs = pairs(&group.rows, "size", "primitive", ("msg_zerocopy", "copy_and_send"));
    let all = pairs.iter().filter_map(|pair| {
        let ratio = Interval::log_ratio(run, pair.row, pair.other, TIME)?;
        let copying_ns = pair.other.median(TIME)? * pair.number as f64 / 1024.0;
        // Uses the ratio within launches, since the medians may come from different launches.
        Some(More {
            size: pair.number,
            ns: copying_ns * (ratio.middle.exp() - 1.0),
            is_sure: ratio.differs(),
            rows: [pair.row, pair.other],
        })
    });
    let all: Vec<More<'_>> = all.collect();
    let [smallest, .., largest] = all.as_slice() else {
        return None;
    };
    Some(Price {
        is_copied: largest.rows[0].counted("copied") > Some(0.5),
        text: format!("{}, {} over {}", smallest.text(), largest.text(), place(run, &group.common)),
        rows: [smallest.rows, largest.rows].concat(),
    })
}

/// The measurement of `copy.parts` of taking completions, if the run has it.
fn completions(run: &Run) -> Option<Finding> {
    let reaped = run.select("copy.parts").with_value("part", "reap");
    let reaped = reaped.filter(|row| row.estimate("cost").is_some());
    let reaped = ends(reaped.by_number("batch"));
    let cost = |(count, row): &(u64, &PointRow)| {
        let cost = ns(row.median("cost").unwrap_or(0.0));
        match count {
            1 => format!("{cost} alone"),
            many => format!("{cost} in batches of {many}"),
        }
    };
    let (least, most) = (reaped.first()?, reaped.last()?);
    let last = (most.0 > least.0).then(|| format!(" to {}", cost(most)));
    let sentence =
        format!("a part of this cost: a completion {}{}", cost(least), last.unwrap_or_default());
    let evidence = reaped.iter().map(|(_, row)| *row);
    Some(Finding::new(Kind::ZeroCopyPrice, evidence, sentence))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sends::PROBE;
    use crate::tests::{add_metric, axes, contains, launch, point_row, reads, run};

    fn send(primitive: &'static str, kib: u64, ns_per_kib: f64, copied: f64) -> PointRow {
        let axes = axes!(primitive, size = kib << 10);
        let near = (0.98 * ns_per_kib, 1.02 * ns_per_kib);
        let mut row = point_row(PROBE, TIME, axes, ns_per_kib, near);
        add_metric(&mut row, "copied", copied);
        row.point.link = "sink".into();
        row
    }

    fn reap(batch: u64, ns: f64) -> PointRow {
        let axes = axes!(part = "reap").with("batch", batch);
        point_row("copy.parts", "cost", axes, ns, (ns, ns))
    }

    /// From a run into the sink: cached messages on 4 KiB pages.
    #[test]
    fn what_it_takes_and_saves_is_reported_at_the_smallest_and_the_largest() {
        let mut run = run(&[]);
        assert_eq!(zero_copy_price(&run), []);
        run.points = vec![
            send("copy_and_send", 4, 945.0, 0.0),
            send("copy_and_send", 64, 155.0, 0.0),
            send("copy_and_send", 1024, 101.0, 0.0),
            send("msg_zerocopy", 4, 1294.0, 0.0),
            send("msg_zerocopy", 64, 122.0, 0.0),
            send("msg_zerocopy", 1024, 42.0, 0.0),
            reap(1, 600.0),
            reap(64, 12.0),
        ];
        let found = zero_copy_price(&run);
        reads!(&found);
    }

    /// As on a machine that is slower in some launches.
    #[test]
    fn more_and_less_are_those_of_the_same_launches() {
        let mut run = run(&[]);
        let rows = [
            send("copy_and_send", 4, 100.0, 0.0),
            send("copy_and_send", 1024, 100.0, 0.0),
            send("msg_zerocopy", 4, 90.0, 0.0),
            send("msg_zerocopy", 1024, 150.0, 0.0),
        ];
        for slow in [1.0, 2.0, 3.0] {
            let cost = [100.0, 100.0, 120.0, 50.0].map(|cost| [(TIME, slow * cost)]);
            let points: Vec<_> = rows.iter().zip(&cost).map(|(row, of)| (row, &of[..])).collect();
            launch(&mut run, &points);
        }
        run.points = rows.to_vec();
        let sentence = zero_copy_price(&run)[0].sentence.clone();
        contains(&sentence, "80.0 ns more at 4KiB, 51.2 µs less at 1MiB");
    }

    #[test]
    fn a_copy_that_is_made_all_the_same_is_why() {
        let mut run = run(&[]);
        run.points = vec![
            send("copy_and_send", 4, 100.0, 0.0),
            send("copy_and_send", 1024, 100.0, 0.0),
            send("msg_zerocopy", 4, 101.0, 1.0),
            send("msg_zerocopy", 1024, 150.0, 1.0),
        ];
        let sentence = zero_copy_price(&run)[0].sentence.clone();
        contains(&sentence, "4KiB, 51.2 µs more at 1MiB");
        contains(&sentence, "copies later");
    }
}
