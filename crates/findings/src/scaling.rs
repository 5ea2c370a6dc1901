//! How much more the most threads get from memory than one, and how much dearer what they share
//! becomes. What several threads send is told by `thread_scaling`.

use crate::finding::{Finding, grade_by_others};
use crate::ratio::LogRatio;
use crate::send_crossover::{circumstances, groups};
use costof_model::noise::Grade;
use costof_model::point::Point;
use costof_model::rows::PointRow;
use costof_model::run_file::Run;
use costof_model::unit::Better;

/// The probes whose points differ in their threads.
const PROBES: [&str; 3] = ["memory.bandwidth", "sync.mutex", "sync.false_sharing"];

/// Where all threads get less than so many times what one gets, one gets nearly all.
const NEARLY_ALL: f64 = 1.1;

/// For each probe and circumstance, the most threads beside one; of several sizes at the largest, which
/// no cache of one processor holds.
pub(crate) fn scaling(run: &Run) -> Vec<Finding> {
    let rows = run
        .points
        .iter()
        .filter(|row| PROBES.contains(&&*row.point.probe) && grade_by_others(row) <= Grade::B);
    groups(rows, &["threads", "size", "pages"])
        .iter()
        .filter_map(|(_, rows)| {
            let sized = groups(rows.iter().copied(), &["threads"]);
            let size = |common: &Point| common.axes.find_number("size");
            let mut sized: Vec<_> = sized.iter().collect();
            // The sort is stable: of equally large ones the first stays first.
            sized.sort_by_key(|(common, _)| std::cmp::Reverse(size(common)));
            sized
                .iter()
                .find_map(|(common, group)| found(run, common, group))
        })
        .collect()
}

fn found(run: &Run, common: &Point, group: &[&PointRow]) -> Option<Finding> {
    let threads = |row: &PointRow| row.axes().find_number("threads");
    let one = group.iter().find(|row| threads(row) == Some(1))?;
    let most = group.iter().max_by_key(|row| threads(row))?;
    let count = threads(most).filter(|count| *count > 1)?;
    let ratio = LogRatio::of(run, most, one, &one.primary)?;
    let [low, middle, high] = [ratio.low, ratio.middle, ratio.high].map(f64::exp);
    let named = format!("{}{}", common.probe, circumstances(run, common));
    let sentence = match one.primary()?.better {
        Better::Higher => {
            let limit = match low > 1.0 {
                _ if high < 1.0 => ": less than one alone gets",
                false if high < NEARLY_ALL => ": one thread takes nearly all that there is",
                true if high < count as f64 => ": less than each would get alone",
                _ => "",
            };
            format!(
                "{count} threads get {middle:.2} times as much as one ({low:.2} to {high:.2}) by \
                 {named}, {:.0} % of {count} times{limit}",
                100.0 * middle / count as f64
            )
        }
        Better::Lower if low > 1.0 => format!(
            "with {count} threads each operation of {named} takes {middle:.1} times as long as with \
             one ({low:.1} to {high:.1}): what they share goes from one to the other"
        ),
        Better::Lower | Better::Neither => return None,
    };
    Some(Finding {
        kind: "scaling".into(),
        sentence,
        advice: None,
        evidence: vec![one.point.clone(), most.point.clone()],
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory_sample::{point_row, sentences};
    use costof_model::axis::Axes;

    fn row(probe: &'static str, threads: u64, value: f64, better: Better) -> PointRow {
        let axes = Axes::default().with("threads", threads);
        let mut row = point_row(probe, "answer", axes, value, (0.99 * value, 1.01 * value));
        row.metrics[0].better = better;
        row
    }

    fn bandwidth(threads: u64, value: f64) -> PointRow {
        row("memory.bandwidth", threads, value, Better::Higher)
    }

    #[test]
    fn more_threads_are_held_against_as_many_times_one() {
        let told = |two| sentences(scaling, &[bandwidth(1, 10.0), bandwidth(2, two)]);
        assert_eq!(
            told(15.0),
            [
                "2 threads get 1.50 times as much as one (1.48 to 1.52) by memory.bandwidth, 75 % of 2 \
                 times: less than each would get alone"
            ]
        );
        assert!(told(20.0)[0].ends_with("100 % of 2 times"));
        assert!(told(10.0)[0].ends_with("one thread takes nearly all that there is"));
        assert!(told(5.0)[0].ends_with("less than one alone gets"));
        let mut unsure = bandwidth(2, 12.0);
        unsure.metrics[0].ci95 = Some((8.0, 14.0));
        let told = sentences(scaling, &[bandwidth(1, 10.0), unsure]);
        assert!(told[0].ends_with("60 % of 2 times"), "{told:?}");
        assert!(sentences(scaling, &[bandwidth(1, 10.0)]).is_empty());
        assert!(sentences(scaling, &[bandwidth(2, 10.0)]).is_empty());
    }

    #[test]
    fn of_several_sizes_the_largest_is_told() {
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
        let told = sentences(scaling, &rows);
        assert_eq!(told.len(), 1);
        assert!(told[0].contains("1.20 times"), "{told:?}");
    }

    #[test]
    fn what_becomes_dearer_is_told_where_it_surely_does() {
        let mutex = |threads, ns| row("sync.mutex", threads, ns, Better::Lower);
        assert_eq!(
            sentences(scaling, &[mutex(1, 5.0), mutex(2, 50.0)]),
            [
                "with 2 threads each operation of sync.mutex takes 10.0 times as long as with one (9.9 \
                 to 10.1): what they share goes from one to the other"
            ]
        );
        assert!(sentences(scaling, &[mutex(1, 5.0), mutex(2, 5.0)]).is_empty());
    }
}
