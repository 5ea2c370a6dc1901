//! Checks which events can be counted.

use super::verdict::{Verdict, case, holds, is_filtered, is_virtual, sysctl, tried};
use crate::prelude::*;
use costof_model::facts::Trial;

pub(super) fn software_events(facts: &Facts, probed: &Probed) -> Option<Verdict> {
    let level = sysctl(facts, "kernel.perf_event_paranoid");
    let level: Option<i64> = level.and_then(|level| level.parse().ok());
    // The limit that the level sets, if no counter was tried.
    let bound = level.filter(|_| !may_perf(facts)).unwrap_or(0);
    let verdict = match (&probed.software_events, &probed.kernel_events) {
        (Some(Trial::Works), Some(Trial::Fails { reason })) => case("half").with("reason", reason),
        (None, _) if bound > 2 => case("refused"),
        (Some(Trial::Works) | None, None) if bound == 2 => case("half_refused"),
        (Some(Trial::Works), None) => case("not_tried"),
        (trial, _) => tried(trial.as_ref()),
    };
    let level = maybe(level, |level| format!(" (perf_event_paranoid is {level})"));
    Some(verdict.with("level", level).advice(perf_advice(facts)))
}

pub(super) fn hardware_events(facts: &Facts, probed: &Probed) -> Option<Verdict> {
    let has_no_unit = facts.has_performance_unit() == Some(false);
    Some(match &probed.hardware_events {
        Some(Trial::Works) => case("works"),
        _ if has_no_unit => {
            case("no_unit").advice(if is_virtual(facts) { "virtual" } else { "metal" })
        }
        trial => tried(trial.as_ref()).advice(perf_advice(facts)),
    })
}

pub(super) fn tracepoints(facts: &Facts, probed: &Probed) -> Option<Verdict> {
    let is_perf = probed.software_events == probed.tracepoints;
    let advice = if is_perf { perf_advice(facts) } else { "mount" };
    Some(tried(probed.tracepoints.as_ref()).advice(advice))
}

fn perf_advice(facts: &Facts) -> &'static str {
    if is_filtered(facts) { "perf_filter" } else { "perf" }
}

/// Whether this process is exempt from perf_event_paranoid. Source: perf_event_open(2).
fn may_perf(facts: &Facts) -> bool {
    holds(facts, "perfmon") || holds(facts, "sys_admin")
}
