//! `costof ask`: measures what a question needs, and answers it in one sentence.

mod group;
mod ratio;
mod shown;
mod studies;
mod ways;

use crate::cli::{AskOptions, Chosen, RunOptions};
use crate::commands::estimate::{self, Named};
use crate::error::{Done, Error, Result, bail, wrong};
use crate::plan::keywords::{self, Take};
use crate::plan::request::infos;
use crate::record;
use crate::record::Table;
use crate::terminal::{log, print, prose_columns, watch_interrupts};
use costof_model::expression::{Expression, Total};
use costof_model::{Estimate, Grade, Link, Point, PointRow, ProbeInfo, Run, Warning, nearest};
use costof_report::text::{hanging, wrapped};
use ratio::{deciding, times};
use serde::Deserialize;
use shown::{as_json, cost, worth};
use std::collections::{BTreeMap, HashSet};
use std::fmt::Write;
use std::sync::LazyLock;
use std::sync::atomic::AtomicBool;

/// A question from the file, which documents the fields.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Question {
    name: String,
    asks: String,
    #[serde(default)]
    also: Vec<String>,
    size: Option<String>,
    most: Option<String>,
    fields: Option<String>,
    link: Option<String>,
    kind: Kind,
    #[serde(default)]
    at: Vec<u32>,
    costs: Vec<(String, String)>,
    #[serde(default)]
    points: Vec<String>,
    #[serde(default)]
    columns: Vec<ways::Column>,
    /// A way that can send or pass on only some messages stands beside the answer: its condition, by its label.
    #[serde(default)]
    only: BTreeMap<String, String>,
    rest: Option<String>,
    more: String,
}

#[derive(Clone, Copy, PartialEq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Kind {
    Cost,
    Worth,
    Parts,
    Group,
    Ways,
    Crossover,
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
    /// Its value, or why it has none.
    total: Result<Total, String>,
    /// The worst grade of its rows.
    grade: Option<Grade>,
    /// Whether it rests on sound rows alone.
    is_sound: bool,
}

impl Answered {
    /// Its row, where it is of one point.
    fn row<'r>(&self, run: &'r Run) -> Option<&'r PointRow> {
        run.points.iter().find(|row| Some(&row.point) == self.expression.points.first())
    }
}

/// The content of the sentence: yes or no if the question asks for it, and why.
struct Answer {
    verdict: Option<&'static str>,
    sentence: String,
    /// Whether more launches may decide what these cannot.
    is_open: bool,
    /// What is shown instead of a bar for each cost.
    table: Option<String>,
}

/// An answer, and what it consists of.
struct Reply {
    answer: Answer,
    costs: Vec<Answered>,
    run: Named,
}

pub(crate) fn run(table: Table, options: &AskOptions) -> Done {
    let Some(name) = &options.question else {
        return print(listed()?);
    };
    if let Some(command) = keywords::own(name).filter(|_| named(name).is_none()) {
        return print(format!("{command}\n"));
    }
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
        Some(path) => (path.display().to_string(), record::read(path, table)?),
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
    let Reply { answer, costs, run: (path, run) } = reply;
    print(if options.json {
        format!("{}\n", as_json(&asked, &answer, &costs, &path))
    } else {
        let doubts = doubts(&costs, &run.points);
        asked.as_text(&answer, &costs, &doubts, &path, prose_columns())
    })
}

/// The rows of these costs' points.
fn needed<'r>(
    costs: impl IntoIterator<Item = &'r Expression>,
    rows: &'r [PointRow],
) -> Vec<&'r PointRow> {
    let points = costs.into_iter().flat_map(|cost| &cost.points);
    points.filter_map(|point| rows.iter().find(|row| row.point == *point)).collect()
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

