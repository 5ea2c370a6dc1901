//! `costof study`: compares a study's figures with this machine.

mod places;
mod shown;
mod steps;
#[cfg(test)]
mod tests;
mod unoptimised;
mod unoptimised_build;

use crate::cli::{self, Chosen, RunOptions, StudyOptions};
use crate::error::{Context, Done, Error, INTERRUPTED, bail, wrong};
use crate::files;
use crate::machine::hosts;
use crate::placement;
use crate::plan::cost::{self, Cost, precision};
use crate::plan::request::{Request, infos};
use crate::plan::{self, Target};
use crate::resume;
use crate::session::Session;
use crate::terminal::{log, print, printable, prose_columns, watch_interrupts};
use clap::Parser;
use costof_lab::host::Host;
use costof_measure::facts;
use costof_measure::probe::Probe;
use costof_model::facts::Facts;
use costof_model::link::Link;
use costof_model::nearest;
use costof_model::noise::Placement;
use costof_model::point::Point;
use costof_model::probe_info::ProbeInfo;
use costof_model::rows::{Hosts, Plan};
use costof_model::run_file::Run;
use costof_report::study::{EMBEDDED, FILE_MAX_BYTES, Selection, Study};
use costof_report::text::{hanging, wrapped};
use places::Place;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;

/// The run file of a study in its folder.
const RUN: &str = "run.jsonl";
/// The page made from it.
const PAGE: &str = "page.html";
const MARKDOWN: &str = "study.md";
/// The run file of the unoptimised build.
const UNOPTIMISED: &str = "unoptimised.jsonl";

pub(crate) fn run(table: &'static [&'static Probe], options: &StudyOptions) -> Done {
    files::refuse_standard_output(options.out.as_deref(), "--out names a folder")?;
    let Some(name) = &options.study else {
        return list(table);
    };
    let study = find(name)?;
    let infos = infos(table);
    study.check(&infos).map_err(wrong)?;
    places::check(&infos, &options.places)?;
    let asks_unoptimised = study
        .selections
        .iter()
        .any(|selection| selection.unoptimised);
    let unoptimised = match &options.unoptimised {
        Some(Some(path)) => Some(path.clone()),
        Some(None) if asks_unoptimised && !options.dry_run => Some(unoptimised_build::build()?),
        _ => None,
    };
    let command = Command {
        table,
        options,
        unoptimised,
        folder: match &options.out {
            Some(folder) => folder.clone(),
            None => PathBuf::from(format!("study-{}", study.name)),
        },
        study,
        infos,
    };
    match &options.run {
        Some(file) => command.show_again(file),
        None => command.measure(),
    }
}

/// The studies, and how long each takes on this machine.
fn list(table: &'static [&'static Probe]) -> Done {
    let width = EMBEDDED.iter().map(|(name, _)| name.len()).max();
    let width = width.unwrap_or(0);
    let facts = placement::facts_of_the_run(&Placement::default(), &facts::gather());
    let mut keep = |point: &Point| fits(table, point, &facts).is_ok();
    let mut text = String::new();
    for (name, study) in EMBEDDED {
        let study = Study::read(name, name, study).map_err(wrong)?;
        let mut cost = |quick| -> Result<String, Error> {
            let plan = planned(table, &study, (quick, &[]), &facts, &mut keep)?;
            Ok(Cost::new(table, &plan, precision(&plan)?).in_short())
        };
        let (full, quick) = (cost(false)?, cost(true)?);
        text += &hanging(prose_columns(), &format!("{name:width$}  "), &study.title);
        text += &format!("{:width$}  {full}; with --quick {quick}\n", "");
    }
    let how =
        "`costof study NAME` runs one, `costof study FILE.toml` one of your own (docs/STUDIES.md)";
    print(format!("{text}\n{}", wrapped(prose_columns(), how, "")))
}

