//! What is printed: each benchmark's answer in one line, what limits it below, and what changed at the end.

use crate::benches::{Listed, Throughput};
use crate::options::Options;
use crate::record::Record;
use crate::worker::recorded;
use costof_model::comparison::Verdict;
use costof_model::noise::main_cause;
use costof_model::{
    Compared, Comparison, Grade, PointRow, Run, State, Unit, Warning, counted, harmless,
};
use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write as _};

/// A cost of fewer cycles of the core than this is that of the loop around the function.
const EMPTY_LOOP_CYCLES: f64 = 2.5;

/// Prints to standard output; a reader that has seen enough is no error.
pub(crate) fn print(text: &str) {
    let _ = io::stdout().write_all(text.as_bytes());
}

pub(crate) fn warn(text: &str) {
    let _ = writeln!(io::stderr(), "{}", harmless::lines(text));
}

/// Shows what is measured now, on a terminal; nothing after `""`.
pub(crate) fn progress(name: &str) {
    if io::stderr().is_terminal() {
        let what = if name.is_empty() { String::new() } else { format!("measuring {name} …") };
        let _ = write!(io::stderr(), "\r\x1b[K{}", harmless::text(&what));
    }
}

/// The answer of a benchmark: `NAME  COST (INTERVAL)  GRADE  RATE  CHANGE`, then what is doubtful.
pub(crate) fn benchmark(
    benchmark: &Listed,
    run: &Run,
    change: Option<&Compared>,
    width: usize,
) -> String {
    let point = recorded(&benchmark.name);
    let name = harmless::text(&benchmark.name);
    let Some(row) = run.points.iter().find(|row| row.point == point) else {
        let mut failures = run.failures.iter().filter(|failure| failure.point == point);
        let why =
            failures.next_back().map_or("no launch gave a number", |failure| &*failure.reason);
        return format!("{name:width$}  no number: {why}\n");
    };
    let mut text = format!("{name:width$}  {}", answer(row));
    if let (Some(throughput), Some(ns)) = (benchmark.throughput, row.median(&row.primary)) {
        let _ = write!(text, "  {}", rate(throughput, ns));
    }
    if let Some(change) = change {
        let _ = write!(text, "  {}", percent(change));
    }
    text.push('\n');
    for note in notes(row, run) {
        let _ = writeln!(text, "{:width$}  {note}", "");
    }
    text
}

fn answer(row: &PointRow) -> String {
    let Some(estimate) = row.primary() else {
        return "below the resolution of the clock".to_owned();
    };
    let cost = estimate.display();
    match estimate.usable_interval() {
        Some(interval) => {
            format!("{cost} ({})  {}", estimate.unit.display_range(interval), row.grade)
        }
        None => format!("{cost}  {}", row.grade),
    }
}

fn rate(throughput: Throughput, ns: f64) -> String {
    match throughput {
        Throughput::Bytes(bytes) => Unit::BytesPerSecond.display(bytes as f64 / ns * 1e9),
        Throughput::Elements(count) => {
            Unit::Hertz.display(count as f64 / ns * 1e9).replace("Hz", "elements/s")
        }
    }
}

/// `+5.2 % (+4.1 to +6.3)`.
fn percent(row: &Compared) -> String {
    let [ratio, low, high] = [row.ratio, row.ci95.0, row.ci95.1].map(change);
    format!("{ratio:+.1} % ({low:+.1} to {high:+.1})")
}

/// A ratio's change in percent, to a tenth. Adding zero makes a negative zero positive.
fn change(ratio: f64) -> f64 {
    (1000.0 * (ratio - 1.0)).round() / 10.0 + 0.0
}

/// What may be wrong with the number, each with what to do about it.
fn notes(row: &PointRow, run: &Run) -> Vec<String> {
    let mut notes = Vec::new();
    let cycles = row.median("estimated_core_cycles");
    if row.state == State::BelowResolution
        || cycles.is_some_and(|cycles| cycles < EMPTY_LOOP_CYCLES)
    {
        notes.push(
            "as cheap as an empty loop: if it should not be, the compiler removed the work (pass the input through `black_box`)"
                .to_owned(),
        );
    }
    if by_several(row, run) {
        notes.push(
            "several threads or processes did the work: only the CPU of the first is watched for neighbours".to_owned(),
        );
    }
    let failed = run.failures.iter().filter(|failure| failure.point == row.point);
    if let Some(last) = failed.clone().next_back() {
        let failed = counted(failed.count(), "launch");
        notes.push(format!("{failed} failed: {}", last.reason));
    }
    let doubt = row.worst_doubt().filter(|_| row.grade == Grade::D);
    notes.extend(doubt.map(|doubt| format!("D: {}: {}", doubt.what, own(&doubt.advice))));
    notes
}

/// Advice that names options of `costof run`, with those of this program.
fn own(advice: &str) -> String {
    const OPTIONS: [(&str, &str); 7] = [
        ("--until-alone 2m", "--budget 30s"),
        ("more often (--launches) or longer (--full)", "longer (--budget)"),
        ("--launches", "--budget"),
        ("--interleave", "--against"),
        ("--full makes more", "a longer --budget makes more"),
        ("--full", "--budget"),
        ("--cpu)", "taskset)"),
    ];
    let with = advice.replace("with --cpu", "with taskset");
    OPTIONS.iter().fold(with, |text, (theirs, own)| text.replace(theirs, own))
}

