//! `costof ask`: measures what a question needs, and answers it in one sentence.

mod shown;
mod studies;

use crate::cli::{AskOptions, Chosen, RunOptions};
use crate::commands::estimate::{self, Named};
use crate::error::{Done, Error, bail, wrong};
use crate::plan::keywords::{self, Take};
use crate::plan::request::infos;
use crate::record;
use crate::terminal::{log, print, prose_columns, watch_interrupts};
use costof_findings::noise;
use costof_measure::probe::Probe;
use costof_model::expression::{Expression, Total};
use costof_model::link::Link;
use costof_model::nearest;
use costof_model::noise::{Grade, Warning};
use costof_model::point::Point;
use costof_model::probe_info::ProbeInfo;
use costof_model::rows::PointRow;
use costof_model::run_file::Run;
use costof_report::text::{hanging, wrapped};
use serde::Deserialize;
use shown::{as_json, cost, worth};
use std::collections::HashSet;
use std::fmt::Write;
use std::sync::LazyLock;
use std::sync::atomic::AtomicBool;

/// A question from the file, which documents the fields.
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

#[derive(Clone, Copy, PartialEq, Deserialize)]
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

/// A cost of a question, and its value.
struct Answered {
    label: String,
    expression: Expression,
    total: Total,
}

/// The content of the sentence: yes or no if the question asks for it, and why.
struct Answer {
    verdict: Option<&'static str>,
    sentence: String,
    /// Whether more launches may decide what these cannot.
    is_open: bool,
}

/// An answer, and what it consists of.
struct Reply {
    answer: Answer,
    costs: Vec<Answered>,
    /// The costs without a number, and why.
    absent: Vec<String>,
    run: Named,
}

