//! Checks which events can be counted.

use super::verdict::{Verdict, holds, is_filtered, is_virtual, missing, sysctl, tried, worse};
use costof_model::facts::{Facts, Probed, Trial};

pub(super) fn software_events(facts: &Facts, probed: &Probed) -> Option<Verdict> {
    let level: Option<i64> =
        sysctl(facts, "kernel.perf_event_paranoid").and_then(|level| level.parse().ok());
    // The limit that the level sets, if no counter was tried.
    let bound = level.filter(|_| !may_perf(facts)).unwrap_or(0);
    let verdict = match (&probed.software_events, &probed.kernel_events) {
        (Some(Trial::Works), Some(Trial::Fails { reason })) => {
            worse("fails").effect("half").with("reason", &**reason)
        }
        (None, _) if bound > 2 => missing("refuses"),
        (Some(Trial::Works) | None, None) if bound == 2 => worse("refuses_itself").effect("half"),
        (Some(Trial::Works), None) => tried(None),
        (trial, _) => tried(trial.as_ref()),
    };
    let verdict = verdict.maybe("level", level.map(|level| level.to_string()));
    Some(verdict.advice(perf_advice(facts)))
}

pub(super) fn hardware_events(facts: &Facts, probed: &Probed) -> Option<Verdict> {
    let trial = probed.hardware_events.as_ref();
    let has_no_unit = facts.has_performance_unit() == Some(false);
    Some(match trial {
        Some(Trial::Fails { .. }) | None if has_no_unit => {
            let guest = is_virtual(facts);
            missing("no_unit").advice(if guest { "virtual_unit" } else { "firmware" })
        }
        trial => tried(trial).advice(perf_advice(facts)),
    })
}

pub(super) fn tracepoints(facts: &Facts, probed: &Probed) -> Option<Verdict> {
    let is_perf = probed.software_events == probed.tracepoints;
    let advice = if is_perf { perf_advice(facts) } else { "mount" };
    Some(tried(probed.tracepoints.as_ref()).advice(advice))
}

fn perf_advice(facts: &Facts) -> &'static str {
    if is_filtered(facts) {
        "allow_perf"
    } else {
        "perf"
    }
}

/// Whether this process is exempt from perf_event_paranoid. Source: perf_event_open(2).
fn may_perf(facts: &Facts) -> bool {
    holds(facts, "perfmon") || holds(facts, "sys_admin")
}
