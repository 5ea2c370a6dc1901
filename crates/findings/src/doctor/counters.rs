//! Checks which events can be counted.

use super::verdict::{
    Verdict, good, holds, is_filtered, is_virtual, missing, not_checked, sysctl, tried, worse,
};
use crate::text::maybe;
use costof_model::facts::Trial;
use costof_model::{Facts, Probed};

/// What is missing if only events inside the kernel are not counted.
const HALF: &str =
    "context switches and migrations are not counted, and other events only outside the kernel";

pub(super) fn software_events(facts: &Facts, probed: &Probed) -> Option<Verdict> {
    let level = sysctl(facts, "kernel.perf_event_paranoid");
    let level: Option<i64> = level.and_then(|level| level.parse().ok());
    // The limit that the level sets, if no counter was tried.
    let bound = level.filter(|_| !may_perf(facts)).unwrap_or(0);
    let advice = perf_advice(facts);
    let verdict = match (&probed.software_events, &probed.kernel_events) {
        (Some(Trial::Works), Some(Trial::Fails { reason })) => {
            worse(&**reason, advice).effect(HALF)
        }
        (None, _) if bound > 2 => missing("the kernel refuses to count", advice),
        (Some(Trial::Works) | None, None) if bound == 2 => {
            worse("the kernel refuses to count events inside the kernel", advice).effect(HALF)
        }
        (Some(Trial::Works), None) => not_checked("not tried"),
        (trial, _) => tried(trial.as_ref(), "software events can be counted", advice),
    };
    Some(verdict.and(&maybe(level, |level| format!(" (perf_event_paranoid is {level})"))))
}

pub(super) fn hardware_events(facts: &Facts, probed: &Probed) -> Option<Verdict> {
    let has_no_unit = facts.has_performance_unit() == Some(false);
    let advice = match is_virtual(facts) {
        true => {
            "ask for an instance type with a virtual PMU (a metal or whole-socket one); on your own KVM host, give \
             the guest `-cpu host,pmu=on`"
        }
        false => {
            "see whether the firmware switched it off, and what the kernel says: `sudo dmesg | grep -i -e pmu -e \
             'Performance Events'`"
        }
    };
    Some(match &probed.hardware_events {
        Some(Trial::Works) => good("cycles can be counted"),
        _ if has_no_unit => missing("the kernel has no PMU that counts cycles", advice),
        Some(Trial::Fails { reason }) => missing(&**reason, perf_advice(facts)),
        None => not_checked("counting was not tried"),
    })
}

pub(super) fn tracepoints(facts: &Facts, probed: &Probed) -> Option<Verdict> {
    let is_perf = probed.software_events == probed.tracepoints;
    let mount = "run as root; or, for your group, `sudo mount -t tracefs -o gid=$(id -g),mode=750 tracefs \
                 /sys/kernel/tracing` (`sudo mount -o remount,gid=$(id -g),mode=750 /sys/kernel/tracing` where it is \
                 mounted already) and `sudo sysctl kernel.perf_event_paranoid=1`";
    let advice = if is_perf { perf_advice(facts) } else { mount };
    Some(tried(probed.tracepoints.as_ref(), "they can be counted", advice))
}

fn perf_advice(facts: &Facts) -> &'static str {
    match is_filtered(facts) {
        true => {
            "let its seccomp filter allow perf_event_open: in a container, `--cap-add PERFMON`; in a systemd unit, \
             no SystemCallFilter= that forbids it; and on the host `sudo sysctl kernel.perf_event_paranoid=1`"
        }
        false => {
            "`sudo sysctl kernel.perf_event_paranoid=1`, or for this program alone `sudo setcap cap_perfmon=ep \
             $(command -v costof)`"
        }
    }
}

/// Whether this process is exempt from perf_event_paranoid. Source: perf_event_open(2).
fn may_perf(facts: &Facts) -> bool {
    holds(facts, "perfmon") || holds(facts, "sys_admin")
}
