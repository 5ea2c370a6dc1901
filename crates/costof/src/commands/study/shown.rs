//! The output of a study.

use super::{Command, MARKDOWN, PAGE, RUN, fits, places, planned};
use crate::error::{Done, Error, Result, bail, wrong};
use crate::record::Table;
use crate::terminal::{log, print, prose_columns};
use crate::{files, history, placement, record};
use costof_measure::probe;
use costof_model::{Facts, Point, Run, counted, span};
use costof_report::names::points_counted;
use costof_report::study::{Reproduction, absent};
use costof_report::{csv, page, plots};
use std::collections::{BTreeMap, HashSet};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

/// The report to edit in its folder.
const REPORT: &str = "report.md";

impl Command<'_> {
    /// Compares the study with an existing run.
    pub(super) fn show_again(&self, file: &Path) -> Done {
        let name = file.file_name();
        if name.is_some_and(|name| name == PAGE || name == MARKDOWN) {
            bail!("{} is the name of a file that the study writes: rename the run", file.display());
        }
        let (run, _) = record::read_to_show(file, self.table)?;
        // Next to the run, unless `--out` names a folder, or the run is in the history.
        let folder = match (&self.options.out, file.parent()) {
            (None, Some(folder)) if !history::folder().is_ok_and(|of| of == folder) => folder,
            _ => &self.folder,
        };
        self.show_in(folder, file, &run)
    }

    /// Prints the tables, and writes the page and the Markdown.
    pub(super) fn show(&self, run: &Run) -> Done {
        self.show_in(&self.folder, &self.folder.join(RUN), run)
    }

    /// Refuses to replace a report, which somebody may have edited.
    pub(super) fn spare_report(&self) -> Result<()> {
        let report = self.options.markdown.as_ref().map(|folder| folder.join(REPORT));
        match report.filter(|report| report.exists()) {
            Some(report) => bail!(
                "{} exists already, and may have been edited: name another folder",
                report.display()
            ),
            None => Ok(()),
        }
    }

    /// The study compared with a run.
    pub(super) fn reproduced(&self, run: &Run) -> Result<Reproduction<'_>> {
        let facts = facts_of(run);
        let why = |point: &Point| fits(self.table, point, &facts).err();
        self.study.reproduced_by(&self.infos, run, &why, self.caveats(run)?).map_err(wrong)
    }

    fn show_in(&self, folder: &Path, run_file: &Path, run: &Run) -> Done {
        self.spare_report()?;
        let reproduction = self.reproduced(run)?;
        print(reproduction.text(run, prose_columns()))?;
        files::create_folder(folder)?;
        files::write(&folder.join(PAGE), &page::of_study(run, &reproduction))?;
        files::write(&folder.join(MARKDOWN), &reproduction.markdown(run))?;
        let mut more = String::new();
        if self.options.csv {
            let own = self.study.csv(run);
            let all: Vec<_> = csv::files(run).into_iter().chain(own).collect();
            files::write_all(&folder.join("csv"), &all, run_file)?;
            more += ", csv/";
        }
        if self.options.svg {
            let mut all = self.study.svg(&self.infos, run).map_err(wrong)?;
            all.extend(plots::svg(run));
            files::write_all(&folder.join("svg"), &all, run_file)?;
            more += ", svg/";
        }
        if let Some(folder) = &self.options.markdown {
            files::write_all(folder, &reproduction.report(run), run_file)?;
            files::report_path("the report to edit is", &folder.join(REPORT));
        }
        let shown = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
        log(format!("in {}: {PAGE}, {MARKDOWN}{more}", shown.display()));
        Ok(ExitCode::SUCCESS)
    }

    /// Notes that a reader of this run has to know.
    fn caveats(&self, run: &Run) -> Result<Vec<String>> {
        let facts = facts_of(run);
        let places = places::of_run(run);
        let all = planned(self.table, &self.study, (false, &places), &facts, &mut |_| true)?;
        let points: Vec<Point> = all.points().cloned().collect();
        let without = self.without_number(run, &points, &facts);
        let count: usize = without.values().sum();
        if count == points.len() && run.end.is_some() {
            return Err(Error::Nothing("the run has none of the study's points".to_owned()));
        }
        let mut caveats = vec![format!(
            "Precision {}: {} of the study's {} have a number; the run had {}{}",
            run.run.plan.precision,
            points.len() - count,
            points_counted(points.len()),
            counted(facts.planned_cpus().len(), "CPU"),
            took(run).map_or_else(String::new, |time| format!(" and took {} s", time.as_secs())),
        )];
        let reasons = without.iter().map(|(why, count)| format!("{count} ({why})"));
        if count > 0 {
            let reasons: Vec<String> = reasons.collect();
            caveats.push(format!("Without a number: {}", reasons.join(", ")));
        }
        caveats.extend(oversubscribed(self.table, run, facts.planned_cpus().len()));
        if run.end.is_none() {
            caveats.push("The run was interrupted: what is missing was not measured".to_owned());
        }
        Ok(caveats)
    }

    /// How many of these points have no number in a run, by the reason.
    fn without_number(
        &self,
        run: &Run,
        points: &[Point],
        facts: &Facts,
    ) -> BTreeMap<String, usize> {
        let earlier = run.run.plan.earlier.iter().map(|earlier| &earlier.row.point);
        let measured: HashSet<&Point> =
            run.points.iter().map(|row| &row.point).chain(earlier).collect();
        let mut without = BTreeMap::new();
        let why = |point: &Point| fits(self.table, point, facts).err();
        for point in points.iter().filter(|point| !measured.contains(point)) {
            let why = absent(run, |own| own == point, point, &why);
            *without.entry(why).or_default() += 1;
        }
        without
    }
}

/// How many more threads than CPUs some of the points have.
fn oversubscribed(table: Table, run: &Run, cpus: usize) -> Option<String> {
    let threads = run.points.iter().filter_map(|row| {
        let probe = probe::find(table, &row.point.probe)?;
        Some((probe.processors)(&row.point)).filter(|threads| *threads > cpus)
    });
    let threads: Vec<usize> = threads.collect();
    let (least, most) = (threads.iter().min()?, threads.iter().max()?);
    let a_cpu = |threads: &usize| format!("{:.1}", *threads as f64 / cpus as f64);
    Some(format!(
        "Oversubscribed: {} of the run have {} threads, those of both ends together, on {}, {} a CPU: threads wait for a CPU, not only for each other",
        points_counted(threads.len()),
        span(&least.to_string(), " to ", &most.to_string()),
        counted(cpus, "CPU"),
        span(&a_cpu(least), " to ", &a_cpu(most)),
    ))
}

/// How long a run took that was not interrupted.
fn took(run: &Run) -> Option<Duration> {
    let [_] = run.attempts.as_slice() else {
        return None;
    };
    let time = |text: &str| humantime::parse_rfc3339(text).ok();
    let finished = time(&run.end.as_ref()?.finished)?;
    finished.duration_since(time(&run.run.started)?).ok()
}

/// The facts of the measured machine, with the CPUs of the run.
fn facts_of(run: &Run) -> Facts {
    let facts = run.facts().cloned().unwrap_or_default();
    placement::facts_of_the_run(&run.run.plan.placement, &facts)
}