fn listed() -> Result<String> {
    let columns = prose_columns();
    let mut text = String::new();
    for question in &FILE.question {
        let asks = question.filled(&question.asks);
        text += &hanging(columns, &format!("costof ask {:<13} ", question.name), &asks);
    }
    let more = "--size, --link and --peer change the question where it names a size or link; --run FILE \
                answers from a run.";
    let of_studies = "The questions of studies, which take a minute or more; `costof ask 'file cache'` finds one by its words:";
    let own = "Your own program: `costof time CMD` measures it, and `costof against REV -- PROGRAM` compares it with \
               another revision.";
    for line in [own, more, of_studies] {
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
fn find(table: Table, name: &str) -> Result<&'static Question> {
    named(name).ok_or_else(|| {
        let names = FILE.question.iter().map(|question| question.name.as_str());
        let hint = match (nearest::hint(name, names), keywords::probes(table, name, Take::All)) {
            (hint, _) if !hint.is_empty() => hint,
            (_, Ok(found)) => {
                let ids: Vec<&str> = found.iter().map(|info| &*info.id).collect();
                format!("; `costof run {}` measures it", ids.join(" "))
            }
            (_, Err(unknown)) => format!(", and {unknown}"),
        };
        wrong(format!("no question `{name}`{hint} (`costof ask` lists them)"))
    })
}

fn named(name: &str) -> Option<&'static Question> {
    let is_it = |question: &&Question| {
        question.name == name || question.also.iter().any(|also| also == name)
    };
    FILE.question.iter().find(is_it)
}

/// Measures every point of these costs, with this many launches if a number is given.
fn measure(
    table: Table,
    options: &AskOptions,
    costs: &[Expression],
    launches: Option<u32>,
    interrupted: &AtomicBool,
) -> Result<Named> {
    let mut points: Vec<&Point> = Vec::new();
    for point in costs.iter().flat_map(|cost| &cost.points) {
        if !points.contains(&point) {
            points.push(point);
        }
    }
    let all = RunOptions {
        on: options.on.iter().cloned().collect(),
        peer: options.peer.clone(),
        chosen: Chosen { launches, ..Chosen::default() },
        remote: options.remote.clone(),
        ..RunOptions::new(options.measuring.clone(), None)
    };
    estimate::measure(table, &all, &points, interrupted)
}

fn answered(label: &str, expression: &Expression, runs: &[Named]) -> Result<Answered> {
    let rows = needed([expression], &runs[0].1.points);
    let mut unusable = rows.iter().filter_map(|row| row.primary());
    let unusable = unusable.find(|estimate| !estimate.is_usable());
    Ok(Answered {
        label: label.to_owned(),
        total: match estimate::total(expression, runs) {
            Ok(total) => Ok(total),
            Err(Error::Nothing(why)) => Err(unusable.map_or(why, Estimate::display)),
            Err(error) => return Err(error),
        },
        expression: expression.clone(),
        grade: rows.iter().map(|row| row.grade).max(),
        is_sound: rows.iter().all(|row| row.is_sound()),
    })
}

impl Question {
    /// The question with the size and the link of the options.
    fn with(&self, options: &AskOptions) -> Result<Question> {
        let link = options.link.as_ref().map(ToString::to_string);
        let remote = options.peer.host.as_ref().map(|_| Link::Remote.to_string());
        self.at(options, link.or(remote))
    }

    /// The question with the size of the options, over this link.
    fn at(&self, options: &AskOptions, link: Option<String>) -> Result<Question> {
        let chosen = |own: &Option<String>, option: Option<String>, name: &str| match (own, option)
        {
            (None, Some(_)) => bail!("`costof ask {}` has no --{name}", self.name),
            (own, option) => Ok(option.or_else(|| own.clone())),
        };
        let mut question = Question {
            size: chosen(&self.size, options.size.clone(), "size")?,
            fields: chosen(&self.fields, options.fields.clone(), "fields")?,
            link: chosen(&self.link, link, if options.link.is_some() { "link" } else { "peer" })?,
            ..self.clone()
        };
        // A peer has a name, but the link to it has none.
        let host = options.peer.host.as_ref().map(ToString::to_string);
        let to_peer = format!("over the network to {}", host.unwrap_or_default());
        let said = |text: &str| question.filled(text).replace("over remote", &to_peer);
        let costs = self.numbered();
        let costs = costs.iter().map(|(label, cost)| (said(label), question.filled(cost)));
        let (asks, costs) = (said(&self.asks), costs.collect());
        question.asks = asks;
        question.costs = costs;
        Ok(question)
    }

