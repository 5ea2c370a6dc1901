//! How a diagnosis is put into words.

use costof_model::facts::{Diagnosis, DiagnosisState, Facts};

/// Whether this process holds a capability over the whole machine. Those that it holds in a user
/// namespace of its own lift none of the kernel's limits.
pub(super) fn holds(facts: &Facts, capability: &str) -> bool {
    let held = facts.inherited.capabilities.as_ref();
    facts.inherited.initial_user_namespace != Some(false)
        && held.is_some_and(|held| held.iter().any(|name| name == capability))
}

/// Why a fact is absent: it was refused, or what holds where it simply is not there.
pub(super) fn why(facts: &Facts, file: &str, otherwise: &str) -> String {
    match facts
        .unread
        .iter()
        .find(|unread| unread.what.contains(file))
    {
        Some(unread) => format!("{}: {}", unread.what, unread.reason),
        None => otherwise.to_owned(),
    }
}

pub(super) fn percent(share: f64) -> String {
    match share * 100.0 {
        0.0 => "0 %".to_owned(),
        percent if percent < 0.1 => "less than 0.1 %".to_owned(),
        percent => format!("{percent:.1} %"),
    }
}

pub(super) fn us(ns: f64) -> String {
    format!("{:.1} µs", ns / 1e3)
}

pub(super) fn ghz(hz: u64) -> String {
    format!("{:.2} GHz", hz as f64 / 1e9)
}

pub(super) fn good(topic: &str, what: impl Into<String>, effect: &str) -> Option<Diagnosis> {
    diagnosis(topic, DiagnosisState::Good, what.into(), effect, None)
}

pub(super) fn worse(topic: &str, what: String, effect: &str, advice: &str) -> Option<Diagnosis> {
    diagnosis(topic, DiagnosisState::Worse, what, effect, Some(advice))
}

pub(super) fn missing(topic: &str, what: String, effect: &str, advice: &str) -> Option<Diagnosis> {
    diagnosis(topic, DiagnosisState::Missing, what, effect, Some(advice))
}

/// What follows is only possible, and says so.
pub(super) fn not_checked(topic: &str, what: String, effect: &str) -> Option<Diagnosis> {
    let effect = format!("at worst, {effect}");
    diagnosis(topic, DiagnosisState::NotChecked, what, &effect, None)
}

fn diagnosis(
    topic: &str,
    state: DiagnosisState,
    what: String,
    effect: &str,
    advice: Option<&str>,
) -> Option<Diagnosis> {
    Some(Diagnosis {
        topic: topic.to_owned(),
        state,
        what,
        effect: effect.to_owned(),
        advice: advice.map(str::to_owned),
    })
}
