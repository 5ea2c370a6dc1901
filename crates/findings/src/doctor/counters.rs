//! What can be counted.

use costof_model::facts::{Diagnosis, Facts, Probed, Seccomp, Trial};

use super::words::{good, holds, missing, not_checked, worse};

pub(super) fn software_events(facts: &Facts, probed: &Probed) -> Option<Diagnosis> {
    let topic = "perf permissions";
    let effect = "counts of context switches, migrations and page faults are missing, and with them the \
                  causes of bad grades";
    let half = "context switches and migrations are not counted, and of all else only what happens \
                outside the kernel";
    let paranoid: Option<i64> = facts
        .kernel
        .sysctls
        .get("kernel.perf_event_paranoid")
        .and_then(|level| level.parse().ok());
    let level = paranoid.map_or_else(String::new, |level| {
        format!(" (perf_event_paranoid is {level})")
    });
    let advice = perf_advice(facts);
    // What the level would forbid, where nothing was tried.
    let bound = paranoid.filter(|_| !may_perf(facts)).unwrap_or(0);
    match (&probed.software_events, &probed.kernel_events) {
        (Some(Trial::Fails { reason }), _) => {
            missing(topic, format!("{reason}{level}"), effect, advice)
        }
        (Some(Trial::Works), Some(Trial::Fails { reason })) => {
            worse(topic, format!("{reason}{level}"), half, advice)
        }
        (Some(Trial::Works), Some(Trial::Works)) => good(
            topic,
            format!("software events count{level}"),
            "causes of bad grades are known",
        ),
        (None, _) if bound > 2 => missing(
            topic,
            format!("the kernel refuses to count{level}"),
            effect,
            advice,
        ),
        (_, None) if bound == 2 => worse(
            topic,
            format!("the kernel refuses to count what it does itself{level}"),
            half,
            advice,
        ),
        _ => not_checked(topic, format!("not tried{level}"), effect),
    }
}

pub(super) fn hardware_events(facts: &Facts, probed: &Probed) -> Option<Diagnosis> {
    let topic = "hardware counters";
    let effect = "cycles, instructions and cache misses are missing; core cycles are estimated from the \
                  clock instead";
    let virtual_machine = facts.virtualization.virtual_machine == Some(true);
    let no_unit = "the kernel offers no unit that counts cycles";
    let unit_advice = if virtual_machine {
        "ask for an instance type with a virtual PMU (a metal or whole-socket one); on your own KVM \
         host, give the guest `-cpu host,pmu=on`"
    } else {
        "see whether the firmware switched it off, and what the kernel says: `sudo dmesg | grep -i -e \
         pmu -e 'Performance Events'`"
    };
    match (&probed.hardware_events, facts.has_performance_unit()) {
        (Some(Trial::Works), _) => good(
            topic,
            "cycles can be counted",
            "nanoseconds have their reasons beside them",
        ),
        (Some(Trial::Fails { .. }) | None, Some(false)) => {
            missing(topic, no_unit.to_owned(), effect, unit_advice)
        }
        (Some(Trial::Fails { reason }), _) => {
            missing(topic, reason.clone(), effect, perf_advice(facts))
        }
        (None, _) => not_checked(topic, "counting was not tried".to_owned(), effect),
    }
}

pub(super) fn tracepoints(facts: &Facts, probed: &Probed) -> Option<Diagnosis> {
    let topic = "tracepoints";
    let effect =
        "that a system call entered the kernel is shown by its cost only, not by counting entries";
    match &probed.tracepoints {
        Some(Trial::Works) => good(
            topic,
            "they can be counted",
            "entries into the kernel are counted",
        ),
        Some(Trial::Fails { reason }) if probed.software_events == probed.tracepoints => {
            missing(topic, reason.clone(), effect, perf_advice(facts))
        }
        Some(Trial::Fails { reason }) => missing(
            topic,
            reason.clone(),
            effect,
            "run as root; or, for your group, `sudo mount -t tracefs -o gid=$(id -g),mode=750 tracefs \
             /sys/kernel/tracing` (`sudo mount -o remount,gid=$(id -g),mode=750 /sys/kernel/tracing` \
             where it is mounted already) and `sudo sysctl kernel.perf_event_paranoid=1`",
        ),
        None => not_checked(topic, "not tried".to_owned(), effect),
    }
}

pub(super) fn perf_advice(facts: &Facts) -> &'static str {
    match facts.inherited.seccomp {
        Some(Seccomp::Filter) => {
            "let its seccomp filter allow perf_event_open: in a container, `--cap-add PERFMON`; in a \
             systemd unit, no SystemCallFilter= that forbids it; and on the host `sudo sysctl \
             kernel.perf_event_paranoid=1`"
        }
        _ => {
            "`sudo sysctl kernel.perf_event_paranoid=1`, or for this program alone `sudo setcap \
             cap_perfmon=ep $(command -v costof)`"
        }
    }
}

/// Whether perf_event_paranoid does not bind this process. Source: perf_event_open(2).
pub(super) fn may_perf(facts: &Facts) -> bool {
    holds(facts, "perfmon") || holds(facts, "sys_admin")
}

#[cfg(test)]
pub(super) mod tests {
    use costof_model::facts::Seccomp;

    use super::super::DiagnosisState::{Missing, Worse};
    use super::super::sample::{Ill, check, fails, set};

    pub(crate) const ILL: &[Ill] = &[
        (
            "perf permissions",
            Missing,
            "perf_event_paranoid",
            |_, p| p.software_events = fails("EACCES"),
        ),
        ("perf permissions", Missing, "PERFMON", |f, p| {
            f.inherited.seccomp = Some(Seccomp::Filter);
            p.software_events = fails("EPERM");
        }),
        ("perf permissions", Worse, "paranoid=1", |f, p| {
            p.kernel_events = fails("EACCES");
            set(f, "kernel.perf_event_paranoid", "2");
        }),
        ("perf permissions", Worse, "paranoid=1", |f, p| {
            p.software_events = None;
            p.kernel_events = None;
            set(f, "kernel.perf_event_paranoid", "2");
        }),
        ("perf permissions", Missing, "setcap", |f, p| {
            p.software_events = None;
            set(f, "kernel.perf_event_paranoid", "4");
        }),
        ("hardware counters", Missing, "pmu=on", |f, p| {
            f.virtualization.virtual_machine = Some(true);
            f.performance_units = Some(vec!["software".to_owned()]);
            p.hardware_events = fails("ENOENT");
        }),
        ("hardware counters", Missing, "dmesg", |f, p| {
            f.performance_units = Some(vec!["software".to_owned()]);
            p.hardware_events = None;
        }),
        ("hardware counters", Missing, "paranoid", |_, p| {
            p.hardware_events = fails("EACCES")
        }),
        ("tracepoints", Missing, "paranoid", |_, p| {
            p.software_events = fails("perf_event_open: EPERM");
            p.tracepoints = fails("perf_event_open: EPERM");
        }),
        ("tracepoints", Missing, "root", |_, p| {
            p.tracepoints = fails("EACCES")
        }),
    ];

    #[test]
    fn each_ill_is_told_with_what_to_do() {
        check(ILL);
    }
}
