//! What two runs' machines say of themselves that is not the same.

use costof_model::comparison::FactDifference;
use costof_model::facts::Facts;
use costof_model::noise::{CONTROLLER, MEASURED, PEER};
use costof_model::rows::AttemptRow;
use costof_model::run_file::Run;
use std::collections::BTreeMap;
use std::fmt::Display;

/// What it is, and its value where it is known.
type Fact = (String, Option<String>);

/// Every fact that a cost may depend on and that differs, in the order of [`told`].
///
/// Runs that took turns had one controller, wherever it was.
pub(super) fn differences(before: &Run, after: &Run, in_turns: bool) -> Vec<FactDifference> {
    let (Some(old), Some(new)) = (before.attempts.last(), after.attempts.last()) else {
        return Vec::new();
    };
    let mut found = Vec::from_iter(processors(before, after, in_turns));
    for host in [MEASURED, PEER] {
        let [before, after] = [old, new].map(|attempt| of_host(attempt, host));
        let value = |of: &[Fact], what: &str| {
            let fact = of.iter().find(|(name, _)| name == what);
            fact.and_then(|(_, value)| value.clone())
        };
        let is_gone = |(what, _): &&Fact| after.iter().all(|(other, _)| other != what);
        for (what, _) in after.iter().chain(before.iter().filter(is_gone)) {
            let (before, after) = (value(&before, what), value(&after, what));
            if before != after {
                found.push(FactDifference {
                    host: host.into(),
                    what: what.clone(),
                    before,
                    after,
                });
            }
        }
    }
    found
}

/// On which processors the points were measured, where that is not the same.
fn processors(before: &Run, after: &Run, in_turns: bool) -> Option<FactDifference> {
    let [before, after] = [before, after].map(|run| {
        let roles = run.run.plan.placement.0.iter();
        let roles = roles.filter(|(role, _)| !(in_turns && *role == CONTROLLER));
        let roles = roles.map(|(role, cpus)| format!("{role} {cpus:?}"));
        roles.collect::<Vec<_>>().join(", ")
    });
    (before != after).then(|| FactDifference {
        host: MEASURED.into(),
        what: "processors of the run".to_owned(),
        before: Some(before),
        after: Some(after),
    })
}

fn of_host(attempt: &AttemptRow, host: &'static str) -> Vec<Fact> {
    let (costof, build) = match (host, &attempt.peer) {
        (PEER, Some(peer)) => (&peer.costof, &peer.build),
        _ => (&attempt.costof, &attempt.build),
    };
    let Some(facts) = attempt.hosts.get(host) else {
        return Vec::new();
    };
    let mut all = told(facts);
    all.push(("costof".to_owned(), Some(costof.clone())));
    all.push(("costof's build".to_owned(), Some(build.clone())));
    all.push((
        "boot".to_owned(),
        facts
            .kernel
            .boot_id
            .clone()
            .or_else(|| attempt.boot.clone()),
    ));
    all
}

/// What costs depend on, what explains most first. What changes by itself (load, free memory, the
/// clock at that moment) is not among it.
fn told(facts: &Facts) -> Vec<Fact> {
    let cpu = &facts.cpu;
    let named = |prefix: &str, values: &BTreeMap<String, String>| {
        let facts = values
            .iter()
            .map(|(name, value)| (format!("{prefix}{name}"), Some(value.clone())));
        facts.collect::<Vec<_>>()
    };
    let kernel = &facts.kernel;
    let of_machine = [
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
        ("hypervisor", facts.virtualization.hypervisor.clone()),
        ("container", facts.virtualization.container.clone()),
        ("kernel's clock source", facts.clock_source.current.clone()),
        (
            "transparent huge pages",
            facts.huge_pages.transparent.clone(),
        ),
        ("preemption", kernel.preemption.clone()),
    ];
    let mut all: Vec<Fact> = of_machine
        .map(|(what, value)| (what.to_owned(), value))
        .into();
    all.extend(named("", &kernel.sysctls));
    all.push((
        "kernel's command line".to_owned(),
        kernel.command_line.clone(),
    ));
    all.extend(named("CONFIG_", &kernel.config));
    all
}

fn shown(value: impl Display) -> String {
    value.to_string()
}

fn some(map: &BTreeMap<String, String>) -> Option<String> {
    let parts: Vec<String> = map
        .iter()
        .map(|(name, value)| format!("{name}: {value}"))
        .collect();
    (!parts.is_empty()).then(|| parts.join("; "))
}

/// The governors that choose the clock, each once.
fn governors(facts: &Facts) -> Option<String> {
    let policies = facts.frequency.policies.iter();
    let mut names: Vec<&str> = policies
        .filter_map(|policy| policy.governor.as_deref())
        .collect();
    names.sort_unstable();
    names.dedup();
    (!names.is_empty()).then(|| names.join(", "))
}
