//! Planted truths: how often the 95 % interval holds them, how often two equal commands are called different, and how
//! often 2 % more is found; beside hyperfine on the same commands.

use super::timed::{Answer, Hyperfine, Timed};
use super::{Commands, Kind, LIMIT, Size, Work, percent};
use crate::bench::Bench;
use crate::error::{OrCannot, Result};
use crate::share::Share;
use crate::verdict::Verdict;
use costof_peers::{child, packages};
use costof_stats::median;
use std::fs;
use std::path::Path;
use std::process::Command;

const MILLISECONDS: u32 = 30;
/// Tries of each kind: 400 of each truth together.
const TRIES: usize = 100;
/// So many tries take minutes.
const PROGRESS: usize = 20;
/// What is planted; the first is the A/A comparison.
const PLANTED: [f64; 6] = [0.0, 0.005, 0.01, 0.02, 0.05, 0.1];
/// The one that is to be found.
const FOUND: usize = 3;
const COVERED: std::ops::RangeInclusive<f64> = 0.93..=0.97;
/// Fewer decide nothing about a share of 95 %.
const MIN_TRIES: usize = 400;

/// Who says whether commands differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Judge {
    Costof,
    CpuInTurns,
    WallInTurns,
    HyperfineWall,
    HyperfineCpu,
}

impl Judge {
    const ALL: [Judge; 5] = [
        Judge::Costof,
        Judge::CpuInTurns,
        Judge::WallInTurns,
        Judge::HyperfineWall,
        Judge::HyperfineCpu,
    ];

    fn name(self) -> &'static str {
        match self {
            Judge::Costof => "costof time",
            Judge::CpuInTurns => "the same runs, CPU time without the gauge",
            Judge::WallInTurns => "the same runs, wall time without the gauge",
            Judge::HyperfineWall => "hyperfine, wall time (its welch_ttest.py)",
            Judge::HyperfineCpu => "hyperfine, CPU time (means, no test)",
        }
    }
}

/// How often the interval of one planted change held the truth.
#[derive(Clone, Debug, Default)]
struct Coverage {
    covered: Share,
    half_widths: Vec<f64>,
}

/// How one judge did.
#[derive(Clone, Debug, Default)]
struct Judged {
    alarms: Share,
    found: Share,
    /// How far its ratio was off where 2 % were planted.
    errors: Vec<f64>,
    has_interval: bool,
}

/// Of all tries with one kind of command.
#[derive(Clone, Debug, Default)]
struct Outcome {
    coverage: [Coverage; PLANTED.len()],
    judged: [Judged; Judge::ALL.len()],
    unanswered: usize,
}

pub(super) fn compare(bench: &Bench, size: Size) -> Result<Vec<Verdict>> {
    let (tries, milliseconds) = (bench.rounds(TRIES), size.milliseconds.unwrap_or(MILLISECONDS));
    bench.introduce(&format!(
        "costof time and hyperfine on commands of {} ms, {} runs of each in a try, {tries} tries of each kind",
        milliseconds, size.runs
    ));
    let commands = Commands::new(bench, milliseconds)?;
    let works = Kind::ALL.map(|kind| commands.work(kind, milliseconds));
    let works: Vec<Work> = works.into_iter().collect::<Result<_>>()?;
    for work in &works {
        println!("{}: n={}, its start is {} of it", work.kind.name(), work.n, percent(work.start));
    }
    let hyperfine = packages::find("hyperfine");
    if hyperfine.is_none() {
        println!("hyperfine is left out: {}", packages::missing("hyperfine"));
    }
    let mut outcomes = vec![Outcome::default(); works.len()];
    for number in 1..=tries {
        if number.is_multiple_of(PROGRESS) {
            println!("try {number} of {tries}");
        }
        for (work, outcome) in works.iter().zip(&mut outcomes) {
            let [base, other] = [0.0, PLANTED[FOUND]].map(|more| work.planted(more));
            let truths = PLANTED.map(|more| work.planted(more));
            let mut all = vec![commands.command(work.kind, base.0)];
            all.extend(truths.map(|(n, _)| commands.command(work.kind, n)));
            let timed = commands.time(work.kind, &format!("--runs {}", size.runs), &all)?;
            outcome.add(&timed, &truths.map(|(_, truth)| truth));
            if let Some(program) = &hyperfine {
                let three = [base.0, base.0, other.0].map(|n| commands.command(work.kind, n));
                let answers = by_hyperfine(&commands, program, work.kind, size.runs, &three)?;
                outcome.add_hyperfine(&answers, other.1);
            }
        }
    }
    Ok(report(&works, &outcomes, hyperfine.is_some()))
}

