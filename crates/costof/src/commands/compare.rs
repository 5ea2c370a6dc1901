//! `costof compare`: finds what became better or worse from one run to another, or differs between two hosts.

use super::interleave;
use crate::cli::{CompareOptions, RunOptions};
use crate::error::{Done, Error, Result, bail, gated, rules, wrong};
use crate::history::LastTwo;
use crate::record::{self, Table};
use crate::terminal::{line_columns, log, output, printable};
use crate::{files, history};
use costof_measure::compare::{self as groups, MATTERS, Metrics, compare};
use costof_model::{Comparison, Run};
use costof_report::check::{Rules, Suite};
use costof_report::compare::outcome::Outcome;
use costof_report::compare::summary::summary;
use costof_report::compare::{Side, compared, why_nothing};
use costof_report::names::points_counted;
use costof_report::page;
use costof_report::run::absent;
use costof_report::text::wrapped;
use serde_json::json;
use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Path, PathBuf};

pub(crate) fn run(table: Table, options: &CompareOptions) -> Done {
    let rules = rules(&options.gate, &options.required, table)?;
    if !options.interleave.is_empty() {
        return compare_hosts(table, options, rules);
    }
    match groups(options)? {
        Some(sides) => compare_groups(table, options, rules, &sides),
        None => compare_files(table, options, rules),
    }
}

/// What is given of each of two groups of runs: either the words on both sides of --with, or two words of which one is a
/// folder of several runs. `None` if single runs are compared.
fn groups(options: &CompareOptions) -> Result<Option<[&[PathBuf]; 2]>> {
    let sides = match &options.what[..] {
        what if !options.with.is_empty() => [what, &options.with],
        [old, new] if old.is_dir() || new.is_dir() => {
            [std::slice::from_ref(old), std::slice::from_ref(new)]
        }
        _ => return Ok(None),
    };
    let several = sides.iter().map(|side| Ok(record::files(side)?.len() > 1));
    let several: Vec<bool> = several.collect::<Result<_>>()?;
    Ok(several.contains(&true).then_some(sides))
}

/// Compares two groups of runs. Their launches are not read.
fn compare_groups(
    table: Table,
    options: &CompareOptions,
    rules: Rules,
    given: &[&[PathBuf]; 2],
) -> Done {
    if options.all_metrics {
        bail!(
            "--all-metrics compares two runs: groups are compared by the metric of each probe's question"
        );
    }
    let [(old_files, old), (new_files, new)] =
        [record::many(given[0], table)?, record::many(given[1], table)?];
    check_page(options, old_files.iter().chain(&new_files))?;
    let identity = |run: &Run| (run.run.id.clone(), run.run.started.clone(), run.host_name());
    let first: BTreeSet<_> = old.iter().map(identity).collect();
    let both = new.iter().find(|run| first.contains(&identity(run)));
    if let Some(run) = both {
        bail!("the run {} is on both sides: name each run once", printable(&run.run.id));
    }
    let (Some(first), Some(last)) = (old.last(), new.last()) else {
        bail!("a side has no run");
    };
    let names = given.map(|side| match side {
        [only] => printable(only.display()),
        several => format!("{} and {} more", printable(several[0].display()), several.len() - 1),
    });
    let comparison = groups::compare_groups(&old, &new, matters(options));
    let sides = [Side { name: &names[0], run: first }, Side { name: &names[1], run: last }];
    let mut shown = Shown::new(options, rules);
    shown.show(&[Pair { files: names.clone(), sides, comparison }])?;
    shown.end()
}

/// Compares existing runs: each later one with the first.
fn compare_files(table: Table, options: &CompareOptions, rules: Rules) -> Done {
    let given: Vec<PathBuf> = options.what.iter().chain(&options.with).cloned().collect();
    let files = match given.as_slice() {
        [] => last_two(table)?,
        [only] if !only.is_dir() => {
            record::read(only, table)?;
            bail!(
                "{} is the only run: name a second one, AFTER, to compare with it (@1 is the latest run, `costof runs` lists all)",
                only.display()
            )
        }
        files => record::files(files)?,
    };
    check_page(options, files.iter())?;
    if options.html.is_some() && files.len() > 2 {
        bail!("--html writes the page of two runs; `costof fleet RUNS --html` writes one of many");
    }
    let runs =
        files.iter().map(|path| record::read(path, table)).collect::<Result<Vec<Run>, _>>()?;
    let names: Vec<String> = files.iter().map(|path| printable(path.display())).collect();
    let sides: Vec<Side<'_>> =
        (names.iter().zip(&runs)).map(|(name, run)| Side { name, run }).collect();
    let mut shown = Shown::new(options, rules);
    let pairs = sides.iter().skip(1).map(|new| {
        let sides = [sides[0], *new];
        let files = sides.map(|side| side.name.to_owned());
        Pair { files, sides, comparison: compared_with(options, sides[0].run, new.run) }
    });
    shown.show(&pairs.collect::<Vec<_>>())?;
    shown.end()
}

