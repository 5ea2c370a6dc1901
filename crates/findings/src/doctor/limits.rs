//! What whoever started this process gave it, and kept from it.

use costof_model::facts::{Diagnosis, Facts, Probed};

use super::words::{good, missing, not_checked, why, worse};

/// Many containers have the weight 39, which their engines make of the usual share; what is below it
/// was meant to be low.
const LOW_WEIGHT: f64 = 39.0;

pub(super) fn cpu_limits(facts: &Facts, _: &Probed) -> Option<Diagnosis> {
    let topic = "CPU limits";
    let usable = facts.usable_cpus();
    let cgroup = &facts.inherited.cgroup;
    if let Some(quota) = cgroup
        .cpu_quota_cpus
        .filter(|&quota| quota < usable.len().max(1) as f64)
    {
        let period_ms = cgroup.cpu_quota_period_ns.unwrap_or(100_000_000) / 1_000_000;
        let count = match cgroup.cpu_throttled_count {
            Some(count) => format!(", and has been stopped by it {count} times"),
            None => String::new(),
        };
        return worse(
            topic,
            format!("the cgroup may use {quota} processors' time of each {period_ms} ms{count}"),
            "a measurement that uses it up stands still until the period ends: rates are cut, and \
             tails last up to a period",
            &without_quota(facts),
        );
    }
    if let Some(weight) = cgroup.cpu_weight.filter(|&weight| weight < LOW_WEIGHT) {
        return worse(
            topic,
            format!("the cgroup's weight is {weight:.0} of the usual 100"),
            "other groups come first where processors are short",
            &with_weight(facts),
        );
    }
    if cgroup.version.is_none() {
        let what = why(facts, "cgroup", "no cgroup of this process can be seen");
        return not_checked(topic, what, "a quota cuts rates and lengthens tails");
    }
    good(
        topic,
        "no quota below the processors that there are, in the groups that can be seen",
        "nothing stops a measurement half-way",
    )
}

/// How to be rid of the quota. A container sees neither its name outside nor files that it may
/// write.
fn without_quota(facts: &Facts) -> String {
    let cgroup = &facts.inherited.cgroup;
    match (
        facts.virtualization.container.as_deref(),
        &cgroup.cpu_quota_file,
    ) {
        (Some("kubernetes"), _) => {
            "remove `resources.limits.cpu` from the pod, or give it whole processors with the static \
             CPU manager policy"
                .to_owned()
        }
        (Some("docker" | "podman"), _) => {
            "start the container without `--cpus` and `--cpu-quota`".to_owned()
        }
        (None, Some(file)) => {
            let no_quota = match file.ends_with("cpu.max") {
                true => "max",
                false => "-1",
            };
            format!("lift it: `echo {no_quota} | sudo tee {file}`; or run in a group without one")
        }
        _ => "run in a group without a quota".to_owned(),
    }
}

fn with_weight(facts: &Facts) -> String {
    match facts.virtualization.container.as_deref() {
        Some("kubernetes") => "raise `resources.requests.cpu` of the pod".to_owned(),
        Some("docker" | "podman") => "start the container without `--cpu-shares`".to_owned(),
        _ => format!(
            "write 100 to cpu.weight of the group {} (cgroup v1: 1024 to cpu.shares)",
            facts.inherited.cgroup.path.as_deref().unwrap_or("")
        ),
    }
}

pub(super) fn processors(facts: &Facts, _: &Probed) -> Option<Diagnosis> {
    let topic = "processors";
    let effect = "points that need a second processor cannot be measured, and costof's own work meets \
                  what it measures";
    let usable = facts.usable_cpus();
    match usable.len() {
        0 => not_checked(
            topic,
            why(
                facts,
                "/proc/self/status",
                "the kernel does not tell which may be used",
            ),
            effect,
        ),
        1 => missing(
            topic,
            format!("this process may run on processor {usable} only"),
            effect,
            &with_processors(facts),
        ),
        _ => good(
            topic,
            format!("this process may run on processors {usable}"),
            "points that need two processors can be measured",
        ),
    }
}

fn with_processors(facts: &Facts) -> String {
    let online = &facts.cpu.online;
    let cpuset = &facts.inherited.cgroup.cpuset;
    if online.len() == 1 {
        return "the machine has no other: measure on one with two or more".to_owned();
    }
    if cpuset.as_ref().is_some_and(|cpuset| cpuset.len() == 1) {
        return "its cgroup allows no other: write more to cpuset.cpus, or start the container with \
                two or more in `--cpuset-cpus`"
            .to_owned();
    }
    format!("allow it the others: `taskset -c {online} costof run`")
}

