//! `costof study`: a study's figures beside what this machine gives.

mod shown;
#[cfg(test)]
mod tests;
mod unoptimised;

use crate::cli::{self, RunOptions, StudyOptions};
use crate::commands::run::resume_by;
use crate::error::{Error, wrong};
use crate::interrupts;
use crate::machine;
use crate::planning::{self, Asked};
use crate::session::{Session, hosts_of};
use crate::tell::tell;
use clap::Parser;
use costof_lab::host::Host;
use costof_measure::probe::{self, Probe};
use costof_model::facts::Facts;
use costof_model::link::Link;
use costof_model::nearest;
use costof_model::point::Point;
use costof_model::probe_info::ProbeInfo;
use costof_model::run_file::Run;
use costof_report::study::{EMBEDDED, FILE_MAX_BYTES, Selection, Study};
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;

/// The run of a study, in its folder.
const RUN: &str = "run.jsonl";
/// What is made of it.
const PAGE: &str = "page.html";
const MARKDOWN: &str = "study.md";
/// The same by an unoptimised build.
const UNOPTIMISED: &str = "unoptimised.jsonl";

pub(crate) fn run(
    table: &'static [&'static Probe],
    options: &StudyOptions,
) -> Result<ExitCode, Error> {
    let Some(name) = &options.study else {
        return list();
    };
    let study = find(name)?;
    let infos: Vec<&ProbeInfo> = table.iter().map(|probe| &*probe.info).collect();
    study.check(&infos).map_err(wrong)?;
    let command = Command {
        table,
        options,
        folder: options
            .out
            .clone()
            .unwrap_or_else(|| PathBuf::from(format!("study-{}", study.name))),
        study,
        infos,
    };
    match &options.run {
        Some(file) => command.show_again(file),
        None => command.measure(),
    }
}

fn list() -> Result<ExitCode, Error> {
    let mut output = io::stdout().lock();
    let width = EMBEDDED
        .iter()
        .map(|(name, _)| name.len())
        .max()
        .unwrap_or(0);
    for (name, text) in EMBEDDED {
        let study = Study::read(name, name, text).map_err(wrong)?;
        writeln!(output, "{name:width$}  {}", study.title)?;
    }
    writeln!(
        output,
        "\n`costof study NAME` runs one, `costof study FILE.toml` one of your own (docs/STUDIES.md)"
    )?;
    Ok(ExitCode::SUCCESS)
}

/// The study of this name, or in this file.
fn find(name: &str) -> Result<Study, Error> {
    let embedded = EMBEDDED.iter().find(|(known, _)| *known == name);
    if let Some((name, text)) = embedded {
        return Study::read(name, &format!("{name}.toml"), text).map_err(wrong);
    }
    let path = Path::new(name);
    if !path.exists() {
        let known: Vec<&str> = EMBEDDED.iter().map(|(name, _)| *name).collect();
        return Err(wrong(format!(
            "there is no study `{name}`{}, and no file of that name (studies: {})",
            nearest::hint(name, known.iter().copied()),
            known.join(", ")
        )));
    }
    let cannot = |error: io::Error| wrong(format!("cannot read {name}: {error}"));
    let mut text = String::new();
    let file = File::open(path).map_err(cannot)?;
    let read = file.take(FILE_MAX_BYTES + 1).read_to_string(&mut text);
    if read.map_err(cannot)? as u64 > FILE_MAX_BYTES {
        return Err(wrong(format!(
            "{name} is longer than {FILE_MAX_BYTES} bytes: it is no study"
        )));
    }
    let stem = path.file_stem().unwrap_or(path.as_os_str());
    Study::read(&stem.to_string_lossy(), name, &text).map_err(wrong)
}

/// What a selection says, as `costof run` takes it.
#[derive(Parser)]
#[command(no_binary_name = true)]
struct Said {
    #[arg(required = true)]
    probes: Vec<String>,
    #[arg(long = "set", value_parser = cli::setting)]
    settings: Vec<(String, Vec<String>)>,
    #[arg(long = "link")]
    links: Vec<Link>,
}

struct Command<'a> {
    table: &'static [&'static Probe],
    options: &'a StudyOptions,
    folder: PathBuf,
    study: Study,
    infos: Vec<&'static ProbeInfo>,
}

/// What is measured of a study, and by the unoptimised build.
struct Measured {
    run: Run,
    unoptimised: Option<Run>,
}

