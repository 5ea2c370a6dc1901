//! Checks what a CPU costs in addition to its work: shared cores, idle states, mitigations.

use super::verdict::{Verdict, absent, case, is_virtual};
use crate::prelude::*;
use costof_model::facts::Idle;

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
            let has_switch = facts.cpu.smt_control.as_deref() == Some("on");
            case("shared").with("which", which).advice(if has_switch { "switch" } else { "idle" })
        }
        Some(false) if is_virtual(facts) => case("host"),
        Some(false) => case("alone"),
        None => case("unknown"),
    })
}

pub(super) fn idle_states(facts: &Facts, _: &Probed) -> Option<Verdict> {
    let states = facts.idle.states.iter();
    let on = states.filter(|state| state.disabled != Some(true));
    let deepest = on.max_by_key(|state| state.exit_latency_ns);
    let latency = deepest.and_then(|state| Some((state, state.exit_latency_ns?)));
    let Some((state, latency_ns)) = latency else {
        return Some(case(if is_virtual(facts) { "handed" } else { "none" }));
    };
    let verdict = match latency_ns >= DEEP_IDLE_NS {
        true => case("deep").with("deep", deep_states(&facts.idle)),
        false if is_virtual(facts) => case("guest"),
        false => case("shallow"),
    };
    Some(verdict.with("name", &state.name).with("latency", us(latency_ns as f64)))
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
        return Some(absent(facts, "vulnerabilities"));
    }
    let costly = COSTLY_MITIGATIONS.iter().filter_map(|word| {
        let mut against = vulnerabilities.iter();
        let (name, _) = against.find(|(_, mitigation)| mitigation.contains(word))?;
        Some(format!("{} ({name})", word.trim_start_matches("Mitigation: ")))
    });
    let costly: Vec<String> = costly.collect();
    let verdict = case(if costly.is_empty() { "cheap" } else { "costly" });
    Some(verdict.with("costly", costly.join(", ")))
}
