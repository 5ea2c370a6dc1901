//! The machine: all facts in the file.

use costof_model::Run;
use maud::{Markup, html};
use serde_json::Value;

/// At most this many values of a list are shown.
pub(super) const SHOWN: usize = 200;

pub(super) fn section(run: &Run) -> Markup {
    html! {
        @match run.attempts.last() {
            None => p { "The run file does not describe it." },
            Some(attempt) => {
                @for (role, facts) in &attempt.hosts {
                    @if attempt.hosts.len() > 1 {
                        h3 { @if role == "only" { "The measuring end" } @else { "The other end" } }
                    }
                    pre.tree { (tree(&serde_json::to_value(facts).unwrap_or_default(), 0)) }
                }
            }
        }
    }
}

/// Names and values, one on a line, indented by depth. Empty and unknown values are left out.
fn tree(value: &Value, depth: usize) -> String {
    match value {
        Value::Object(entries) => {
            let entries = entries.iter().filter(|(_, value)| says(value));
            let line = |(name, value): (&String, &Value)| {
                let name = name.replace('_', " ");
                format!("\n{}{name}: {}", "  ".repeat(depth), tree(value, depth + 1))
            };
            entries.map(line).collect()
        }
        Value::Array(values) if values.iter().any(Value::is_object) => {
            let values = values.iter().take(SHOWN).map(|value| tree(value, depth));
            values.collect::<Vec<_>>().join("\n")
        }
        Value::Array(values) => {
            let values = values.iter().take(SHOWN).map(plain);
            values.collect::<Vec<_>>().join(" ")
        }
        value => plain(value),
    }
}

fn says(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Object(entries) => entries.values().any(says),
        Value::Array(values) => !values.is_empty(),
        Value::String(text) => !text.is_empty(),
        Value::Bool(_) | Value::Number(_) => true,
    }
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Bool(true) => "yes".to_owned(),
        Value::Bool(false) => "no".to_owned(),
        value => value.to_string(),
    }
}
