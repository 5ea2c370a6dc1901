//! `costof ask`: measures what a question needs, and answers it in one sentence.

use crate::cli::{AskOptions, RunOptions};
use crate::commands::estimate::{self, Named};
use crate::error::{Done, Error, bail, wrong};
use crate::plan::request::infos;
use crate::record;
use crate::terminal::print;
use costof_findings::noise;
use costof_measure::probe::Probe;
use costof_model::expression::{Expression, Total};
use costof_model::nearest;
use costof_model::noise::Grade;
use costof_model::point::Point;
use costof_model::probe_info::ProbeInfo;
use costof_model::rows::PointRow;
use costof_model::unit::Unit;
use costof_report::text::{capital, wrapped};
use serde::Deserialize;
use serde_json::json;
use std::fmt::Write;
use std::sync::LazyLock;

/// A question of the file, which says what the fields are.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Question {
    name: String,
    asks: String,
    size: Option<String>,
    link: Option<String>,
    kind: Kind,
    costs: Vec<(String, String)>,
    rest: Option<String>,
    more: String,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Kind {
    Cost,
    Worth,
    Parts,
}

#[derive(Deserialize)]
struct File {
    question: Vec<Question>,
}

static FILE: LazyLock<File> =
    LazyLock::new(|| toml::from_str(include_str!("questions.toml")).expect("a test reads it"));

/// One of a question's costs, and what it comes to.
struct Answered {
    label: String,
    expression: Expression,
    total: Total,
}

/// What the sentence says: yes or no where it is asked, and why.
struct Answer {
    verdict: Option<&'static str>,
    sentence: String,
}

pub(crate) fn run(table: &'static [&'static Probe], options: &AskOptions) -> Done {
    let Some(name) = &options.question else {
        return print(listed());
    };
    let question = find(name)?.with(options)?;
    let infos = infos(table);
    let expressions = question.expressions(&infos)?;
    let run = match &options.run {
        Some(path) => (path.display().to_string(), record::read(path)?),
        None => {
            let mut points: Vec<&Point> = Vec::new();
            for point in expressions.iter().flat_map(|expression| &expression.points) {
                if !points.contains(&point) {
                    points.push(point);
                }
            }
            let all = RunOptions::new(options.measuring.clone(), options.quiet.clone(), None);
            estimate::measure(table, &all, &points)?
        }
    };
    let (answer, costs) = question.reply(&infos, &run)?;
    let (path, run) = run;
    print(if options.json {
        format!("{}\n", as_json(&question, &answer, &costs, &path))
    } else {
        question.as_text(&answer, &costs, &doubts(&costs, &run.points), &path)
    })
}

/// The rows of these costs' points.
fn needed<'r>(
    costs: impl IntoIterator<Item = &'r Expression>,
    rows: &'r [PointRow],
) -> Vec<&'r PointRow> {
    let points = costs.into_iter().flat_map(|cost| &cost.points);
    points
        .filter_map(|point| rows.iter().find(|row| row.point == *point))
        .collect()
}

fn listed() -> String {
    let mut text = String::new();
    for question in &FILE.question {
        let asks = question.filled(&question.asks);
        let _ = writeln!(text, "costof ask {:<11} {asks}", question.name);
    }
    text + "\n--size and --link change the question where it names one; --run FILE answers from a run.\n"
}

fn find(name: &str) -> Result<&'static Question, Error> {
    let named = FILE.question.iter().find(|question| question.name == name);
    named.ok_or_else(|| {
        let names = FILE.question.iter().map(|question| question.name.as_str());
        let hint = nearest::hint(name, names);
        wrong(format!(
            "no question `{name}`{hint}: `costof ask` lists them"
        ))
    })
}

fn answered(label: &str, expression: Expression, runs: &[Named]) -> Result<Answered, Error> {
    Ok(Answered {
        label: label.to_owned(),
        total: estimate::total(&expression, runs)?,
        expression,
    })
}

