//! What two runs' machines say of themselves that is not the same.

use costof_model::comparison::FactDifference;
use costof_model::facts::Facts;
use costof_model::noise::{CONTROLLER, MEASURED, PEER};
use costof_model::rows::AttemptRow;
use costof_model::run_file::Run;
use std::collections::BTreeMap;
use std::fmt::Display;

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
        let names = after.iter().chain(&before).map(|(what, _)| what);
        let mut seen: Vec<&String> = Vec::new();
        for what in names {
            if seen.contains(&what) {
                continue;
            }
            seen.push(what);
            let value = |of: &[(String, Option<String>)]| {
                let found = of.iter().find(|(name, _)| name == what)?;
                found.1.clone()
            };
            let (before, after) = (value(&before), value(&after));
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

fn of_host(attempt: &AttemptRow, host: &'static str) -> Vec<(String, Option<String>)> {
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
fn told(facts: &Facts) -> Vec<(String, Option<String>)> {
    let cpu = &facts.cpu;
    let mut all: Vec<(String, Option<String>)> = Vec::new();
    let mut tell = |what: &str, value: Option<String>| all.push((what.to_owned(), value));
    tell("kernel", facts.kernel.release.clone());
    tell("kernel's build", facts.kernel.version.clone());
    tell("mitigations", some(&cpu.vulnerabilities));
    tell("clock governor", governors(facts));
    tell("turbo", facts.frequency.turbo_enabled.map(shown));
    tell("frequency driver", facts.frequency.driver.clone());
    tell("idle governor", facts.idle.governor.clone());
    tell("processor", cpu.model_name.clone());
    tell("microcode", cpu.microcode.clone());
    tell("processors", cpu.logical_count.map(shown));
    tell("SMT", cpu.smt_active.map(shown));
    tell("hypervisor", facts.virtualization.hypervisor.clone());
    tell("container", facts.virtualization.container.clone());
    tell("kernel's clock source", facts.clock_source.current.clone());
    tell(
        "transparent huge pages",
        facts.huge_pages.transparent.clone(),
    );
    tell("preemption", facts.kernel.preemption.clone());
    for (name, value) in &facts.kernel.sysctls {
        tell(name, Some(value.clone()));
    }
    tell("kernel's command line", facts.kernel.command_line.clone());
    for (name, value) in &facts.kernel.config {
        tell(&format!("CONFIG_{name}"), Some(value.clone()));
    }
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
