//! Checks the resources and limits that this process was started with.

use super::verdict::{Verdict, good, missing, not_checked, sysctl, unread, worse};
use crate::text::maybe;
use costof_model::{Facts, Probed, counted};

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
        let quota = counted(quota, "CPU");
        let what = format!("the cgroup's quota is {quota}, in periods of {period_ms} ms{count}");
        // Inside a container, neither its outside name nor the files to write are known.
        let advice = match (container, cgroup.cpu_quota_file.as_deref()) {
            (Some("kubernetes"), _) => {
                "remove `resources.limits.cpu` from the pod, or give it whole CPUs with the static CPU manager policy"
                    .to_owned()
            }
            (Some("docker" | "podman"), _) => {
                "start the container without `--cpus` and `--cpu-quota`".to_owned()
            }
            (None, Some(file)) => {
                let none = if file.ends_with("cpu.max") { "max" } else { "-1" };
                format!("lift it: `echo {none} | sudo tee {file}`; or run in a group without a quota")
            }
            _ => "run in a group without a quota".to_owned(),
        };
        return Some(worse(what, advice).effect(
            "when a measurement has used up the quota, it stops until the period ends: rates are lower, and tails \
             are as long as a period",
        ));
    }
    if let Some(weight) = cgroup.cpu_weight.filter(|&weight| weight < LOW_WEIGHT) {
        let advice = match (container, cgroup.path.as_deref().unwrap_or("")) {
            (Some("kubernetes"), _) => "raise `resources.requests.cpu` of the pod".to_owned(),
            (Some("docker" | "podman"), _) => {
                "start the container without `--cpu-shares`".to_owned()
            }
            (_, group) => {
                format!(
                    "write 100 to cpu.weight of the group {group} (cgroup v1: 1024 to cpu.shares)"
                )
            }
        };
        let what = format!("the cgroup's weight is {weight:.0}, where 100 is the default");
        let verdict = worse(what, advice);
        return Some(verdict.effect("when CPUs are busy, other groups get more of them"));
    }
    let is_hidden = cgroup.cpu_hidden || cgroup.version.is_none();
    Some(match is_hidden {
        true => unread(facts, "cgroup", "the cgroup of this process cannot be seen"),
        false => good("no visible cgroup has a quota below the number of CPUs"),
    })
}

pub(super) fn processors(facts: &Facts, _: &Probed) -> Option<Verdict> {
    let usable = facts.usable_cpus();
    let cpuset = facts.inherited.cgroup.cpuset.as_ref();
    if usable.is_empty() {
        let absent = "the kernel does not report which CPUs this process may use";
        return Some(unread(facts, "/proc/self/status", absent));
    }
    if usable.len() > 1 {
        return Some(good(format!("this process may run on CPUs {usable}")));
    }
    let advice = if facts.cpu.online.len() == 1 {
        "the machine has only one CPU: measure on a machine with two or more".to_owned()
    } else if cpuset.is_some_and(|cpuset| cpuset.len() == 1) {
        "its cgroup allows only one: write more to cpuset.cpus, or start the container with two or more in \
         `--cpuset-cpus`"
            .to_owned()
    } else {
        format!("allow the other CPUs: `taskset -c {} costof run`", facts.cpu.online)
    };
    Some(missing(format!("this process may run on CPU {usable} only"), advice))
}

pub(super) fn priority(facts: &Facts, _: &Probed) -> Option<Verdict> {
    let inherited = &facts.inherited;
    let autogroups = sysctl(facts, "kernel.sched_autogroup_enabled").is_none_or(|on| on == "1");
    let (policy, nice) = (inherited.scheduling_policy.as_deref(), inherited.nice);
    Some(match (policy, nice, inherited.autogroup_nice) {
        (Some(policy @ ("idle" | "batch")), _, _) => worse(
            format!("the scheduling policy is {policy}"),
            "`sudo chrt --other --pid 0 $$`, and start costof again",
        ),
        (_, Some(nice), _) if nice > 0 => worse(
            format!("the nice value is {nice}"),
            "start costof without `nice`, or `sudo renice -n 0 -p $$` first",
        ),
        (_, _, Some(nice)) if nice > 0 && autogroups => worse(
            format!("the autogroup's nice value is {nice}"),
            "`sudo sh -c \"echo 0 > /proc/$$/autogroup\"`",
        ),
        (Some(policy), Some(nice), _) => good(format!("policy {policy}, nice value {nice}")),
        _ => unread(facts, "/proc/self/stat", "the kernel does not report it"),
    })
}

/// Only where there is a tracer.
pub(super) fn tracer(facts: &Facts, _: &Probed) -> Option<Verdict> {
    let what = "another process traces costof's workers, such as strace or a debugger";
    (facts.inherited.traced == Some(true)).then(|| worse(what, "run costof without it"))
}

/// Only where a variable does so, or nobody knows.
pub(super) fn environment(facts: &Facts, _: &Probed) -> Option<Verdict> {
    let names: Vec<&str> = facts.inherited.environment.keys().map(String::as_str).collect();
    if names.is_empty() {
        let reason = facts.why_unread("environ")?;
        let verdict = not_checked(format!("/proc/self/environ: {reason}"));
        return Some(verdict.effect("a preloaded library changes what calls cost"));
    }
    let unset: Vec<String> = names.iter().map(|name| format!("-u {name}")).collect();
    let what =
        format!("{} changes how programs load libraries or allocate memory", names.join(", "));
    Some(worse(what, format!("`env {} costof run`", unset.join(" "))))
}
