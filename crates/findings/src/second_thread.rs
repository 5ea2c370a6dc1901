//! How much more file operations cost in a process with a second thread.

use crate::Kind;
use crate::figures::{Value, figures};
use crate::finding::Finding;
use crate::interval::Interval;
use costof_model::run_file::Run;
use costof_model::select::Group;

pub(crate) const SENTENCES: &str = r#"
[second_thread]
sentence = "a second thread, which sleeps, makes {call} {middle} % more expensive ({low} to {high}): the kernel then counts the users of each file, and the C library checks for cancellation"
advice = "if small reads and writes are most of the work, several single-threaded processes do more than one with several threads"
"#;

/// Calls that use a file, and their names in a sentence.
const CALLS: [(&str, &str); 2] = [("read", "a read of 1 byte"), ("open", "an open and close")];

/// For each such call, compares two threads with one.
pub(crate) fn second_thread(run: &Run) -> Vec<Finding> {
    let calls = run.select("os.syscall");
    let calls = calls.group_by(&["threads"]).into_iter();
    calls.filter_map(|group| found(run, group)).collect()
}

fn found(run: &Run, group: Group<'_>) -> Option<Finding> {
    let call = group.common.axes.find_word("call")?;
    let (_, named) = CALLS.iter().find(|(known, _)| *known == call)?;
    let with = |threads: u64| group.rows.clone().at("threads", threads).one();
    let (one, two) = (with(1)?, with(2)?);
    let ratio = Interval::log_ratio(run, two, one, &one.primary)?;
    let more = |log: f64| Value::Decimal(100.0 * log.exp_m1(), 0);
    let figures = figures().with("call", *named).interval(ratio, more);
    (ratio.low > 0.0).then(|| Finding::new(Kind::SecondThread, [one, two], figures))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{axes, known_row, sentences};
    use costof_model::rows::PointRow;

    fn row(call: &'static str, threads: u64, ns: f64) -> PointRow {
        let axes = axes!(call, threads);
        known_row("os.syscall", "cost", axes, ns, 0.01)
    }

    #[test]
    fn a_call_on_a_file_that_is_surely_dearer_is_reported() {
        let shown = sentences(
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
            shown,
            [
                "a second thread, which sleeps, makes a read of 1 byte 34 % more expensive (32 to 36): the kernel then counts the users of each file, and the C library checks for cancellation"
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
