//! Checks who else uses this machine: programs, and other machines on the same host.

use super::verdict::{Verdict, absent, case, is_virtual, percent};
use crate::text::maybe;
use costof_model::{Facts, Probed, alone, counted};

/// The share of the CPUs' time that others use during the trial, from which medians change.
const BUSY_SHARE: f64 = 0.05;

/// The load per CPU from which other programs disturb a measurement.
const LOAD_PER_CPU: f64 = 0.3;

/// The share of stolen time from which percentiles change.
const STEAL_SHARE: f64 = 0.001;

/// If a core is shared for a smaller part of the time, no number that is shown changes.
const CORE_SHARE: f64 = 0.02;

pub(super) fn load(facts: &Facts, probed: &Probed) -> Option<Verdict> {
    let activity = &facts.activity;
    let (is_much, what) = match (probed.busy_share, activity.load_1min, facts.cpu.logical_count) {
        (Some(busy), ..) => {
            let share = percent(busy);
            (busy > BUSY_SHARE, format!("other processes used {share} of the CPU time just now"))
        }
        (_, Some(load), Some(cpus)) => {
            let on = counted(cpus, "CPU");
            let what = format!("{load} tasks ran or waited in the last minute, on {on}");
            (load > LOAD_PER_CPU * f64::from(cpus), what)
        }
        _ => return Some(absent(facts, "loadavg")),
    };
    Some(case(if is_much { "busy" } else { "quiet" }).with("what", what))
}

pub(super) fn steal(facts: &Facts, _: &Probed) -> Option<Verdict> {
    let Some(share) = facts.activity.steal_share else {
        return Some(absent(facts, "/proc/stat"));
    };
    let verdict = match share > STEAL_SHARE {
        true => case("stolen"),
        false if is_virtual(facts) => case("none_virtual"),
        false => case("none"),
    };
    Some(verdict.with("share", percent(share)))
}

pub(super) fn core(facts: &Facts, probed: &Probed) -> Option<Verdict> {
    let Some(look) = &probed.core else {
        return Some(case("not_tried"));
    };
    let cpu = look.cpu;
    let (Some(floor), Some(shared)) = (look.floor, look.shared) else {
        return Some(case("no_floor").with("cpu", cpu));
    };
    let is_shared = shared >= CORE_SHARE;
    let verdict = match &look.sibling {
        _ if !is_shared => case("alone"),
        None if is_virtual(facts) => case("shared_virtual"),
        None => case("shared"),
        Some(thread) => {
            let verdict = case("sibling").with("name", &thread.name).with("pid", thread.pid);
            verdict.with("other", thread.cpu).with("ran", percent(thread.used))
        }
    };
    let taken = maybe(look.taken.filter(|_| is_shared), |taken| {
        format!(" and took {} of its execution slots then", percent(taken))
    });
    let alone = alone::said(&probed.alone, "the last second");
    let alone = maybe(Some(alone).filter(|said| !said.is_empty()), |said| format!("; {said}"));
    let verdict = verdict.with("cpu", cpu).with("shared", percent(shared)).with("taken", taken);
    Some(verdict.with("floor", format!("{floor:.3}")).with("alone", alone))
}

pub(super) fn hypervisor(facts: &Facts, _: &Probed) -> Option<Verdict> {
    let name = facts.virtualization.hypervisor.as_deref();
    let verdict = case(match facts.virtualization.virtual_machine {
        Some(true) => "virtual",
        Some(false) => "metal",
        None => "unknown",
    });
    Some(verdict.with("name", name.unwrap_or("of an unnamed hypervisor")))
}