/// The study of this name, or in this file.
pub(super) fn find(name: &str) -> Result<Study, Error> {
    let embedded = EMBEDDED.iter().find(|(known, _)| *known == name);
    if let Some((name, text)) = embedded {
        return Study::read(name, &format!("{name}.toml"), text).map_err(wrong);
    }
    let path = Path::new(name);
    if !path.exists() {
        let known: Vec<&str> = EMBEDDED.iter().map(|(name, _)| *name).collect();
        bail!(
            "there is no study `{name}`{}, and no file of that name (studies: {})",
            nearest::hint(name, known.iter().copied()),
            known.join(", ")
        );
    }
    let mut text = String::new();
    let file = File::open(path);
    let read = file.and_then(|file| file.take(FILE_MAX_BYTES + 1).read_to_string(&mut text));
    if read.context(format_args!("cannot read {name}"))? as u64 > FILE_MAX_BYTES {
        bail!("{name} is longer than {FILE_MAX_BYTES} bytes: it is not a study");
    }
    let stem = path.file_stem().unwrap_or(path.as_os_str());
    Study::read(&stem.to_string_lossy(), name, &text).map_err(wrong)
}

/// What a selection says, as `costof run` takes it.
#[derive(Parser)]
#[command(no_binary_name = true)]
struct SelectionOptions {
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
    /// The unoptimised build, if it should measure.
    unoptimised: Option<PathBuf>,
    folder: PathBuf,
    study: Study,
    infos: Vec<&'static ProbeInfo>,
}

/// The runs of a study: the main one, and that of the unoptimised build.
struct Measured {
    run: Run,
    unoptimised: Option<Run>,
}

impl Command<'_> {
    /// The study's name on the command line: one of the list, or its file.
    fn named(&self) -> &str {
        self.options.study.as_deref().unwrap_or(&self.study.name)
    }

    /// The options of a study as the options of a run into this file.
    fn run_options(&self, file: &str) -> RunOptions {
        let out = Some(self.folder.join(file));
        let mut options = RunOptions::new(
            self.options.measuring.clone(),
            self.options.quiet.clone(),
            out,
        );
        options.dry_run = self.options.dry_run;
        options.chosen.settings.clone_from(&self.options.places);
        options
    }

    fn measure(&self) -> Done {
        let unoptimised = self.unoptimised()?;
        // Mistakes in the options are reported before anything is measured.
        let measured = if self.options.dry_run {
            None
        } else {
            self.first_half(unoptimised.is_some())?
        };
        let interrupted = watch_interrupts()?;
        if let Some(host) = &unoptimised {
            self.check_unoptimised(host, &interrupted)?;
        }
        let run = match measured {
            Some(run) => Some(run),
            None => {
                self.log_builds()?;
                self.measure_into(RUN, None, &interrupted)?
            }
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
            Some(host) => self.measure_into(UNOPTIMISED, Some(host), &interrupted),
            None => Ok(None),
        };
        let Some(run) = run else {
            return other.map(|_| ExitCode::SUCCESS);
        };
        match other {
            Ok(Some(other)) if other.end.is_none() => Ok(self.interrupted(UNOPTIMISED, true)),
            Ok(unoptimised) => self.show(&Measured { run, unoptimised }),
            Err(error) => {
                // The first run is shown without waiting for the second.
                self.show(&Measured {
                    run,
                    unoptimised: None,
                })?;
                let begun = self.folder.join(UNOPTIMISED);
                let command = if begun.exists() {
                    resume::command(&begun, true)
                } else {
                    self.second_half_command()
                };
                log(format!("`{command}` measures what is missing"));
                Err(error)
            }
        }
    }

    /// The selections to measure, or those of them that the unoptimised build measures too.
    fn selected(&self, by_unoptimised: bool) -> impl Iterator<Item = &Selection> {
        let quick = self.options.measuring.quick;
        let selections = self.study.selections.iter();
        selections
            .filter(move |selection| !by_unoptimised || selection.unoptimised)
            .filter(move |selection| !selection.words(quick).is_empty())
    }

    /// Measures the selections into one file, with an unoptimised build only those that it should measure.
    /// None if nothing is measured because the plan is only shown.
    fn measure_into(
        &self,
        file: &str,
        host: Option<Host>,
        interrupted: &AtomicBool,
    ) -> Result<Option<Run>, Error> {
        let by_unoptimised = host.is_some();
        if let (Some(host), true) = (&host, self.options.dry_run) {
            writeln!(io::stdout(), "\nAnd after that by {}:", printable(host))?;
        }
        let options = RunOptions {
            on: host.into_iter().collect(),
            ..self.run_options(file)
        };
        let selected = self.selected(by_unoptimised);
        let facts = placement::facts_of_the_run(&Placement::default(), &facts::gather());
        let requests = selected
            .map(|selection| request(self.table, &self.study, selection, &options, &facts))
            .collect::<Result<Vec<_>, Error>>()?;
        if requests.is_empty() {
            let study = &self.study.name;
            bail!("{study} has no `[[run]]`, and so nothing is measured");
        }
        let mut session = Session::new(self.table, &options, requests, None, interrupted)?;
        session.fits = fits;
        let done = session.measure(hosts(&options), None)?;
        Ok(done.map(|record| record.run))
    }

    /// Reports how to continue the run in this file, and how to measure the second run if that is missing
    /// too.
    fn interrupted(&self, file: &str, asks_unoptimised: bool) -> ExitCode {
        let command = resume::command(&self.folder.join(file), file == UNOPTIMISED);
        let then = if asks_unoptimised && file == RUN {
            format!(
                "`{}` what the unoptimised build is asked, and shows it",
                self.second_half_command()
            )
        } else {
            format!(
                "`costof study {} --run {}` shows it",
                self.named(),
                self.folder.join(RUN).display()
            )
        };
        log(format!(
            "interrupted; `{command}` measures what is missing, then {then}"
        ));
        ExitCode::from(INTERRUPTED)
    }
}

