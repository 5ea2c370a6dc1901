//! Checks the resources and limits that this process was started with.

use super::verdict::{Verdict, absent, case, sysctl};
use crate::prelude::*;

/// Many containers have the weight 39, which container engines compute from the default share. A lower weight
/// is deliberate.
const LOW_WEIGHT: f64 = 39.0;

pub(super) fn cpu_limits(facts: &Facts, _: &Probed) -> Option<Verdict> {
    let usable = facts.usable_cpus().len().max(1) as f64;
    let cgroup = &facts.inherited.cgroup;
    let container = facts.virtualization.container.as_deref();
    if let Some(quota) = cgroup.cpu_quota_cpus.filter(|&quota| quota < usable) {
        let period_ms = cgroup.cpu_quota_period_ns.unwrap_or(100_000_000) / 1_000_000;
        let count = maybe(cgroup.cpu_throttled_count, |count| {
            format!(", and has throttled it {count} times")
        });
        let verdict = case("quota").with("quota", counted(quota, "CPU"));
        let verdict = verdict.with("period_ms", period_ms).with("count", count);
        // Inside a container, neither its outside name nor the files to write are known.
        return Some(match (container, cgroup.cpu_quota_file.as_deref()) {
            (Some("kubernetes"), _) => verdict.advice("quota_kubernetes"),
            (Some("docker" | "podman"), _) => verdict.advice("quota_engine"),
            (None, Some(file)) => {
                let none = if file.ends_with("cpu.max") { "max" } else { "-1" };
                verdict.advice("quota_file").with("none", none).with("file", file)
            }
            _ => verdict.advice("quota"),
        });
    }
    if let Some(weight) = cgroup.cpu_weight.filter(|&weight| weight < LOW_WEIGHT) {
        let verdict = case("weight").with("weight", format!("{weight:.0}"));
        return Some(match (container, cgroup.path.as_deref().unwrap_or("")) {
            (Some("kubernetes"), _) => verdict.advice("weight_kubernetes"),
            (Some("docker" | "podman"), _) => verdict.advice("weight_engine"),
            (_, group) => verdict.advice("weight").with("group", group),
        });
    }
    let is_hidden = cgroup.cpu_hidden || cgroup.version.is_none();
    Some(if is_hidden { absent(facts, "cgroup") } else { case("free") })
}

pub(super) fn processors(facts: &Facts, _: &Probed) -> Option<Verdict> {
    let usable = facts.usable_cpus();
    if usable.is_empty() {
        return Some(absent(facts, "/proc/self/status"));
    }
    let is_alone = usable.len() == 1;
    let verdict = case(if is_alone { "one" } else { "several" }).with("cpus", usable);
    let cpuset = facts.inherited.cgroup.cpuset.as_ref();
    let online = &facts.cpu.online;
    Some(match cpuset.is_some_and(|cpuset| cpuset.len() == 1) {
        _ if online.len() == 1 => verdict.advice("machine"),
        true => verdict.advice("cgroup"),
        false => verdict.advice("affinity").with("online", online),
    })
}

pub(super) fn priority(facts: &Facts, _: &Probed) -> Option<Verdict> {
    let inherited = &facts.inherited;
    let autogroups = sysctl(facts, "kernel.sched_autogroup_enabled").is_none_or(|on| on == "1");
    let (policy, nice) = (inherited.scheduling_policy.as_deref(), inherited.nice);
    Some(match (policy, nice, inherited.autogroup_nice) {
        (Some(policy @ ("idle" | "batch")), _, _) => case("policy").with("policy", policy),
        (_, Some(nice), _) if nice > 0 => case("nice").with("nice", nice),
        (_, _, Some(nice)) if nice > 0 && autogroups => case("autogroup").with("nice", nice),
        (Some(policy), Some(nice), _) => case("usual").with("policy", policy).with("nice", nice),
        _ => absent(facts, "/proc/self/stat"),
    })
}

/// Only where there is a tracer.
pub(super) fn tracer(facts: &Facts, _: &Probed) -> Option<Verdict> {
    (facts.inherited.traced == Some(true)).then(|| case("traced"))
}

/// Only where a variable does so, or nobody knows.
pub(super) fn environment(facts: &Facts, _: &Probed) -> Option<Verdict> {
    let names: Vec<&str> = facts.inherited.environment.keys().map(String::as_str).collect();
    if names.is_empty() {
        return Some(case("unknown").with("reason", facts.why_unread("environ")?));
    }
    let unset: Vec<String> = names.iter().map(|name| format!("-u {name}")).collect();
    Some(case("changed").with("names", names.join(", ")).with("unset", unset.join(" ")))
}
