//! Checks what a CPU costs in addition to its work: shared cores, wake-ups, mitigations.

use super::verdict::{Verdict, good, is_virtual, not_checked, unread, worse};
use costof_model::facts::{Facts, Idle, Probed};

/// Leaving a state below C1 costs some 10 µs, as long as a round trip over loopback.
const DEEP_IDLE_NS: u64 = 10_000;

/// Waking a thread takes some 2 µs if its CPU is awake, and little more from a shallow idle state. From this
/// value on, it takes as long as the operations that are measured.
const WAKE_UP_NS: f64 = 10_000.0;

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
        Some(true) => worse("several")
            .maybe("core", shared.map(ToString::to_string))
            .when("switch", facts.cpu.smt_control.as_deref() == Some("on")),
        Some(false) if is_virtual(facts) => not_checked("guest"),
        Some(false) => good("one"),
        None => not_checked("absent"),
    })
}

pub(super) fn idle_states(facts: &Facts, _: &Probed) -> Option<Verdict> {
    let states = facts.idle.states.iter();
    let on = states.filter(|state| state.disabled != Some(true));
    let deepest = on.max_by_key(|state| state.exit_latency_ns);
    let latency = deepest.and_then(|state| Some((state, state.exit_latency_ns?)));
    let Some((state, latency_ns)) = latency else {
        let what = if is_virtual(facts) {
            "absent_guest"
        } else {
            "absent"
        };
        return Some(not_checked(what));
    };
    let verdict = if latency_ns >= DEEP_IDLE_NS {
        worse("deepest").with("deep", deep_states(&facts.idle))
    } else if is_virtual(facts) {
        good("deepest").effect("good_guest")
    } else {
        good("deepest")
    };
    let latency = us(latency_ns as f64);
    Some(verdict.with("name", &*state.name).with("latency", latency))
}

/// The numbers of the deep states that are enabled, as a shell pattern: `[234]`.
fn deep_states(idle: &Idle) -> String {
    let deep = idle.states.iter().enumerate().filter(|(_, state)| {
        state.disabled != Some(true) && state.exit_latency_ns >= Some(DEEP_IDLE_NS)
    });
    let numbers: String = deep.map(|(number, _)| number.to_string()).collect();
    format!("[{numbers}]")
}

pub(super) fn wake_up(facts: &Facts, probed: &Probed) -> Option<Verdict> {
    let (Some(idle_ns), Some(spinning_ns)) = (probed.wake_idle_ns, probed.wake_spinning_ns) else {
        let has_one = facts.usable_cpus().len() == 1;
        return Some(not_checked(if has_one { "one_cpu" } else { "not_tried" }));
    };
    let verdict = match facts.idle.driver.as_deref() {
        // A thread that spins on a CPU of its own sees a change within a microsecond.
        _ if spinning_ns >= WAKE_UP_NS => not_checked("disturbed"),
        _ if idle_ns < WAKE_UP_NS => good("takes"),
        Some("haltpoll") => worse("takes").advice("haltpoll"),
        _ if is_virtual(facts) => worse("takes").advice("force_haltpoll"),
        _ => worse("takes"),
    };
    Some(
        verdict
            .with("idle", us(idle_ns))
            .with("spinning", us(spinning_ns)),
    )
}

pub(super) fn mitigations(facts: &Facts, _: &Probed) -> Option<Verdict> {
    let vulnerabilities = &facts.cpu.vulnerabilities;
    if vulnerabilities.is_empty() {
        return Some(unread(facts, "vulnerabilities"));
    }
    let costly = COSTLY_MITIGATIONS.iter().filter_map(|word| {
        let mut against = vulnerabilities.iter();
        let (name, _) = against.find(|(_, mitigation)| mitigation.contains(word))?;
        Some(format!(
            "{} ({name})",
            word.trim_start_matches("Mitigation: ")
        ))
    });
    let costly: Vec<String> = costly.collect();
    if costly.is_empty() {
        return Some(good("cheap"));
    }
    Some(worse("on").with("costly", costly.join(", ")))
}
