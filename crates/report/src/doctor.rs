//! The report of `costof doctor` as text: problems first, with what to do about them.

use crate::document::{self, Part};
use costof_findings::doctor::{Diagnosis, DiagnosisState};

/// The diagnoses by state, otherwise in their order; the healthy ones share a line. Lines have at most this
/// many columns.
pub fn doctor(diagnoses: &[Diagnosis], columns: usize) -> String {
    let in_state = |state| diagnoses.iter().filter(move |diagnosis| diagnosis.state == state);
    let mut parts = Vec::new();
    for (state, heading) in [
        (DiagnosisState::Missing, "Missing here"),
        (DiagnosisState::Worse, "Makes numbers worse"),
        (DiagnosisState::NotChecked, "Not checked"),
    ] {
        let lines: Vec<String> = in_state(state).flat_map(entry).collect();
        if !lines.is_empty() {
            parts.push(Part::Heading(2, heading.to_owned()));
            parts.push(Part::List("", lines));
        }
    }
    let good: Vec<&str> =
        in_state(DiagnosisState::Good).map(|diagnosis| diagnosis.topic.as_str()).collect();
    if !good.is_empty() {
        parts.push(Part::paragraph(format!("Good: {}", good.join(", "))));
    }
    document::text(&parts, columns)
}

/// The state of a topic, its effect, and what to do.
fn entry(diagnosis: &Diagnosis) -> impl Iterator<Item = String> {
    let effect = format!("  - {}", diagnosis.effect);
    let advice = diagnosis.advice.as_ref().map(|advice| format!("  → {advice}"));
    let state = format!("{}: {}", diagnosis.topic, diagnosis.what);
    [state, effect].into_iter().chain(advice)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::COLUMNS;
    use costof_model::testing::golden;

    #[test]
    fn what_is_ill_comes_first_and_what_is_good_in_one_line() {
        let diagnosis = |topic: &str, state, advice: Option<&str>| Diagnosis {
            topic: topic.to_owned(),
            state,
            what: "it is so".to_owned(),
            effect: "that follows".to_owned(),
            advice: advice.map(str::to_owned),
        };
        let text = doctor(
            &[
                diagnosis("load", DiagnosisState::Good, None),
                diagnosis("turbo", DiagnosisState::Worse, Some("turn `it off`")),
                diagnosis("power", DiagnosisState::NotChecked, None),
                diagnosis("memory", DiagnosisState::Missing, Some("add some")),
                diagnosis("steal", DiagnosisState::Good, None),
            ],
            COLUMNS,
        );
        golden("report/doctor", "each state", &text);
        assert_eq!(doctor(&[], COLUMNS), "");
    }
}
