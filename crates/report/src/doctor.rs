//! The report of `costof doctor` as text: problems first, with what to do about them.

use crate::text::wrapped;
use costof_findings::doctor::{Diagnosis, DiagnosisState};

/// The diagnoses by state, otherwise in their order; the healthy ones share a line. Lines have at most this
/// many columns.
pub fn doctor(diagnoses: &[Diagnosis], columns: usize) -> String {
    let in_state = |state| {
        diagnoses
            .iter()
            .filter(move |diagnosis| diagnosis.state == state)
    };
    let mut text = String::new();
    for (state, heading) in [
        (DiagnosisState::Missing, "Missing here"),
        (DiagnosisState::Worse, "Makes numbers worse"),
        (DiagnosisState::NotChecked, "Not checked"),
    ] {
        let mut listed = in_state(state).peekable();
        if listed.peek().is_some() {
            text.push_str(&format!("{heading}\n"));
            listed.for_each(|diagnosis| text.push_str(&entry(diagnosis, columns)));
            text.push('\n');
        }
    }
    let good: Vec<&str> = in_state(DiagnosisState::Good)
        .map(|diagnosis| diagnosis.topic.as_str())
        .collect();
    if !good.is_empty() {
        text.push_str(&wrapped(columns, &format!("Good: {}", good.join(", ")), ""));
    }
    text
}

/// The state of a topic, its effect, and what to do.
fn entry(diagnosis: &Diagnosis, columns: usize) -> String {
    let wrapped = |line: &str, indent| wrapped(columns, line, indent);
    let mut text = wrapped(&format!("{}: {}", diagnosis.topic, diagnosis.what), "  ");
    text.push_str(&wrapped(&format!("- {}", diagnosis.effect), "    "));
    if let Some(advice) = &diagnosis.advice {
        text.push_str(&wrapped(&format!("→ {advice}"), "    "));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::COLUMNS;

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
        let expected = "\
Missing here
  memory: it is so
    - that follows
    → add some

Makes numbers worse
  turbo: it is so
    - that follows
    → turn `it off`

Not checked
  power: it is so
    - that follows

Good: load, steal
";
        assert_eq!(text, expected);
        assert_eq!(doctor(&[], COLUMNS), "");
    }
}
