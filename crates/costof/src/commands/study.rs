//! `costof study`: compares a study's figures with this machine.

mod classroom;
mod places;
mod shown;
mod steps;
#[cfg(test)]
mod tests;

use crate::cli::{self, Chosen, RunOptions, StudyOptions};
use crate::error::{Context, Done, Error, INTERRUPTED, Result, bail, wrong};
use crate::machine::hosts;
use crate::placement;
use crate::plan::cost::{self, Cost, precision};
use crate::plan::request::{Request, infos};
use crate::plan::{self, Target};
use crate::record::Table;
use crate::session::Session;
use crate::terminal::{log, print, prose_columns, quoted, watch_interrupts};
use crate::{files, resume};
use clap::Parser;
use costof_measure::facts;
use costof_model::rows::Guess;
use costof_model::unit::parse_bytes;
use costof_model::{
    Facts, Hosts, Link, Placement, Plan, Point, ProbeInfo, Run, Settings, display_bytes, nearest,
};
use costof_report::study::{EMBEDDED, FILE_MAX_BYTES, Selection, Study};
use costof_report::text::{hanging, wrapped};
use places::Place;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;

/// The run file of a study in its folder.
const RUN: &str = "run.jsonl";
/// The page made from it.
const PAGE: &str = "page.html";
const MARKDOWN: &str = "study.md";

pub(crate) fn run(table: Table, options: &StudyOptions) -> Done {
    files::refuse_standard_output(options.out.as_deref(), "--out names a folder")?;
    files::refuse_standard_output(options.markdown.as_deref(), "--markdown names a folder")?;
    let Some(name) = &options.study else {
        return list(table);
    };
    let study = find(name)?;
    let infos = infos(table);
    if options.check {
        return classroom::check(table, &study, &infos);
    }
    study.check(&infos).map_err(wrong)?;
    places::check(&infos, &options.places)?;
    let command = Command {
        table,
        options,
        folder: match &options.out {
            Some(folder) => folder.clone(),
            None => PathBuf::from(format!("study-{}", study.name)),
        },
        study,
        infos,
    };
    if let Some(file) = &options.sheet {
        return command.write_sheet(file);
    }
    if !options.collect.is_empty() {
        return command.collect();
    }
    match &options.run {
        Some(file) => command.show_again(file),
        None => command.measure(),
    }
}

