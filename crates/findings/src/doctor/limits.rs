//! What whoever started this process gave it, and kept from it.

use costof_model::facts::{Diagnosis, Facts, Probed};

use super::words::{good, missing, not_checked, why, worse};

pub(super) fn cpu_limits(facts: &Facts, _: &Probed) -> Option<Diagnosis> {
    let topic = "CPU limits";
    let usable = facts.usable_cpus();
    let cgroup = &facts.inherited.cgroup;
    let lift = match facts.virtualization.container.as_deref() {
        Some("kubernetes") => {
            "remove `resources.limits.cpu` from the pod, or give it whole processors with the static \
             CPU manager policy"
        }
        Some("docker" | "podman") => {
            "start the container without --cpus, --cpu-quota and --cpu-shares"
        }
        _ => "run outside of the limited group: systemd-run --scope -p CPUQuota= costof run",
    };
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
            lift,
        );
    }
    if let Some(weight) = cgroup.cpu_weight.filter(|&weight| weight < 50.0) {
        return worse(
            topic,
            format!("the cgroup's weight is {weight:.0} of the usual 100"),
            "other groups come first where processors are short",
            lift,
        );
    }
    if usable.len() == 1 {
        return missing(
            topic,
            format!("this process may run on processor {usable} only"),
            "points that need a second processor cannot be measured",
            "allow it another: taskset -c 0-1 costof run, or a container with --cpuset-cpus of two \
             or more",
        );
    }
    if cgroup.version.is_none() || usable.is_empty() {
        let what = why(facts, "cgroup", "no cgroup of this process can be seen");
        return not_checked(topic, what, "a quota cuts rates and lengthens tails");
    }
    good(
        topic,
        format!("no quota that can be seen, and processors {usable} to run on"),
        "nothing stops a measurement half-way",
    )
}

pub(super) fn priority(facts: &Facts, _: &Probed) -> Option<Diagnosis> {
    let topic = "priority";
    let effect = "others run first: waits and tails are longer";
    let inherited = &facts.inherited;
    match (
        inherited.scheduling_policy.as_deref(),
        inherited.nice,
        inherited.autogroup_nice,
    ) {
        (Some(policy @ ("idle" | "batch")), _, _) => worse(
            topic,
            format!("the scheduling policy is {policy}"),
            effect,
            "chrt --other 0 costof run",
        ),
        (_, Some(nice), _) if nice > 0 => worse(
            topic,
            format!("the nice value is {nice}"),
            effect,
            "start it without `nice`, or: sudo renice -n 0 -p $$",
        ),
        (_, _, Some(nice)) if nice > 0 => worse(
            topic,
            format!("the autogroup's nice value is {nice}"),
            effect,
            "sudo sh -c \"echo 0 > /proc/$$/autogroup\"",
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
            &format!("env {} costof run", unset.join(" ")),
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
            f.inherited.cgroup.cpu_weight = Some(2.0);
            f.virtualization.container = Some("kubernetes".to_owned());
        }),
        ("CPU limits", Missing, "taskset", |f, _| {
            f.inherited.allowed_cpus = CpuSet::from_iter([2]);
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
