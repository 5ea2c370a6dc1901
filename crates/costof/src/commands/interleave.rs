//! `costof compare --interleave`: measures two hosts in turns, launch by launch.

use crate::cli::RunOptions;
use crate::controller::interleave;
use crate::error::{Error, Result, bail};
use crate::history;
use crate::machine::{self, Machines, hosts_on};
use crate::placement;
use crate::plan::cost::Cost;
use crate::plan::request::Request;
use crate::record::{Record, Table};
use crate::session::{Session, begin, first_row};
use crate::terminal::{log, watch_interrupts};
use costof_lab::host::Host;
use costof_model::noise::{ELIGIBLE, MEASURED};
use costof_model::{Plan, RunRow};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// The run files of both sides in the folder of `--out`.
pub(super) fn files_in(folder: &Path) -> [PathBuf; 2] {
    ["before.jsonl", "after.jsonl"].map(|name| folder.join(name))
}

/// Measures what the options ask for on both hosts that they name.
///
/// # Errors
/// The errors of a run. If the user interrupts, both files stay.
pub(super) fn measure(table: Table, options: &RunOptions) -> Result<[Record; 2]> {
    let [one, other] = options.on.as_slice() else {
        bail!("--interleave takes two hosts, not {}", options.on.len());
    };
    // The request is checked before anything starts, and neither run begins without the other.
    let files = options.out.as_deref().map(files_in);
    let mut files = files.iter().flatten();
    if let Some(file) = files.find(|file| file.symlink_metadata().is_ok()) {
        bail!("{} exists already: name another folder with --out", file.display());
    }
    refuse_a_third(options)?;
    let mut request = Request::new(table, options)?;
    // Costs are compared with costs, so predictions are not needed.
    request.with_needed = false;
    let interrupted = watch_interrupts()?;
    let remote_costof = options.remote.remote_costof.as_ref();
    let session = Session::new(table, options, vec![request], remote_costof, &interrupted)?;
    let connect = |host| {
        let hosts = hosts_on(options, Some(host));
        Machines::connect(&hosts, session.setting(), &session.display)
    };
    let mut machines = [connect(one)?, connect(other)?];
    let plans = plans(&session, &machines)?;
    let [first, second] = machines.each_mut().map(|machines| &mut machines.measured);
    session.hold(first, Some(second), Duration::ZERO)?;
    session.preflight(machines.iter_mut().map(|machines| &mut machines.measured))?;
    let mut records = create(table, options, plans)?;
    for (machines, record) in machines.iter().zip(&mut records) {
        begin(record, machines, None)?;
    }
    let plan = &records[0].run.run.plan;
    let mut cost = Cost::new(table, plan, options.measuring.precision()).interleaved();
    cost.time *= 2;
    let launches = plan.blocks.len() as u64 * u64::from(cost.launches);
    let progress =
        ["before", "after"].map(|name| session.display.run(launches, cost.time, Some(name)));
    let paths = records.each_ref().map(|record| record.path().display());
    session.display.say(&format!(
        "{} on {one} and {other} in turns, to {} and {}",
        cost.announced(),
        paths[0],
        paths[1],
    ));
    let [before, after] = &mut records;
    let [first, second] = &mut machines;
    let mut controllers = [
        session.controller(first, &progress[0], before)?,
        session.controller(second, &progress[1], after)?,
    ];
    interleave::execute(&mut controllers)?;
    drop(controllers);
    drop(progress);
    drop(machines);
    drop(session);
    if interrupted.load(Ordering::Relaxed) {
        records.iter_mut().try_for_each(Record::close)?;
        let [one, other] = records.each_ref().map(|record| record.path().display());
        log(format!(
            "what was measured is in {one} and {other}; a comparison in turns cannot be resumed: start it again"
        ));
        return Err(Error::Interrupted);
    }
    records.iter_mut().try_for_each(Record::end)?;
    Ok(records)
}

/// Refuses a third host in the place of a probe.
fn refuse_a_third(options: &RunOptions) -> Result<()> {
    let mut words = options.probes.iter();
    match words.find(|word| word.parse::<Host>().is_ok()) {
        Some(word) => bail!(
            "--interleave takes two hosts, and {word} is a third one: what follows the two hosts is what to measure"
        ),
        None => Ok(()),
    }
}

/// The same plan for both hosts: what the first host can measure, so that launches have counterparts. If both
/// hosts are one machine, they use the same CPUs.
fn plans(session: &Session<'_>, machines: &[Machines; 2]) -> Result<[Plan; 2]> {
    let [one, other] = machines.each_ref().map(|machines| &machines.measured);
    let mut cpus = session.options.measuring.cpu.clone();
    let mut eligible = None;
    if cpus.is_none() && machine::one_machine(one, other) {
        let usual = placement::of_machine(one, None)?;
        let allowed = other.allowed();
        let both = |name: &str| {
            let mut both = usual.0.get(name).cloned().unwrap_or_default();
            both.retain(|cpu| allowed.contains(cpu));
            both
        };
        let measured = both(MEASURED);
        cpus = (!measured.is_empty()).then(|| placement::listed(&measured));
        eligible = Some(both(ELIGIBLE));
    }
    let plan = |machines: &Machines| {
        let hosts = hosts_on(session.options, Some(&machines.measured.host));
        let mut plan = session.plan(machines, hosts, None, cpus.as_deref())?;
        let eligible = eligible.clone().map(|cpus| (ELIGIBLE.into(), cpus));
        plan.placement.0.extend(eligible);
        // Both share the time.
        plan.budget_ns = plan.budget_ns.map(|budget| budget / 2);
        plan.until_alone_ns = plan.until_alone_ns.map(|time| time / 2);
        Ok::<Plan, Error>(plan)
    };
    let [first, second] = [plan(&machines[0])?, plan(&machines[1])?];
    let blocks = first.blocks.clone();
    Ok([first, Plan { blocks, ..second }])
}

/// Creates a run file for each side. It names the other side's file, and both have the same seed.
fn create(table: Table, options: &RunOptions, plans: [Plan; 2]) -> Result<[Record; 2]> {
    let seed = options.measuring.seed.unwrap_or_else(|| fastrand::u64(..));
    let [first, second] = plans.map(|plan| first_row(plan, Some(seed)));
    let ids = [first.id.clone(), second.id.clone()];
    let create = |side: usize, row: RunRow| {
        let path = match &options.out {
            Some(folder) => files_in(folder)[side].clone(),
            None => history::new_file(&row.id)?,
        };
        let beside = Some(ids[1 - side].clone());
        Record::create(&path, RunRow { beside, ..row }, table)
    };
    Ok([create(0, first)?, create(1, second)?])
}