/// The studies, and how long each takes on this machine.
fn list(table: Table) -> Done {
    let width = EMBEDDED.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let facts = placement::facts_of_the_run(&Placement::default(), &facts::gather());
    let mut keep = |point: &Point| fits(table, point, &facts).is_ok();
    let mut text = String::new();
    for (name, study) in EMBEDDED {
        let study = Study::read(name, name, study).map_err(wrong)?;
        let mut cost = |quick| -> Result<String> {
            let plan = planned(table, &study, (quick, &[]), &facts, &mut keep)?;
            Ok(Cost::new(table, &plan, precision(&plan)?).announced())
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
pub(super) fn find(name: &str) -> Result<Study> {
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
    let text =
        files::read_text(path, FILE_MAX_BYTES).context(format_args!("cannot read {name}"))?;
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
    table: Table,
    options: &'a StudyOptions,
    folder: PathBuf,
    study: Study,
    infos: Vec<&'static ProbeInfo>,
}

impl Command<'_> {
    /// The study's name on the command line: one of the list, or its file.
    fn named(&self) -> &str {
        self.options.study.as_deref().unwrap_or(&self.study.name)
    }

    /// The options of a study as the options of a run.
    fn run_options(&self) -> RunOptions {
        let out = Some(self.folder.join(RUN));
        let mut options = RunOptions::new(self.options.measuring.clone(), out);
        options.dry_run = self.options.dry_run;
        options.chosen.settings.clone_from(&self.options.places);
        options
    }

    fn measure(&self) -> Done {
        if self.options.predict && self.options.dry_run {
            let named = quoted(Path::new(self.named()));
            return print(self.study.form(&self.infos, &named).map_err(wrong)?);
        }
        let path = self.folder.join(RUN);
        if !self.options.dry_run && path.exists() {
            bail!(
                "{0} exists already: name another folder with --out, or show that run with `costof study {1} --run {0}`",
                path.display(),
                self.named()
            );
        }
        self.spare_report()?;
        let form = self.filled_form()?;
        let interrupted = watch_interrupts()?;
        if cfg!(debug_assertions) {
            log(
                "this costof is an unoptimised build (`cargo build --release` makes the other): its own code is slower",
            );
        }
        let Some(run) = self.run(&form, &interrupted)? else {
            return Ok(ExitCode::SUCCESS);
        };
        if run.end.is_none() {
            log(format!(
                "interrupted; `{}` measures what is missing, then `costof study {} --run {}` shows it",
                resume::command(&path, false),
                self.named(),
                path.display()
            ));
            return Ok(ExitCode::from(INTERRUPTED));
        }
        if !run.has_asked_for() {
            return Err(Error::Nothing(format!(
                "nothing could be measured; {} has the reasons",
                path.display()
            )));
        }
        self.show(&run)
    }

    /// Measures the selections, after the predictions of this form or those asked for. None if the plan is only shown.
    fn run(&self, form: &[Guess], interrupted: &AtomicBool) -> Result<Option<Run>> {
        let options = self.run_options();
        let facts = placement::facts_of_the_run(&Placement::default(), &facts::gather());
        let requests = requests(self.table, &self.study, &self.study.selections, &options, &facts)?;
        if requests.is_empty() {
            let study = &self.study.name;
            bail!("{study} has no `[[run]]`, and so nothing is measured");
        }
        let guesses = || match self.options.predict {
            true => self.asked(),
            false => Ok(form.to_vec()),
        };
        let mut session = Session::new(self.table, &options, requests, None, interrupted)?;
        session.fits = fits;
        session.guesses = &guesses;
        let done = session.measure(hosts(&options), None)?;
        Ok(done.map(|record| record.run))
    }
}

/// The plan of a study for a machine with these facts and with files at these places, of the points that `keep`
/// accepts.
fn planned(
    table: Table,
    study: &Study,
    (quick, places): (bool, &[Place]),
    facts: &Facts,
    keep: &mut dyn FnMut(&Point) -> bool,
) -> Result<Plan> {
    let mut options = RunOptions::default();
    options.measuring.quick = quick;
    options.chosen.settings = places.to_vec();
    let requests = requests(table, study, &study.selections, &options, facts)?;
    let target = Target {
        facts,
        placement: Placement::default(),
        hosts: Hosts::default(),
        peer_link: None,
        earlier: &|_| Vec::new(),
    };
    plan::plan(table, &options, &requests, target, keep)
}

/// The requests of selections of a study, with these options of a run, whose settings are places.
pub(super) fn requests(
    table: Table,
    study: &Study,
    selections: &[Selection],
    options: &RunOptions,
    facts: &Facts,
) -> Result<Vec<Request>> {
    let quick = options.measuring.quick;
    let selections = selections.iter().filter(|selection| !selection.words(quick).is_empty());
    selections.map(|selection| request(table, study, selection, options, facts)).collect()
}

fn request(
    table: Table,
    study: &Study,
    selection: &Selection,
    options: &RunOptions,
    facts: &Facts,
) -> Result<Request> {
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
    if selection.beyond_caches {
        selected.settings.push(beyond_caches(&selected.settings, facts));
    }
    // A selection without settings is the probe's own plan, wherever it lies, with what its predictions need.
    let only = !selected.settings.is_empty();
    let places = options.chosen.settings.iter();
    let open = places.filter(|(axis, _)| {
        let mut own = selected.settings.iter();
        places::has(table, &selected.probes, axis) && own.all(|(own, _)| own != axis)
    });
    let open: Vec<Place> = open.cloned().collect();
    let mut places = Settings::new();
    match only {
        true => selected.settings.extend(open),
        false => places.extend(open),
    }
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
    request.places = places;
    request.headlines_only |= selection.headlines;
    request.fits_budget = false;
    Ok(request)
}

/// The size of which caches hold little at the selection's stride.
fn beyond_caches(settings: &[Place], facts: &Facts) -> Place {
    let stride = settings.iter().find(|(axis, _)| axis == "stride");
    let stride = stride.and_then(|(_, values)| parse_bytes(values.first()?));
    let size = facts.bytes_beyond_caches(stride.unwrap_or(0));
    ("size".to_owned(), vec![display_bytes(size)])
}

/// Checks that this machine has the memory for a point, since studies were made on larger ones, and that the
/// point names what is to be read.
pub(super) fn fits(table: Table, point: &Point, facts: &Facts) -> Result<(), String> {
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