/// The plan of a study for a machine with these facts and with files at these places, of the points that `keep`
/// accepts.
fn planned(
    table: &'static [&'static Probe],
    study: &Study,
    (quick, places): (bool, &[Place]),
    facts: &Facts,
    keep: &mut dyn FnMut(&Point) -> bool,
) -> Result<Plan, Error> {
    let mut options = RunOptions::default();
    options.measuring.quick = quick;
    options.chosen.settings = places.to_vec();
    let selections = study.selections.iter();
    let requests = selections
        .filter(|selection| !selection.words(quick).is_empty())
        .map(|selection| request(table, study, selection, &options, facts))
        .collect::<Result<Vec<_>, Error>>()?;
    let target = Target {
        facts,
        placement: Placement::default(),
        hosts: Hosts::default(),
        peer_link: None,
        earlier: &|_| Vec::new(),
    };
    plan::plan(table, &requests, target, keep)
}

/// The request of a study's selection, with these options of a run, whose settings are places.
pub(super) fn request(
    table: &'static [&'static Probe],
    study: &Study,
    selection: &Selection,
    options: &RunOptions,
    facts: &Facts,
) -> Result<Request<'static>, Error> {
    let quick = options.measuring.quick;
    let is_wrong = |what: &str| wrong(study.wrong_selection(selection, quick, what));
    let words = selection.words(quick);
    let mut selected = SelectionOptions::try_parse_from(words).map_err(|error| {
        let error = error.to_string();
        let what = error.lines().next().unwrap_or_default();
        is_wrong(what.trim_start_matches("error: "))
    })?;
    if let Some(steps) = selection.steps(quick) {
        let steps = steps::to_memory(steps, facts).map_err(|what| is_wrong(&what))?;
        selected.settings.extend(steps);
    }
    // A selection without settings is the probe's own plan, wherever it lies.
    let only = !selected.settings.is_empty();
    let places = options.chosen.settings.iter();
    let open = places.filter(|(axis, _)| {
        let mut own = selected.settings.iter();
        places::has(table, &selected.probes, axis) && own.all(|(own, _)| own != axis)
    });
    let open: Vec<Place> = open.cloned().collect();
    selected.settings.extend(open);
    let options = RunOptions {
        probes: selected.probes,
        chosen: Chosen {
            only,
            settings: selected.settings,
            links: selected.links,
            ..Chosen::default()
        },
        ..options.clone()
    };
    let mut request =
        Request::new(table, &options).map_err(|error| is_wrong(&error.to_string()))?;
    request.headlines_only |= selection.headlines;
    request.fits_budget = false;
    Ok(request)
}

/// Checks that this machine has the memory for a point, since studies were made on larger ones, and that the
/// point names what is to be read.
pub(super) fn fits(table: &[&'static Probe], point: &Point, facts: &Facts) -> Result<(), String> {
    places::named(table, point)?;
    let needs = cost::memory_bytes(table, point);
    match facts.available_bytes() {
        Some(free) if needs > free / 2 => Err(format!(
            "it needs {:.1} GB of memory, more than half of the {:.1} GB that are free",
            needs as f64 / 1e9,
            free as f64 / 1e9
        )),
        _ => Ok(()),
    }
}
