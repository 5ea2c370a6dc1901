//! Checks the resources and limits that this process was started with.

use super::verdict::{Verdict, good, missing, not_checked, sysctl, unread, worse};
use crate::figures::Value;
use costof_model::facts::{Facts, Probed};
use costof_model::plural::counted;

/// Many containers have the weight 39, which container engines compute from the default share. A lower weight
/// is deliberate.
const LOW_WEIGHT: f64 = 39.0;

pub(super) fn cpu_limits(facts: &Facts, _: &Probed) -> Option<Verdict> {
    let usable = facts.usable_cpus().len().max(1) as f64;
    let cgroup = &facts.inherited.cgroup;
    let container = facts.virtualization.container.as_deref();
    if let Some(quota) = cgroup.cpu_quota_cpus.filter(|&quota| quota < usable) {
        let period_ns = cgroup.cpu_quota_period_ns.unwrap_or(100_000_000);
        let file = cgroup.cpu_quota_file.as_deref();
        // Inside a container, neither its outside name nor the files to write are known.
        let advice = match (container, file) {
            (Some("kubernetes"), _) => "quota_kubernetes",
            (Some("docker" | "podman"), _) => "quota_container",
            (None, Some(_)) => "quota_file",
            _ => "quota_elsewhere",
        };
        let is_v2 = file.is_some_and(|file| file.ends_with("cpu.max"));
        let verdict = worse("quota").effect("stands_still").advice(advice);
        let verdict = verdict
            .with("quota", counted(quota, "CPU"))
            .with("period_ms", period_ns / 1_000_000)
            .maybe("count", cgroup.cpu_throttled_count)
            .maybe("file", file)
            .with("no_quota", if is_v2 { "max" } else { "-1" });
        return Some(verdict);
    }
    if let Some(weight) = cgroup.cpu_weight.filter(|&weight| weight < LOW_WEIGHT) {
        let advice = match container {
            Some("kubernetes") => "weight_kubernetes",
            Some("docker" | "podman") => "weight_container",
            _ => "weight_group",
        };
        let verdict = worse("weight").effect("comes_last").advice(advice);
        let verdict = verdict.with("weight", Value::Decimal(weight, 0));
        return Some(verdict.with("group", cgroup.path.as_deref().unwrap_or("")));
    }
    let is_hidden = cgroup.cpu_hidden || cgroup.version.is_none();
    Some(if is_hidden {
        unread(facts, "cgroup")
    } else {
        good("no_quota")
    })
}

pub(super) fn processors(facts: &Facts, _: &Probed) -> Option<Verdict> {
    let usable = facts.usable_cpus();
    let cpuset = &facts.inherited.cgroup.cpuset;
    let verdict = match usable.len() {
        0 => return Some(unread(facts, "/proc/self/status")),
        1 if facts.cpu.online.len() == 1 => missing("one").advice("no_other"),
        1 if cpuset.as_ref().is_some_and(|cpuset| cpuset.len() == 1) => {
            missing("one").advice("cpuset")
        }
        1 => missing("one").with("online", facts.cpu.online.to_string()),
        _ => good("several"),
    };
    Some(verdict.with("usable", usable.to_string()))
}

pub(super) fn priority(facts: &Facts, _: &Probed) -> Option<Verdict> {
    let inherited = &facts.inherited;
    let autogroups = sysctl(facts, "kernel.sched_autogroup_enabled").is_none_or(|on| on == "1");
    let verdict = match (
        inherited.scheduling_policy.as_deref(),
        inherited.nice,
        inherited.autogroup_nice,
    ) {
        (Some(policy @ ("idle" | "batch")), _, _) => {
            worse("policy").advice("chrt").with("policy", policy)
        }
        (_, Some(nice), _) if nice > 0 => worse("nice")
            .advice("renice")
            .with("nice", nice.to_string()),
        (_, _, Some(nice)) if nice > 0 && autogroups => worse("autogroup")
            .advice("reset")
            .with("nice", nice.to_string()),
        (Some(policy), Some(nice), _) => good("usual")
            .with("policy", policy)
            .with("nice", nice.to_string()),
        _ => unread(facts, "/proc/self/stat"),
    };
    Some(verdict)
}

/// Only where there is a tracer.
pub(super) fn tracer(facts: &Facts, _: &Probed) -> Option<Verdict> {
    (facts.inherited.traced == Some(true)).then(|| worse("traced"))
}

pub(super) fn environment(facts: &Facts, _: &Probed) -> Option<Verdict> {
    let names = facts.inherited.environment.keys().map(String::as_str);
    let names: Vec<&str> = names.collect();
    if let Some(reason) = facts.why_unread("environ").filter(|_| names.is_empty()) {
        let verdict = not_checked("refused").effect("unchecked");
        return Some(
            verdict
                .with("file", "/proc/self/environ")
                .with("reason", reason),
        );
    }
    let unset: Vec<String> = names.iter().map(|name| format!("-u {name}")).collect();
    let verdict = worse("changes").with("names", names.join(", "));
    (!names.is_empty()).then(|| verdict.with("unset", unset.join(" ")))
}
