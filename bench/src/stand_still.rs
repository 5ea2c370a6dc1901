//! Whether numbers stand still: `costof run --quick` and `costof run`, several times in turns, on the CPUs that costof
//! chooses. How many rows of one CPU vary by how much from run to run, how many rows have grade A or B, how long a run
//! takes, and for which share of that time each CPU was alone.

use crate::bench::Bench;
use crate::costof::failures;
use crate::error::{Result, failed};
use crate::machine::{self, Watch};
use crate::variation::{self, Spread};
use crate::verdict::Verdict;
use costof_model::alone::{self, CpuAlone};
use costof_model::noise::Grade;
use costof_model::run_file::Run;
use costof_stats::median;
use std::time::Duration;

const RUNS: usize = 5;
/// The share of the rows of one CPU that have to vary by no more than their bound.
const SHARE: f64 = 0.9;
/// How many rows of the default table have to be A or B, by the least share of the time for which a run's better CPU was
/// alone.
const GOOD: [(f64, usize); 2] = [(0.10, 80), (0.03, 65)];
const TIME: Duration = Duration::from_secs(60);

/// One of the two plans.
struct Plan {
    name: &'static str,
    arguments: &'static str,
    /// What most of the rows of one CPU may vary by, and what none may exceed.
    bounds: (f64, f64),
}

const QUICK: Plan = Plan { name: "--quick", arguments: "--quick", bounds: (0.03, f64::INFINITY) };
const DEFAULT: Plan = Plan { name: "default", arguments: "", bounds: (0.01, 0.03) };

struct Seen {
    run: Run,
    wall: Duration,
    alone: Vec<CpuAlone>,
}

impl Seen {
    fn good(&self) -> usize {
        let rows = self.run.points.iter();
        rows.filter(|row| row.grade <= Grade::B).count()
    }

    /// The share of the time for which the better CPU was alone.
    fn best(&self) -> f64 {
        let shares = self.alone.iter().map(|share| share.alone);
        shares.fold(0.0, f64::max)
    }
}

