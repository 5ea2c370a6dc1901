//! The output of `costof ask`: a sentence, a bar for each cost, and the same as JSON.

use super::ratio::{log_times, times};
use super::{Answer, Answered, Question, estimate, needed};
use costof_findings::crossover::{Crossover, crossover};
use costof_findings::interval::Interval;
use costof_findings::noise;
use costof_measure::compare::MATTERS;
use costof_model::{Grade, Run, Unit, span};
use costof_report::text::{capital, wrapped};
use serde_json::json;
use std::fmt::Write;

impl Question {
    /// The value of the whole, and the share of each part.
    pub(super) fn parts(&self, run: &Run, whole: &Answered, parts: &[Answered]) -> Answer {
        // Of an unknown whole, nothing is a known share.
        let share = |part| match whole.is_known() {
            true => times(run, part, whole),
            false => Err(String::new()),
        };
        let shares: Vec<_> = parts.iter().map(share).collect();
        let mut sentence = whole.takes();
        let mut unknown = Vec::new();
        for (part, share) in parts.iter().zip(&shares) {
            match share {
                Ok(share) => {
                    let share = percent(share.middle);
                    let _ = write!(sentence, "; {} is {share} of it", part.label);
                }
                Err(_) => unknown.push(part),
            }
        }
        if !unknown.is_empty() {
            unknown.push(whole);
            let _ = write!(sentence, "; {}", unanswered(run, &unknown));
        }
        let known = shares.iter().map(|share| Some(share.as_ref().ok()?.middle));
        let rest = known.sum::<Option<f64>>().map(|known| 1.0 - known);
        let rest = rest.filter(|rest| *rest > 0.0);
        if let Some((name, rest)) = self.rest.as_ref().zip(rest) {
            let _ = write!(sentence, "; {name}, which is the rest, {}", percent(rest));
            if let (Ok(total), true) = (&whole.total, whole.is_sound) {
                let _ =
                    write!(sentence, " ({})", whole.expression.unit.display(rest * total.value));
            }
        }
        Answer {
            verdict: shares.iter().all(Result::is_err).then_some(INCONCLUSIVE),
            sentence,
            is_open: false,
            table: None,
        }
    }

    /// From which number on `others`, one for each number, are faster than `baseline`.
    pub(super) fn crossover(&self, run: &Run, baseline: &Answered, others: &[Answered]) -> Answer {
        let ratios = others.iter().map(|other| log_times(run, baseline, other));
        let (known, unknown): (Vec<_>, Vec<_>) =
            self.at.iter().zip(ratios).partition(|(_, ratio)| ratio.is_ok());
        let curve: Vec<(f64, Interval)> = known
            .into_iter()
            .filter_map(|(at, ratio)| Some((f64::from(*at), ratio.ok()?)))
            .collect();
        // The last number speaks for all above it; one between others only widens the interval.
        let reaches = unknown.iter().all(|(at, _)| Some(*at) != self.at.last());
        let found = crossover(&curve).filter(|_| reaches);
        let figures = |other: &Answered| format!("{}, {}", other.takes(), baseline.shown(""));
        let number = |number: f64| format!("{number:.0}");
        let why = || unknown.iter().find_map(|(_, ratio)| ratio.as_ref().err().cloned());
        let (verdict, from) = match found {
            Some(Crossover::Nowhere { .. }) => {
                (Some("no"), "it is faster at none of these numbers for certain".to_owned())
            }
            Some(found @ Crossover::Unknown { .. }) => {
                (Some(INCONCLUSIVE), found.text_with(number))
            }
            Some(found) => (None, found.text_with(number)),
            None => (Some(INCONCLUSIVE), why().unwrap_or_default()),
        };
        let sentence = match others.last().filter(|_| found.is_some()) {
            Some(last) => format!("{from}; {}", figures(last)),
            None => from,
        };
        Answer { verdict, sentence, is_open: verdict == Some(INCONCLUSIVE), table: None }
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
        let most = costs.iter().filter_map(|cost| Some(cost.total.as_ref().ok()?.value));
        let bars = || bars(costs, most.fold(f64::MIN_POSITIVE, f64::max));
        text += &answer.table.clone().unwrap_or_else(bars);
        text.push('\n');
        for doubt in doubts {
            text += &wrapped(doubt);
        }
        text += &wrapped(&format!("{}. The run: {path}", self.more));
        text
    }
}

pub(super) const INCONCLUSIVE: &str = "inconclusive";

fn percent(share: f64) -> String {
    match 100.0 * share {
        percent if percent < 1.0 => "less than 1 %".to_owned(),
        percent => format!("{percent:.0} %"),
    }
}