pub(super) fn priority(facts: &Facts, _: &Probed) -> Option<Diagnosis> {
    let topic = "priority";
    let effect = "others run first: waits and tails are longer";
    let inherited = &facts.inherited;
    let autogroups = facts.kernel.sysctls.get("kernel.sched_autogroup_enabled");
    let autogroups = autogroups.is_none_or(|enabled| enabled == "1");
    match (
        inherited.scheduling_policy.as_deref(),
        inherited.nice,
        inherited.autogroup_nice,
    ) {
        (Some(policy @ ("idle" | "batch")), _, _) => worse(
            topic,
            format!("the scheduling policy is {policy}"),
            effect,
            "`sudo chrt --other --pid 0 $$`, and start it again",
        ),
        (_, Some(nice), _) if nice > 0 => worse(
            topic,
            format!("the nice value is {nice}"),
            effect,
            "start it without `nice`, or `sudo renice -n 0 -p $$` first",
        ),
        (_, _, Some(nice)) if nice > 0 && autogroups => worse(
            topic,
            format!("the autogroup's nice value is {nice}"),
            effect,
            "`sudo sh -c \"echo 0 > /proc/$$/autogroup\"`",
        ),
        (Some(policy @ ("fifo" | "rr" | "deadline")), Some(_), _) => good(
            topic,
            format!("the scheduling policy is {policy}"),
            "it comes before ordinary programs",
        ),
        (Some(policy), Some(nice), _) => good(
            topic,
            format!("policy {policy}, nice value {nice}"),
            "it has its turn like everything else",
        ),
        _ => not_checked(
            topic,
            why(facts, "/proc/self/stat", "the kernel does not tell"),
            effect,
        ),
    }
}

pub(super) fn environment(facts: &Facts, _: &Probed) -> Option<Diagnosis> {
    let topic = "environment";
    let names: Vec<&str> = facts
        .inherited
        .environment
        .keys()
        .map(String::as_str)
        .collect();
    if !names.is_empty() {
        let unset: Vec<String> = names.iter().map(|name| format!("-u {name}")).collect();
        return worse(
            topic,
            format!(
                "{} changes how programs are loaded or get memory",
                names.join(", ")
            ),
            "starting programs, allocation and calls into libraries may cost something else than usual",
            &format!("`env {} costof run`", unset.join(" ")),
        );
    }
    if let Some(reason) = facts.why_unread("environ") {
        let effect = "a preloaded library changes what calls cost";
        return not_checked(topic, format!("/proc/self/environ: {reason}"), effect);
    }
    None
}

#[cfg(test)]
pub(super) mod tests {
    use std::collections::BTreeMap;

    use costof_model::facts::CpuSet;

    use super::super::DiagnosisState::{Good, Missing, Worse};
    use super::super::sample::{Ill, after, check};

    pub(crate) const ILL: &[Ill] = &[
        ("CPU limits", Worse, "--cpus", |f, _| {
            f.inherited.cgroup.cpu_quota_cpus = Some(0.5);
            f.virtualization.container = Some("docker".to_owned());
        }),
        ("CPU limits", Worse, "resources.limits", |f, _| {
            f.inherited.cgroup.cpu_quota_cpus = Some(0.5);
            f.virtualization.container = Some("kubernetes".to_owned());
        }),
        (
            "CPU limits",
            Worse,
            "echo max | sudo tee /x/cpu.max",
            |f, _| {
                f.inherited.cgroup.cpu_quota_cpus = Some(3.5);
                f.inherited.cgroup.cpu_quota_file = Some("/x/cpu.max".to_owned());
            },
        ),
        ("CPU limits", Worse, "echo -1", |f, _| {
            f.inherited.cgroup.cpu_quota_cpus = Some(3.5);
            f.inherited.cgroup.cpu_quota_file = Some("/x/cpu.cfs_quota_us".to_owned());
        }),
        ("CPU limits", Worse, "resources.requests", |f, _| {
            f.inherited.cgroup.cpu_weight = Some(2.0);
            f.virtualization.container = Some("kubernetes".to_owned());
        }),
        ("processors", Missing, "taskset -c 0-3", |f, _| {
            f.inherited.allowed_cpus = CpuSet::from_iter([2]);
        }),
        ("processors", Missing, "cpuset.cpus", |f, _| {
            f.inherited.allowed_cpus = CpuSet::from_iter([2]);
            f.inherited.cgroup.cpuset = Some(CpuSet::from_iter([2]));
        }),
        ("processors", Missing, "has no other", |f, _| {
            f.cpu.online = CpuSet::from_iter([2]);
        }),
        ("priority", Worse, "nice", |f, _| {
            f.inherited.nice = Some(10)
        }),
        ("priority", Worse, "autogroup", |f, _| {
            f.inherited.autogroup_nice = Some(5)
        }),
        ("priority", Worse, "chrt", |f, _| {
            f.inherited.scheduling_policy = Some("batch".to_owned());
        }),
        ("environment", Worse, "env -u LD_PRELOAD", |f, _| {
            f.inherited.environment = BTreeMap::from([("LD_PRELOAD".to_owned(), "x".to_owned())]);
        }),
    ];

    #[test]
    fn each_ill_is_told_with_what_to_do() {
        check(ILL);
    }

    #[test]
    fn a_quota_of_all_processors_is_none() {
        let whole = after("CPU limits", |facts, _| {
            facts.inherited.cgroup.cpu_quota_cpus = Some(4.0);
        });
        assert_eq!(whole.state, Good);
    }
}
