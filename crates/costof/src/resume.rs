//! Whether and how an interrupted run continues.

use crate::error::{Result, bail};
use crate::machine::Machines;
use crate::placement;
use crate::record::Table;
use crate::terminal::quoted;
use costof_measure::probe;
use costof_measure::schedule::{MAX_LAUNCHES, MIN_LAUNCHES};
use costof_model::noise::{MEASURED, PEER};
use costof_model::{Facts, Hosts, Run};
use std::path::Path;

/// The command that continues an interrupted run.
pub(crate) fn command(path: &Path, force: bool) -> String {
    let force = if force { " --force" } else { "" };
    format!("costof run --resume {}{force}", quoted(path))
}

/// What to do about a run that is not finished.
pub(crate) fn advice(run: &Run, path: &Path) -> String {
    let force = check_commands(&run.run.plan.hosts, false).is_err();
    format!("interrupted; `{}` measures what is missing", command(path, force))
}

/// A run file may come from anybody, so the commands in it do not run without the user's consent.
pub(crate) fn check_commands(hosts: &Hosts, force: bool) -> Result<()> {
    let hosts_named = [&hosts.on, &hosts.peer].into_iter().flatten();
    let mut commands =
        hosts_named.filter(|host| host.starts_with("exec:")).chain(&hosts.remote_costof);
    match commands.next() {
        Some(command) if !force => bail!(
            "resuming this run executes a command that its file names: {} (--force, if you trust it)",
            command.escape_debug()
        ),
        _ => Ok(()),
    }
}

/// Checks that an interrupted run may continue here. Its probes must have the same methods, and its CPUs must
/// be available. Unless it is forced, it also needs the same costof, machine and kernel.
pub(crate) fn check(table: Table, run: &Run, machines: &Machines, force: bool) -> Result<()> {
    let plan = &run.run.plan;
    for point in plan.points() {
        let Some(probe) = probe::find(table, &point.probe) else {
            bail!(
                "this costof has no probe {}: resume with the one that started the run",
                point.probe
            );
        };
        if !probe.info.allows(&point.axes) {
            bail!("this costof has no point {point}: resume with the one that started the run");
        }
    }
    for (probe, method) in &machines.measured.description.probes {
        match run.probe(probe).map(|info| info.method) {
            Some(begun) if begun != *method => bail!(
                "the run was started with method {begun} of {probe}, and this costof has method \
                 {method}, whose numbers are not comparable: start a new run"
            ),
            _ => {}
        }
    }
    match plan.launches {
        Some(asked) if !(MIN_LAUNCHES..=MAX_LAUNCHES).contains(&asked) => bail!(
            "the run asks for {asked} launches of each point, but {MIN_LAUNCHES} to {MAX_LAUNCHES} are allowed: start a new run"
        ),
        _ => {}
    }
    if run.end.is_none() {
        placement::check(&plan.placement, machines)?;
    }
    let differences = differences(run, machines);
    if !differences.is_empty() && !force {
        bail!(
            "the run was started with another {}, so new launches would not be comparable: start a new run (--force resumes anyway)",
            differences.join(" and another ")
        );
    }
    Ok(())
}

/// How the machines of the last attempt differ from the present ones.
fn differences(run: &Run, machines: &Machines) -> Vec<&'static str> {
    let Some(last) = run.attempts.last() else {
        return Vec::new();
    };
    let differs = |field: fn(&Facts) -> &Option<String>| {
        let mut both = machines.iter().zip([MEASURED, PEER]);
        both.any(|(machine, role)| {
            let begun = last.hosts.get(role).and_then(|facts| field(facts).as_ref());
            let now = field(&machine.description.facts).as_ref();
            // An unknown value is not a difference.
            begun.zip(now).is_some_and(|(begun, now)| begun != now)
        })
    };
    let peers = last.peer.as_ref().zip(machines.peer.as_ref());
    let is_other_build = last.build != machines.measured.description.build
        || peers.is_some_and(|(begun, now)| begun.build != now.description.build);
    let all = [
        ("costof", is_other_build),
        ("host", differs(|facts| &facts.host_name)),
        ("CPU model", differs(|facts| &facts.cpu.model_name)),
        ("kernel", differs(|facts| &facts.kernel.release)),
    ];
    let differing = all.into_iter().filter(|(_, differs)| *differs);
    differing.map(|(what, _)| what).collect()
}
