//! What a classroom needs besides the tables: predictions that are made before anything is measured, sheets to print, the
//! runs of a class together, and what is wrong with a teacher's own study.

use super::{Command, RUN, planned, request};
use crate::anonymous::anonymous;
use crate::cli::RunOptions;
use crate::error::{Context, Done, Result, bail, wrong};
use crate::plan::cost::{Cost, precision};
use crate::record::Table;
use crate::terminal::{self, log, print, prose_columns, quoted};
use crate::{files, placement, record};
use costof_measure::facts;
use costof_model::noise::Placement;
use costof_model::rows::Guess;
use costof_model::{Point, ProbeInfo, harmless};
use costof_report::study::{Blank, Class, FILE_MAX_BYTES, Study};
use std::collections::HashSet;
use std::io::{self, BufRead, Write};
use std::path::Path;
use std::process::ExitCode;

/// The page of a class in the study's folder.
const CLASS: &str = "class.html";

impl Command<'_> {
    /// Shows the runs of a class together.
    pub(super) fn collect(&self) -> Done {
        let (files, mut runs) = record::many(&self.options.collect, self.table)?;
        let page = self.folder.join(CLASS);
        files.iter().try_for_each(|run| files::check_spares(&page, run))?;
        let names: Vec<Option<String>> =
            runs.iter().map(|run| self.options.names.then(|| run.host_name())).collect();
        if !self.options.names {
            runs.iter_mut().for_each(anonymous);
        }
        let compared =
            runs.iter().zip(names).map(|(run, name)| Ok((name, run, self.reproduced(run)?)));
        let class = Class::new(&self.study, compared.collect::<Result<_>>()?);
        files::create_folder(&self.folder)?;
        files::write_page(&page, &class.page())?;
        print(class.text(prose_columns()))
    }

    /// Writes the sheet to print, or its key with the answers of a run.
    pub(super) fn write_sheet(&self, file: &Path) -> Done {
        let run = self.options.run.clone().unwrap_or_else(|| self.folder.join(RUN));
        let study = Path::new(self.named());
        if study.exists() && files::check_spares(file, study).is_err() {
            bail!("{} is the study itself: name another file", file.display());
        }
        files::check_spares(file, &run)?;
        if self.options.run.is_some() && !self.options.key {
            bail!("a sheet without --key shows no run: leave out --run, or add --key");
        }
        let named = quoted(study);
        let sheet = |key| self.study.sheet(&self.infos, &named, key).map_err(wrong);
        if !self.options.key {
            files::write_page(file, &sheet(None)?)?;
            return Ok(ExitCode::SUCCESS);
        }
        if !run.exists() {
            bail!(
                "the key has the numbers of a run, and there is no {}: measure with `costof study {}`, or name a run with --run",
                run.display(),
                self.named()
            );
        }
        let (run, _) = record::read_to_show(&run, self.table)?;
        files::write_page(file, &sheet(Some((&self.reproduced(&run)?, &run)))?)?;
        Ok(ExitCode::SUCCESS)
    }

    /// The predictions of the form that is named; none without one.
    pub(super) fn filled_form(&self) -> Result<Vec<Guess>> {
        let Some(path) = &self.options.predictions else { return Ok(Vec::new()) };
        let name = path.display().to_string();
        let text = files::read_text(path, FILE_MAX_BYTES);
        let text = text.context(format_args!("cannot read {name}"))?;
        self.study.guesses(&self.infos, &name, &text).map_err(wrong)
    }

    /// What the person who runs the study answers when asked for predictions.
    pub(super) fn asked(&self) -> Result<Vec<Guess>> {
        let blanks = self.study.blanks(&self.infos).map_err(wrong)?;
        // Ctrl+C at a question ends costof.
        terminal::set_working(false);
        let guesses = ask(&blanks, &mut io::stdin().lock())?;
        terminal::set_working(true);
        if guesses.is_empty() {
            bail!(
                "nothing is predicted, so nothing is measured; `costof study {}` measures without",
                self.named()
            );
        }
        Ok(guesses)
    }
}

/// Names the mistakes of a study's file: first what it refers to, then what it runs, then the rows that nothing of that
/// measures.
pub(super) fn check(table: Table, study: &Study, infos: &[&ProbeInfo]) -> Done {
    let facts = placement::facts_of_the_run(&Placement::default(), &facts::gather());
    let mut mistakes = study.mistakes(infos);
    for quick in [false, true] {
        let mut options = RunOptions::default();
        options.measuring.quick = quick;
        let questions = (0..study.asks().count()).flat_map(|at| study.selections_of(at));
        let selections = study.selections.iter().chain(questions);
        let selections = selections.filter(|selection| !selection.words(quick).is_empty());
        let wrong = selections
            .filter_map(|selection| request(table, study, selection, &options, &facts).err());
        mistakes.extend(wrong.map(|error| error.to_string()));
    }
    // A selection may be in several places.
    let mut seen = HashSet::new();
    mistakes.retain(|mistake| seen.insert(mistake.clone()));
    if mistakes.is_empty() {
        let plan = planned(table, study, (false, &[]), &facts, &mut |_| true)?;
        let points: HashSet<&Point> = plan.points().collect();
        mistakes = study.unmeasured(infos, |point| points.contains(point));
        if mistakes.is_empty() {
            let cost = Cost::new(table, &plan, precision(&plan)?).announced();
            return print(format!("no mistake; it measures {cost}\n"));
        }
    }
    Err(wrong(mistakes.join("\n")))
}

/// Asks for a number for each row until the input ends. What is no number is asked for again.
fn ask(blanks: &[Blank], input: &mut impl BufRead) -> Result<Vec<Guess>> {
    log(format_args!(
        "{} rows to predict, each in its unit or with another (0.2 µs); an empty line leaves one out, Ctrl+D the rest",
        blanks.len()
    ));
    let mut guesses = Vec::new();
    let mut table = "";
    for blank in blanks {
        if blank.table != table {
            table = &blank.table;
            log(table);
        }
        loop {
            write!(io::stderr(), "  {}: ", harmless::lines(&blank.label()))?;
            let mut line = String::new();
            if input.read_line(&mut line)? == 0 {
                writeln!(io::stderr())?;
                return Ok(guesses);
            }
            match blank.read(&line) {
                Ok(guess) => {
                    guesses.extend(guess);
                    break;
                }
                Err(why) => log(why),
            }
        }
    }
    Ok(guesses)
}
