//! Which processors do what: decided once per run, written down, reusable by `--cpu`.

use crate::error::{Error, wrong};
use crate::machine::Machine;
use costof_lab::addresses;
use costof_measure::facts;
use costof_model::facts::{CpuSet, Facts};
use costof_model::noise::{CONTROLLER, MEASURED, PEER, Placement};
use costof_model::{Few, Text};
use costof_os::affinity;

/// The placement of a run: the measured processors as `--cpu` says them, in its
/// order; else one of the fastest kind that usually has little else to do, and
/// after it all others for what needs several, nearest first. The controller on
/// those that are not measured first of all, where there are any and it is on
/// that machine. A peer has a list of its own where it is another machine, or
/// `--peer-cpu` gives it one; else it shares that of the leading end.
pub(crate) fn decide(
    asked: Option<&str>,
    near: &Machine,
    asked_of_peer: Option<&str>,
    far: Option<&Machine>,
) -> Result<Placement, Error> {
    let measured = on(asked, "--cpu", near)?;
    let mut placement = Few::new();
    if near.host.is_here() || is_this_machine(near) {
        let mut others = near.allowed();
        others.retain(|cpu| measured.first() != Some(cpu));
        placement.insert(Text::Borrowed(CONTROLLER), others);
    }
    placement.insert(Text::Borrowed(MEASURED), measured);
    if let Some(far) = far {
        if one_machine(near, far) {
            if asked_of_peer.is_some() {
                return Err(wrong(
                    "--peer-cpu is for a peer that is another machine: on one, --cpu names the \
                     processors of both ends, the leading one's first",
                ));
            }
            return Ok(Placement(placement));
        }
        placement.insert(Text::Borrowed(PEER), on(asked_of_peer, "--peer-cpu", far)?);
    }
    Ok(Placement(placement))
}

/// Whether what a command starts runs on the machine of this process, as far as its boot tells.
fn is_this_machine(near: &Machine) -> bool {
    addresses::one_machine(near.boot(), facts::boot_id().as_deref())
}

/// The processors of one machine that are measured on, the usual ones where none are asked for.
fn on(asked: Option<&str>, option: &str, machine: &Machine) -> Result<Vec<usize>, Error> {
    let allowed = machine.allowed();
    if allowed.is_empty() {
        return Err(Error::Nothing(format!(
            "{} does not say which processors its processes may use (/proc/self/status)",
            machine.host
        )));
    }
    match asked {
        Some(list) => parse(list, option, &allowed),
        None => {
            let facts = &machine.description.facts;
            Ok(nearest_first(usual(&allowed, facts), &allowed, facts))
        }
    }
}

/// The processors on which this process measures beside others: as they are asked for, else as a
/// run's are chosen.
pub(crate) fn here(asked: Option<&str>) -> Result<Vec<usize>, Error> {
    let allowed = affinity::allowed()
        .map_err(|error| wrong(format!("cannot read the allowed processors: {error}")))?;
    match asked {
        Some(list) => parse(list, "--cpu", &allowed),
        None => {
            let facts = facts::gather();
            Ok(nearest_first(usual(&allowed, &facts), &allowed, &facts))
        }
    }
}

/// Whether two hosts are one machine.
pub(crate) fn one_machine(near: &Machine, far: &Machine) -> bool {
    addresses::one_machine(near.boot(), far.boot())
}

/// The facts with the processors of the run, in its order, to plan and predict it.
pub(crate) fn facts_of_the_run(placement: &Placement, facts: &Facts) -> Facts {
    Facts {
        run_cpus: of_role(placement, MEASURED).map(|cpu| cpu as u32).collect(),
        ..facts.clone()
    }
}

/// Whether the processors that a run was begun on can be used now.
pub(crate) fn check(
    placement: &Placement,
    near: &Machine,
    far: Option<&Machine>,
) -> Result<(), Error> {
    check_on(placement, MEASURED, &near.allowed())?;
    far.map_or(Ok(()), |far| check_on(placement, PEER, &far.allowed()))
}

fn check_on(placement: &Placement, role: &str, allowed: &[usize]) -> Result<(), Error> {
    let missing: Vec<usize> = of_role(placement, role)
        .filter(|cpu| !allowed.contains(cpu))
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    Err(wrong(format!(
        "the run was begun on processors that this process may not use now: {} (taskset, \
         cpusets and containers limit them; it may use {})",
        listed(&missing),
        listed(allowed)
    )))
}

/// The processors of a role, in their order.
fn of_role<'a>(placement: &'a Placement, role: &str) -> impl Iterator<Item = usize> + 'a {
    placement.0.get(role).into_iter().flatten().copied()
}

fn listed(cpus: &[usize]) -> String {
    let cpus: Vec<String> = cpus.iter().map(ToString::to_string).collect();
    cpus.join(", ")
}

/// `first`, then those of its kind that share its last cache level, then the
/// others of its kind, then the other kinds. What shares a core with one that
/// stands before comes last, since it shares its execution units too.
fn nearest_first(first: usize, allowed: &[usize], facts: &Facts) -> Vec<usize> {
    let share = |sets: &[CpuSet], a: usize, b: usize| {
        sets.iter()
            .any(|set| set.contains(a as u32) && set.contains(b as u32))
    };
    let last_level = facts
        .last_level_cache()
        .map_or(&[][..], |cache| &cache.shared_by);
    let distance = |cpu: usize| {
        let is_second_thread = allowed
            .iter()
            .any(|other| before(*other, cpu, first) && share(&facts.cpu.cores, *other, cpu));
        let is_of_another_kind = !facts.cpu.core_kinds.is_empty()
            && !facts
                .cpu
                .core_kinds
                .iter()
                .any(|kind| kind.cpus.contains(first as u32) && kind.cpus.contains(cpu as u32));
        (
            is_second_thread,
            is_of_another_kind,
            !share(last_level, first, cpu),
            !share(&facts.cpu.sockets, first, cpu),
        )
    };
    let mut others: Vec<usize> = allowed
        .iter()
        .copied()
        .filter(|cpu| *cpu != first)
        .collect();
    others.sort_by_key(|cpu| (distance(*cpu), *cpu));
    std::iter::once(first).chain(others).collect()
}

