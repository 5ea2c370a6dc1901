//! `costof history` beside Apache Otava, on series that are made of real runs: the runs as they came, the same in
//! any order, and with steps or spikes planted in one row. A change that either reports is right if it is in the
//! row of the step and within a few runs of it; any other is a false alarm.

use crate::bench::Bench;
use crate::child;
use crate::error::{OrCannot, Result, failed};
use crate::share::Share;
use crate::verdict::Verdict;
use costof_measure::history::history;
use costof_model::point::Point;
use costof_model::run_file::{self, Run};
use costof_model::unit::Better;
use costof_peers::agreement::Band;
use costof_stats::median;
use fastrand::Rng;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

const SEED: u64 = 20_261_126;
/// Series without a step have all runs, the others so many.
const SHORT: usize = 60;
/// A step begins with this run.
const STEP_AT: usize = 30;
/// A change this many runs off is that of the step.
const NEAR: usize = 5;
const STEPS: [f64; 4] = [0.03, 0.05, 0.1, 0.2];
/// A spike, and how many a series has.
const SPIKE: f64 = 0.5;
const SPIKES: usize = 3;
/// One false alarm in this many runs.
const FALSE_ALARM_RUNS: u32 = 1000;
/// Series of each kind with a step, for each of all runs.
const SHORT_SERIES: usize = 5;
const ROUNDS: usize = 20;
const OTAVA_LIMIT: Duration = Duration::from_secs(1800);

/// How a series is made.
#[derive(Clone, Copy)]
enum Kind {
    AsMeasured,
    AnyOrder(usize),
    Spikes,
    Step(f64),
}

/// A change that was reported: its row, where it is, and with which run it was found.
type Found = (usize, usize, usize);

/// Some runs, with the values of each row, and what costof found.
struct Series {
    runs: usize,
    rows: Vec<Vec<Option<f64>>>,
    /// The row that has the step.
    step: Option<usize>,
    costof: Vec<Found>,
}

/// A row, as Otava is asked for it.
#[derive(Serialize)]
struct Asked<'a> {
    values: &'a [Option<f64>],
    from: Option<usize>,
}

/// What Otava finds in it.
#[derive(Deserialize)]
struct Answer {
    changes: Vec<usize>,
    beginnings: Vec<Vec<usize>>,
}

/// What came of the series of one kind.
#[derive(Default)]
struct Tally {
    alarms: Share,
    false_alarms: usize,
    steps: usize,
    right: usize,
    delays: Vec<f64>,
}

