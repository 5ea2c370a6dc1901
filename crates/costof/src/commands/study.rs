//! `costof study`: a study's figures beside what this machine gives.

use crate::cli::{self, RunOptions, StudyOptions};
use crate::commands::run::resume_by;
use crate::error::{Error, wrong};
use crate::interrupts;
use crate::machine::{self, Asking, Machine};
use crate::placement;
use crate::planning::{self, Asked};
use crate::record;
use crate::session::{Session, hosts_of, own_commands};
use crate::tell::tell;
use clap::Parser;
use costof_lab::host::Host;
use costof_measure::probe::{self, Probe};
use costof_measure::schedule::Precision;
use costof_measure::worker::UNKNOWN_BUILD;
use costof_model::facts::Facts;
use costof_model::link::Link;
use costof_model::nearest;
use costof_model::noise::MEASURED;
use costof_model::point::Point;
use costof_model::probe_info::ProbeInfo;
use costof_model::run_file::Run;
use costof_report::names::points_counted;
use costof_report::study::{EMBEDDED, FILE_MAX_BYTES, Selection, Study};
use costof_report::{csv, page};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

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
    let infos: Vec<&ProbeInfo> = table.iter().map(|probe| &probe.info).collect();
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

    /// Says which builds measure what.
    fn tell_of_builds(&self) -> Result<(), Error> {
        if cfg!(debug_assertions) {
            tell(
                "this costof is itself an unoptimised build (`cargo build --release` makes the other): \
                 what it measures of its own code is slower",
            );
        }
        if self.study.asks_unoptimised(&self.infos).map_err(wrong)? {
            match &self.options.unoptimised {
                Some(build) => tell(format!(
                    "some of it is measured by the unoptimised build {} too, after the rest",
                    build.display()
                )),
                None => tell(
                    "some of its figures are those of an unoptimised build: `cargo build` makes one, \
                     and `--unoptimised target/debug/costof` measures them; without, they are absent",
                ),
            }
        }
        Ok(())
    }

    /// What was measured before, where only the unoptimised build is missing and it `goes_on` with that;
    /// `None` where nothing was measured. What is there is never measured over.
    fn first_half(&self, goes_on: bool) -> Result<Option<Run>, Error> {
        let [first, second] = [RUN, UNOPTIMISED].map(|file| self.folder.join(file));
        let path = first.display();
        if !first.exists() {
            return match second.exists() {
                false => Ok(None),
                true => Err(wrong(format!(
                    "{} is there already, and no {RUN} that it belongs to: name another folder by --out",
                    second.display()
                ))),
            };
        }
        if !goes_on || second.exists() {
            return Err(wrong(format!(
                "{path} is there already: name another folder by --out, or show that run by `costof study \
                 {} --run {path}`",
                self.named()
            )));
        }
        let run = record::read(&first)?;
        if run.end.is_none() {
            let by = resume_by(&first, false);
            return Err(wrong(format!(
                "{path} is there already and was interrupted: `{by}` measures what is missing of it, and \
                 then the same command goes on with the unoptimised build"
            )));
        }
        let asked = planning::precision(&self.run_options(RUN)).name();
        if run.run.plan.precision != asked {
            return Err(wrong(format!(
                "{path} is there already, by precision {}, and the unoptimised build is asked for {asked}: \
                 measure both alike",
                run.run.plan.precision
            )));
        }
        tell(format!(
            "{path} is there already: only the unoptimised build is asked"
        ));
        Ok(Some(run))
    }

    /// The unoptimised build as a host, where there is one and the study asks something of it.
    fn unoptimised(&self) -> Result<Option<Host>, Error> {
        let Some(build) = &self.options.unoptimised else {
            return Ok(None);
        };
        let cannot = |error| wrong(format!("cannot find {}: {error}", build.display()));
        let build = build.canonicalize().map_err(cannot)?;
        if self.selected(true).next().is_none() {
            return Ok(None);
        }
        let quoted = build.display().to_string().replace('\'', r"'\''");
        Ok(Some(Host::Exec(format!("'{quoted}' worker"))))
    }

    /// Looks whether the unoptimised build is a costof, and unoptimised.
    fn meet(&self, host: &Host, interrupted: &AtomicBool) -> Result<(), Error> {
        let (worker, _) = own_commands(None)?;
        let asking = Asking {
            command: &worker,
            limit: Duration::from_secs(self.options.timeout),
            interrupted,
        };
        let met = Machine::meet(host, asking).map_err(|error| match error {
            Error::Nothing(reason) => wrong(format!("--unoptimised is no costof to ask: {reason}")),
            error => error,
        })?;
        match met.description.unoptimised {
            Some(false) => Err(wrong(format!(
                "--unoptimised is an optimised build, as {host} says of itself: `cargo build` makes \
                 the other, target/debug/costof"
            ))),
            // Older ones say nothing of it.
            Some(true) | None => Ok(()),
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

    /// The command that measures by the unoptimised build what is missing beside a complete run.
    fn second_half_by(&self) -> String {
        let options = self.options;
        let precision = match planning::precision(&self.run_options(RUN)) {
            Precision::Quick => " --quick",
            Precision::Default => "",
            Precision::Full => " --full",
        };
        let cpu = options.cpu.as_ref();
        let cpu = cpu.map_or_else(String::new, |cpu| format!(" --cpu {cpu}"));
        let build = options.unoptimised.as_deref().unwrap_or(Path::new("PATH"));
        format!(
            "costof study {}{precision}{cpu} --unoptimised {} --out {}",
            self.named(),
            build.display(),
            self.folder.display()
        )
    }

    /// The study beside a run that is there already.
    fn show_again(&self, file: &Path) -> Result<ExitCode, Error> {
        let read = |path: &Path| -> Result<Run, Error> {
            let (run, cut) = record::read_to_show(path)?;
            if let Some(cut) = cut {
                tell(format!("{}: {cut}", path.display()));
            }
            Ok(run)
        };
        if file
            .file_name()
            .is_some_and(|name| name == PAGE || name == MARKDOWN)
        {
            return Err(wrong(format!(
                "{} may be overwritten by what is made of it: call the run something else",
                file.display()
            )));
        }
        let run = read(file)?;
        let beside = file.with_file_name(UNOPTIMISED);
        let unoptimised = beside.exists().then(|| read(&beside)).transpose()?;
        let measured = Measured { run, unoptimised };
        match &self.options.out {
            Some(_) => self.show(&measured),
            None => {
                // Beside the run, where no other place is named.
                let folder = file.parent().unwrap_or(Path::new(""));
                let command = Command {
                    folder: folder.to_owned(),
                    study: self.study.clone(),
                    infos: self.infos.clone(),
                    ..*self
                };
                command.show(&measured)
            }
        }
    }

    /// Prints the tables, and writes the page and the Markdown.
    fn show(&self, measured: &Measured) -> Result<ExitCode, Error> {
        let Measured { run, unoptimised } = measured;
        let facts = facts_of(run);
        let why = |point: &Point| fits(self.table, point, &facts).err();
        let runs = (run, unoptimised.as_ref());
        let held = self
            .study
            .held(&self.infos, runs, &why, said(measured))
            .map_err(wrong)?;
        io::stdout().lock().write_all(held.text(run).as_bytes())?;
        fs::create_dir_all(&self.folder).map_err(|error| {
            wrong(format!(
                "cannot make the folder {}: {error}",
                self.folder.display()
            ))
        })?;
        let write = |name: &str, text: &str| {
            let path = self.folder.join(name);
            fs::write(&path, text)
                .map_err(|error| wrong(format!("cannot write {}: {error}", path.display())))
        };
        write(PAGE, &page::of_study(run, &held))?;
        write(MARKDOWN, &held.markdown(run))?;
        if self.options.csv {
            let folder = self.folder.join("csv");
            fs::create_dir_all(&folder).map_err(|error| {
                wrong(format!(
                    "cannot make the folder {}: {error}",
                    folder.display()
                ))
            })?;
            for (name, text) in csv::files(run) {
                write(&format!("csv/{name}"), &text)?;
            }
        }
        let csv = if self.options.csv { ", csv/" } else { "" };
        tell(format!(
            "in {}: {PAGE}, {MARKDOWN}{csv}",
            match self.folder.as_os_str().is_empty() {
                true => ".".into(),
                false => self.folder.display().to_string(),
            }
        ));
        Ok(ExitCode::SUCCESS)
    }
}

/// What has to be known of these runs.
fn said(measured: &Measured) -> Vec<String> {
    let Measured { run, unoptimised } = measured;
    let planned: usize = run
        .run
        .plan
        .blocks
        .iter()
        .map(|block| block.points.len())
        .sum();
    let facts = facts_of(run);
    let cpus = facts.planned_cpus().len();
    let mut said = vec![format!(
        "Precision {}: {} of {} have a number; the run had {cpus} processors, and what needs more \
         threads than that, or more memory than half of what is free, is left out",
        run.run.plan.precision,
        run.points.len(),
        points_counted(planned),
    )];
    if run.end.is_none() {
        said.push("The run did not come to its end: what is missing was not measured".to_owned());
    }
    if let Some(unoptimised) = unoptimised {
        said.push(
            "The unoptimised build was measured after the other, not in turns with it: what changed \
             meanwhile is in their difference"
                .to_owned(),
        );
        if unoptimised.end.is_none() {
            said.push("The unoptimised build's run did not come to its end: what is missing was not measured".to_owned());
        }
        if build_of(run).is_some() && build_of(run) == build_of(unoptimised) {
            said.push(
                "The unoptimised build and the other are the same program: their difference says \
                 nothing of optimisation"
                    .to_owned(),
            );
        }
    }
    said
}

/// Which costof measured a run.
fn build_of(run: &Run) -> Option<&str> {
    let build = run.attempts.last().map(|attempt| &*attempt.build);
    build.filter(|build| *build != UNKNOWN_BUILD)
}

/// The facts of the machine that a run measured, with its processors.
fn facts_of(run: &Run) -> Facts {
    let attempt = run.attempts.last();
    let facts = attempt.and_then(|attempt| attempt.hosts.get(MEASURED));
    let facts = facts.cloned().unwrap_or_default();
    placement::facts_of_the_run(&run.run.plan.placement, &facts)
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

#[cfg(test)]
mod tests {
    use super::*;
    use costof_findings::kinds::KINDS;
    use costof_model::facts::{Cache, CacheKind, CpuSet};
    use costof_model::noise::Placement;
    use costof_model::rows::{Hosts, Plan};
    use std::collections::BTreeSet;

    const TABLE: &[&Probe] = costof_probes::TABLE;

    fn command<'a>(
        options: &'a StudyOptions,
        name: &str,
        text: &str,
    ) -> Result<Command<'a>, String> {
        let study = Study::read(name, &format!("{name}.toml"), text)?;
        let infos: Vec<&ProbeInfo> = TABLE.iter().map(|probe| &probe.info).collect();
        study.check(&infos)?;
        Ok(Command {
            table: TABLE,
            options,
            folder: PathBuf::from("study"),
            study,
            infos,
        })
    }

    fn options(quick: bool) -> StudyOptions {
        StudyOptions {
            study: None,
            quick,
            full: false,
            out: None,
            run: None,
            unoptimised: None,
            csv: false,
            cpu: None,
            seed: None,
            no_wait: false,
            dry_run: false,
            timeout: 60,
        }
    }

    /// A machine on which everything can be asked.
    fn large_machine() -> Facts {
        let cache = |level, size_bytes| Cache {
            level,
            kind: CacheKind::Unified,
            size_bytes,
            shared_by: vec![CpuSet::parse("0-15").unwrap()],
            ..Cache::default()
        };
        let mut facts = Facts::default();
        facts.cpu.online = CpuSet::parse("0-15").unwrap();
        facts.cpu.caches = vec![cache(1, 32 << 10), cache(2, 1 << 20), cache(3, 32 << 20)];
        facts
    }

    fn planned(command: &Command<'_>, unoptimised: bool) -> Plan {
        let options = command.run_options(RUN);
        let said: Vec<(&Selection, RunOptions)> = command
            .selected(unoptimised)
            .map(|selection| (selection, command.said(selection, &options).unwrap()))
            .collect();
        let asked = said
            .iter()
            .map(|(selection, said)| command.asked(selection, said).unwrap());
        let asked: Vec<Asked<'_>> = asked.collect();
        let to_peer = (None, Hosts::default());
        let placement = Placement::default();
        let facts = large_machine();
        planning::plan(TABLE, &asked, &facts, placement, to_peer, &mut |_| true).unwrap()
    }

    #[test]
    fn every_figure_of_every_study_is_asked_of_a_probe() {
        for (name, text) in EMBEDDED {
            let options = options(false);
            let command = command(&options, name, text).unwrap();
            let plans = [false, true].map(|unoptimised| planned(&command, unoptimised));
            for (point, label, unoptimised) in command.study.points(&command.infos).unwrap() {
                // Only a disk that turns has such rows.
                if point.probe == "file.read" && label.is_some() {
                    continue;
                }
                let mut blocks = plans[usize::from(unoptimised)].blocks.iter();
                let asked = blocks.any(|block| match &label {
                    None => block.points.contains(&point),
                    Some(label) => {
                        let mut labels = block.labels.iter();
                        let first = &block.points[0];
                        (&first.probe, &first.link) == (&point.probe, &point.link)
                            && labels.any(|(_, own)| own.contains(label.as_str()))
                    }
                });
                assert!(asked, "{name} asks {point} {label:?} nowhere");
            }
        }
    }

    #[test]
    fn the_study_in_the_documents_is_one() {
        let told = include_str!("../../../../docs/STUDIES.md");
        let (_, rest) = told.split_once("```toml\n").unwrap();
        let (example, _) = rest.split_once("```").unwrap();
        let options = options(true);
        let command = command(&options, "course", example).unwrap();
        assert_eq!(planned(&command, false).blocks.len(), 2);
        assert_eq!(command.study.points(&command.infos).unwrap().len(), 2);
        for kind in KINDS {
            assert!(told.contains(&format!("`{kind}`")), "{kind} is not told");
        }
    }

    #[test]
    fn a_quick_study_asks_less_and_no_point_twice() {
        for (name, text) in EMBEDDED {
            let count = |quick| {
                let options = options(quick);
                let plan = planned(&command(&options, name, text).unwrap(), false);
                let points = plan.blocks.iter().flat_map(|block| &block.points);
                let distinct: BTreeSet<&Point> = points.clone().collect();
                assert_eq!(distinct.len(), points.count(), "{name}");
                distinct.len()
            };
            assert!(count(true) <= count(false), "{name}");
        }
    }

    #[test]
    fn a_machine_that_is_too_small_is_told() {
        let facts = large_machine();
        let sends = |threads: u64| {
            let probe = probe::find(TABLE, "copy.send").unwrap();
            let point = Point {
                probe: probe.info.id.clone(),
                axes: probe.info.defaults().with("threads", threads),
                link: "loopback".into(),
            };
            fits(TABLE, &point, &facts)
        };
        assert_eq!(sends(16), Ok(()));
        assert!(sends(17).unwrap_err().contains("16 processors"));
    }

    #[test]
    fn what_a_study_gets_wrong_is_told_with_its_line() {
        let head = "title = 't'\nsource = 's'\nmachine = 'm'\n";
        let table = |rows: &str| format!("[[table]]\ntitle = 't'\nunit = 'ns'\nrows = [{rows}]");
        for (more, says) in [
            (
                table("{name='r',point='cpu.clok'}"),
                vec!["line 7", "point of `r`", "`cpu.clock`"],
            ),
            (
                table("{name='r',point='cpu.clock',at='sorce=tsc'}"),
                vec!["line 7", "at of `r`", "`source`"],
            ),
            (
                table("{name='r',point='cpu.clock source=realtme'}"),
                vec!["line 7", "`realtme`", "`realtime`"],
            ),
            (
                table("{name='r',point='cpu.clock',metric='costs'}"),
                vec!["line 7", "metric of `r`", "`cost`"],
            ),
            (
                table("{name='r',point='cpu.clock',unit='GB/s'}"),
                vec!["line 7", "unit of `r`"],
            ),
            (
                table("{name='r',point='cpu.clock',unit='us'}"),
                vec!["line 7", "`us`"],
            ),
            (
                table("{name='r',point='cpu.clock',of='p200'}"),
                vec!["line 7", "of of `r`"],
            ),
            (
                table("{name='r',point='cpu.clock',times=-1}"),
                vec!["line 7", "times of `r`"],
            ),
            (
                table("{name='r',point='cpu.clock over lan'}"),
                vec!["line 7", "one end"],
            ),
            (
                table("{name='r',measured=5}"),
                vec!["line 7", "point of `r`", "absent"],
            ),
            (
                table("{name='r',point='cpu.clock',measured=[5,4]}"),
                vec!["line 7", "measured of `r`", "range"],
            ),
            (
                "[[question]]\nask='?'\nbecause='b'\nkinds=['memory_level']".to_owned(),
                vec!["line 7", "kinds", "`memory_level`", "`memory_levels`"],
            ),
            (
                "[[question]]\nask='?'\nbecause='b'\nkinds=[]\nabout=['rpx.load']".to_owned(),
                vec!["line 8", "about", "`rpx.load`", "`rpc.load`"],
            ),
        ] {
            let options = options(false);
            let told = command(&options, "x", &format!("{head}{more}"))
                .err()
                .unwrap();
            assert!(
                says.iter().all(|part| told.contains(part)),
                "{says:?}: {told}"
            );
        }
        let run = format!("{head}[[run]]\nwhat = 'cpu.clok --quick'");
        let options = options(false);
        let command = command(&options, "x", &run).unwrap();
        let told = command.said(&command.study.selections[0], &command.run_options(RUN));
        let told = told.unwrap_err().to_string();
        assert!(
            told.contains("line 5") && told.contains("--quick"),
            "{told}"
        );
    }
}
