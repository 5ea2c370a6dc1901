//! `costof compare`: what became better or worse from one run to another.

use crate::cli::CompareOptions;
use crate::error::{Error, wrong};
use crate::record;
use costof_measure::compare::{Metrics, compare};
use costof_model::comparison::{Comparison, Verdict};
use costof_model::run_file::Run;
use costof_model::unit::Better;
use costof_report::compare::compared;
use serde_json::json;
use std::io::{self, Write};
use std::process::ExitCode;

/// The exit code where something became worse by more than was allowed.
const WORSE: u8 = 1;

pub(crate) fn run(options: &CompareOptions) -> Result<ExitCode, Error> {
    let before = record::read(&options.before)?;
    let metrics = match options.all_metrics {
        true => Metrics::All,
        false => Metrics::Primary,
    };
    let mut output = io::stdout().lock();
    let (mut is_worse, mut is_compared) = (false, false);
    for path in &options.after {
        let after = record::read(path)?;
        let comparison = compare(&before, &after, metrics);
        let names = [&options.before, path].map(|path| path.display().to_string());
        if options.json {
            let [before, after] = names;
            let told = json!({"before": before, "after": after, "comparison": comparison});
            writeln!(output, "{told}")?;
        } else {
            writeln!(output, "{} → {}\n", names[0], names[1])?;
            writeln!(output, "{}", compared(&comparison, &after))?;
        }
        is_compared |= !comparison.rows.is_empty();
        is_worse |= options.threshold.is_some_and(|percent| {
            is_beyond(&comparison, percent) || has_lost(&comparison, &after)
        });
    }
    output.flush()?;
    if !is_compared {
        return Err(wrong(
            "nothing can be compared: the runs have no metric with three launches in common",
        ));
    }
    Ok(if is_worse {
        ExitCode::from(WORSE)
    } else {
        ExitCode::SUCCESS
    })
}

/// Whether something was to be measured again that has no number any more.
fn has_lost(comparison: &Comparison, after: &Run) -> bool {
    let mut planned = after.run.plan.blocks.iter().flat_map(|block| &block.points);
    planned.any(|point| comparison.only_before.contains(point))
}

/// Whether anything surely became worse by more than so many percent: a cost grew or a rate shrank by
/// them at the near end of its interval.
fn is_beyond(comparison: &Comparison, percent: f64) -> bool {
    let worse = comparison
        .rows
        .iter()
        .filter(|row| row.verdict == Verdict::Worse);
    worse.into_iter().any(|row| {
        let by = match row.better {
            Better::Higher => 1.0 - row.ci95.1,
            Better::Lower | Better::Neither => row.ci95.0 - 1.0,
        };
        by > percent / 100.0
    })
}