impl Command<'_> {
    /// How the study was named: as one of the list, or by its file.
    fn named(&self) -> &str {
        self.options.study.as_deref().unwrap_or(&self.study.name)
    }

    /// What the options of a study are as those of a run into this file.
    fn run_options(&self, file: &str) -> RunOptions {
        let options = self.options;
        RunOptions {
            quick: options.quick,
            full: options.full,
            cpu: options.cpu.clone(),
            no_wait: options.no_wait,
            seed: options.seed,
            timeout: options.timeout,
            dry_run: options.dry_run,
            out: Some(self.folder.join(file)),
            ..RunOptions::bare()
        }
    }

    fn measure(&self) -> Result<ExitCode, Error> {
        let unoptimised = self.unoptimised()?;
        // What is wrong is told before anything is measured.
        let measured = match self.options.dry_run {
            true => None,
            false => self.first_half(unoptimised.is_some())?,
        };
        let interrupted = interrupts::watch()?;
        if let Some(host) = &unoptimised {
            self.meet(host, &interrupted)?;
        }
        if measured.is_none() {
            self.tell_of_builds()?;
        }
        let run = match measured {
            Some(run) => Some(run),
            None => self.one(RUN, None, &interrupted)?,
        };
        if let Some(run) = &run {
            if run.end.is_none() {
                return Ok(self.interrupted(RUN, unoptimised.is_some()));
            }
            if run.points.is_empty() {
                return Err(Error::Nothing(format!(
                    "nothing could be measured; {} has the reasons",
                    self.folder.join(RUN).display()
                )));
            }
        }
        let other = match unoptimised {
            Some(host) => self.one(UNOPTIMISED, Some(host), &interrupted),
            None => Ok(None),
        };
        let Some(run) = run else {
            return other.map(|_| ExitCode::SUCCESS);
        };
        match other {
            Ok(Some(other)) if other.end.is_none() => Ok(self.interrupted(UNOPTIMISED, true)),
            Ok(unoptimised) => self.show(&Measured { run, unoptimised }),
            Err(error) => {
                // What there is does not wait for the rest.
                self.show(&Measured {
                    run,
                    unoptimised: None,
                })?;
                let begun = self.folder.join(UNOPTIMISED);
                let by = match begun.exists() {
                    true => resume_by(&begun, true),
                    false => self.second_half_by(),
                };
                tell(format!("`{by}` measures what is missing"));
                Err(error)
            }
        }
    }

    /// The selections that are measured, or those of them that the unoptimised build measures too.
    fn selected(&self, by_unoptimised: bool) -> impl Iterator<Item = &Selection> {
        let quick = self.options.quick;
        let selections = self.study.selections.iter();
        selections
            .filter(move |selection| !by_unoptimised || selection.unoptimised)
            .filter(move |selection| !selection.words(quick).is_empty())
    }

    /// Measures the selections into one file; those that the unoptimised build measures, where it is
    /// one that does. None where nothing is measured but shown.
    fn one(
        &self,
        file: &str,
        host: Option<Host>,
        interrupted: &AtomicBool,
    ) -> Result<Option<Run>, Error> {
        let by_unoptimised = host.is_some();
        if let (Some(host), true) = (&host, self.options.dry_run) {
            writeln!(io::stdout(), "\nAnd after that by {host}:")?;
        }
        let options = RunOptions {
            on: host.into_iter().collect(),
            ..self.run_options(file)
        };
        let selected: Vec<(&Selection, RunOptions)> = self
            .selected(by_unoptimised)
            .map(|selection| Ok((selection, self.said(selection, &options)?)))
            .collect::<Result<_, Error>>()?;
        if selected.is_empty() {
            return Err(wrong(format!(
                "{} has no `[[run]]`, and so nothing is measured",
                self.study.name
            )));
        }
        let asked = selected
            .iter()
            .map(|(selection, said)| self.asked(selection, said))
            .collect::<Result<Vec<_>, Error>>()?;
        let mut session = Session::new(self.table, &options, asked, None, interrupted)?;
        session.fits = fits;
        let done = session.on_one(hosts_of(&options), None)?;
        Ok(done.map(|(_, run)| run))
    }

    /// A selection as the options of a run.
    fn said(&self, selection: &Selection, options: &RunOptions) -> Result<RunOptions, Error> {
        let said = Said::try_parse_from(selection.words(options.quick)).map_err(|error| {
            let error = error.to_string();
            let what = error.lines().next().unwrap_or_default();
            let what = what.trim_start_matches("error: ");
            wrong(self.study.wrong_selection(selection, options.quick, what))
        })?;
        Ok(RunOptions {
            probes: said.probes,
            settings: said.settings,
            links: said.links,
            ..options.clone()
        })
    }

    fn asked<'o>(&self, selection: &Selection, said: &'o RunOptions) -> Result<Asked<'o>, Error> {
        let mut asked = planning::asked(self.table, said).map_err(|error| {
            wrong(
                self.study
                    .wrong_selection(selection, said.quick, &error.to_string()),
            )
        })?;
        asked.headlines_only |= selection.headlines;
        Ok(asked)
    }

    /// Says how to go on with the half in this file, and with the second where that is missing too.
    fn interrupted(&self, file: &str, asks_unoptimised: bool) -> ExitCode {
        let by = resume_by(&self.folder.join(file), file == UNOPTIMISED);
        let then = match asks_unoptimised && file == RUN {
            true => format!(
                "`{}` what the unoptimised build is asked, and shows it",
                self.second_half_by()
            ),
            false => format!(
                "`costof study {} --run {}` shows it",
                self.named(),
                self.folder.join(RUN).display()
            ),
        };
        tell(format!(
            "interrupted; `{by}` measures what is missing, then {then}"
        ));
        machine::interrupted_code()
    }
}

/// Whether this machine is large enough for a point: studies were made on larger ones.
fn fits(table: &[&'static Probe], point: &Point, facts: &Facts) -> Result<(), String> {
    let cpus = facts.planned_cpus().len() as u64;
    if let Some(threads) = point.axes.find_number("threads")
        && threads > cpus.max(1)
    {
        return Err(format!(
            "{threads} threads, and the run has {cpus} processors"
        ));
    }
    let needs = probe::find(table, &point.probe).map_or(0, |probe| (probe.memory_bytes)(point));
    match facts.available_bytes() {
        Some(free) if needs > free / 2 => Err(format!(
            "it needs {:.1} GB of memory, more than half of the {:.1} GB that are free",
            needs as f64 / 1e9,
            free as f64 / 1e9
        )),
        _ => Ok(()),
    }
}