/// hyperfine on these commands, as somebody starts it who compares them.
fn by_hyperfine(
    commands: &Commands<'_>,
    program: &Path,
    kind: Kind,
    runs: u32,
    three: &[String],
) -> Result<Hyperfine> {
    let file = commands.bench.file("hyperfine.json");
    let mut command = match commands.cpus(kind)? {
        Some(cpus) => {
            let mut command = Command::new("taskset");
            command.args(["-c", &cpus]).arg(program);
            command
        }
        None => Command::new(program),
    };
    command.args(["-N", "--style", "none", "--warmup", "1", "--runs", &runs.to_string()]);
    command.arg("--export-json").arg(&file).args(three);
    child::finish(&mut command, LIMIT, &commands.bench.interrupt)?;
    let json = fs::read_to_string(&file).or_cannot(format_args!("read {}", file.display()))?;
    let _ = fs::remove_file(&file);
    Hyperfine::parse(&json)
}

impl Outcome {
    /// A try of costof: the first command beside one for each truth.
    fn add(&mut self, timed: &Timed, truths: &[f64; PLANTED.len()]) {
        for (number, truth) in truths.iter().enumerate() {
            let answer = timed.answer(number + 1);
            match answer.and_then(|answer| answer.interval) {
                Some((low, high)) => {
                    let coverage = &mut self.coverage[number];
                    coverage.covered.add((low..=high).contains(truth));
                    coverage.half_widths.push((high - low) / 2.0);
                }
                None => self.unanswered += 1,
            }
        }
        let [cpu, wall] =
            [0, 1].map(|metric| [0, FOUND].map(|number| timed.without_gauge(number + 1)[metric]));
        let own = [0, FOUND].map(|number| timed.answer(number + 1));
        for (judge, answers) in
            [(Judge::Costof, own), (Judge::CpuInTurns, cpu), (Judge::WallInTurns, wall)]
        {
            self.judged[judge as usize].add(answers, truths[FOUND]);
        }
    }

    /// A try of hyperfine: the first command beside itself and beside 2 % more.
    fn add_hyperfine(&mut self, hyperfine: &Hyperfine, truth: f64) {
        let [same, more] = [1, 2].map(|number| hyperfine.answers(number));
        for (position, judge) in [Judge::HyperfineWall, Judge::HyperfineCpu].into_iter().enumerate()
        {
            self.judged[judge as usize].add([same[position], more[position]], truth);
        }
    }
}

impl Judged {
    fn add(&mut self, [same, more]: [Option<Answer>; 2], truth: f64) {
        self.alarms.add(same.is_some_and(Answer::differs));
        self.found.add(more.is_some_and(Answer::is_slower));
        self.errors.extend(more.map(|answer| (answer.ratio / truth - 1.0).abs()));
        self.has_interval |= more.is_some_and(|answer| answer.interval.is_some());
    }

    fn and(&self, other: &Judged) -> Judged {
        Judged {
            alarms: self.alarms.and(other.alarms),
            found: self.found.and(other.found),
            errors: [&self.errors[..], &other.errors].concat(),
            has_interval: self.has_interval || other.has_interval,
        }
    }

    fn line(&self, name: &str, judge: Judge) -> String {
        let share = |share: Share| match self.has_interval {
            true => format!("{:.1} %", 100.0 * share.share()),
            false => "-".to_owned(),
        };
        format!(
            "| {name} | {} | {} | {} | {} |",
            judge.name(),
            share(self.alarms),
            share(self.found),
            median(&self.errors).map_or_else(|| "-".to_owned(), percent)
        )
    }
}

impl Coverage {
    fn and(&self, other: &Coverage) -> Coverage {
        Coverage {
            covered: self.covered.and(other.covered),
            half_widths: [&self.half_widths[..], &other.half_widths].concat(),
        }
    }

    fn line(&self, name: &str, planted: f64) -> String {
        format!(
            "| {name} | {} | {} | {} |",
            percent(planted),
            self.covered,
            median(&self.half_widths).map_or_else(|| "-".to_owned(), percent)
        )
    }
}

