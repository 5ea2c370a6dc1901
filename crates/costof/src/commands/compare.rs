//! `costof compare`: what became better or worse from one run to another, or from one host to another.

use super::interleave;
use crate::cli::{CompareOptions, RunOptions};
use crate::error::{Done, Error, bail, checked, wrong};
use crate::{files, record};
use costof_measure::compare::{Metrics, compare};
use costof_measure::probe::Probe;
use costof_model::comparison::{Comparison, Verdict};
use costof_model::run_file::Run;
use costof_model::unit::Better;
use costof_report::compare::compared;
use costof_report::page::comparison::{self as compare_page, Side};
use costof_report::run::absent;
use serde_json::json;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

pub(crate) fn run(table: &'static [&'static Probe], options: &CompareOptions) -> Done {
    if options.interleave.is_empty() {
        compare_files(options)
    } else {
        compare_hosts(table, options)
    }
}

/// Compares each run that was measured before with the first.
fn compare_files(options: &CompareOptions) -> Done {
    let [before, all_after @ ..] = options.what.as_slice() else {
        bail!(
            "there is nothing to compare: BEFORE and AFTER are missing, two run files (or \
             --interleave HOST HOST measures two hosts)"
        );
    };
    if all_after.is_empty() {
        bail!(
            "{} is the only run: AFTER is missing, a run to compare with it",
            before.display()
        );
    }
    check_page(options, options.what.iter())?;
    let old = record::read(before)?;
    let mut shown = Shown::new(options);
    for path in all_after {
        let new = record::read(path)?;
        let names = [before, path].map(|path| path.display().to_string());
        shown.show([before, path], &names, [&old, &new])?;
    }
    if !shown.is_compared {
        bail!("nothing can be compared: the runs have no metric with three launches in common");
    }
    shown.end()
}

/// Measures two hosts, and compares the second with the first.
fn compare_hosts(table: &'static [&'static Probe], options: &CompareOptions) -> Done {
    // Where the page goes is checked before anything is measured.
    let run_options = run_options(options)?;
    let planned = run_options.out.as_deref().map(interleave::files_in);
    check_page(options, planned.iter().flatten())?;
    let records = interleave::measure(table, &run_options)?;
    let [old, new] = records.each_ref().map(|record| &record.run);
    let paths = records.each_ref().map(|record| record.path());
    let mut shown = Shown::new(options);
    let names = [0, 1].map(|side| run_options.on[side].to_string());
    shown.show(paths, &names, [old, new])?;
    if !options.json {
        let mut output = io::stdout().lock();
        for (name, run) in names.iter().zip([old, new]) {
            let absent = absent(run);
            if !absent.is_empty() {
                writeln!(output, "On {name}:{absent}")?;
            }
        }
        let [before, after] = paths.map(Path::display);
        writeln!(output, "The runs are in {before} and {after}")?;
    }
    if !shown.is_compared {
        return Err(Error::Nothing(
            "nothing can be compared: no metric was measured three times on both hosts".to_owned(),
        ));
    }
    check_page(options, paths.into_iter())?;
    shown.end()
}

/// What `costof run` is asked to measure two hosts.
fn run_options(options: &CompareOptions) -> Result<RunOptions, Error> {
    let probe = |word: &PathBuf| {
        let word = word.to_str().map(str::to_owned);
        word.ok_or_else(|| wrong("a probe's name is text"))
    };
    let out = options.out.clone();
    if let Some(folder) = out.as_ref().filter(|out| out.exists() && !out.is_dir()) {
        bail!(
            "{} is a file: with two hosts, --out names a folder for a file of each",
            folder.display()
        );
    }
    Ok(RunOptions {
        probes: options.what.iter().map(probe).collect::<Result<_, _>>()?,
        chosen: options.chosen.clone(),
        on: options.interleave.clone(),
        ..RunOptions::new(options.measuring.clone(), options.quiet.clone(), out)
    })
}

/// Whether the page is none of these runs.
fn check_page(
    options: &CompareOptions,
    mut runs: impl Iterator<Item = impl AsRef<Path>>,
) -> Result<(), Error> {
    match options.html.as_deref() {
        Some(html) if html.is_dir() => {
            bail!("{} is a folder: --html names a file", html.display())
        }
        Some(html) => runs.try_for_each(|run| files::check_spares(html, run.as_ref())),
        None => Ok(()),
    }
}

/// What was shown so far.
struct Shown<'a> {
    options: &'a CompareOptions,
    /// Of the page, where there is to be one.
    sections: Vec<compare_page::Section>,
    is_compared: bool,
    is_worse: bool,
}

impl Shown<'_> {
    fn new(options: &CompareOptions) -> Shown<'_> {
        Shown {
            options,
            sections: Vec::new(),
            is_compared: false,
            is_worse: false,
        }
    }

    fn show(
        &mut self,
        files: [&Path; 2],
        names: &[String; 2],
        [before, after]: [&Run; 2],
    ) -> Result<(), Error> {
        let metrics = if self.options.all_metrics {
            Metrics::All
        } else {
            Metrics::Primary
        };
        let comparison = compare(before, after, metrics);
        let mut output = io::stdout().lock();
        if self.options.json {
            let [before, after] = files.map(|path| path.display().to_string());
            let row = json!({"before": before, "after": after, "comparison": comparison});
            writeln!(output, "{row}")?;
        } else {
            writeln!(output, "{} → {}\n", names[0], names[1])?;
            writeln!(output, "{}", compared(&comparison, after))?;
        }
        output.flush()?;
        if self.options.html.is_some() {
            let side = |name, run| Side { name, run };
            let [old, new] = [side(&names[0], before), side(&names[1], after)];
            let number = self.sections.len();
            let section = compare_page::section(number, old, new, &comparison);
            self.sections.push(section);
        }
        self.is_compared |= !comparison.rows.is_empty();
        self.is_worse |= self
            .options
            .threshold
            .is_some_and(|percent| is_beyond(&comparison, percent) || has_lost(&comparison, after));
        Ok(())
    }

    fn end(self) -> Done {
        if let Some(html) = &self.options.html {
            files::write_page(html, &compare_page::page(&self.sections))?;
        }
        Ok(checked(self.is_worse))
    }
}

/// Whether something was to be measured again that has no number any more.
fn has_lost(comparison: &Comparison, after: &Run) -> bool {
    let mut planned = after.run.plan.points();
    planned.any(|point| comparison.only_before.contains(point))
}

/// Whether anything surely became worse by more than so many percent: a cost grew or a rate shrank by
/// them at the near end of its interval.
fn is_beyond(comparison: &Comparison, percent: f64) -> bool {
    comparison.rows.iter().any(|row| {
        let by = match row.better {
            Better::Higher => 1.0 - row.ci95.1,
            Better::Lower | Better::Neither => row.ci95.0 - 1.0,
        };
        row.verdict == Verdict::Worse && by > percent / 100.0
    })
}