/// Whether `other` is taken before `cpu` of the same core.
fn before(other: usize, cpu: usize, first: usize) -> bool {
    other != cpu && (other == first || (cpu != first && other < cpu))
}

/// The last of the processors of the fastest kind: the first ones usually serve
/// the machine's interrupts. Which kind is the fastest its capacity says, where
/// the kernel tells it; else its place among the kinds, of which the facts name
/// the fast ones first (Intel's core, atom, lowpower).
pub(crate) fn usual(allowed: &[usize], facts: &Facts) -> usize {
    let speed = |cpu: usize| {
        let kinds = &facts.cpu.core_kinds;
        let position = kinds.iter().position(|kind| kind.cpus.contains(cpu as u32));
        position.map(|position| {
            let capacity = kinds[position].capacity.unwrap_or(0);
            (capacity, std::cmp::Reverse(position))
        })
    };
    allowed
        .iter()
        .copied()
        .max_by_key(|cpu| (speed(*cpu), *cpu))
        .unwrap_or(0)
}

/// `2,4-6` as processors in that order, all of them allowed.
fn parse(list: &str, option: &str, allowed: &[usize]) -> Result<Vec<usize>, Error> {
    let mut cpus = Vec::new();
    for part in list.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (Ok(first), Ok(last)) = (first.trim().parse(), last.trim().parse::<usize>()) else {
            return Err(wrong(format!(
                "{option} takes processors such as 1 or 2,4-6, not `{list}`"
            )));
        };
        // Bounded by what is allowed, however great the numbers are.
        if first > last || !allowed.contains(&first) || !allowed.contains(&last) {
            return Err(wrong(format!(
                "{option} {part}: a process there may use the processors {}",
                listed(allowed)
            )));
        }
        for cpu in (first..=last).filter(|cpu| allowed.contains(cpu)) {
            if !cpus.contains(&cpu) {
                cpus.push(cpu);
            }
        }
    }
    Ok(cpus)
}

/// Moves the controller off the measured processors, where there are others.
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
    use costof_model::facts::{Cache, CacheKind};

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
    fn of_several_kinds_the_fastest_is_measured() {
        use costof_model::facts::CoreKind;
        let kind = |name: &str, cpus: &str, capacity| CoreKind {
            name: name.to_owned(),
            cpus: CpuSet::parse(cpus).unwrap(),
            capacity,
            ..CoreKind::default()
        };
        let allowed: Vec<usize> = (0..8).collect();
        let mut facts = Facts::default();
        assert_eq!(usual(&allowed, &facts), 7);
        // Hybrid Intel, whose kernel tells no capacity, or the same one.
        for capacity in [None, Some(1024)] {
            facts.cpu.core_kinds = vec![
                kind("core", "0-3", capacity),
                kind("atom", "4-5", capacity),
                kind("lowpower", "6-7", capacity),
            ];
            assert_eq!(usual(&allowed, &facts), 3);
        }
        // Arm lists the small ones first, and tells.
        facts.cpu.core_kinds = vec![
            kind("little", "0-3", Some(400)),
            kind("big", "4-6", Some(1024)),
        ];
        assert_eq!(usual(&allowed, &facts), 6);
    }

    #[test]
    fn what_is_not_allowed_now_is_named() {
        let placed = |cpus: Vec<usize>| Placement(Few::from_iter([("only".into(), cpus)]));
        assert!(check_on(&placed(vec![0, 2]), "only", &[0, 1, 2]).is_ok());
        assert!(check_on(&placed(vec![60_000]), "peer", &[0]).is_ok());
        let error = check_on(&placed(vec![60_000]), "only", &[0]);
        let error = error.unwrap_err().to_string();
        assert!(error.contains("60000"), "{error}");
    }

    #[test]
    fn further_processors_are_the_nearest_and_second_threads_come_last() {
        let sets = |lists: &[&str]| -> Vec<CpuSet> {
            lists
                .iter()
                .map(|list| CpuSet::parse(list).unwrap())
                .collect()
        };
        let mut facts = Facts::default();
        let allowed: Vec<usize> = (0..8).collect();
        assert_eq!(
            nearest_first(7, &allowed, &facts),
            [7, 0, 1, 2, 3, 4, 5, 6],
            "nothing is known"
        );
        // Two threads a core, two last-level caches.
        facts.cpu.cores = sets(&["0,4", "1,5", "2,6", "3,7"]);
        facts.cpu.caches = vec![Cache {
            level: 3,
            kind: CacheKind::Unified,
            size_bytes: 32 << 20,
            shared_by: sets(&["0-1,4-5", "2-3,6-7"]),
            ..Cache::default()
        }];
        assert_eq!(
            nearest_first(7, &allowed, &facts),
            [7, 2, 0, 1, 3, 6, 4, 5],
            "a core of the same cache, other cores, then second threads"
        );
    }
}