/// The value of the first cost, and of the second one, which is there for comparison.
pub(super) fn cost(run: &Run, first: &Answered, second: Option<&Answered>) -> Answer {
    let costs = [first].into_iter().chain(second);
    let (known, unknown): (Vec<_>, Vec<_>) = costs.partition(|cost| cost.is_known());
    let takes = known.iter().enumerate().map(|(at, cost)| match at {
        0 => cost.takes(),
        _ => cost.shown(""),
    });
    let unanswered = (!unknown.is_empty()).then(|| unanswered(run, &unknown));
    Answer {
        verdict: (!first.is_known()).then_some(INCONCLUSIVE),
        sentence: takes.chain(unanswered).collect::<Vec<_>>().join("; "),
        is_open: false,
        table: None,
    }
}

/// Why these costs are not known.
pub(super) fn unanswered(run: &Run, costs: &[&Answered]) -> String {
    let labels: Vec<&str> = costs.iter().map(|cost| &*cost.label).collect();
    let rows = needed(costs.iter().map(|cost| &cost.expression), &run.points);
    let absent = || costs.iter().find_map(|cost| cost.total.as_ref().err().cloned());
    let why = noise::why(rows).or_else(absent).unwrap_or_default();
    format!("no answer for {}: {why}", labels.join(" and "))
}

/// A line for each cost. What may be doubted has its grade.
fn bars(costs: &[Answered], most: f64) -> String {
    let width = costs.iter().map(|cost| cost.label.chars().count()).max().unwrap_or(0);
    let mut text = String::new();
    for cost in costs {
        let line = match &cost.total {
            Ok(total) => {
                let doubt = cost.grade.filter(|grade| *grade > Grade::B);
                let doubt = doubt.map_or_else(String::new, |grade| format!("  grade {grade}"));
                let bar = estimate::bar(total.value / most);
                format!("{:>9}  {bar}{doubt}", cost.expression.unit.display(total.value))
            }
            Err(why) => why.clone(),
        };
        let _ = writeln!(text, "  {:width$}  {line}", cost.label);
    }
    text
}

/// Whether `other` is faster than `baseline`, and how many times, `times`.
pub(super) fn worth(
    baseline: &Answered,
    other: &Answered,
    times: Result<Interval, String>,
) -> Answer {
    let of = |low: f64, high: f64| span(&format!("{low:.2}"), " to ", &format!("{high:.2}"));
    let figures = format!("{}, {}", other.takes(), baseline.shown(""));
    let (verdict, meaning) = match times {
        Ok(Interval { low, middle, high }) if high < 1.0 => {
            ("no", format!("{:.2} times as slow ({})", 1.0 / middle, of(1.0 / high, 1.0 / low)))
        }
        Ok(Interval { low, high, .. }) if high < 1.0 + MATTERS => {
            ("no", format!("at most {:.0} % faster ({})", 100.0 * MATTERS, of(low, high)))
        }
        Ok(Interval { low, middle, high }) if low > 1.0 => {
            ("yes", format!("{middle:.2} times as fast ({})", of(low, high)))
        }
        Ok(Interval { low, high, .. }) => {
            (INCONCLUSIVE, format!("{} times as fast, which may be no difference", of(low, high)))
        }
        Err(why) => (INCONCLUSIVE, why),
    };
    Answer {
        verdict: Some(verdict),
        sentence: format!("{meaning}: {figures}"),
        is_open: verdict == INCONCLUSIVE,
        table: None,
    }
}

impl Answered {
    /// Whether it is a number to conclude from.
    pub(super) fn is_known(&self) -> bool {
        self.is_sound && self.total.is_ok()
    }

    /// `a fork takes 93.0 µs (90.0 µs to 95.0 µs)`, or why that is not known.
    pub(super) fn takes(&self) -> String {
        self.shown(" takes")
    }

    /// The same without the verb, beside another cost.
    fn shown(&self, verb: &str) -> String {
        let total = match &self.total {
            Ok(total) => total,
            Err(why) => return format!("{} is not known: {why}", self.label),
        };
        let unit: Unit = self.expression.unit;
        let shown = |value: f64| unit.display(value);
        let interval = total.interval.map(|(low, high)| span(&shown(low), " to ", &shown(high)));
        let doubt = (!self.is_sound).then(|| "grade D".to_owned());
        let inside: Vec<String> = interval.into_iter().chain(doubt).collect();
        let mut value = shown(total.value);
        if unit == Unit::One {
            value += " times as long";
        }
        let inside = match inside.as_slice() {
            [] => String::new(),
            inside => format!(" ({})", inside.join(", ")),
        };
        format!("{}{verb} {value}{inside}", self.label)
    }
}

pub(super) fn as_json(
    question: &Question,
    answer: &Answer,
    costs: &[Answered],
    path: &str,
) -> serde_json::Value {
    let costs = costs.iter().map(|cost| {
        let total = cost.total.as_ref().ok();
        let interval = total.and_then(|total| total.interval);
        json!({
            "label": cost.label,
            "unit": cost.expression.unit,
            "value": total.map(|total| total.value),
            "low": interval.map(|(low, _)| low),
            "high": interval.map(|(_, high)| high),
            "grade": cost.grade,
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
