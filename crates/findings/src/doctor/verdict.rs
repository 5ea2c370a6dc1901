//! The verdict of a check on a topic, and its conversion to a diagnosis.

use super::Topic;
use costof_model::Facts;
use costof_model::facts::{Diagnosis, DiagnosisState, Seccomp, Trial};

/// A state with its reason.
pub(super) struct Verdict {
    state: DiagnosisState,
    what: String,
    /// What follows, if that is not what the topic says.
    effect: Option<&'static str>,
    /// What to do about it, where something is worse or missing.
    advice: Option<String>,
}

pub(super) fn good(what: impl Into<String>) -> Verdict {
    Verdict::new(DiagnosisState::Good, what.into())
}

pub(super) fn worse(what: impl Into<String>, advice: impl Into<String>) -> Verdict {
    let advice = Some(advice.into());
    Verdict { advice, ..Verdict::new(DiagnosisState::Worse, what.into()) }
}

pub(super) fn missing(what: impl Into<String>, advice: impl Into<String>) -> Verdict {
    let advice = Some(advice.into());
    Verdict { advice, ..Verdict::new(DiagnosisState::Missing, what.into()) }
}

pub(super) fn not_checked(what: impl Into<String>) -> Verdict {
    Verdict::new(DiagnosisState::NotChecked, what.into())
}

/// The verdict if a fact is absent: its file could not be read, or does not exist, as `absent` says.
pub(super) fn unread(facts: &Facts, file: &str, absent: &str) -> Verdict {
    let mut unread = facts.unread.iter();
    not_checked(match unread.find(|unread| unread.what.contains(file)) {
        Some(refused) => format!("{}: {}", refused.what, refused.reason),
        None => absent.to_owned(),
    })
}

/// The verdict of a trial: it succeeded, as `works` says, failed, or was not made.
pub(super) fn tried(trial: Option<&Trial>, works: &str, advice: impl Into<String>) -> Verdict {
    match trial {
        Some(Trial::Works) => good(works),
        Some(Trial::Fails { reason }) => missing(&**reason, advice),
        None => not_checked("not tried"),
    }
}

/// The same, but a setting may be the reason for a failure: its text and its advice.
pub(super) fn tried_despite(
    trial: Option<&Trial>,
    works: &str,
    setting: Option<(String, String)>,
    advice: &str,
) -> Verdict {
    match (setting, trial) {
        (None, _) | (_, Some(Trial::Works)) => tried(trial, works, advice),
        (Some((cause, advice)), Some(Trial::Fails { reason })) => {
            missing(format!("{reason} ({cause})"), advice)
        }
        (Some((cause, advice)), None) => missing(cause, advice),
    }
}

impl Verdict {
    fn new(state: DiagnosisState, what: String) -> Verdict {
        Verdict { state, what, effect: None, advice: None }
    }

    /// Replaces the topic's effect.
    pub(super) fn effect(self, effect: &'static str) -> Verdict {
        let effect = Some(effect);
        Verdict { effect, ..self }
    }

    /// Adds to what is known.
    pub(super) fn and(self, more: &str) -> Verdict {
        Verdict { what: self.what + more, ..self }
    }

    /// If nothing was checked, the effect is only possible, and the text says so.
    pub(super) fn diagnosis(self, name: &str, topic: &Topic) -> Diagnosis {
        let is_good = self.state == DiagnosisState::Good;
        let effect = self.effect.unwrap_or(if is_good { &topic.good } else { &topic.effect });
        Diagnosis {
            topic: name.to_owned(),
            state: self.state,
            what: self.what,
            effect: match self.state {
                DiagnosisState::NotChecked => format!("at worst, {effect}"),
                _ => effect.to_owned(),
            },
            advice: self.advice,
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
