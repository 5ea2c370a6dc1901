//! The verdict of a check on a topic, and its conversion to a diagnosis with the texts of `checks.toml`.

use crate::figures::{Figures, Value, figures};
use crate::sentence::{Templates, fill};
use costof_model::facts::{Diagnosis, DiagnosisState, Facts, Seccomp, Trial};
use std::collections::HashMap;
use std::sync::LazyLock;

static TEXTS: LazyLock<HashMap<String, Templates>> =
    LazyLock::new(|| toml::from_str(include_str!("checks.toml")).expect("a test reads the texts"));

/// The key of the texts that all topics share.
const EVERY: &str = "every";

/// A state, with the names of its texts and their figures.
pub(super) struct Verdict {
    state: DiagnosisState,
    what: &'static str,
    effect: &'static str,
    advice: Option<&'static str>,
    figures: Figures,
}

pub(super) fn good(what: &'static str) -> Verdict {
    Verdict::new(DiagnosisState::Good, what)
}

pub(super) fn worse(what: &'static str) -> Verdict {
    Verdict::new(DiagnosisState::Worse, what)
}

pub(super) fn missing(what: &'static str) -> Verdict {
    Verdict::new(DiagnosisState::Missing, what)
}

pub(super) fn not_checked(what: &'static str) -> Verdict {
    Verdict::new(DiagnosisState::NotChecked, what)
}

/// The verdict if a fact is absent: its file could not be read or does not exist.
pub(super) fn unread(facts: &Facts, file: &str) -> Verdict {
    let mut unread = facts.unread.iter();
    match unread.find(|unread| unread.what.contains(file)) {
        Some(refused) => not_checked("refused")
            .with("file", &*refused.what)
            .with("reason", &*refused.reason),
        None => not_checked("absent"),
    }
}

/// The verdict of a trial: it succeeded, failed, or was not made.
pub(super) fn tried(trial: Option<&Trial>) -> Verdict {
    match trial {
        Some(Trial::Works) => good("works"),
        Some(Trial::Fails { reason }) => missing("fails").with("reason", &**reason),
        None => not_checked("not_tried"),
    }
}

/// The same, but a setting may be the reason for a failure. `setting` has its text and its advice; otherwise
/// the advice is `advice`.
pub(super) fn tried_despite(
    trial: Option<&Trial>,
    setting: Option<(String, &'static str)>,
    advice: &'static str,
) -> Verdict {
    let Some((cause, advice)) = setting else {
        return tried(trial).advice(advice);
    };
    let verdict = match trial {
        Some(Trial::Fails { reason }) => missing("fails_because").with("reason", &**reason),
        None => missing("because"),
        Some(Trial::Works) => tried(trial),
    };
    verdict.advice(advice).with("cause", cause)
}

impl Verdict {
    fn new(state: DiagnosisState, what: &'static str) -> Verdict {
        let is_good = state == DiagnosisState::Good;
        let needs_advice = matches!(state, DiagnosisState::Worse | DiagnosisState::Missing);
        Verdict {
            state,
            what,
            effect: if is_good { "good" } else { "effect" },
            advice: needs_advice.then_some("advice"),
            figures: figures(),
        }
    }

    /// Replaces the topic's effect.
    pub(super) fn effect(self, effect: &'static str) -> Verdict {
        Verdict { effect, ..self }
    }

    /// Replaces the topic's advice if advice is needed.
    pub(super) fn advice(self, advice: &'static str) -> Verdict {
        let advice = self.advice.map(|_| advice);
        Verdict { advice, ..self }
    }

    pub(super) fn with(self, name: &'static str, value: impl Into<Value>) -> Verdict {
        self.maybe(name, Some(value))
    }

    pub(super) fn maybe(self, name: &'static str, value: Option<impl Into<Value>>) -> Verdict {
        let figures = self.figures.maybe(name, value);
        Verdict { figures, ..self }
    }

    pub(super) fn when(self, name: &'static str, holds: bool) -> Verdict {
        self.maybe(name, holds.then_some(Value::Holds))
    }

    /// If nothing was checked, the effect is only possible, and the text says so.
    pub(super) fn diagnosis(&self, topic: &str) -> Diagnosis {
        let effect = self.text(topic, self.effect);
        let is_checked = self.state != DiagnosisState::NotChecked;
        Diagnosis {
            topic: topic.to_owned(),
            state: self.state,
            what: self.text(topic, self.what),
            effect: if is_checked {
                effect
            } else {
                format!("at worst, {effect}")
            },
            advice: self.advice.map(|advice| self.text(topic, advice)),
        }
    }

    fn text(&self, topic: &str, name: &str) -> String {
        let texts = &TEXTS[topic];
        let text = texts.get(name).or_else(|| TEXTS[EVERY].get(name));
        let text = text.map(|text| fill(texts, text, &[&self.figures]));
        debug_assert!(matches!(text, Some(Ok(_))), "{topic}: {name}: {text:?}");
        text.and_then(Result::ok).unwrap_or_default()
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