impl Question {
    /// This one, with the size and link that the user names.
    fn with(&self, options: &AskOptions) -> Result<Question, Error> {
        let chosen = |own: &Option<String>, option: Option<String>, name: &str| match (own, option)
        {
            (None, Some(_)) => bail!("`costof ask {}` has no --{name}", self.name),
            (own, option) => Ok(option.or_else(|| own.clone())),
        };
        let link = options.link.as_ref().map(ToString::to_string);
        let mut question = Question {
            size: chosen(&self.size, options.size.clone(), "size")?,
            link: chosen(&self.link, link, "link")?,
            ..self.clone()
        };
        question.asks = question.filled(&self.asks);
        let costs = self.costs.iter();
        let costs = costs.map(|(label, cost)| (question.filled(label), question.filled(cost)));
        question.costs = costs.collect();
        Ok(question)
    }

    fn filled(&self, text: &str) -> String {
        let size = self.size.as_deref().unwrap_or_default();
        let link = self.link.as_deref().unwrap_or_default();
        text.replace("{size}", size).replace("{link}", link)
    }

    fn expressions(&self, infos: &[&ProbeInfo]) -> Result<Vec<Expression>, Error> {
        let costs = self.costs.iter();
        let parsed = costs.map(|(_, cost)| Expression::parse(cost, infos).map_err(wrong));
        parsed.collect()
    }

    /// The answer, which noise may withhold, and those of its costs that have a number.
    fn reply(&self, infos: &[&ProbeInfo], run: &Named) -> Result<(Answer, Vec<Answered>), Error> {
        let runs = std::slice::from_ref(run);
        let expressions = self.expressions(infos)?;
        let withheld = noise::why(needed(&expressions, &run.1.points));
        let mut costs = Vec::new();
        for ((label, _), expression) in self.costs.iter().zip(expressions) {
            match answered(label, expression, runs) {
                Err(Error::Nothing(_)) if withheld.is_some() => {}
                cost => costs.push(cost?),
            }
        }
        let answer = match withheld {
            Some(sentence) => Answer {
                verdict: Some("cannot tell"),
                sentence,
            },
            None => self.answer(infos, &costs, runs)?,
        };
        Ok((answer, costs))
    }

    fn answer(
        &self,
        infos: &[&ProbeInfo],
        costs: &[Answered],
        runs: &[Named],
    ) -> Result<Answer, Error> {
        let [first, others @ ..] = costs else {
            unreachable!("a test asks each question");
        };
        Ok(match self.kind {
            Kind::Cost => Answer {
                verdict: None,
                sentence: format!("{} takes {}", first.label, first.shown()),
            },
            Kind::Parts => Answer {
                verdict: None,
                sentence: self.parts(first, others),
            },
            Kind::Worth => {
                let quotient = format!("({}) / ({})", self.costs[0].1, self.costs[1].1);
                let quotient = Expression::parse(&quotient, infos).map_err(wrong)?;
                worth(first, &others[0], &estimate::total(&quotient, runs)?)
            }
        })
    }