pub(crate) fn compare(bench: &Bench, files: &[PathBuf]) -> Result<Vec<Verdict>> {
    bench.introduce("history: lasting changes by costof and by Apache Otava");
    let runs = files.iter().map(|file| read(file)).collect::<Result<Vec<Run>>>()?;
    if runs.len() < 2 * SHORT {
        return Err(failed(format!("name {} runs of the same or more", 2 * SHORT)));
    }
    let python = std::env::var_os("COSTOF_PYTHON").unwrap_or_else(|| "python3".into());
    let rounds = bench.rounds(ROUNDS);
    let mut random = Rng::with_seed(SEED);
    println!("Seed {SEED}, {} runs, {rounds} rounds.\n", runs.len());
    println!(
        "| series | by | false alarms per 1,000 runs | found | delay, runs | precision | recall | F1 |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    let short = SHORT_SERIES * rounds;
    let kinds = [
        (Kind::AsMeasured, 1),
        (Kind::AnyOrder(runs.len()), rounds),
        (Kind::AnyOrder(SHORT), short),
        (Kind::Spikes, short),
    ];
    let steps = STEPS.map(|share| (Kind::Step(share), short));
    let (mut alarms, mut all) = (Share::default(), [0.0; 2]);
    for (kind, count) in kinds.into_iter().chain(steps) {
        let series: Vec<Series> =
            (0..count).map(|_| Series::new(&runs, kind, &mut random)).collect();
        let answers = otava(bench, &python, &series)?;
        let costof = Tally::new(&series, |at| series[at].costof.clone());
        let other = Tally::new(&series, |at| answers[at].clone());
        for (name, tally) in [("costof", &costof), ("Otava", &other)] {
            println!("| {} | {name} | {} |", kind.name(), tally.cells());
        }
        match kind {
            Kind::AsMeasured => {}
            Kind::Step(_) => all = [all[0] + costof.f1(), all[1] + other.f1()],
            _ => alarms = alarms.and(costof.alarms),
        }
    }
    println!();
    let most = Band::at_most(1.0 / f64::from(FALSE_ALARM_RUNS));
    Ok(vec![
        alarms.judge(most).report(&format!("false alarms among runs in any order: {alarms}")),
        Verdict::from(all[0] >= all[1]).report("F1, the mean over steps, at least Otava's"),
    ])
}

/// The run in a file, without its launches.
fn read(file: &Path) -> Result<Run> {
    let open = File::open(file).or_cannot(format_args!("open {}", file.display()))?;
    let mut run =
        run_file::read(BufReader::new(open)).or_cannot(format_args!("read {}", file.display()))?;
    run.launches.clear();
    run.probes.clear();
    Ok(run)
}

impl Kind {
    fn name(self) -> String {
        match self {
            Kind::AsMeasured => "the runs as they came".to_owned(),
            Kind::AnyOrder(runs) => format!("{runs} in any order"),
            Kind::Spikes => {
                format!("{SHORT} with {SPIKES} single runs {:.0} % slower", 100.0 * SPIKE)
            }
            Kind::Step(share) => format!("{SHORT} with a step of {:.0} %", 100.0 * share),
        }
    }
}

impl Series {
    fn new(runs: &[Run], kind: Kind, random: &mut Rng) -> Series {
        let mut runs = runs.to_vec();
        let length = match kind {
            Kind::AsMeasured => runs.len(),
            Kind::AnyOrder(length) => length,
            Kind::Spikes | Kind::Step(_) => SHORT,
        };
        if !matches!(kind, Kind::AsMeasured) {
            random.shuffle(&mut runs);
        }
        runs.truncate(length);
        for (at, run) in runs.iter_mut().enumerate() {
            let time = SystemTime::UNIX_EPOCH + Duration::from_secs(3600 * at as u64);
            run.run.started = humantime::format_rfc3339_seconds(time).to_string();
        }
        let points: BTreeSet<Point> =
            runs.iter().flat_map(|run| &run.points).map(|row| row.point.clone()).collect();
        let chosen =
            random.choice(points).filter(|_| !matches!(kind, Kind::AsMeasured | Kind::AnyOrder(_)));
        if let Some(point) = &chosen {
            plant(&mut runs, kind, point, random);
        }
        let found = history(&mut runs, FALSE_ALARM_RUNS);
        let run = |time: &String| found.runs.iter().position(|run| run == time).unwrap_or(0);
        let changes = found.changes.iter();
        let rows = found.series.iter().map(|row| {
            let mut values = vec![None; length];
            row.values.iter().for_each(|value| values[value.run] = Some(value.median));
            values
        });
        let step = match (kind, chosen) {
            (Kind::Step(_), Some(point)) => {
                found.series.iter().position(|row| row.of.point == point)
            }
            _ => None,
        };
        Series {
            runs: length,
            rows: rows.collect(),
            step,
            costof: changes
                .map(|change| (change.row, run(&change.at), run(&change.found)))
                .collect(),
        }
    }
}

/// Makes this point of these runs slower: from a run on, or in single ones.
fn plant(runs: &mut [Run], kind: Kind, point: &Point, random: &mut Rng) {
    let length = runs.len();
    let (share, slower): (f64, Vec<usize>) = match kind {
        Kind::Step(share) => (share, (STEP_AT..length).collect()),
        _ => (SPIKE, (0..SPIKES).map(|_| random.usize(..length)).collect()),
    };
    for at in BTreeSet::from_iter(slower) {
        let rows = runs[at].points.iter_mut().filter(|row| row.point == *point);
        for estimate in rows.flat_map(|row| &mut row.metrics) {
            let factor = match estimate.better {
                Better::Higher => 1.0 / (1.0 + share),
                Better::Lower | Better::Neither => 1.0 + share,
            };
            estimate.median *= factor;
            estimate.ci95 = estimate.ci95.map(|(low, high)| (low * factor, high * factor));
        }
    }
}

/// What Otava finds in each of these series.
fn otava(bench: &Bench, python: &std::ffi::OsStr, series: &[Series]) -> Result<Vec<Vec<Found>>> {
    let rows = |one: &Series| one.rows.len();
    let asked = series.iter().flat_map(|one| {
        one.rows.iter().enumerate().map(|(row, values)| Asked {
            values,
            from: (one.step == Some(row)).then_some(STEP_AT + 1),
        })
    });
    let file = bench.file("series.json");
    let text = serde_json::to_string(&asked.collect::<Vec<_>>()).or_cannot("write JSON")?;
    fs::write(&file, text).or_cannot(format_args!("write {}", file.display()))?;
    let mut command = Command::new(python);
    command.args(["-c", include_str!("history.py")]).arg(&file);
    let said = child::finish(&mut command, OTAVA_LIMIT, &bench.interrupt)?.output;
    let mut answers = said
        .lines()
        .map(|line| serde_json::from_str::<Answer>(line).or_cannot("read Otava's answer"))
        .collect::<Result<Vec<_>>>()?
        .into_iter();
    Ok(series
        .iter()
        .map(|one| {
            let of_rows = answers.by_ref().take(rows(one)).enumerate();
            of_rows.flat_map(|(row, answer)| answer.found(row)).collect()
        })
        .collect())
}

impl Answer {
    fn found(self, row: usize) -> Vec<Found> {
        let first = |at: usize| {
            let beginnings = self.beginnings.iter();
            let shown = beginnings
                .enumerate()
                .find(|(_, changes)| changes.iter().any(|one| one.abs_diff(at) <= NEAR));
            shown.map_or(at, |(more, _)| STEP_AT + more)
        };
        self.changes.iter().map(|at| (row, *at, first(*at))).collect()
    }
}

impl Tally {
    fn new(series: &[Series], found: impl Fn(usize) -> Vec<Found>) -> Tally {
        let mut tally = Tally::default();
        for (at, one) in series.iter().enumerate() {
            let is_right =
                |(row, at, _): &Found| Some(*row) == one.step && at.abs_diff(STEP_AT) <= NEAR;
            let (right, wrong): (Vec<Found>, Vec<Found>) =
                found(at).into_iter().partition(is_right);
            tally.steps += usize::from(one.step.is_some());
            tally.right += usize::from(!right.is_empty());
            tally.delays.extend(right.iter().map(|(_, _, found)| (found + 1 - STEP_AT) as f64));
            tally.false_alarms += wrong.len();
            for run in 0..one.runs {
                tally.alarms.add(run < wrong.len());
            }
        }
        tally
    }

    fn precision(&self) -> f64 {
        self.right as f64 / (self.right + self.false_alarms).max(1) as f64
    }

    fn recall(&self) -> f64 {
        self.right as f64 / self.steps.max(1) as f64
    }

    fn f1(&self) -> f64 {
        let (precision, recall) = (self.precision(), self.recall());
        2.0 * precision * recall / (precision + recall).max(f64::MIN_POSITIVE)
    }

    fn cells(&self) -> String {
        let (low, high) = self.alarms.interval();
        let per_thousand = format!(
            "{:.1} ({:.1} to {:.1})",
            1000.0 * self.alarms.share(),
            1000.0 * low,
            1000.0 * high
        );
        if self.steps == 0 {
            return format!("{per_thousand} | | | | |");
        }
        let delay = median(&self.delays).unwrap_or(f64::NAN);
        let (precision, recall, f1) = (self.precision(), self.recall(), self.f1());
        format!(
            "{per_thousand} | {} of {} | {delay:.0} | {precision:.2} | {recall:.2} | {f1:.2}",
            self.right, self.steps
        )
    }
}