    /// The costs; the one that names `{at}` once for each number.
    fn numbered(&self) -> Vec<(String, String)> {
        let each = self.costs.iter().flat_map(|(label, cost)| {
            let numbers = if cost.contains("{at}") { &self.at[..] } else { &[0] };
            numbers.iter().map(move |number| {
                [label, cost].map(|text| text.replace("{at}", &number.to_string())).into()
            })
        });
        each.collect()
    }

    fn filled(&self, text: &str) -> String {
        let size = self.size.as_deref().unwrap_or_default();
        let link = self.link.as_deref().unwrap_or_default();
        let fields = self.fields.as_deref().unwrap_or_default();
        text.replace("{size}", size).replace("{link}", link).replace("{fields}", fields)
    }

    /// What is measured, each with its label.
    fn measured(&self) -> Vec<(String, String)> {
        match self.kind {
            Kind::Ways => self.of_each_way(),
            Kind::Cost | Kind::Worth | Kind::Parts | Kind::Group | Kind::Crossover => {
                self.costs.clone()
            }
        }
    }

    /// Its costs.
    fn expressions(&self, infos: &[&ProbeInfo]) -> Result<Vec<Expression>> {
        let costs = self.measured().into_iter();
        let parsed = costs.map(|(_, cost)| Expression::parse(&cost, infos));
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

    /// The answer, as far as noise allows one, and the costs.
    fn reply(&self, expressions: &[Expression], run: Named) -> Result<Reply> {
        let runs = [run];
        let costs = self.measured().into_iter().zip(expressions);
        let costs = costs
            .map(|((label, _), expression)| answered(&label, expression, &runs))
            .collect::<Result<Vec<Answered>>>()?;
        let [first, others @ ..] = &costs[..] else {
            unreachable!("a test asks each question");
        };
        let run = &runs[0].1;
        if let (Err(why), true) = (&first.total, needed(expressions, &run.points).is_empty()) {
            return Err(Error::Nothing(why.clone()));
        }
        let answer = match self.kind {
            Kind::Cost => cost(run, first, others.first()),
            Kind::Parts => self.parts(run, first, others),
            Kind::Worth => {
                let baselines = [first].into_iter().chain(&others[1..]);
                let (baseline, times) =
                    deciding(baselines.map(|cost| (cost, times(run, cost, &others[0]))));
                worth(baseline, &others[0], times)
            }
            Kind::Group => group::group(run, &costs),
            Kind::Ways => self.ways(run, &costs),
            Kind::Crossover => self.crossover(run, first, &others[..self.at.len()]),
        };
        let [run] = runs;
        Ok(Reply { answer, costs, run })
    }
}

/// Why the points should not be relied on: of those of the worst grade, if that is C, the worst doubt of each, each
/// kind once. What has grade D says so beside its number.
fn doubts(costs: &[Answered], rows: &[PointRow]) -> Vec<String> {
    let rows = needed(costs.iter().map(|cost| &cost.expression), rows);
    if rows.iter().any(|row| !row.is_sound()) {
        return Vec::new();
    }
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
    use super::ratio::decided;
    use super::*;
    use costof_findings::interval::Interval;
    use costof_model::testing::{RowExt, golden, launch, row, run_without_facts};
    use costof_model::unit::Unit;
    use costof_probes::TABLE;

    #[test]
    fn every_question_is_of_points_that_there_are() {
        let infos = infos(TABLE);
        for question in &FILE.question {
            let question = question.with(&AskOptions::default()).unwrap();
            let costs = question.expressions(&infos).unwrap();
            assert!(question.kind != Kind::Worth || costs.len() >= 2);
            assert_eq!(question.kind == Kind::Ways, !question.points.is_empty());
            assert_eq!(question.kind == Kind::Ways, !question.columns.is_empty());
            let are_of = |unit| costs.iter().all(|cost| cost.unit == unit);
            assert!(are_of(Unit::Nanoseconds) || are_of(Unit::One), "{}", question.name);
            let numbers = question.at.len();
            assert!(question.kind != Kind::Crossover || (numbers > 1 && costs.len() > numbers));
            assert!(!question.asks.contains('{'), "{}", question.asks);
        }
    }

    /// The answer of a question to a run in which its points took these times, changed one by one.
    fn reply(name: &str, change: impl Fn(usize, PointRow) -> PointRow) -> Reply {
        let question = find(TABLE, name).unwrap().with(&AskOptions::default()).unwrap();
        let costs = question.expressions(&infos(TABLE)).unwrap();
        let mut run = run_without_facts();
        for (position, point) in costs.iter().flat_map(|cost| &cost.points).enumerate() {
            let row = row(point.probe.clone(), point.axes.clone(), 10.0);
            let row = PointRow { point: point.clone(), ..row };
            run.points.push(change(position, row));
        }
        question.reply(&costs, ("run.jsonl".to_owned(), run)).unwrap()
    }

    fn disturbed(row: PointRow) -> PointRow {
        row.warned("steal", Grade::D)
    }

    #[test]
    fn a_cost_is_answered_where_its_own_rows_are_sound() {
        let of = |which: &[usize]| {
            let reply = reply("fork", |at, row| match which.contains(&at) {
                true => disturbed(row),
                false => row,
            });
            let verdict = reply.answer.verdict.unwrap_or("answered");
            format!("{verdict}: {}", reply.answer.sentence)
        };
        assert_eq!(of(&[2, 3]), of(&[]), "they stand beside it");
        let answers = [&[][..], &[1], &[0], &[0, 1]].map(of);
        golden("costof/ask", "a cost whose rows are disturbed", &answers.join("\n"));
    }

    #[test]
    fn of_an_unknown_whole_nothing_is_a_known_share() {
        let known = reply("rpc", |_, row| row.known_within(0.01));
        assert!(known.answer.sentence.contains(" % of it"), "{}", known.answer.sentence);
        let unknown = reply("rpc", |at, row| match at {
            0 => disturbed(row),
            _ => row.known_within(0.01),
        });
        assert!(!unknown.answer.sentence.contains(" % of it"), "{}", unknown.answer.sentence);
        assert_eq!(unknown.answer.verdict, Some("inconclusive"));
    }

    /// The reply to a question of ways in which each takes what `ns` says of its position among the points.
    fn ways(name: &str, metric: &'static str, ns: impl Fn(usize) -> f64) -> Reply {
        reply(name, |at, row| {
            let mut row = row.primary_is(metric);
            row.metrics[0].median = ns(at);
            row.known_within(0.01)
        })
    }

    #[test]
    fn ways_are_answered_by_size_where_one_is_cheaper_for_certain() {
        let answers = [
            ways("forward", "cpu", |at| [300.0, 200.0, 400.0][at % 3]),
            ways("forward", "cpu", |at| {
                [300.0, 200.0, 400.0, 300.0, 310.0, 400.0, 300.0, 500.0, 600.0][at]
            }),
            ways("forward", "cpu", |at| [300.0, 301.0, 299.0][at % 3]),
            // Of eleven calls, sendmsg costs less than others, and sendfile less than that.
            ways("send", "cpu_sender", |at| match at % 11 {
                1 => 200.0,
                9 => 100.0,
                _ => 300.0,
            }),
        ]
        .map(|reply| format!("{:?}: {}", reply.answer.verdict, reply.answer.sentence));
        let table = ways("forward", "cpu", |_| 300.0).answer.table.unwrap();
        golden("costof/ask", "ways", &(answers.join("\n") + "\n" + &table));
    }

    #[test]
    fn a_group_commit_pays_where_syncs_wait_for_each_other() {
        let reply = |rate: f64| {
            reply("durable", |_, row| {
                let mut row = row.primary_is("latency");
                row.metrics[0].median = 100e3;
                let mut row = row.known_within(0.01).metric("rate", rate);
                row.metrics[1].unit = Unit::Hertz;
                row
            })
        };
        // As often as one writer, and sixteen times.
        let answers = [10e3, 160e3].map(|rate| reply(rate).answer.sentence);
        golden("costof/ask", "a group commit", &answers.join("\n"));
    }

    #[test]
    fn zero_copy_is_compared_with_the_cheapest_other_call() {
        let reply = reply("zero-copy", |at, row| {
            let mut row = row.primary_is("throughput").measured_in(Unit::BytesPerSecond);
            // Bytes per second: writev is the fastest of the others.
            row.metrics[0].median = [1e9, 1.5e9, 2e9, 0.5e9][at];
            row.known_within(0.01)
        });
        assert_eq!(reply.answer.verdict, Some("no"), "{}", reply.answer.sentence);
        assert!(reply.answer.sentence.contains("writev"), "{}", reply.answer.sentence);
    }

    #[test]
    fn what_is_shown_of_a_disturbed_cost_is_the_same_for_all() {
        let noisy = |at, row: PointRow| match at {
            0 => disturbed(row),
            1 => row.known_within(0.9).warned("disagree", Grade::D),
            _ => row.warned("others", Grade::C),
        };
        let Reply { costs, answer, run } = reply("fork", noisy);
        let question = named("fork").unwrap();
        let doubts = doubts(&costs, &run.1.points);
        assert!(doubts.is_empty(), "grade C beside grade D: {doubts:?}");
        let text = question.as_text(&answer, &costs, &doubts, "run.jsonl", 200);
        assert!(text.contains("  grade D\n"), "{text}");
        assert!(text.contains("too noisy: 1.00–19.0 ns"), "{text}");
        assert_eq!(text.matches("10.0 ns").count(), 3, "{text}");
    }

    #[test]
    fn a_crossover_is_where_the_second_becomes_faster() {
        let at_100 = |ns: &[f64]| {
            let reply = reply("io_uring", |at, mut row| {
                let ns = *ns.get(at).unwrap_or(&10.0);
                row.metrics[0].median = ns;
                row.metrics[0].ci95 = Some((0.98 * ns, 1.02 * ns));
                row
            });
            (reply.answer.verdict, reply.answer.sentence)
        };
        // A call, and rings of 1, 2, 4, 8, 16, 32, 64 and 256.
        let (verdict, sentence) =
            at_100(&[100.0, 160.0, 140.0, 115.0, 90.0, 70.0, 60.0, 50.0, 40.0]);
        assert_eq!(verdict, None);
        let about = sentence.strip_prefix("from about ").and_then(|rest| rest.split(' ').next());
        let about: f64 = about.unwrap().parse().unwrap();
        assert!((4.0..8.0).contains(&about), "{sentence}");
        assert!(sentence.contains("256 a submission takes 40.0 ns"), "{sentence}");
        assert_eq!(at_100(&[100.0; 9]).0, Some("inconclusive"));
        let slower = [100.0, 200.0, 200.0, 200.0, 200.0, 200.0, 200.0, 200.0, 200.0];
        assert_eq!(at_100(&slower).0, Some("no"));
    }

    #[test]
    fn a_crossover_is_known_if_the_last_number_is() {
        // A call, and rings of which each is faster than the one before.
        let ns = [100.0, 160.0, 140.0, 115.0, 90.0, 70.0, 60.0, 50.0, 40.0];
        let without = |which: usize| {
            reply("io_uring", |at, mut row| {
                row.metrics[0].median = *ns.get(at).unwrap_or(&10.0);
                let row = row.known_within(0.02);
                if at == which { disturbed(row) } else { row }
            })
        };
        assert_eq!(
            [2, 4, 8].map(|at| without(at).answer.verdict),
            [None, None, Some("inconclusive")]
        );
    }

    /// Launches in which two points took turns, the second twice as fast, on a machine whose load
    /// changes from launch to launch.
    #[test]
    fn a_ratio_of_what_took_turns_is_an_answer_on_a_busy_machine() {
        let question = find(TABLE, "udp-vs-tcp").unwrap().with(&AskOptions::default()).unwrap();
        let costs = question.expressions(&infos(TABLE)).unwrap();
        let mut run = run_without_facts();
        for point in costs.iter().flat_map(|cost| &cost.points) {
            let row = row(point.probe.clone(), point.axes.clone(), 10.0).primary_is("latency");
            run.points.push(disturbed(PointRow { point: point.clone(), ..row }));
        }
        let rows = run.points.clone();
        let verdict = |run: &Run| {
            let named = ("run.jsonl".to_owned(), run.clone());
            question.reply(&costs, named).unwrap().answer
        };
        assert_eq!(verdict(&run).verdict, Some("inconclusive"));
        for slow in [1.0, 3.0, 7.0, 2.0] {
            let measured = [20.0, 10.0].map(|ns| [("latency", ns * slow)]);
            launch(&mut run, &[(&rows[0], &measured[0]), (&rows[1], &measured[1])]);
        }
        let answer = verdict(&run);
        assert_eq!(answer.verdict, Some("yes"), "{}", answer.sentence);
        assert!(answer.sentence.starts_with("2.00 times as fast (2.00)"));
        assert!(answer.sentence.contains("grade D"), "{}", answer.sentence);
    }

    /// The answer to a question of these points, in launches in which those of `one` had a slow core, or the others.
    fn of_mixed_states(
        name: &str,
        metric: &'static str,
        rows: &[PointRow],
        one: impl Fn(usize) -> bool,
    ) -> Answer {
        let question = find(TABLE, name).unwrap().with(&AskOptions::default()).unwrap();
        let costs = question.expressions(&infos(TABLE)).unwrap();
        let mut run = run_without_facts();
        run.points = rows.to_vec();
        for (position, slow) in [1.8, 1.8, 1.5, 1.6].into_iter().enumerate() {
            let measured = rows.iter().enumerate().map(|(at, row)| {
                let slow = if one(at) == (position % 2 == 0) { slow } else { 1.0 };
                [(metric, slow * row.metrics[0].median)]
            });
            let measured: Vec<[(&str, f64); 1]> = measured.collect();
            let points: Vec<_> =
                rows.iter().zip(&measured).map(|(row, of)| (row, &of[..])).collect();
            launch(&mut run, &points);
        }
        question.reply(&costs, ("run.jsonl".to_owned(), run)).unwrap().answer
    }

    #[test]
    fn what_the_table_shows_decides_where_launches_were_of_mixed_states() {
        let rows = |name, ns: &[f64], metric| {
            let rows = reply(name, |at, row| {
                let mut row = row.primary_is(metric);
                row.metrics[0].median = *ns.get(at).unwrap_or(&10.0);
                row.known_within(0.02)
            });
            rows.run.1.points
        };
        // A call, and rings of 1, 2, 4, 8 and so on.
        let rings = [100.0, 300.0, 200.0, 100.0, 70.0, 60.0, 50.0, 40.0, 40.0];
        let rings = rows("io_uring", &rings, "cost");
        let sentence = of_mixed_states("io_uring", "cost", &rings, |at| at == 0).sentence;
        let about = sentence.strip_prefix("from about ").and_then(|rest| rest.split(' ').next());
        let about: f64 = about.expect(&sentence).parse().unwrap();
        assert!((2.0..8.0).contains(&about), "{sentence}");

        let ways = rows("forward", &[300.0, 200.0, 400.0].repeat(3), "cpu");
        let sentence = of_mixed_states("forward", "cpu", &ways, |at| at % 3 == 1).sentence;
        assert!(sentence.starts_with("use splice through a pipe at every size"), "{sentence}");

        let commits = [200.0, 100.0, 300.0, 400.0].map(|us| us * 1e3);
        let commits = rows("durable", &commits, "latency");
        let sentence = of_mixed_states("durable", "latency", &commits, |at| at == 1).sentence;
        assert!(sentence.contains("fsync, over old data takes 100 µs"), "{sentence}");
        assert!(sentence.contains("the cheapest call"), "{sentence}");

        let worth = rows("udp-vs-tcp", &[200.0, 100.0], "latency");
        let answer = of_mixed_states("udp-vs-tcp", "latency", &worth, |at| at == 0);
        assert_eq!(answer.verdict, Some("yes"), "{}", answer.sentence);
    }

    #[test]
    fn turns_decide_only_what_the_table_does_not_contradict() {
        let turns =
            |low: f64, high: f64| Some(Interval { low, middle: f64::midpoint(low, high), high });
        let sound = |value: f64, near: f64| Some((value, Some((value - near, value + near))));
        let unsound = |value: f64| Some((value, None));
        let above = |ratio: Option<Interval>| ratio.map(|ratio| ratio.low > 0.0);
        // The table decides.
        assert_eq!(
            above(decided(turns(-0.5, 0.5), sound(20.0, 1.0), sound(10.0, 1.0))),
            Some(true)
        );
        assert_eq!(
            above(decided(turns(-0.5, -0.4), sound(20.0, 1.0), sound(10.0, 1.0))),
            Some(true)
        );
        // It does not, and turns do.
        assert_eq!(above(decided(turns(0.1, 0.2), sound(11.0, 5.0), sound(10.0, 5.0))), Some(true));
        assert_eq!(above(decided(turns(0.1, 0.2), unsound(11.0), unsound(10.0))), Some(true));
        // They contradict it.
        assert_eq!(above(decided(turns(0.1, 0.2), unsound(9.0), unsound(10.0))), None);
        assert_eq!(above(decided(turns(0.1, 0.2), sound(9.0, 5.0), sound(10.0, 5.0))), Some(false));
    }

    #[test]
    fn a_ratio_is_an_answer_only_where_its_interval_is_on_one_side() {
        let cost = |value: f64| Answered {
            label: "it".to_owned(),
            expression: Expression::parse("1ns", &[]).unwrap(),
            total: Ok(Total { value, interval: Some((value, value)), parts: Vec::new() }),
            grade: None,
            is_sound: true,
        };
        let mut bare = cost(2.0);
        if let Ok(total) = &mut bare.total {
            total.interval = None;
        }
        assert_eq!(bare.takes(), "it takes 2.00 ns");
        let verdict = |low, high| {
            let middle = f64::midpoint(low, high);
            let times = Ok(Interval { low, middle, high });
            worth(&cost(2.0), &cost(1.0), times).verdict.unwrap()
        };
        assert_eq!(verdict(1.1, 1.3), "yes");
        assert_eq!(verdict(0.7, 0.9), "no");
        assert_eq!(verdict(0.9, 1.1), "inconclusive");
        let none = worth(&cost(2.0), &cost(1.0), Err("too few".to_owned()));
        assert_eq!(none.verdict, Some("inconclusive"));
        // A change that does not matter is none.
        assert_eq!(verdict(0.97, 1.04), "no");
        assert_eq!(verdict(1.01, 1.04), "no");
    }
}
