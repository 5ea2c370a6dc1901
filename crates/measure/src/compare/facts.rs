//! The facts in which the machines of two runs differ.

use costof_model::comparison::FactDifference;
use costof_model::fleet::{CPU_QUOTA, NO_QUOTA};
use costof_model::noise::{CONTROLLER, MEASURED, PEER};
use costof_model::rows::AttemptRow;
use costof_model::{Facts, Run, counted};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;

/// The name of a fact, and its value if it is known.
type Fact = (String, Option<String>);

/// Every differing fact on which a cost may depend, in the order of [`machine_facts`].
///
/// Runs that took turns had one controller, wherever it ran.
pub(super) fn differences(before: &Run, after: &Run, in_turns: bool) -> Vec<FactDifference> {
    let (Some(old), Some(new)) = (before.attempts.last(), after.attempts.last()) else {
        return Vec::new();
    };
    let mut found = how_measured(before, after, in_turns);
    for host in [MEASURED, PEER] {
        let [before, after] = [old, new].map(|attempt| host_facts(attempt, host));
        let value = |facts: &[Fact], what: &str| {
            let fact = facts.iter().find(|(name, _)| name == what);
            fact.and_then(|(_, value)| value.clone())
        };
        let is_gone = |(what, _): &&Fact| after.iter().all(|(other, _)| other != what);
        for (what, _) in after.iter().chain(before.iter().filter(is_gone)) {
            let (before, after) = (value(&before, what), value(&after, what));
            if before != after {
                found.push(FactDifference { host: host.into(), what: what.clone(), before, after });
            }
        }
    }
    found
}

/// How the runs were measured differently: where, how precisely, and how often.
fn how_measured(before: &Run, after: &Run, in_turns: bool) -> Vec<FactDifference> {
    let facts = |run: &Run| {
        [
            ("CPUs of the run", Some(processors(run, in_turns))),
            ("precision", Some(run.run.plan.precision.to_string())),
            // Both sides of a comparison in turns lose launches by chance.
            ("launches of a point", launches(run).filter(|_| !in_turns)),
        ]
    };
    let both = facts(before).into_iter().zip(facts(after));
    let differ = both.filter(|((_, before), (_, after))| before != after);
    let found = differ.map(|((what, before), (_, after))| FactDifference {
        host: MEASURED.into(),
        what: what.to_owned(),
        before,
        after,
    });
    found.collect()
}

/// The CPUs on which the points were measured.
fn processors(run: &Run, in_turns: bool) -> String {
    let roles =
        run.run.plan.placement.0.iter().filter(|(role, _)| !(in_turns && *role == CONTROLLER));
    let roles = roles.map(|(role, cpus)| {
        let cpus: Vec<String> = cpus.iter().map(ToString::to_string).collect();
        format!("{role} on {}", cpus.join("+"))
    });
    roles.collect::<Vec<_>>().join(", ")
}

/// The median number of launches of a point.
fn launches(run: &Run) -> Option<String> {
    let mut counts: Vec<u32> = run.points.iter().map(|row| row.launches).collect();
    counts.sort_unstable();
    let middle = counts.get(counts.len() / 2)?;
    Some(middle.to_string())
}

/// The facts of a host on which costs depend, and which boot it was.
pub(super) fn host_facts(attempt: &AttemptRow, host: &'static str) -> Vec<Fact> {
    let (costof, build) = match (host, &attempt.peer) {
        (PEER, Some(peer)) => (&peer.costof, &peer.build),
        _ => (&attempt.costof, &attempt.build),
    };
    let Some(facts) = attempt.hosts.get(host) else {
        return Vec::new();
    };
    let boot = facts.kernel.boot_id.as_ref().or(attempt.boot.as_ref());
    let mut all = machine_facts(facts);
    all.extend([
        ("costof".to_owned(), Some(costof.clone())),
        ("costof's build".to_owned(), Some(build.clone())),
        ("C library".to_owned(), facts.c_library.clone()),
        ("boot".to_owned(), boot.cloned()),
    ]);
    all
}

/// The facts on which costs depend; the ones that explain most come first. Facts that change by
/// themselves (load, free memory, the current clock) are not among them.
pub(crate) fn machine_facts(facts: &Facts) -> Vec<Fact> {
    let (cpu, kernel) = (&facts.cpu, &facts.kernel);
    let first = [
        ("kernel", kernel.release.clone()),
        ("kernel's build", kernel.version.clone()),
        ("mitigations", some(&cpu.vulnerabilities)),
        ("clock governor", governors(facts)),
        ("turbo", facts.frequency.turbo_enabled.map(shown)),
        ("frequency driver", facts.frequency.driver.clone()),
        ("idle governor", facts.idle.governor.clone()),
        ("processor", cpu.model_name.clone()),
        ("microcode", cpu.microcode.clone()),
        ("processors", cpu.logical_count.map(shown)),
        ("SMT", cpu.smt_active.map(shown)),
        (CPU_QUOTA, quota(facts)),
        ("hypervisor", facts.virtualization.hypervisor.clone()),
        ("container", facts.virtualization.container.clone()),
        ("kernel's clock source", facts.clock_source.current.clone()),
        ("transparent huge pages", facts.huge_pages.transparent.clone()),
        ("preemption", kernel.preemption.clone()),
    ];
    let named = |(name, value): (&String, &String)| (name.clone(), Some(value.clone()));
    let option =
        |(name, value): (&String, &String)| (format!("CONFIG_{name}"), Some(value.clone()));
    let command_line = ("kernel's command line".to_owned(), kernel.command_line.clone());
    (first.into_iter())
        .map(|(what, value)| (what.to_owned(), value))
        .chain(kernel.sysctls.iter().map(named))
        .chain([command_line])
        .chain(kernel.config.iter().map(option))
        .collect()
}

fn shown(value: impl Display) -> String {
    value.to_string()
}

fn some(map: &BTreeMap<String, String>) -> Option<String> {
    let parts = map.iter().map(|(name, value)| format!("{name}: {value}"));
    (!map.is_empty()).then(|| parts.collect::<Vec<_>>().join("; "))
}

/// The quota of CPU time that holds a process back, or that there is none. `None` if that cannot be known.
fn quota(facts: &Facts) -> Option<String> {
    let cgroup = &facts.inherited.cgroup;
    cgroup.version.as_ref()?;
    let cpus = facts.cpu.logical_count.map_or(f64::INFINITY, |cpus| cpus as f64);
    let quota = cgroup.cpu_quota_cpus.filter(|quota| *quota < cpus);
    Some(quota.map_or_else(|| NO_QUOTA.to_owned(), |quota| counted(quota, "CPU")))
}

/// The governors that choose the clock, each once.
fn governors(facts: &Facts) -> Option<String> {
    let policies = facts.frequency.policies.iter();
    let names: BTreeSet<&str> = policies.filter_map(|policy| policy.governor.as_deref()).collect();
    (!names.is_empty()).then(|| Vec::from_iter(names).join(", "))
}
