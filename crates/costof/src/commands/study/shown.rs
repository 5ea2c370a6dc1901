//! What a study shows of its runs.

use super::{Command, MARKDOWN, Measured, PAGE, UNOPTIMISED, fits};
use crate::error::{Error, wrong};
use crate::placement;
use crate::record;
use crate::tell::tell;
use costof_measure::worker::UNKNOWN_BUILD;
use costof_model::facts::Facts;
use costof_model::noise::MEASURED;
use costof_model::point::Point;
use costof_model::run_file::Run;
use costof_report::names::points_counted;
use costof_report::{csv, page};
use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

impl Command<'_> {
    /// The study beside a run that is there already.
    pub(super) fn show_again(&self, file: &Path) -> Result<ExitCode, Error> {
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
    pub(super) fn show(&self, measured: &Measured) -> Result<ExitCode, Error> {
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
    let planned = run.run.plan.points().count();
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
