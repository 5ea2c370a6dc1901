//! Checks what a CPU costs in addition to its work: shared cores, idle states, mitigations.

use super::verdict::{Verdict, good, is_virtual, not_checked, unread, worse};
use crate::text::{maybe, when};
use costof_model::facts::Idle;
use costof_model::{Facts, Probed};

/// Leaving a state below C1 costs some 10 µs, as long as a round trip over loopback.
const DEEP_IDLE_NS: u64 = 10_000;

/// Words in the kernel's descriptions of mitigations that do work at each entry, exit or indirect branch.
const COSTLY_MITIGATIONS: &[&str] = &[
    "PTI",
    "Clear CPU buffers",
    "Retpolines",
    "untrained return thunk",
    "Safe RET",
    "IBPB on",
    "Mitigation: IBRS",
];

fn us(ns: f64) -> String {
    format!("{:.1} µs", ns / 1e3)
}

pub(super) fn smt(facts: &Facts, _: &Probed) -> Option<Verdict> {
    let cores = &facts.cpu.cores;
    let shared = cores.iter().find(|core| core.len() > 1);
    let seen = (!cores.is_empty()).then_some(shared.is_some());
    Some(match facts.cpu.smt_active.or(seen) {
        Some(true) => {
            let which = maybe(shared, |core| format!(" (CPUs {core} share one)"));
            let switch = ", or `echo off | sudo tee /sys/devices/system/cpu/smt/control`";
            let has_switch = facts.cpu.smt_control.as_deref() == Some("on");
            let idle = "leave the other hardware thread idle: measure with `--cpu` on one CPU of each core";
            let what = format!("cores run more than one hardware thread{which}");
            worse(what, idle.to_owned() + when(has_switch, switch))
        }
        Some(false) if is_virtual(facts) => not_checked(
            "this machine sees one hardware thread on each core; the host does not say who uses the other one",
        ),
        Some(false) => good("each core runs one hardware thread"),
        None => not_checked("the kernel does not report which CPUs share a core"),
    })
}

pub(super) fn idle_states(facts: &Facts, _: &Probed) -> Option<Verdict> {
    let states = facts.idle.states.iter();
    let on = states.filter(|state| state.disabled != Some(true));
    let deepest = on.max_by_key(|state| state.exit_latency_ns);
    let latency = deepest.and_then(|state| Some((state, state.exit_latency_ns?)));
    let Some((state, latency_ns)) = latency else {
        let handed = when(is_virtual(facts), "; an idle CPU is handed to the hypervisor");
        return Some(not_checked(format!("the kernel reports no idle states{handed}")));
    };
    let (name, latency) = (&state.name, us(latency_ns as f64));
    let what =
        format!("leaving the deepest idle state, {name}, takes {latency}, as the driver states");
    Some(if latency_ns >= DEEP_IDLE_NS {
        let deep = deep_states(&facts.idle);
        let advice = format!(
            "switch the deep states off: `echo 1 | sudo tee /sys/devices/system/cpu/cpu*/cpuidle/state{deep}/disable` \
             (afterwards `echo 0` in the same way); or compare points with wake=awake"
        );
        worse(what, advice)
    } else if is_virtual(facts) {
        good(what).effect("in the guest; being woken by the hypervisor may take longer")
    } else {
        good(what)
    })
}

/// The numbers of the deep states that are enabled, as a shell pattern: `[234]`.
fn deep_states(idle: &Idle) -> String {
    let deep = idle.states.iter().enumerate().filter(|(_, state)| {
        state.disabled != Some(true) && state.exit_latency_ns >= Some(DEEP_IDLE_NS)
    });
    let numbers: String = deep.map(|(number, _)| number.to_string()).collect();
    format!("[{numbers}]")
}

pub(super) fn mitigations(facts: &Facts, _: &Probed) -> Option<Verdict> {
    let vulnerabilities = &facts.cpu.vulnerabilities;
    if vulnerabilities.is_empty() {
        return Some(unread(facts, "vulnerabilities", "the kernel reports none"));
    }
    let costly = COSTLY_MITIGATIONS.iter().filter_map(|word| {
        let mut against = vulnerabilities.iter();
        let (name, _) = against.find(|(_, mitigation)| mitigation.contains(word))?;
        Some(format!("{} ({name})", word.trim_start_matches("Mitigation: ")))
    });
    let costly: Vec<String> = costly.collect();
    if costly.is_empty() {
        return Some(good("no costly one is on"));
    }
    Some(worse(
        format!("on: {}", costly.join(", ")),
        "they are part of what this machine costs: leave them on, and compare only with machines that have the same \
         ones; a test machine without secrets may start the kernel with `mitigations=off`",
    ))
}
