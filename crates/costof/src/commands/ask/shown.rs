//! The output of `costof ask`: a sentence, a bar for each cost, and the same as JSON.

use super::{Answer, Answered, Question, estimate};
use costof_measure::compare::MATTERS;
use costof_model::expression::Total;
use costof_model::unit::{Unit, span};
use costof_report::text::{capital, wrapped};
use serde_json::json;
use std::fmt::Write;

impl Question {
    /// The value of the whole, and the share of each part.
    pub(super) fn parts(&self, whole: &Answered, parts: &[Answered]) -> String {
        let share = |value: f64| match 100.0 * value / whole.total.value {
            percent if percent < 1.0 => "less than 1 %".to_owned(),
            percent => format!("{percent:.0} %"),
        };
        let mut sentence = format!("{} takes {}", whole.label, whole.shown());
        for part in parts {
            let _ = write!(
                sentence,
                "; {} is {} of it",
                part.label,
                share(part.total.value)
            );
        }
        let rest: f64 = whole.total.value - parts.iter().map(|part| part.total.value).sum::<f64>();
        if let Some(name) = self.rest.as_ref().filter(|_| rest > 0.0) {
            let shown = whole.expression.unit.display(rest);
            let _ = write!(
                sentence,
                "; {name}, which is the rest, {} ({shown})",
                share(rest)
            );
        }
        sentence
    }

    pub(super) fn as_text(
        &self,
        answer: &Answer,
        costs: &[Answered],
        doubts: &[String],
        path: &str,
        columns: usize,
    ) -> String {
        let wrapped = |text: &str| wrapped(columns, text, "");
        let mut text = wrapped(&self.asks) + "\n";
        let sentence = match answer.verdict {
            Some(verdict) => format!("{verdict}: {}", answer.sentence),
            None => answer.sentence.clone(),
        };
        text += &wrapped(&capital(&sentence));
        text.push('\n');
        let most = costs.iter().map(|cost| cost.total.value);
        text += &bars(costs, most.fold(f64::MIN_POSITIVE, f64::max));
        text.push('\n');
        for doubt in doubts {
            text += &wrapped(doubt);
        }
        text += &wrapped(&format!("{}. The run: {path}", self.more));
        text
    }
}

/// The value of the first cost, and of the second one, which is there for comparison.
pub(super) fn cost(first: &Answered, second: Option<&Answered>) -> String {
    let second = second.map(|second| format!("; {} {}", second.label, second.shown()));
    let second = second.unwrap_or_default();
    format!("{} takes {}{second}", first.label, first.shown())
}

/// A line for each cost.
fn bars(costs: &[Answered], most: f64) -> String {
    let width = costs.iter().map(|cost| cost.label.chars().count()).max();
    let width = width.unwrap_or(0);
    let mut text = String::new();
    for cost in costs {
        let bar = estimate::bar(cost.total.value / most);
        let _ = writeln!(text, "  {:width$}  {:>9}  {bar}", cost.label, cost.value());
    }
    text
}

/// Whether `other` is faster than `baseline`, and how many times, `times`.
pub(super) fn worth(baseline: &Answered, other: &Answered, times: &Total) -> Answer {
    let of = |low: f64, high: f64| span(&format!("{low:.2}"), " to ", &format!("{high:.2}"));
    let figures = format!(
        "{} takes {}, {} {}",
        other.label,
        other.shown(),
        baseline.label,
        baseline.shown()
    );
    let (verdict, meaning) = match times.interval {
        Some((low, high)) if high < 1.0 => (
            "no",
            format!(
                "{:.2} times as slow ({})",
                1.0 / times.value,
                of(1.0 / high, 1.0 / low)
            ),
        ),
        Some((low, high)) if high < 1.0 + MATTERS => (
            "no",
            format!(
                "at most {:.0} % faster ({})",
                100.0 * MATTERS,
                of(low, high)
            ),
        ),
        Some((low, high)) if low > 1.0 => (
            "yes",
            format!("{:.2} times as fast ({})", times.value, of(low, high)),
        ),
        Some((low, high)) => (
            "cannot tell",
            format!(
                "{} times as fast, which may be no difference",
                of(low, high)
            ),
        ),
        None => (
            "cannot tell",
            "too few launches for an interval; leave out --quick, or use --full".to_owned(),
        ),
    };
    Answer {
        verdict: Some(verdict),
        sentence: format!("{meaning}: {figures}"),
        is_open: verdict == "cannot tell",
    }
}

impl Answered {
    fn value(&self) -> String {
        self.expression.unit.display(self.total.value)
    }

    /// The value with its interval.
    pub(super) fn shown(&self) -> String {
        let unit: Unit = self.expression.unit;
        match self.total.interval {
            Some((low, high)) => format!(
                "{} ({})",
                self.value(),
                span(&unit.display(low), " to ", &unit.display(high))
            ),
            None => format!("{} (no interval: too few launches)", self.value()),
        }
    }
}

pub(super) fn as_json(
    question: &Question,
    answer: &Answer,
    costs: &[Answered],
    path: &str,
) -> serde_json::Value {
    let costs = costs.iter().map(|cost| {
        json!({
            "label": cost.label,
            "unit": cost.expression.unit,
            "value": cost.total.value,
            "low": cost.total.interval.map(|(low, _)| low),
            "high": cost.total.interval.map(|(_, high)| high),
        })
    });
    json!({
        "question": question.asks,
        "verdict": answer.verdict,
        "answer": answer.sentence,
        "costs": costs.collect::<Vec<_>>(),
        "run": path,
    })
}
