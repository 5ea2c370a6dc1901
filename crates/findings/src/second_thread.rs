//! How much dearer calls on files are in a process with a second thread.

use crate::finding::{Finding, grade_by_others};
use crate::ratio::LogRatio;
use crate::send_crossover::groups;
use costof_model::noise::Grade;
use costof_model::rows::PointRow;
use costof_model::run_file::Run;

/// Calls that use a file, and what the sentence calls them.
const CALLS: [(&str, &str); 2] = [("read", "a read of 1 byte"), ("open", "an open and close")];

/// For each such call, two threads beside one.
pub(crate) fn second_thread(run: &Run) -> Vec<Finding> {
    let rows = run
        .points
        .iter()
        .filter(|row| row.point.probe == "os.syscall" && grade_by_others(row) <= Grade::B);
    groups(rows, &["threads"])
        .iter()
        .filter_map(|(common, rows)| {
            let call = common.axes.find_word("call")?;
            let (_, named) = CALLS.iter().find(|(known, _)| *known == call)?;
            found(run, named, rows)
        })
        .collect()
}

fn found(run: &Run, named: &str, rows: &[&PointRow]) -> Option<Finding> {
    let with = |threads| {
        let mut rows = rows.iter();
        rows.find(|row| row.axes().find_number("threads") == Some(threads))
    };
    let (one, two) = (with(1)?, with(2)?);
    let ratio = LogRatio::of(run, two, one, &one.primary)?;
    let more = |log: f64| 100.0 * log.exp_m1();
    if ratio.low <= 0.0 {
        return None;
    }
    Some(Finding {
        kind: "second_thread".into(),
        sentence: format!(
            "a second thread, which sleeps, makes {named} {:.0} % dearer ({:.0} to {:.0}): the kernel \
             then counts who uses a file, and the C library looks whether the call is to be cancelled",
            more(ratio.middle),
            more(ratio.low),
            more(ratio.high),
        ),
        advice: Some(
            "where small reads and writes are most of the work, several processes of one thread do \
             more than one of several"
                .to_owned(),
        ),
        evidence: vec![one.point.clone(), two.point.clone()],
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory_sample::{point_row, sentences};
    use costof_model::axis::Axes;

    fn row(call: &'static str, threads: u64, ns: f64) -> PointRow {
        let axes = Axes::default().with("call", call).with("threads", threads);
        point_row("os.syscall", "cost", axes, ns, (0.99 * ns, 1.01 * ns))
    }

    #[test]
    fn a_call_on_a_file_that_is_surely_dearer_is_told() {
        let told = sentences(
            second_thread,
            &[
                row("read", 1, 140.0),
                row("read", 2, 188.0),
                row("getppid", 1, 100.0),
                row("getppid", 2, 120.0),
                row("open", 1, 1000.0),
            ],
        );
        assert_eq!(
            told,
            [
                "a second thread, which sleeps, makes a read of 1 byte 34 % dearer (32 to 36): the \
                 kernel then counts who uses a file, and the C library looks whether the call is to \
                 be cancelled"
            ]
        );
    }

    #[test]
    fn what_may_be_no_difference_is_not() {
        for two in [90.0, 100.0, 101.0] {
            let rows = [row("read", 1, 100.0), row("read", 2, two)];
            assert!(sentences(second_thread, &rows).is_empty());
        }
    }
}