fn report(works: &[Work], outcomes: &[Outcome], has_hyperfine: bool) -> Vec<Verdict> {
    println!("\n| commands | more work | held by the 95 % interval | half of it, median |");
    println!("|---|---|---|---|");
    let mut verdicts = Vec::new();
    let mut judged_lines = Vec::new();
    for (number, planted) in PLANTED.into_iter().enumerate() {
        let mut all = Coverage::default();
        for (work, outcome) in works.iter().zip(outcomes) {
            println!("{}", outcome.coverage[number].line(work.kind.name(), planted));
            all = all.and(&outcome.coverage[number]);
        }
        println!("{}", all.line("all", planted));
        judged_lines.push((planted, judge_coverage(all.covered)));
    }
    println!(
        "\n| commands | judge | equal commands called different | 2 % more found | median error of the ratio |"
    );
    println!("|---|---|---|---|---|");
    let mut all = vec![Judged::default(); Judge::ALL.len()];
    for judge in Judge::ALL.into_iter().filter(|judge| has_hyperfine || !judge.is_hyperfines()) {
        for (work, outcome) in works.iter().zip(outcomes) {
            let judged = &outcome.judged[judge as usize];
            println!("{}", judged.line(work.kind.name(), judge));
            all[judge as usize] = all[judge as usize].and(judged);
        }
        println!("{}", all[judge as usize].line("all", judge));
    }
    println!();
    let unanswered: usize = outcomes.iter().map(|outcome| outcome.unanswered).sum();
    if unanswered > 0 {
        println!("{unanswered} comparisons had no answer");
    }
    for (planted, verdict) in judged_lines {
        verdicts.push(verdict.end_line(&format!(
            "{} more work: held by 93 to 97 % of the intervals",
            percent(planted)
        )));
    }
    let [costof, hyperfine] =
        [Judge::Costof, Judge::HyperfineWall].map(|judge| &all[judge as usize]);
    let ahead = match has_hyperfine {
        false => Verdict::Undecided(packages::missing("hyperfine")),
        true => Verdict::from(
            costof.alarms.share() <= hyperfine.alarms.share()
                && costof.found.share() >= hyperfine.found.share(),
        ),
    };
    verdicts.push(
        ahead.end_line("fewer false alarms than hyperfine, and more of the planted 2 % found"),
    );
    verdicts
}

fn judge_coverage(covered: Share) -> Verdict {
    if covered.tries() < MIN_TRIES {
        return Verdict::Undecided(format!("it takes {MIN_TRIES} tries (--rounds {TRIES})"));
    }
    Verdict::from(COVERED.contains(&covered.share()))
}

impl Judge {
    fn is_hyperfines(self) -> bool {
        matches!(self, Judge::HyperfineWall | Judge::HyperfineCpu)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(ratio: f64, half: f64) -> Option<Answer> {
        Some(Answer { ratio, interval: Some((ratio - half, ratio + half)) })
    }

    #[test]
    fn alarms_and_what_is_found_are_counted() {
        let mut judged = Judged::default();
        judged.add([answer(1.01, 0.02), answer(1.03, 0.02)], 1.02);
        judged.add([answer(0.97, 0.02), answer(0.97, 0.02)], 1.02);
        judged.add([None, None], 1.02);
        assert_eq!((judged.alarms.came(), judged.found.came()), (1, 1));
        assert_eq!(judged.errors.len(), 2);
        assert_eq!(
            judged.line("all", Judge::Costof),
            "| all | costof time | 33.3 % | 33.3 % | 2.94 % |"
        );
        let mut means = Judged::default();
        means.add([Some(Answer { ratio: 1.0, interval: None }); 2], 1.02);
        assert!(means.line("all", Judge::HyperfineCpu).contains("| - | - | 1.96 % |"));
    }

    #[test]
    fn few_tries_decide_nothing_about_coverage() {
        let mut share = Share::default();
        (0..399).for_each(|number| share.add(number % 20 != 0));
        assert!(matches!(judge_coverage(share), Verdict::Undecided(_)));
        share.add(true);
        assert_eq!(judge_coverage(share), Verdict::Holds);
        (0..400).for_each(|_| share.add(true));
        assert_eq!(judge_coverage(share), Verdict::DoesNotHold);
    }
}
