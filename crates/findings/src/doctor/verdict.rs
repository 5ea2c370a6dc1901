//! The verdict of a check on a topic, and its conversion to a diagnosis.

use super::{Case, Topic};
use costof_model::Facts;
use costof_model::facts::{Diagnosis, DiagnosisState, Seccomp, Trial};
use std::fmt::Display;

/// The case of a topic that holds on a machine, and the values in its texts.
pub(super) struct Verdict {
    case: &'static str,
    /// The name of the advice, where the case leaves it open.
    advice: Option<&'static str>,
    /// By their names in the texts.
    values: Vec<(&'static str, String)>,
    /// Why the fact that the case is about could not be read.
    unread: Option<String>,
}

/// The verdict that this case of the topic holds.
pub(super) fn case(case: &'static str) -> Verdict {
    Verdict { case, advice: None, values: Vec::new(), unread: None }
}

/// The verdict if a fact is absent: its file could not be read, or does not exist, as the case `absent` says.
pub(super) fn absent(facts: &Facts, file: &str) -> Verdict {
    let mut unread = facts.unread.iter();
    let unread = unread.find(|unread| unread.what.contains(file));
    let unread = unread.map(|refused| format!("{}: {}", refused.what, refused.reason));
    Verdict { unread, ..case("absent") }
}

/// The verdict of a trial: it succeeded, failed, or was not made.
pub(super) fn tried(trial: Option<&Trial>) -> Verdict {
    match trial {
        Some(Trial::Works) => case("works"),
        Some(Trial::Fails { reason }) => case("fails").with("reason", reason),
        None => case("not_tried"),
    }
}

/// The same, but a setting may be the reason for a failure: its case, and its text.
pub(super) fn tried_despite(trial: Option<&Trial>, setting: Option<(Verdict, String)>) -> Verdict {
    match (setting, trial) {
        (None, _) | (_, Some(Trial::Works)) => tried(trial),
        (Some((forbidden, setting)), Some(Trial::Fails { reason })) => {
            forbidden.with("why", format!("{reason} ({setting})"))
        }
        (Some((forbidden, setting)), None) => forbidden.with("why", setting),
    }
}

impl Verdict {
    /// Sets a value in the texts.
    pub(super) fn with(mut self, name: &'static str, value: impl Display) -> Verdict {
        self.values.push((name, value.to_string()));
        self
    }

    /// Names the advice, where the case leaves it open.
    pub(super) fn advice(self, name: &'static str) -> Verdict {
        Verdict { advice: Some(name), ..self }
    }

    /// What this means with the texts of the topic, or else with those that topics share. If nothing was checked, the
    /// effect is only possible, and the text says so.
    pub(super) fn diagnosis(self, name: &str, topic: &Topic, shared: &Topic) -> Diagnosis {
        let topics = || [topic, shared].into_iter();
        // A test finds a case without texts; if one slips through, the other topics still count.
        let (state, what) = (DiagnosisState::NotChecked, self.case.to_owned());
        let unknown = Case { state, what, effect: None, advice: None };
        let case = topics().find_map(|topic| topic.cases.get(self.case)).unwrap_or(&unknown);
        let Case { state, what, effect, advice } = case;
        let chosen = self.advice.and_then(|name| topics().find_map(|topic| topic.advice.get(name)));
        let has_advice = matches!(state, DiagnosisState::Worse | DiagnosisState::Missing);
        let advice = advice.as_ref().or(chosen).filter(|_| has_advice);
        let usual = if *state == DiagnosisState::Good { &topic.good } else { &topic.effect };
        let effect = effect.as_ref().unwrap_or(usual);
        let filled = |text: &String| {
            let values = self.values.iter();
            values.fold(text.clone(), |text, (name, value)| {
                text.replace(&format!("{{{name}}}"), value)
            })
        };
        Diagnosis {
            topic: name.to_owned(),
            state: *state,
            what: self.unread.clone().unwrap_or_else(|| filled(what)),
            effect: match state {
                DiagnosisState::NotChecked => format!("at worst, {effect}"),
                _ => effect.clone(),
            },
            advice: advice.map(filled),
        }
    }
}

/// Whether this process has a capability over the whole machine. A capability in a user namespace of its own
/// does not lift the kernel's limits.
pub(super) fn holds(facts: &Facts, capability: &str) -> bool {
    let held = facts.inherited.capabilities.as_ref();
    facts.inherited.initial_user_namespace != Some(false)
        && held.is_some_and(|held| held.iter().any(|name| name == capability))
}

/// Whether a filter restricts the system calls of this process.
pub(super) fn is_filtered(facts: &Facts) -> bool {
    facts.inherited.seccomp == Some(Seccomp::Filter)
}

/// The value of a kernel setting.
pub(super) fn sysctl<'f>(facts: &'f Facts, name: &str) -> Option<&'f str> {
    facts.kernel.sysctls.get(name).map(String::as_str)
}

pub(super) fn is_virtual(facts: &Facts) -> bool {
    facts.virtualization.virtual_machine == Some(true)
}

pub(super) fn percent(share: f64) -> String {
    match share * 100.0 {
        0.0 => "0 %".to_owned(),
        percent if percent < 0.1 => "less than 0.1 %".to_owned(),
        percent => format!("{percent:.1} %"),
    }
}
