//! The names of the axes, values and metrics of a sweep.

use super::{Measured, Probe};
use crate::choose::place::{LINK, LOSS, Place};
use crate::plot::{Axis, Scale};
use crate::tables::TABLES;
use crate::text::{SENTENCES, capital, shortened};
use costof_model::link::mark;
use costof_model::{AxisValue, Domain, Unit};
use std::collections::{BTreeSet, HashSet};

impl Probe<'_> {
    /// The words of an axis of words, in their order of appearance; empty for an axis of numbers.
    pub(super) fn words(&self, axis: &str, measured: &[Measured<'_>]) -> Vec<AxisValue> {
        let rows = || measured.iter().flat_map(|(_, rows)| rows);
        let values = || rows().map(|(value, ..)| *value);
        let there: BTreeSet<&AxisValue> = values().collect();
        // In the probe's order, if the probe declares the axis.
        let choices = match self.rows.axis(self.id, axis).map(|axis| &axis.domain) {
            Some(Domain::Choice(choices)) => &choices[..],
            Some(Domain::Number { .. } | Domain::Place { .. }) | None => &[],
        };
        let choices = choices.iter().map(|choice| AxisValue::Word(choice.value.clone()));
        let mut words: Vec<AxisValue> = choices.filter(|word| there.contains(word)).collect();
        // Numbers in ascending order, other words in their order of appearance.
        let numbers = there.iter().filter(|value| matches!(value, AxisValue::Number(_)));
        let others = values().filter(|value| matches!(value, AxisValue::Word(_)));
        let mut known: HashSet<AxisValue> = words.iter().cloned().collect();
        for value in numbers.copied().chain(others) {
            if known.insert(value.clone()) {
                words.push(value.clone());
            }
        }
        words
    }

    pub(super) fn axis(&self, axis: &str, measured: &[Measured<'_>], words: &[AxisValue]) -> Axis {
        let unit = self.unit(axis);
        let scale = match words.is_empty() {
            false => {
                let words = words.iter().map(|word| match word {
                    AxisValue::Number(number) => crate::plot::number(unit, *number),
                    AxisValue::Word(word) => word.to_string(),
                });
                Scale::Words(words.map(|word| shortened(&word, 24)).collect())
            }
            true => {
                let values = measured.iter().flat_map(|(_, rows)| rows);
                let numbers = values.filter_map(|(value, ..)| value.as_number());
                Scale::of_numbers(unit, &numbers.collect::<Vec<_>>())
            }
        };
        let symbol = if axis == LOSS { " (%)" } else { "" };
        let label = format!("{}{symbol}", axis.replace('_', " "));
        Axis::new(label, unit, scale)
    }

    /// The rank of a value among others: a number by its size, a word by the probe's order, else by
    /// appearance.
    pub(super) fn rank(&self, axis: &str, value: Option<&AxisValue>) -> u64 {
        let choices = self.rows.axis(self.id, axis).map(|axis| &axis.domain);
        match (value, choices) {
            (Some(AxisValue::Number(number)), _) => *number,
            (Some(AxisValue::Word(word)), Some(Domain::Choice(choices))) => {
                let at = choices.iter().position(|choice| choice.value == *word);
                at.map_or(u64::MAX, |at| at as u64)
            }
            _ => u64::MAX,
        }
    }

    /// The unit of an axis; a count if the probe does not declare one.
    pub(super) fn unit(&self, axis: &str) -> Unit {
        match self.rows.axis(self.id, axis).map(|axis| &axis.domain) {
            Some(Domain::Number { unit, .. }) => *unit,
            _ => Unit::One,
        }
    }

    /// The name of a metric in a heading.
    pub(super) fn heading(metric: &str) -> String {
        let heading = TABLES.drawn().find(|(known, _)| *known == metric);
        heading.map_or_else(|| metric.replace('_', " "), |(_, name)| (*name).to_owned())
    }

    pub(super) fn about(&self, axis: &str, drawn: &str, primary: &str) -> String {
        let metric = self.rows.metric(self.id, drawn);
        let axis = self.rows.axis(self.id, axis);
        let mut parts = Vec::new();
        if drawn != primary {
            parts.extend(metric.map(|metric| capital(&shortened(&metric.about, SENTENCES))));
        }
        parts.extend(axis.map(|axis| {
            let about = shortened(&axis.about, SENTENCES);
            format!("{}: {about}", capital(&axis.name))
        }));
        let sentences = parts.iter().map(|part| format!("{}.", part.trim_end_matches('.')));
        sentences.collect::<Vec<_>>().join(" ")
    }

    /// The name of a place by these axes: `msg_zerocopy, 8 threads`.
    pub(super) fn called(&self, place: &Place, axes: &[String]) -> String {
        let parts = axes.iter().filter_map(|axis| {
            let value = place.get(axis)?;
            Some(match value {
                AxisValue::Word(word) if axis == LINK => {
                    format!("over {}{}", shortened(word, 40), mark(word))
                }
                // Words that mean nothing without their axis: `yes`, `4KiB`.
                AxisValue::Word(word)
                    if matches!(&**word, "yes" | "no" | "default" | "none")
                        || word.starts_with(|first: char| first.is_ascii_digit()) =>
                {
                    format!("{} {}", axis.replace('_', " "), shortened(word, 40))
                }
                AxisValue::Word(word) => shortened(word, 40),
                AxisValue::Number(number) => {
                    let number = crate::plot::number(self.unit(axis), *number);
                    format!("{} {number}", axis.replace('_', " "))
                }
            })
        });
        parts.collect::<Vec<_>>().join(", ")
    }
}