pub(crate) fn run(table: &'static [&'static Probe], options: &AskOptions) -> Done {
    let Some(name) = &options.question else {
        return print(listed()?);
    };
    if let Some(asked) = studies::find(name)? {
        return asked.answer(table, options);
    }
    let infos = infos(table);
    let question = find(table, name)?;
    let mut asked = question.with(options)?;
    let mut costs = asked.expressions(&infos)?;
    let interrupted = watch_interrupts()?;
    let measure =
        |costs: &[Expression], launches| measure(table, options, costs, launches, &interrupted);
    let run = match &options.run {
        Some(path) => (path.display().to_string(), record::read(path)?),
        None => {
            asked.announce(options);
            measure(&costs, None)?
        }
    };
    // Two host names may mean one machine, which is only known after both have been asked.
    if options.peer.host.is_some() {
        asked = question.at(options, peer_link(&run.1))?;
        costs = asked.expressions(&infos)?;
    }
    let mut reply = asked.reply(&costs, run)?;
    if options.run.is_none() && reply.answer.is_open && asked.has_second_round(options) {
        log("inconclusive: measuring again, with more launches");
        let run = measure(&costs, Some(second_round(options)))?;
        reply = asked.reply(&costs, run)?;
    }
    let Reply {
        answer,
        costs,
        absent,
        run: (path, run),
    } = reply;
    print(if options.json {
        format!("{}\n", as_json(&asked, &answer, &costs, &path))
    } else {
        let doubts = [absent, doubts(&costs, &run.points)].concat();
        asked.as_text(&answer, &costs, &doubts, &path, prose_columns())
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

/// The link of the points that have one.
fn peer_link(run: &Run) -> Option<String> {
    let mut links = run.run.plan.points().map(|point| &point.link);
    links.find(|link| **link != "none").map(ToString::to_string)
}

/// How many launches per point a second round has. More launches narrow an interval; four times as many halve
/// it.
fn second_round(options: &AskOptions) -> u32 {
    3 * options.measuring.precision().launches()
}

fn listed() -> Result<String, Error> {
    let columns = prose_columns();
    let mut text = String::new();
    for question in &FILE.question {
        let asks = question.filled(&question.asks);
        text += &hanging(
            columns,
            &format!("costof ask {:<13} ", question.name),
            &asks,
        );
    }
    let more = "--size, --link and --peer change the question where it names a size or link; --run FILE \
                answers from a run.";
    let of_studies = "The questions of studies, which take a minute or more; `costof ask 'file cache'` finds one by its words:";
    for line in [more, of_studies] {
        let _ = write!(text, "\n{}", wrapped(columns, line, ""));
    }
    text.push('\n');
    for (name, asks) in studies::all()? {
        text += &hanging(columns, &format!("costof ask {name:<20} "), &asks);
    }
    Ok(text)
}

/// # Errors
/// There is no such question. The error names the probes that the word means, or what is nearest to it.
fn find(table: &[&'static Probe], name: &str) -> Result<&'static Question, Error> {
    named(name).ok_or_else(|| {
        let names = FILE.question.iter().map(|question| question.name.as_str());
        let hint = match (
            nearest::hint(name, names),
            keywords::probes(table, name, Take::All),
        ) {
            (hint, _) if !hint.is_empty() => hint,
            (_, Ok(found)) => {
                let ids: Vec<&str> = found.iter().map(|info| &*info.id).collect();
                format!("; `costof run {}` measures it", ids.join(" "))
            }
            (_, Err(unknown)) => format!(", and {unknown}"),
        };
        wrong(format!(
            "no question `{name}`{hint} (`costof ask` lists them)"
        ))
    })
}

fn named(name: &str) -> Option<&'static Question> {
    FILE.question.iter().find(|question| question.name == name)
}

/// Measures every point of these costs, with this many launches if a number is given.
fn measure(
    table: &'static [&'static Probe],
    options: &AskOptions,
    costs: &[Expression],
    launches: Option<u32>,
    interrupted: &AtomicBool,
) -> Result<Named, Error> {
    let mut points: Vec<&Point> = Vec::new();
    for point in costs.iter().flat_map(|cost| &cost.points) {
        if !points.contains(&point) {
            points.push(point);
        }
    }
    let all = RunOptions {
        on: options.on.iter().cloned().collect(),
        peer: options.peer.clone(),
        chosen: Chosen {
            launches,
            ..Chosen::default()
        },
        remote: options.remote.clone(),
        ..RunOptions::new(options.measuring.clone(), options.quiet.clone(), None)
    };
    estimate::measure(table, &all, &points, interrupted)
}

fn answered(label: &str, expression: Expression, runs: &[Named]) -> Result<Answered, Error> {
    Ok(Answered {
        label: label.to_owned(),
        total: estimate::total(&expression, runs)?,
        expression,
    })
}

impl Question {
    /// The question with the size and the link of the options.
    fn with(&self, options: &AskOptions) -> Result<Question, Error> {
        let link = options.link.as_ref().map(ToString::to_string);
        let remote = options.peer.host.as_ref().map(|_| Link::Remote.to_string());
        self.at(options, link.or(remote))
    }

    /// The question with the size of the options, over this link.
    fn at(&self, options: &AskOptions, link: Option<String>) -> Result<Question, Error> {
        let chosen = |own: &Option<String>, option: Option<String>, name: &str| match (own, option)
        {
            (None, Some(_)) => bail!("`costof ask {}` has no --{name}", self.name),
            (own, option) => Ok(option.or_else(|| own.clone())),
        };
        let mut question = Question {
            size: chosen(&self.size, options.size.clone(), "size")?,
            link: chosen(
                &self.link,
                link,
                if options.link.is_some() {
                    "link"
                } else {
                    "peer"
                },
            )?,
            ..self.clone()
        };
        // A peer has a name, but the link to it has none.
        let host = options.peer.host.as_ref().map(ToString::to_string);
        let to_peer = format!("over the network to {}", host.unwrap_or_default());
        let said = |text| question.filled(text).replace("over remote", &to_peer);
        let costs = self.costs.iter();
        let costs = costs.map(|(label, cost)| (said(label), question.filled(cost)));
        let (asks, costs) = (said(&self.asks), costs.collect());
        question.asks = asks;
        question.costs = costs;
        Ok(question)
    }

    fn filled(&self, text: &str) -> String {
        let size = self.size.as_deref().unwrap_or_default();
        let link = self.link.as_deref().unwrap_or_default();
        text.replace("{size}", size).replace("{link}", link)
    }

    /// Its costs, and then their quotient if that is what decides.
    fn expressions(&self, infos: &[&ProbeInfo]) -> Result<Vec<Expression>, Error> {
        let mut costs: Vec<String> = self.costs.iter().map(|(_, cost)| cost.clone()).collect();
        if self.kind == Kind::Worth {
            costs.push(format!("({}) / ({})", costs[0], costs[1]));
        }
        let parsed = costs.iter().map(|cost| Expression::parse(cost, infos));
        parsed.map(|cost| cost.map_err(wrong)).collect()
    }

    /// Whether more launches follow if those of a run cannot decide.
    fn has_second_round(&self, options: &AskOptions) -> bool {
        self.kind == Kind::Worth && !options.measuring.quick
    }

    fn announce(&self, options: &AskOptions) {
        if self.has_second_round(options) {
            log(format!(
                "up to {} launches of each point, then up to {} more if these are inconclusive",
                options.measuring.precision().launches(),
                second_round(options)
            ));
        }
    }

    /// The answer, unless noise withholds it, and the costs that have a number.
    fn reply(&self, expressions: &[Expression], run: Named) -> Result<Reply, Error> {
        let runs = [run];
        let withheld = noise::why(needed(&expressions[..self.costs.len()], &runs[0].1.points));
        let (mut costs, mut absent) = (Vec::new(), Vec::new());
        for ((label, _), expression) in self.costs.iter().zip(expressions) {
            match answered(label, expression.clone(), &runs) {
                // If there is no answer, or if a cost is only there for comparison, its number may be missing.
                Err(Error::Nothing(why))
                    if withheld.is_some() || self.kind == Kind::Cost && !costs.is_empty() =>
                {
                    absent.push(format!("Without {label}: {why}"));
                }
                cost => costs.push(cost?),
            }
        }
        let answer = match withheld {
            Some(sentence) => Answer {
                verdict: Some("cannot tell"),
                sentence,
                is_open: false,
            },
            None => self.answer(expressions, &costs, &runs)?,
        };
        let [run] = runs;
        Ok(Reply {
            answer,
            costs,
            absent,
            run,
        })
    }

    fn answer(
        &self,
        expressions: &[Expression],
        costs: &[Answered],
        runs: &[Named],
    ) -> Result<Answer, Error> {
        let [first, others @ ..] = costs else {
            unreachable!("a test asks each question");
        };
        Ok(match self.kind {
            Kind::Cost => Answer {
                verdict: None,
                sentence: cost(first, others.first()),
                is_open: false,
            },
            Kind::Parts => Answer {
                verdict: None,
                sentence: self.parts(first, others),
                is_open: false,
            },
            Kind::Worth => worth(first, &others[0], &estimate::total(&expressions[2], runs)?),
        })
    }
}

/// Why the points should not be relied on: for points of grade C the worst doubt of each, each kind once. A
/// point of grade D withholds the answer, which then says why.
fn doubts(costs: &[Answered], rows: &[PointRow]) -> Vec<String> {
    let rows = needed(costs.iter().map(|cost| &cost.expression), rows);
    let mut kinds = HashSet::new();
    let mut doubts = Vec::new();
    for row in rows.into_iter().filter(|row| row.grade == Grade::C) {
        let worst = row.worst_doubt();
        if let Some(worst) = worst.filter(|worst| kinds.insert(&worst.kind)) {
            let Warning { what, advice, .. } = worst;
            doubts.push(format!("Grade C: {what}: {advice}"));
        }
    }
    doubts
}

#[cfg(test)]
mod tests {
    use super::*;
    use costof_model::testing::{RowExt, row, run_without_facts};
    use costof_model::unit::Unit;
    use costof_probes::TABLE;

    #[test]
    fn every_question_is_of_points_that_there_are() {
        let infos = infos(TABLE);
        for question in &FILE.question {
            let question = question.with(&AskOptions::default()).unwrap();
            let expressions = question.expressions(&infos).unwrap();
            let costs = &expressions[..question.costs.len()];
            assert!(costs.iter().all(|cost| cost.unit == Unit::Nanoseconds));
            assert!(!matches!(question.kind, Kind::Worth) || expressions.len() == 3);
            assert!(!question.asks.contains('{'), "{}", question.asks);
        }
    }

    #[test]
    fn where_a_row_that_it_needs_is_disturbed_no_question_is_answered() {
        let infos = infos(TABLE);
        let question = find(TABLE, "fork")
            .unwrap()
            .with(&AskOptions::default())
            .unwrap();
        let costs = question.expressions(&infos).unwrap();
        let mut run = run_without_facts();
        for point in costs.iter().flat_map(|cost| cost.points.clone()) {
            run.points.push(row(point.probe, point.axes, 10.0));
        }
        let reply = |row: fn(PointRow) -> PointRow| {
            let mut run = run.clone();
            run.points[0] = row(run.points[0].clone());
            let Reply { answer, costs, .. } = question
                .reply(&costs, ("run.jsonl".to_owned(), run))
                .unwrap();
            (answer.verdict, answer.sentence, costs.len())
        };
        assert_eq!(reply(|row| row).0, None);
        let disturbed = "nothing can be concluded: 1 of the 4 points that this needs have grade D, mostly because \
                         steal was seen (stop it)";
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
        // A change that does not matter is none.
        assert_eq!(verdict(Some((0.97, 1.04))), "no");
        assert_eq!(verdict(Some((1.01, 1.04))), "no");
    }
}