    /// The whole, and the share of each part.
    fn parts(&self, whole: &Answered, parts: &[Answered]) -> String {
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

    fn as_text(
        &self,
        answer: &Answer,
        costs: &[Answered],
        doubts: &[String],
        path: &str,
    ) -> String {
        let mut text = format!("{}\n\n", self.asks);
        let sentence = match answer.verdict {
            Some(verdict) => format!("{verdict}: {}", answer.sentence),
            None => answer.sentence.clone(),
        };
        text += &wrapped(&capital(&sentence), "");
        text.push('\n');
        let most = costs.iter().map(|cost| cost.total.value);
        text += &bars(costs, most.fold(f64::MIN_POSITIVE, f64::max));
        text.push('\n');
        for doubt in doubts {
            text += &wrapped(doubt, "");
        }
        text += &wrapped(&format!("{}. The run: {path}", self.more), "");
        text
    }
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

/// Whether `other` is faster than `baseline`; `times` is how many times.
fn worth(baseline: &Answered, other: &Answered, times: &Total) -> Answer {
    let of = |low: f64, high: f64| format!("{low:.2} to {high:.2}");
    let figures = format!(
        "{} takes {}, {} {}",
        other.label,
        other.shown(),
        baseline.label,
        baseline.shown()
    );
    let (verdict, meaning) = match times.interval {
        Some((low, high)) if low > 1.0 => (
            "yes",
            format!("{:.2} times as fast ({})", times.value, of(low, high)),
        ),
        Some((low, high)) if high < 1.0 => (
            "no",
            format!(
                "{:.2} times as slow ({})",
                1.0 / times.value,
                of(1.0 / high, 1.0 / low)
            ),
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
    }
}

impl Answered {
    fn value(&self) -> String {
        self.expression.unit.display(self.total.value)
    }

    /// The value with its interval.
    fn shown(&self) -> String {
        let unit: Unit = self.expression.unit;
        match self.total.interval {
            Some((low, high)) => format!(
                "{} ({} to {})",
                self.value(),
                unit.display(low),
                unit.display(high)
            ),
            None => format!("{} (no interval: too few launches)", self.value()),
        }
    }
}

/// Why the points should not be relied on: the worst doubt of each that has grade C, each once.
fn doubts(costs: &[Answered], rows: &[PointRow]) -> Vec<String> {
    let rows = needed(costs.iter().map(|cost| &cost.expression), rows);
    let mut doubts = Vec::new();
    for row in rows.iter().filter(|row| row.grade == Grade::C) {
        let Some(worst) = row.worst_doubt() else {
            continue;
        };
        let doubt = format!("Grade {}: {}: {}", row.grade, worst.what, worst.advice);
        if !doubts.contains(&doubt) {
            doubts.push(doubt);
        }
    }
    doubts
}

fn as_json(
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

#[cfg(test)]
mod tests {
    use super::*;
    use costof_model::testing::{RowExt, row, run_without_facts};
    use costof_probes::TABLE;

    #[test]
    fn every_question_is_of_points_that_there_are() {
        let infos = infos(TABLE);
        for question in &FILE.question {
            let question = question.with(&AskOptions::default()).unwrap();
            let expressions = question.expressions(&infos).unwrap();
            assert!(
                expressions
                    .iter()
                    .all(|cost| cost.unit == Unit::Nanoseconds)
            );
            assert!(!matches!(question.kind, Kind::Worth) || expressions.len() == 2);
            assert!(!question.asks.contains('{'), "{}", question.asks);
        }
    }

    #[test]
    fn where_a_row_that_it_needs_is_disturbed_no_question_is_answered() {
        let infos = infos(TABLE);
        let question = find("fork").unwrap().with(&AskOptions::default()).unwrap();
        let mut run = run_without_facts();
        for point in question
            .expressions(&infos)
            .unwrap()
            .into_iter()
            .flat_map(|cost| cost.points)
        {
            run.points.push(row(point.probe, point.axes, 10.0));
        }
        let reply = |row: fn(PointRow) -> PointRow| {
            let mut run = run.clone();
            run.points[0] = row(run.points[0].clone());
            let (answer, costs) = question
                .reply(&infos, &("run.jsonl".to_owned(), run))
                .unwrap();
            (answer.verdict, answer.sentence, costs.len())
        };
        assert_eq!(reply(|row| row).0, None);
        let disturbed = "nothing can be concluded from 1 of the 4 points for it: grade D, mostly as steal was \
                         seen (stop it)";
        let disturbed = (Some("cannot tell"), disturbed.to_owned(), 4);
        assert_eq!(reply(|row| row.warned("steal", Grade::D)), disturbed);
        assert_eq!(reply(|row| row.known_within(0.9)).2, 3);
    }

    #[test]
    fn a_ratio_is_an_answer_only_where_its_interval_is_on_one_side() {
        let cost = |value: f64| Answered {
            label: "it".to_owned(),
            expression: Expression::parse("1ns", &[]).unwrap(),
            total: Total {
                value,
                interval: Some((value, value)),
                parts: Vec::new(),
            },
        };
        let verdict = |interval| {
            let total = Total {
                value: 1.0,
                interval,
                parts: Vec::new(),
            };
            worth(&cost(2.0), &cost(1.0), &total).verdict.unwrap()
        };
        assert_eq!(verdict(Some((1.1, 1.3))), "yes");
        assert_eq!(verdict(Some((0.7, 0.9))), "no");
        assert_eq!(verdict(Some((0.9, 1.1))), "cannot tell");
        assert_eq!(verdict(None), "cannot tell");
    }
}
