//! Checks who else uses this machine: programs, and other machines on the same host.

use super::verdict::{Verdict, good, is_virtual, not_checked, percent, unread, worse};
use crate::figures::{Value, figures};
use costof_model::alone;
use costof_model::facts::{Facts, Probed};
use costof_model::plural::counted;

/// The share of the CPUs' time that others use during the trial, from which medians change.
const BUSY_SHARE: f64 = 0.05;

/// The load per CPU from which other programs disturb a measurement.
const LOAD_PER_CPU: f64 = 0.3;

/// The share of stolen time from which percentiles change.
const STEAL_SHARE: f64 = 0.001;

/// If a core is shared for a smaller part of the time, no number that is shown changes.
const CORE_SHARE: f64 = 0.02;

pub(super) fn load(facts: &Facts, probed: &Probed) -> Option<Verdict> {
    let judged = |is_much: bool, what| if is_much { worse(what) } else { good(what) };
    if let Some(busy) = probed.busy_share {
        return Some(judged(busy > BUSY_SHARE, "just_now").with("busy", percent(busy)));
    }
    let (Some(load), Some(cpus)) = (facts.activity.load_1min, facts.cpu.logical_count) else {
        return Some(unread(facts, "loadavg"));
    };
    let is_much = load > LOAD_PER_CPU * f64::from(cpus);
    let verdict = judged(is_much, "last_minute").with("load", load.to_string());
    Some(verdict.with("cpus", counted(cpus, "CPU")))
}

pub(super) fn steal(facts: &Facts, probed: &Probed) -> Option<Verdict> {
    let counted = [
        (facts.activity.steal_share, "since_start"),
        (probed.steal_share, "just_now"),
    ];
    let counted = counted
        .into_iter()
        .filter_map(|(share, when)| Some((share?, when)));
    let counted: Vec<(f64, &str)> = counted.collect();
    if counted.is_empty() {
        return Some(unread(facts, "/proc/stat"));
    }
    let is_stolen = counted.iter().any(|(share, _)| *share > STEAL_SHARE);
    let verdict = if is_stolen {
        worse("given")
    } else if is_virtual(facts) {
        good("given").effect("good_guest")
    } else {
        good("given")
    };
    let shares = counted.iter();
    let shares = shares.map(|(share, when)| (*when, figures().with("share", percent(*share))));
    Some(verdict.with("shares", Value::Parts(shares.collect())))
}

pub(super) fn core(facts: &Facts, probed: &Probed) -> Option<Verdict> {
    let Some(look) = &probed.core else {
        return Some(not_checked("not_looked"));
    };
    let (Some(floor), Some(shared)) = (look.floor, look.shared) else {
        return Some(not_checked("no_floor").with("cpu", look.cpu.to_string()));
    };
    let is_shared = shared >= CORE_SHARE;
    let verdict = if is_shared {
        worse("used")
    } else {
        good("used")
    };
    let alone = alone::said(&probed.alone, "the last second");
    let verdict = verdict
        .maybe("alone", Some(alone).filter(|said| !said.is_empty()))
        .with("cpu", look.cpu.to_string())
        .with("shared", percent(shared))
        .with("floor", Value::Decimal(floor, 3));
    Some(match &look.sibling {
        _ if !is_shared => verdict,
        None => verdict
            .maybe("taken", look.taken.map(percent))
            .when("guest", is_virtual(facts)),
        Some(thread) => verdict
            .maybe("taken", look.taken.map(percent))
            .with("sibling", thread.cpu)
            .with("name", &*thread.name)
            .with("pid", u64::from(thread.pid))
            .with("used", percent(thread.used))
            .advice("stop_it"),
    })
}

pub(super) fn hypervisor(facts: &Facts, _: &Probed) -> Option<Verdict> {
    let name = facts.virtualization.hypervisor.as_deref();
    Some(match facts.virtualization.virtual_machine {
        Some(true) => worse("virtual").with("name", name.unwrap_or("of an unnamed hypervisor")),
        Some(false) => good("none"),
        None => not_checked("absent"),
    })
}