/// Whether in some launch other threads or children did more than a hundredth of the work.
fn by_several(row: &PointRow, run: &Run) -> bool {
    let given = run.launches_of(&row.point).flat_map(|launch| &launch.points);
    let mut metrics =
        given.filter(|given| given.point == row.point).flat_map(|given| &given.metrics);
    metrics.any(|metric| {
        let is_batched = matches!(metric.data, costof_model::metric::Data::Samples(_));
        metric.name == row.primary && is_batched && !metric.by_one_thread
    })
}

/// What changed, considering all benchmarks together, and where the result is.
pub(crate) fn conclusion(comparisons: &[Comparison], record: &Record, options: &Options) -> String {
    let rows: Vec<&Compared> = comparisons.iter().flat_map(|comparison| &comparison.rows).collect();
    let with = match (&options.against, &options.baseline) {
        (Some(program), _) => format!("{} in turns", program.display()),
        (None, Some(name)) => name.clone(),
        (None, None) => "the last run".to_owned(),
    };
    let mut text = doubts(&record.run);
    if !rows.is_empty() || options.against.is_some() || options.baseline.is_some() {
        let _ = write!(text, "\nAgainst {}: ", harmless::text(&with));
        let is_apart = comparisons.iter().any(|comparison| !comparison.in_turns);
        let changed: Vec<&&Compared> = rows.iter().filter(|row| row.verdict.is_change()).collect();
        match &changed[..] {
            [] if rows.is_empty() => text += "nothing could be compared\n",
            [] => text += &unchanged(&rows),
            changed => {
                let _ = writeln!(
                    text,
                    "{} of {} changed (at 95 % for all together)",
                    changed.len(),
                    rows.len()
                );
                for row in changed {
                    let _ =
                        writeln!(text, "  {} {}: {}", row.point.probe, percent(row), verdict(row));
                }
                if is_apart {
                    text += "  What the machine did at both times is part of that: --against takes turns with another build.\n";
                }
            }
        }
        if rows.iter().any(|row| row.clocks.is_some()) {
            text += "  Compared are cycles of the core: changes are those at equal clocks.\n";
        }
    }
    for refused in comparisons.iter().flat_map(|comparison| &comparison.refused) {
        let _ =
            writeln!(text, "  {} is not compared: {}", refused.point.probe, own(&refused.reason));
    }
    if record.error.is_none() {
        let _ = writeln!(text, "\n{}", record.path.display());
    }
    text
}

/// What gave most benchmarks their worst grade.
fn doubts(run: &Run) -> String {
    let doubtful = run.points.iter().filter(|row| row.grade >= Grade::C);
    let doubts: Vec<&Warning> = doubtful.filter_map(PointRow::worst_doubt).collect();
    let Some(cause) = main_cause(doubts.iter().copied()) else {
        return String::new();
    };
    let (doubtful, all) = (doubts.len(), run.points.len());
    format!("\nGrade C or D: {doubtful} of {all}. {}: {}\n", cause.what, own(&cause.advice))
}

fn unchanged(rows: &[&Compared]) -> String {
    let undecided = rows.iter().filter(|row| row.verdict == Verdict::CannotTell).count();
    let visible = rows.iter().map(|row| row.visible).fold(0.0, f64::max);
    let shown = match visible.is_finite() {
        true => format!("a change of {:.1} % would have been found in each", 100.0 * visible),
        false => "too few launches to find one".to_owned(),
    };
    let hint = match undecided {
        0 => "",
        _ => " (a longer --budget finds smaller ones, --against in turns is best)",
    };
    format!("no change found; {shown}{hint}\n")
}

fn verdict(row: &Compared) -> &'static str {
    match row.verdict {
        Verdict::Better => "faster",
        Verdict::Worse => "slower",
        _ => "differs, but a neighbour used the core: compare in turns (--against)",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use costof_model::testing::{row, run};

    #[test]
    fn a_function_as_cheap_as_an_empty_loop_gets_a_note() {
        let notes_at = |cycles| {
            let mut row = row("sum", Default::default(), 0.4);
            let mut estimate = costof_model::testing::estimate("estimated_core_cycles", cycles);
            estimate.unit = Unit::Cycles;
            row.metrics.push(estimate);
            notes(&row, &run(&[])).join("\n")
        };
        assert!(notes_at(1.0).contains("black_box"));
        assert!(!notes_at(30.0).contains("black_box"));
    }

    #[test]
    fn advice_names_options_that_this_program_has() {
        let advice = "more time (--until-alone 2m), a CPU (--cpu), or stop with --cpu";
        assert_eq!(own(advice), "more time (--budget 30s), a CPU (taskset), or stop with taskset");
        assert_eq!(
            own("measure more often (--launches) or longer (--full)"),
            "measure longer (--budget)"
        );
    }

    #[test]
    fn no_change_has_no_sign_of_a_loss() {
        assert_eq!(format!("{:+.1} {:+.1}", change(0.9999), change(0.9)), "+0.0 -10.0");
    }

    #[test]
    fn rates_are_shown_in_their_unit() {
        assert_eq!(rate(Throughput::Bytes(1000), 500.0), "2.00 GB/s");
        assert_eq!(rate(Throughput::Elements(1000), 500.0), "2.00 Gelements/s");
    }
}