pub(crate) fn compare(bench: &Bench) -> Result<Vec<Verdict>> {
    let runs = bench.rounds(RUNS);
    if runs < 2 {
        return Err(failed("--rounds 1: one run does not vary"));
    }
    bench.introduce(&format!("costof run --quick and costof run, {runs} times in turns"));
    let watch = Watch::start();
    let mut seen = [Vec::new(), Vec::new()];
    for number in 1..=runs {
        for (plan, seen) in [QUICK, DEFAULT].iter().zip(&mut seen) {
            seen.push(run(bench, plan, number)?);
        }
    }
    println!();
    println!(
        "| plan | rows of one CPU | within 1 % | within 3 % | median | worst | A or B | time | the better CPU alone |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    let mut spreads = Vec::new();
    for (plan, seen) in [QUICK, DEFAULT].iter().zip(&seen) {
        let runs: Vec<Run> = seen.iter().map(|one| one.run.clone()).collect();
        let spread = variation::of_one_cpu(&runs);
        println!("{}", line(plan, &spread, seen));
        spreads.push(spread);
    }
    println!();
    let [_, of_default] = &seen;
    let verdicts = vec![
        judge_spread(&QUICK, &spreads[0]),
        judge_spread(&DEFAULT, &spreads[1]),
        judge_grades(of_default),
        judge_time(of_default),
    ];
    machine::was_quiet(&watch);
    Ok(verdicts)
}

fn run(bench: &Bench, plan: &Plan, number: usize) -> Result<Seen> {
    let file = format!("{}-{number}.jsonl", plan.name.trim_start_matches('-'));
    let (run, finished) = bench.run_watched(&file, plan.arguments, &mut |_| ())?;
    let seen = Seen { alone: run.alone_by_cpu(), wall: finished.wall, run };
    println!(
        "{} {number}: {:.1} s, {} of {} rows A or B; {}{}",
        plan.name,
        seen.wall.as_secs_f64(),
        seen.good(),
        seen.run.points.len(),
        alone::said(&seen.alone, "its time"),
        failures(&seen.run)
    );
    Ok(seen)
}

/// A line of the table.
fn line(plan: &Plan, spread: &Spread, seen: &[Seen]) -> String {
    let range = |values: Vec<f64>, digits: usize, unit: &str| {
        let least = values.iter().copied().fold(f64::INFINITY, f64::min);
        let most = values.iter().copied().fold(0.0, f64::max);
        format!("{least:.digits$} to {most:.digits$}{unit}")
    };
    let of = |value: fn(&Seen) -> f64| seen.iter().map(value).collect::<Vec<f64>>();
    let percent = |share: f64| format!("{:.1} %", 100.0 * share);
    format!(
        "| {} | {} | {} | {} | {} | {} | {} | {} | {} |",
        plan.name,
        spread.0.len(),
        spread.within(0.01),
        spread.within(0.03),
        median(&spread.0).map_or_else(|| "-".to_owned(), percent),
        percent(spread.worst()),
        range(of(|one| one.good() as f64), 0, ""),
        range(of(|one| one.wall.as_secs_f64()), 1, " s"),
        range(of(|one| 100.0 * one.best()), 0, " %"),
    )
}

fn judge_spread(plan: &Plan, spread: &Spread) -> Verdict {
    let (bound, most) = plan.bounds;
    let (all, within) = (spread.0.len(), spread.within(bound));
    let holds = all > 0 && within as f64 >= SHARE * all as f64 && spread.worst() <= most;
    let none = match most.is_finite() {
        true => format!(", and none by more than {:.0} %", 100.0 * most),
        false => String::new(),
    };
    Verdict::from(holds).end_line(&format!(
        "{}: {within} of {all} rows of one CPU vary by {:.0} % or less; {:.0} % of them should{none}",
        plan.name,
        100.0 * bound,
        100.0 * SHARE,
    ))
}

/// By the run with the fewest good rows, and the share alone of that run.
fn judge_grades(seen: &[Seen]) -> Verdict {
    let worst = seen.iter().min_by_key(|one| one.good());
    let Some(worst) = worst else {
        return Verdict::Undecided("there is no run".to_owned());
    };
    let (good, best) = (worst.good(), worst.best());
    let asked = GOOD.iter().find(|(share, _)| best >= *share);
    let verdict = asked.map_or_else(
        || Verdict::Undecided("no CPU was alone for 3 % of the time".to_owned()),
        |(_, least)| Verdict::from(good >= *least),
    );
    let least = asked.map_or_else(String::new, |(_, least)| format!("; at least {least} should"));
    verdict.end_line(&format!(
        "default: {good} rows A or B, with the better CPU alone {:.0} % of the time{least}",
        100.0 * best
    ))
}

fn judge_time(seen: &[Seen]) -> Verdict {
    let most = seen.iter().map(|one| one.wall).max().unwrap_or_default();
    Verdict::from(most <= TIME).end_line(&format!(
        "default: {:.1} s at most; {} s are allowed",
        most.as_secs_f64(),
        TIME.as_secs()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use costof_model::testing;

    fn seen(good: usize, alone: f64, seconds: u64) -> Seen {
        let mut run = testing::planned([]);
        let grades = [(good, Grade::B), (92 - good, Grade::C)];
        for (count, grade) in grades {
            let row = testing::row("cpu.loop", Default::default(), 1.0);
            run.points.extend(vec![costof_model::rows::PointRow { grade, ..row }; count]);
        }
        Seen {
            run,
            wall: Duration::from_secs(seconds),
            alone: vec![CpuAlone { cpu: 0, alone: 0.0 }, CpuAlone { cpu: 1, alone }],
        }
    }

    #[test]
    fn how_many_rows_are_good_is_judged_by_the_share_alone() {
        let judge = |good, alone| judge_grades(&[seen(90, 0.9, 50), seen(good, alone, 50)]);
        assert_eq!(judge(80, 0.1), Verdict::Holds);
        assert_eq!(judge(79, 0.1), Verdict::DoesNotHold);
        assert_eq!(judge(65, 0.09), Verdict::Holds);
        assert_eq!(judge(64, 0.03), Verdict::DoesNotHold);
        assert!(matches!(judge(10, 0.02), Verdict::Undecided(_)));
    }

    #[test]
    fn most_rows_stand_still_and_none_moves_far() {
        let spread = |many: f64, last: f64| Spread([vec![many; 9], vec![last]].concat());
        assert_eq!(judge_spread(&DEFAULT, &spread(0.01, 0.03)), Verdict::Holds);
        assert_eq!(judge_spread(&DEFAULT, &spread(0.01, 0.031)), Verdict::DoesNotHold);
        assert_eq!(judge_spread(&DEFAULT, &spread(0.011, 0.01)), Verdict::DoesNotHold);
        assert_eq!(judge_spread(&QUICK, &spread(0.03, 0.5)), Verdict::Holds);
        assert_eq!(judge_spread(&QUICK, &spread(0.03, f64::INFINITY)), Verdict::Holds);
        assert_eq!(judge_spread(&QUICK, &Spread(Vec::new())), Verdict::DoesNotHold);
    }

    #[test]
    fn the_table_has_a_line_for_each_plan() {
        let text = line(
            &QUICK,
            &Spread(vec![0.005, 0.02, 0.04]),
            &[seen(80, 0.25, 15), seen(85, 0.5, 16)],
        );
        assert_eq!(
            text,
            "| --quick | 3 | 1 | 2 | 2.0 % | 4.0 % | 80 to 85 | 15.0 to 16.0 s | 25 to 50 % |"
        );
        assert_eq!(judge_time(&[seen(80, 0.5, 60)]), Verdict::Holds);
        assert_eq!(judge_time(&[seen(80, 0.5, 60), seen(80, 0.5, 61)]), Verdict::DoesNotHold);
    }
}
