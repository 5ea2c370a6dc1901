//! `costof compare --interleave`: two hosts are measured in one go, launch beside launch.

use crate::cli::RunOptions;
use crate::controller::in_turns;
use crate::error::{Error, wrong};
use crate::machine::{Asking, Machine, Waiting};
use crate::planning::{self, Asked};
use crate::progress::Display;
use crate::record::Record;
use crate::session::{
    Carrying, Ends, attempt, end, history_path, hold, id, new_file, own_commands,
};
use crate::tell::tell;
use crate::{interrupts, placement};
use costof_lab::host::Host;
use costof_measure::probe::Probe;
use costof_model::noise::MEASURED;
use costof_model::rows::{Hosts, Plan, RunRow, SCHEMA};
use costof_model::run_file::Run;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

/// The run files of both sides in the folder of `--out`.
pub(super) fn files_in(folder: &Path) -> [PathBuf; 2] {
    ["before.jsonl", "after.jsonl"].map(|name| folder.join(name))
}

/// Whether nothing of these is there, so that neither is begun without the other.
fn are_free(files: &[PathBuf; 2]) -> Result<(), Error> {
    match files.iter().find(|file| file.symlink_metadata().is_ok()) {
        None => Ok(()),
        Some(file) => Err(wrong(format!(
            "{} is there already: name another folder by --out",
            file.display()
        ))),
    }
}

/// Measures what the options ask on both hosts that they name, and where the runs are.
///
/// # Errors
/// As of a run; both files stay where it was interrupted.
pub(super) fn measured(
    table: &'static [&'static Probe],
    options: &RunOptions,
) -> Result<[(PathBuf, Run); 2], Error> {
    let [one, other] = options.on.as_slice() else {
        return Err(wrong(format!(
            "--interleave takes two hosts, not {}",
            options.on.len()
        )));
    };
    // What is asked is checked before anything starts.
    if let Some(folder) = &options.out {
        are_free(&files_in(folder))?;
    }
    let asked = planning::asked(table, options).map_err(|error| not_a_third(options, error))?;
    let interrupted = interrupts::watch()?;
    let (worker, holder) = own_commands(options.remote_costof.as_ref())?;
    let asking = Asking {
        command: &worker,
        limit: Duration::from_secs(options.timeout),
        interrupted: &interrupted,
    };
    let meet = |host| -> Result<Ends, Error> {
        let near = Machine::meet(host, asking)?;
        Ok(Ends { near, far: None })
    };
    let mut ends = [meet(one)?, meet(other)?];
    let display = Display::new();
    let plans = plans(table, &asked, options, &ends)?;
    let waiting = Waiting {
        in_silence: Duration::ZERO,
        then_until_it_is_free: !options.no_wait,
    };
    let [near, far] = ends.each_mut().map(|ends| &mut ends.near);
    hold(near, Some(far), waiting, asking, &display)?;
    let mut runs = begin(table, options, plans)?;
    for (ends, (record, run)) in ends.iter().zip(&mut runs) {
        placement::leave_the_measured(&run.run.plan.placement);
        record.write(run, attempt(ends, None))?;
    }
    let takes = planning::takes(table, &runs[0].1.run.plan, asked.precision).in_turns();
    let takes = planning::Takes {
        time: takes.time * 2,
        ..takes
    };
    let names = ["before", "after"];
    let launches = runs[0].1.run.plan.blocks.len() as u64 * u64::from(takes.launches);
    let progress = names.map(|name| display.run(launches, Some(name)));
    display.say(&format!(
        "{} on {one} and {other} in turns, to {} and {}",
        takes.announced(),
        runs[0].0.path().display(),
        runs[1].0.path().display(),
    ));
    let with = Carrying {
        table,
        asking,
        holder: &holder,
        precision: asked.precision,
    };
    let [(record, run), (other_record, other_run)] = &mut runs;
    let mut controllers = [
        with.controller(&ends[0], &progress[0], (record, run)),
        with.controller(&ends[1], &progress[1], (other_record, other_run)),
    ];
    in_turns::carry_out(&mut controllers)?;
    drop(controllers);
    drop(progress);
    drop(display);
    if interrupted.load(Ordering::Relaxed) {
        let [one, other] = runs.each_ref().map(|(record, _)| record.path().display());
        tell(format!(
            "what was measured is in {one} and {other}; it does not go on in turns, begin anew"
        ));
        return Err(Error::Interrupted);
    }
    for (record, run) in &mut runs {
        let end = end(run);
        record.write(run, end)?;
    }
    Ok(runs.map(|(record, run)| (record.path().to_owned(), run)))
}

/// A third host stands where probes do.
fn not_a_third(options: &RunOptions, error: Error) -> Error {
    let mut words = options.probes.iter();
    match words.find(|word| word.parse::<Host>().is_ok()) {
        Some(word) => wrong(format!(
            "--interleave takes two hosts, and {word} is a third: what stands behind them is what \
             to measure"
        )),
        None => error,
    }
}

/// The same plan for both: what is measured is what the first host can be asked for, so that launches
/// have neighbours. Two hosts that are one machine use the same processors.
fn plans(
    table: &'static [&'static Probe],
    asked: &Asked<'_>,
    options: &RunOptions,
    ends: &[Ends; 2],
) -> Result<[Plan; 2], Error> {
    let [one, other] = ends.each_ref().map(|ends| &ends.near);
    let mut cpus = options.cpu.clone();
    if cpus.is_none() && placement::one_machine(one, other) {
        let usual = placement::decide(None, one, None, None)?;
        let allowed = other.allowed();
        let both = usual.0.get(MEASURED).into_iter().flatten();
        let both = both.filter(|cpu| allowed.contains(cpu));
        let both: Vec<String> = both.map(usize::to_string).collect();
        cpus = (!both.is_empty()).then(|| both.join(","));
    }
    let plan = |near: &Machine| -> Result<Plan, Error> {
        let placement = placement::decide(cpus.as_deref(), near, None, None)?;
        let facts = placement::facts_of_the_run(&placement, &near.description.facts);
        let hosts = Hosts {
            on: (near.host != Host::Local).then(|| near.host.to_string()),
            remote_costof: options.remote_costof.clone(),
            ..Hosts::default()
        };
        planning::plan(
            table,
            std::slice::from_ref(asked),
            &facts,
            placement,
            (None, hosts),
            &mut |_| true,
        )
    };
    let [first, second] = [plan(one)?, plan(other)?];
    let blocks = first.blocks.clone();
    Ok([first, Plan { blocks, ..second }])
}

/// A run file for each, which names the other, with one seed.
fn begin(
    table: &[&'static Probe],
    options: &RunOptions,
    plans: [Plan; 2],
) -> Result<[(Record, Run); 2], Error> {
    let now = SystemTime::now();
    let seed = options.seed.unwrap_or_else(|| fastrand::u64(..));
    let ids = [id(now), id(now)];
    let [first, second] = plans;
    let file = |side: usize, plan| {
        let path = match &options.out {
            Some(folder) => files_in(folder)[side].clone(),
            None => history_path(&ids[side])?,
        };
        let row = RunRow {
            schema: SCHEMA,
            id: ids[side].clone(),
            started: humantime::format_rfc3339_seconds(now).to_string(),
            command: std::env::args().collect(),
            seed,
            beside: Some(ids[1 - side].clone()),
            plan,
        };
        new_file(table, &path, row)
    };
    Ok([file(0, first)?, file(1, second)?])
}
