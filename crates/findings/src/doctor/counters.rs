//! What can be counted.

use costof_model::facts::{Diagnosis, Facts, Probed, Seccomp, Trial};

use super::words::{good, holds, missing, not_checked, worse};

pub(super) fn software_events(facts: &Facts, probed: &Probed) -> Option<Diagnosis> {
    let topic = "perf permissions";
    let effect = "counts of context switches, migrations and page faults are missing, and with them the \
                  causes of bad grades";
    let paranoid: Option<i64> = facts
        .kernel
        .sysctls
        .get("kernel.perf_event_paranoid")
        .and_then(|level| level.parse().ok());
    let level = paranoid.map_or_else(String::new, |level| {
        format!(" (perf_event_paranoid is {level})")
    });
    match (&probed.software_events, paranoid) {
        (Some(Trial::Fails { reason }), _) => missing(
            topic,
            format!("{reason}{level}"),
            effect,
            perf_advice(facts),
        ),
        (_, Some(2)) if !may_perf(facts) => worse(
            topic,
            format!("events count in user space only{level}"),
            "what happens inside the kernel is not counted",
            perf_advice(facts),
        ),
        (Some(Trial::Works), _) => good(
            topic,
            format!("software events count{level}"),
            "causes of bad grades are known",
        ),
        (None, Some(paranoid)) if paranoid > 2 && !may_perf(facts) => missing(
            topic,
            format!("the kernel refuses them{level}"),
            effect,
            perf_advice(facts),
        ),
        (None, _) => not_checked(topic, format!("not tried{level}"), effect),
    }
}

pub(super) fn hardware_events(facts: &Facts, probed: &Probed) -> Option<Diagnosis> {
    let topic = "hardware counters";
    let effect = "cycles, instructions and cache misses are missing; core cycles are estimated from the \
                  clock instead";
    let virtual_machine = facts.virtualization.virtual_machine == Some(true);
    let no_unit = "there is no performance monitoring unit";
    let unit_advice = if virtual_machine {
        "ask for an instance type with a virtual PMU (a metal or whole-socket one); on your own KVM \
         host, give the guest `-cpu host,pmu=on`"
    } else {
        "see whether the firmware switched it off, and what the kernel says: sudo dmesg | grep -i -e pmu \
         -e 'Performance Events'"
    };
    match (&probed.hardware_events, facts.has_performance_unit()) {
        (Some(Trial::Works), _) => good(
            topic,
            "cycles can be counted",
            "nanoseconds have their reasons beside them",
        ),
        (Some(Trial::Fails { reason }), Some(false)) => {
            missing(topic, format!("{no_unit} ({reason})"), effect, unit_advice)
        }
        (Some(Trial::Fails { reason }), _) => missing(
            topic,
            format!("cycles cannot be counted: {reason}"),
            effect,
            perf_advice(facts),
        ),
        (None, Some(false)) => missing(topic, no_unit.to_owned(), effect, unit_advice),
        (None, _) => not_checked(topic, "counting was not tried".to_owned(), effect),
    }
}

pub(super) fn tracepoints(_: &Facts, probed: &Probed) -> Option<Diagnosis> {
    let topic = "tracepoints";
    let effect =
        "that a system call entered the kernel is shown by its cost only, not by counting entries";
    match &probed.tracepoints {
        Some(Trial::Works) => good(
            topic,
            "they can be counted",
            "entries into the kernel are counted",
        ),
        Some(Trial::Fails { reason }) => missing(
            topic,
            reason.clone(),
            effect,
            "run as root, or: sudo mount -o remount,mode=755 /sys/kernel/tracing && sudo sysctl \
             kernel.perf_event_paranoid=-1",
        ),
        None => not_checked(topic, "not tried".to_owned(), effect),
    }
}

pub(super) fn perf_advice(facts: &Facts) -> &'static str {
    match facts.inherited.seccomp {
        Some(Seccomp::Filter) => {
            "in a container: --cap-add PERFMON and a seccomp profile that allows perf_event_open; on the \
             host: sudo sysctl kernel.perf_event_paranoid=1"
        }
        _ => {
            "sudo sysctl kernel.perf_event_paranoid=1, or only for this program: sudo setcap \
             cap_perfmon=ep $(command -v costof)"
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
        ("perf permissions", Worse, "paranoid=1", |f, _| {
            set(f, "kernel.perf_event_paranoid", "2")
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
        ("tracepoints", Missing, "root", |_, p| {
            p.tracepoints = fails("EACCES")
        }),
    ];

    #[test]
    fn each_ill_is_told_with_what_to_do() {
        check(ILL);
    }
}
