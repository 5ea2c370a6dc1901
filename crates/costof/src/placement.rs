//! Decides which CPUs do what in a run, and among which its launches choose. It is recorded in the run.

use crate::error::{Context, Error, Result, bail};
use crate::machine::{Machine, Machines};
use costof_lab::addresses;
use costof_measure::facts;
use costof_model::noise::{CONTROLLER, ELIGIBLE, MEASURED, PEER};
use costof_model::{Facts, Few, Placement, Text};
use costof_os::sched::affinity;

/// The placement of a run. The measured CPUs are those of `--cpu`, in its order. Without it, the first is a
/// CPU of the fastest kind that usually has little else to do. All others follow for points that need
/// several, the nearest first, and each launch may choose among the CPUs that are like the first. If the
/// controller is on this machine, it gets the CPUs that are not measured, if there are any. A peer has a list
/// of its own if it is another machine, or if `--peer-cpu` gives it one; otherwise it shares the list of the
/// leading role.
// METHOD 13
pub(crate) fn decide(
    machines: &Machines,
    cpus: Option<&str>,
    peer_cpus: Option<&str>,
) -> Result<Placement> {
    let mut placement = of_machine(&machines.measured, cpus)?;
    match &machines.peer {
        Some(peer) if machines.are_two() => {
            let cpus = cpus_of(peer, peer_cpus, "--peer-cpu")?;
            placement.0.insert(Text::Borrowed(PEER), cpus);
        }
        Some(_) if peer_cpus.is_some() => bail!(
            "--peer-cpu is for a peer on another machine: on one machine, --cpu names the CPUs of both peers, the leading one's first"
        ),
        _ => {}
    }
    Ok(placement)
}

/// The placement of a run on one machine.
pub(crate) fn of_machine(machine: &Machine, cpus: Option<&str>) -> Result<Placement> {
    let measured = cpus_of(machine, cpus, "--cpu")?;
    let mut placement = Few::new();
    // A command may start its workers on this machine too.
    let is_here = addresses::one_machine(machine.boot(), facts::boot_id().as_deref());
    if machine.host.is_here() || is_here {
        let mut others = machine.allowed();
        others.retain(|cpu| measured.first() != Some(cpu));
        placement.insert(Text::Borrowed(CONTROLLER), others);
    }
    if let (None, [first, ..]) = (cpus, &measured[..]) {
        let facts = &machine.description.facts;
        let eligible = facts.interchangeable(*first, &measured);
        placement.insert(Text::Borrowed(ELIGIBLE), eligible);
    }
    placement.insert(Text::Borrowed(MEASURED), measured);
    Ok(Placement(placement))
}

fn cpus_of(machine: &Machine, asked: Option<&str>, option: &str) -> Result<Vec<usize>> {
    let allowed = machine.allowed();
    if allowed.is_empty() {
        return Err(Error::Nothing(format!(
            "{} does not say which CPUs its processes may use (/proc/self/status)",
            machine.host
        )));
    }
    let facts = &machine.description.facts;
    choose(asked, option, &allowed, facts)
}

/// The CPUs for a command that measures on this machine: the requested ones, or else chosen like those of a
/// run.
pub(crate) fn here(asked: Option<&str>) -> Result<Vec<usize>> {
    let allowed = affinity::allowed().context("cannot read the allowed CPUs")?;
    choose(asked, "--cpu", &allowed, &facts::gather())
}

fn choose(
    asked: Option<&str>,
    option: &str,
    allowed: &[usize],
    facts: &Facts,
) -> Result<Vec<usize>> {
    match asked {
        Some(list) => parse(list, option, allowed),
        None => Ok(facts.nearest_first(facts.quietest(allowed), allowed)),
    }
}

/// The facts with the CPUs of the run in its order, for plans and predictions.
pub(crate) fn facts_of_the_run(placement: &Placement, facts: &Facts) -> Facts {
    Facts {
        run_cpus: of_role(placement, MEASURED).map(|cpu| cpu as u32).collect(),
        ..facts.clone()
    }
}

/// Checks that the CPUs of an earlier attempt at the run are available now.
pub(crate) fn check(placement: &Placement, machines: &Machines) -> Result<()> {
    let mut both = machines.iter().zip([MEASURED, PEER]);
    both.try_for_each(|(machine, role)| check_role(placement, role, &machine.allowed()))
}

fn check_role(placement: &Placement, role: &str, allowed: &[usize]) -> Result<()> {
    let missing: Vec<usize> =
        of_role(placement, role).filter(|cpu| !allowed.contains(cpu)).collect();
    if !missing.is_empty() {
        bail!(
            "the run was started on CPUs that this process may not use now: {} (taskset, cpusets and containers limit them; now it may use {})",
            listed(&missing),
            listed(allowed)
        );
    }
    Ok(())
}

/// The CPUs of a role, in their order.
fn of_role<'a>(placement: &'a Placement, role: &str) -> impl Iterator<Item = usize> + 'a {
    placement.0.get(role).into_iter().flatten().copied()
}

pub(crate) fn listed(cpus: &[usize]) -> String {
    let cpus: Vec<String> = cpus.iter().map(ToString::to_string).collect();
    cpus.join(", ")
}

/// Parses `2,4-6` as CPUs in that order. All of them have to be allowed.
fn parse(list: &str, option: &str, allowed: &[usize]) -> Result<Vec<usize>> {
    let mut cpus = Vec::new();
    for part in list.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (Ok(first), Ok(last)) = (first.trim().parse(), last.trim().parse::<usize>()) else {
            bail!("{option} takes CPUs such as 1 or 2,4-6, not `{list}`");
        };
        // The check against the allowed CPUs limits the range, however large the numbers are.
        if first > last || !allowed.contains(&first) || !allowed.contains(&last) {
            bail!("{option} {part}: a process there may use the CPUs {}", listed(allowed));
        }
        for cpu in (first..=last).filter(|cpu| allowed.contains(cpu)) {
            if !cpus.contains(&cpu) {
                cpus.push(cpu);
            }
        }
    }
    Ok(cpus)
}

/// Moves the controller off the measured CPUs of a run or a launch, if there are others.
pub(crate) fn leave_the_measured(placement: &Placement) {
    match placement.0.get(CONTROLLER) {
        // Best effort: a controller that waits hardly disturbs.
        Some(cpus) if !cpus.is_empty() => drop(affinity::pin(cpus)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processor_lists_are_read_within_what_is_allowed() {
        let allowed = [0, 1, 2, 3, 8];
        let parse = |list| parse(list, "--cpu", &allowed);
        assert_eq!(parse("1").unwrap(), [1]);
        assert_eq!(parse("0,2-3,8").unwrap(), [0, 2, 3, 8]);
        assert_eq!(parse("3,0-3").unwrap(), [3, 0, 1, 2]);
        for bad in ["", "x", "3-1", "4", "0-18446744073709551615", "-1"] {
            let error = parse(bad).unwrap_err().to_string();
            assert!(error.contains("--cpu"), "{bad}: {error}");
        }
    }

    #[test]
    fn what_is_not_allowed_now_is_named() {
        let placed = |cpus: Vec<usize>| Placement(Few::from_iter([("only".into(), cpus)]));
        assert!(check_role(&placed(vec![0, 2]), "only", &[0, 1, 2]).is_ok());
        assert!(check_role(&placed(vec![60_000]), "peer", &[0]).is_ok());
        let error = check_role(&placed(vec![60_000]), "only", &[0]).unwrap_err().to_string();
        assert!(error.contains("60000"), "{error}");
    }
}
