//! `costof compare`: what became better or worse from one run to another, or from one host to another.

use super::{interleave, report};
use crate::cli::{CompareOptions, InTurns, RunOptions};
use crate::error::{Error, wrong};
use crate::record;
use crate::tell::tell;
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
use std::process::ExitCode;

/// The exit code where something became worse by more than was allowed.
const WORSE: u8 = 1;

pub(crate) fn run(
    table: &'static [&'static Probe],
    options: &CompareOptions,
) -> Result<ExitCode, Error> {
    match options.interleave.is_empty() {
        true => files(options),
        false => in_turns(table, options),
    }
}

/// Runs that were measured before, each held against the first.
fn files(options: &CompareOptions) -> Result<ExitCode, Error> {
    let [before, all_after @ ..] = options.what.as_slice() else {
        return Err(wrong(
            "there is nothing to compare: BEFORE and AFTER are missing, two run files (or \
             --interleave HOST HOST measures two hosts)",
        ));
    };
    if all_after.is_empty() {
        return Err(wrong(format!(
            "{} is the only run: AFTER is missing, a run to hold against it",
            before.display()
        )));
    }
    let read: Vec<&Path> = options.what.iter().map(PathBuf::as_path).collect();
    spares(options, &read)?;
    let old = record::read(before)?;
    let mut shown = Shown::new(options);
    for path in all_after {
        let new = record::read(path)?;
        let files = [before.as_path(), path.as_path()];
        let names = files.map(|path| path.display().to_string());
        shown.show(files, &names, [&old, &new])?;
    }
    if !shown.is_compared {
        return Err(wrong(
            "nothing can be compared: the runs have no metric with three launches in common",
        ));
    }
    shown.end()
}

/// Two hosts, measured now.
fn in_turns(table: &'static [&'static Probe], options: &CompareOptions) -> Result<ExitCode, Error> {
    // Where the page goes is checked before anything is measured.
    let run_options = run_options(options)?;
    let files = run_options.out.as_deref().map(interleave::files_in);
    let files: Vec<&Path> = files.iter().flatten().map(PathBuf::as_path).collect();
    spares(options, &files)?;
    let [(before, old), (after, new)] = interleave::measured(table, &run_options)?;
    let files = [before.as_path(), after.as_path()];
    let mut shown = Shown::new(options);
    let names = [0, 1].map(|side| run_options.on[side].to_string());
    shown.show(files, &names, [&old, &new])?;
    if !options.json {
        for (name, run) in names.iter().zip([&old, &new]) {
            let absent = absent(run);
            if !absent.is_empty() {
                writeln!(io::stdout(), "On {name}:{absent}")?;
            }
        }
        writeln!(
            io::stdout(),
            "The runs are in {} and {}",
            before.display(),
            after.display()
        )?;
    }
    if !shown.is_compared {
        return Err(Error::Nothing(
            "nothing can be compared: no metric was measured three times on both hosts".to_owned(),
        ));
    }
    spares(options, &files)?;
    shown.end()
}

/// What `costof run` is told to measure two hosts.
fn run_options(options: &CompareOptions) -> Result<RunOptions, Error> {
    let probe = |word: &PathBuf| {
        let word = word.to_str().map(str::to_owned);
        word.ok_or_else(|| wrong("a probe's name is text"))
    };
    let probes: Vec<String> = options.what.iter().map(probe).collect::<Result<_, _>>()?;
    let InTurns {
        quick,
        full,
        launches,
        settings,
        cpu,
        links,
        remote_costof,
        no_wait,
        out,
        seed,
        timeout,
    } = options.in_turns.clone();
    if let Some(folder) = out.as_ref().filter(|out| out.exists() && !out.is_dir()) {
        return Err(wrong(format!(
            "{} is a file: with two hosts, --out names a folder for a file of each",
            folder.display()
        )));
    }
    Ok(RunOptions {
        probes,
        quick,
        full,
        launches,
        settings,
        cpu,
        links,
        on: options.interleave.clone(),
        peer: None,
        peer_address: None,
        peer_port: None,
        peer_cpu: None,
        remote_costof,
        no_wait,
        out,
        resume: None,
        force: false,
        seed,
        dry_run: false,
        json: false,
        timeout,
    })
}

/// The page is none of these runs.
fn spares(options: &CompareOptions, runs: &[&Path]) -> Result<(), Error> {
    let html = options.html.as_deref();
    html.map_or(Ok(()), |html| {
        if html.is_dir() {
            return Err(wrong(format!(
                "{} is a folder: --html names a file",
                html.display()
            )));
        }
        runs.iter().try_for_each(|run| report::spares(html, run))
    })
}

/// What was said so far.
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
        runs: [&Run; 2],
    ) -> Result<(), Error> {
        let metrics = match self.options.all_metrics {
            true => Metrics::All,
            false => Metrics::Primary,
        };
        let [before, after] = runs;
        let comparison = compare(before, after, metrics);
        let mut output = io::stdout().lock();
        if self.options.json {
            let [before, after] = files.map(|path| path.display().to_string());
            let told = json!({"before": before, "after": after, "comparison": comparison});
            writeln!(output, "{told}")?;
        } else {
            writeln!(output, "{} → {}\n", names[0], names[1])?;
            writeln!(output, "{}", compared(&comparison, after))?;
        }
        output.flush()?;
        if self.options.html.is_some() {
            let side = |side: usize| Side {
                name: &names[side],
                run: runs[side],
            };
            let number = self.sections.len();
            let section = compare_page::section(number, side(0), side(1), &comparison);
            self.sections.push(section);
        }
        self.is_compared |= !comparison.rows.is_empty();
        self.is_worse |= self
            .options
            .threshold
            .is_some_and(|percent| is_beyond(&comparison, percent) || has_lost(&comparison, after));
        Ok(())
    }

    fn end(self) -> Result<ExitCode, Error> {
        if let Some(html) = &self.options.html {
            report::write(html, &compare_page::page(&self.sections))?;
            tell(format!("the page is in {}", html.display()));
        }
        Ok(match self.is_worse {
            true => ExitCode::from(WORSE),
            false => ExitCode::SUCCESS,
        })
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
