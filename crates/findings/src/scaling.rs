//! How much more throughput the largest number of threads gets from memory than one thread, and how much more
//! expensive shared data becomes. `thread_scaling` compares threads that send.

use crate::Kind;
use crate::figures::{Value, figures, percent};
use crate::finding::Finding;
use crate::interval::Interval;
use crate::naming::circumstances;
use costof_model::run_file::Run;
use costof_model::select::Group;
use costof_model::unit::Better;
use std::cmp::Reverse;

pub(crate) const SENTENCES: &str = r#"
[scaling]
sentence = "[{threads} threads get {middle} times as much as one ({low} to {high}) by {what}, {efficiency} % of {threads} times][{longer}with {threads} threads each operation of {what} takes {middle} times as long as with one ({low} to {high}), because what they share moves between them][: {limit}]"
"#;

/// The probes with points that differ in their number of threads.
const PROBES: [&str; 3] = ["memory.bandwidth", "sync.mutex", "sync.false_sharing"];

/// If all threads together get less than this many times what one gets, one thread gets nearly everything.
const NEARLY_ALL: f64 = 1.1;

/// For each probe and circumstance, compares the largest number of threads with one. Of several sizes it
/// takes the largest, which no cache of one CPU holds.
pub(crate) fn scaling(run: &Run) -> Vec<Finding> {
    let rows = run.select_all();
    let rows = rows.filter(|row| PROBES.contains(&&*row.point.probe));
    let groups = rows.group_by(&["threads", "size", "pages"]).into_iter();
    let largest = groups.filter_map(|group| {
        let mut sized = group.rows.group_by(&["threads"]);
        // The sort is stable, so of equally large groups the first comes first.
        sized.sort_by_key(|group| Reverse(group.common.axes.find_number("size")));
        sized.iter().find_map(|group| found(run, group))
    });
    largest.collect()
}

fn found(run: &Run, group: &Group<'_>) -> Option<Finding> {
    let by_threads = group.rows.clone().by_number("threads");
    let (_, one) = *by_threads.iter().find(|(threads, _)| *threads == 1)?;
    let (count, most) = *by_threads.last().filter(|(threads, _)| *threads > 1)?;
    let Interval { low, middle, high } = Interval::log_ratio(run, most, one, &one.primary)?.exp();
    let better = one.primary()?.better;
    let gets_more = better == Better::Higher;
    let takes_longer = better == Better::Lower && low > 1.0;
    if !gets_more && !takes_longer {
        return None;
    }
    let digits = if gets_more { 2 } else { 1 };
    let limit = match low > 1.0 {
        _ if !gets_more => None,
        _ if high < 1.0 => Some("less than one alone gets"),
        false if high < NEARLY_ALL => Some("one thread takes nearly all that there is"),
        true if high < count as f64 => Some("less than each would get alone"),
        _ => None,
    };
    let figures = figures()
        .with("threads", count)
        .with(
            "what",
            format!(
                "{}{}",
                group.common.probe,
                circumstances(run, &group.common)
            ),
        )
        .interval(Interval { low, middle, high }, |times| {
            Value::Decimal(times, digits)
        })
        .maybe(
            "efficiency",
            gets_more.then(|| percent(middle / count as f64)),
        )
        .maybe("limit", limit)
        .when("longer", !gets_more);
    Some(Finding::new(Kind::Scaling, [one, most], figures))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{axes, contains, ends, known_row, sentences};
    use costof_model::rows::PointRow;

    fn row(probe: &'static str, threads: u64, value: f64, better: Better) -> PointRow {
        let axes = axes!(threads);
        let mut row = known_row(probe, "answer", axes, value, 0.01);
        row.metrics[0].better = better;
        row
    }

    fn bandwidth(threads: u64, value: f64) -> PointRow {
        row("memory.bandwidth", threads, value, Better::Higher)
    }

    #[test]
    fn more_threads_are_held_against_as_many_times_one() {
        let shown = |two| sentences(scaling, &[bandwidth(1, 10.0), bandwidth(2, two)]);
        assert_eq!(
            shown(15.0),
            [
                "2 threads get 1.50 times as much as one (1.48 to 1.52) by memory.bandwidth, 75 % of 2 times: less than each would get alone"
            ]
        );
        assert!(shown(20.0)[0].ends_with("100 % of 2 times"));
        assert!(shown(10.0)[0].ends_with("one thread takes nearly all that there is"));
        assert!(shown(5.0)[0].ends_with("less than one alone gets"));
        let mut unsure = bandwidth(2, 12.0);
        unsure.metrics[0].ci95 = Some((8.0, 14.0));
        let shown = sentences(scaling, &[bandwidth(1, 10.0), unsure]);
        ends(&shown[0], "60 % of 2 times");
        assert!(sentences(scaling, &[bandwidth(1, 10.0)]).is_empty());
        assert!(sentences(scaling, &[bandwidth(2, 10.0)]).is_empty());
    }

    #[test]
    fn of_several_sizes_the_largest_is_reported() {
        let sized = |size: u64, threads, value| {
            let mut row = bandwidth(threads, value);
            row.point.axes = row.point.axes.clone().with("size", size);
            row
        };
        let rows = [
            sized(64, 1, 10.0),
            sized(64, 2, 20.0),
            sized(4096, 1, 10.0),
            sized(4096, 2, 12.0),
        ];
        let shown = sentences(scaling, &rows);
        assert_eq!(shown.len(), 1);
        contains(&shown[0], "1.20 times");
    }

    #[test]
    fn what_becomes_dearer_is_reported_where_it_surely_does() {
        let mutex = |threads, ns| row("sync.mutex", threads, ns, Better::Lower);
        assert_eq!(
            sentences(scaling, &[mutex(1, 5.0), mutex(2, 50.0)]),
            [
                "with 2 threads each operation of sync.mutex takes 10.0 times as long as with one (9.9 to 10.1), because what they share moves between them"
            ]
        );
        assert!(sentences(scaling, &[mutex(1, 5.0), mutex(2, 5.0)]).is_empty());
    }
}