/// The latest run, and the run before it that has most in common with it. This reports which one that is.
fn last_two(table: Table) -> Result<Vec<PathBuf>> {
    let LastTwo { files, number, common: [common, all] } = history::last_two(table)?;
    log(format!(
        "comparing @{number} with @1: it has {common} of the {} of @1",
        points_counted(all)
    ));
    Ok(files.to_vec())
}

/// Measures two hosts, and compares the second with the first.
fn compare_hosts(table: Table, options: &CompareOptions, rules: Rules) -> Done {
    // The path of the page is checked before anything is measured.
    let run_options = run_options(options)?;
    let planned = run_options.out.as_deref().map(interleave::files_in);
    check_page(options, planned.iter().flatten())?;
    let records = interleave::measure(table, &run_options)?;
    let [old, new] = records.each_ref().map(|record| &record.run);
    let paths = records.each_ref().map(|record| record.path());
    let mut shown = Shown::new(options, rules);
    let names = [0, 1].map(|side| printable(&run_options.on[side]));
    let side = |at: usize, run| Side { name: &names[at], run };
    let files = paths.map(|path| printable(path.display()));
    let pair = Pair {
        files: files.clone(),
        sides: [side(0, old), side(1, new)],
        comparison: compared_with(options, old, new),
    };
    shown.show(&[pair])?;
    if shown.has_text() {
        let mut output = output();
        for (name, run) in names.iter().zip([old, new]) {
            let absent = absent(run);
            if !absent.is_empty() {
                writeln!(output, "On {name}:{absent}")?;
            }
        }
        writeln!(output, "The runs are in {} and {}", files[0], files[1])?;
    }
    check_page(options, paths.into_iter())?;
    shown.end()
}

/// The options of `costof run` for measuring two hosts.
fn run_options(options: &CompareOptions) -> Result<RunOptions> {
    let probe = |word: &PathBuf| {
        let word = word.to_str().map(str::to_owned);
        word.ok_or_else(|| wrong("a probe's name is text"))
    };
    let out = options.out.clone();
    files::refuse_standard_output(out.as_deref(), "--out names a folder for both runs")?;
    if let Some(folder) = out.as_ref().filter(|out| out.exists() && !out.is_dir()) {
        bail!("{} is a file: with two hosts, --out names a folder for both runs", folder.display());
    }
    Ok(RunOptions {
        probes: options.what.iter().map(probe).collect::<Result<_, _>>()?,
        chosen: options.chosen.clone(),
        remote: options.remote.clone(),
        on: options.interleave.clone(),
        ..RunOptions::new(options.measuring.clone(), out)
    })
}

/// Checks that neither the page nor the file for a pipeline overwrites one of these runs or the other.
fn check_page(
    options: &CompareOptions,
    runs: impl Iterator<Item = impl AsRef<Path>>,
) -> Result<()> {
    let outputs = [options.html.as_deref(), options.gate.junit.as_deref()];
    files::check_outputs(&outputs, options.json || options.summary, runs).map(drop)
}

/// The smallest change that matters, as a share.
fn matters(options: &CompareOptions) -> f64 {
    options.threshold.map_or(MATTERS, |percent| percent / 100.0)
}

/// Compares two runs.
fn compared_with(options: &CompareOptions, before: &Run, after: &Run) -> Comparison {
    let metrics = if options.all_metrics { Metrics::All } else { Metrics::Primary };
    compare(before, after, metrics, matters(options))
}

/// Two sides, their names in JSON, and their comparison.
struct Pair<'a> {
    files: [String; 2],
    sides: [Side<'a>; 2],
    comparison: Comparison,
}

/// The output so far.
struct Shown<'a> {
    options: &'a CompareOptions,
    rules: Rules,
    /// The page, if one is wanted.
    page: Option<String>,
    /// With a threshold, the outcome of each later run compared with the first; if there are several, with
    /// the run's name.
    outcomes: Vec<(Option<String>, Outcome)>,
    is_compared: bool,
    /// Why a pair of runs has no row.
    why_nothing: Option<String>,
    /// The lines of JSON, or of the summaries.
    lines: String,
}

impl Shown<'_> {
    fn new(options: &CompareOptions, rules: Rules) -> Shown<'_> {
        Shown {
            options,
            rules,
            page: None,
            outcomes: Vec::new(),
            is_compared: false,
            why_nothing: None,
            lines: String::new(),
        }
    }

    /// Shows pairs of sides, each row by row.
    fn show(&mut self, pairs: &[Pair<'_>]) -> Result<()> {
        for Pair { files, sides: [before, after], comparison } in pairs {
            self.note(comparison, before.run, after.run);
            let outcome = Outcome::new(after.name, comparison, after.run, &self.rules);
            if self.options.html.is_some() {
                self.page = Some(page::comparison::page(*before, *after, comparison, &outcome));
            }
            let name = (pairs.len() > 1).then(|| after.name.to_owned());
            self.add(files, comparison, name, (after.run, outcome))?;
        }
        if self.options.summary && !self.options.json {
            self.say_outcomes()?;
        }
        let mut output = output();
        output.write_all(self.lines.as_bytes())?;
        if !self.has_text() {
            return Ok(output.flush()?);
        }
        self.say_outcomes()?;
        for Pair { sides: [before, after], comparison, .. } in pairs {
            let names = format!("{} → {}", before.name, after.name);
            writeln!(output, "{}", wrapped(line_columns(), &names, ""))?;
            let text = compared(comparison, after.run, self.options.all, line_columns());
            writeln!(output, "{text}")?;
        }
        Ok(output.flush()?)
    }

    /// Whether the rows are printed as text: neither JSON nor a page is on standard output.
    fn has_text(&self) -> bool {
        let html = self.options.html.as_deref();
        !self.options.json && !self.options.summary && !html.is_some_and(files::is_standard_output)
    }

    /// Notes whether a comparison has rows, or why it has none.
    fn note(&mut self, comparison: &Comparison, before: &Run, after: &Run) {
        if comparison.rows.is_empty() {
            let why = || why_nothing(comparison, before, after);
            self.why_nothing = self.why_nothing.take().or_else(why);
        } else {
            self.is_compared = true;
        }
    }

    /// Checks that at least one row could be compared.
    ///
    /// # Errors
    /// Why there is none. The input is wrong if it has no point in common; otherwise noise or a failure is the reason.
    fn check_compared(&self) -> Result<()> {
        if self.is_compared {
            return Ok(());
        }
        let why = self.why_nothing.as_deref();
        let text = why.unwrap_or("the runs have no point in common");
        let text = format!("nothing can be compared: {text}");
        Err(if why.is_some() { Error::Nothing(text) } else { Error::Wrong(text) })
    }

    /// Adds a comparison to the outcomes and the JSON. If there are several later runs, `name` is that of
    /// this one.
    fn add(
        &mut self,
        [before, after]: &[String; 2],
        comparison: &Comparison,
        name: Option<String>,
        (run, outcome): (&Run, Outcome),
    ) -> Result<()> {
        let outcome = self.options.threshold.map(|_| outcome);
        let summary = summary(comparison, &format!("{before} → {after}"), Some(run));
        if self.options.json {
            let mut row = json!({"before": before, "after": after, "summary": summary});
            if !self.options.summary {
                row["comparison"] = json!(comparison);
            }
            if let Some(outcome) = &outcome {
                row["verdict"] = json!(outcome.verdict);
                row["decided"] = json!([outcome.decided, outcome.rows]);
                row["failed"] = json!(outcome.failed);
            }
            self.lines += &format!("{row}\n");
        } else if self.options.summary {
            self.lines += &if self.options.markdown { summary.markdown() } else { summary.text() };
        }
        self.outcomes.extend(outcome.map(|outcome| (name, outcome)));
        Ok(())
    }

    /// Writes the outcomes, the worst first, and an empty line.
    fn say_outcomes(&mut self) -> Result<()> {
        let worst_first = |(_, outcome): &(_, Outcome)| Reverse(outcome.verdict);
        self.outcomes.sort_by_key(worst_first);
        let lines = self.outcomes.iter().map(|(name, outcome)| outcome.line(name.as_deref()));
        let mut lines: String = lines.map(|line| wrapped(line_columns(), &line, "")).collect();
        if !lines.is_empty() {
            lines.push('\n');
        }
        Ok(output().write_all(lines.as_bytes())?)
    }

    /// Writes the page, and the file for a pipeline. The outcomes decide the exit code.
    ///
    /// # Errors
    /// The errors of [`Shown::check_compared`].
    fn end(mut self) -> Done {
        if let (Some(html), Some(page)) = (&self.options.html, &self.page) {
            files::write_page(html, page)?;
        }
        let outcomes = std::mem::take(&mut self.outcomes).into_iter();
        let suites: Vec<Suite> = outcomes.map(|(_, outcome)| outcome.suite).collect();
        let code = gated(&self.options.gate, &suites)?;
        self.check_compared()?;
        Ok(code)
    }
}
