//! costof and other tools under loads of our own: how far each moves from its own quiet value, and how
//! much it scatters. costof grades its rows, and one of grade A to C promises to lie within 3 % of what it
//! is without a load.

use crate::bench::{Bench, settings};
use crate::contest::without_lmbench;
use crate::contests::check;
use crate::error::{Error, Result};
use crate::load::{Load, Running};
use crate::machine::{self, Watch};
use crate::throttle::Throttle;
use crate::variation::coefficient;
use crate::verdict::Verdict;
use clap::ValueEnum;
use costof_model::noise::Grade;
use costof_model::unit::Unit;
use costof_peers::checks::{Check, Effort};
use costof_peers::costof::the_only;
use costof_peers::tool::Conditions;
use costof_stats::{median, median_interval};
use fastrand::Rng;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

const ROUNDS: usize = 9;
/// How far from its quiet value a row of grade A to C may be, as a share.
const NEAR: f64 = 0.03;
const TOOL_LIMIT: Duration = Duration::from_secs(60);

/// What runs alongside a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Neighbour {
    /// One that wants the measured CPU for 25 % of the time
    #[value(name = "busy-25")]
    Quarter,
    /// One that wants the measured CPU for 50 % of the time
    #[value(name = "busy-50")]
    Half,
    /// One that wants the measured CPU always
    #[value(name = "busy-100")]
    Whole,
    /// One that wants another CPU always
    OtherCpu,
    /// One that copies main memory on another CPU
    Memory,
    /// None: a control group gives costof, and each tool, half of a CPU
    Throttled,
}

/// A load that lasts until this is dropped.
enum Loaded {
    Quiet,
    Alongside { _child: Running },
    Throttled { _group: Throttle },
}

/// One measurement.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Reading {
    value: f64,
    /// costof's; tools have none.
    grade: Option<Grade>,
}

/// An operation, who measures it (0 is costof), and under which load (0 is none), each by its number.
type Cell = (usize, usize, usize);

/// What all rounds gave, round after round.
type Readings = BTreeMap<Cell, Vec<Reading>>;

/// Measures under these loads, or under all.
pub(crate) fn compare(bench: &Bench, asked: &[Neighbour]) -> Result<Vec<Verdict>> {
    bench.introduce(&format!(
        "costof run --quick and other tools on CPU {}, without a load and with one",
        bench.cpu
    ));
    let watch = Watch::start();
    let loads = loads(bench, asked);
    let mut operations = operations();
    let readings = measure(bench, &mut operations, &loads)?;
    for (number, operation) in operations.iter().enumerate() {
        print(operation, number, &loads, &readings);
    }
    println!(
        "bias: the median over rounds of number / quiet - 1, where quiet is the median of the rounds \
         without a load;\nCV: standard deviation over mean of the rounds; grades: of costof's rows, \
         round after round\n"
    );
    let verdicts =
        (1..loads.len()).map(|load| judge(&operations, &loads, load, &readings)).collect();
    println!();
    machine::was_quiet(&watch);
    Ok(verdicts)
}

/// None, and each that is asked for and that this machine can have.
fn loads(bench: &Bench, asked: &[Neighbour]) -> Vec<Option<Neighbour>> {
    let asked = match asked {
        [] => Neighbour::value_variants(),
        asked => asked,
    };
    let possible = asked.iter().filter(|load| match load.start(bench, 0) {
        Ok(_) => true,
        Err(why) => {
            println!("{} is skipped: {why}", name(Some(**load)));
            false
        }
    });
    std::iter::once(None).chain(possible.copied().map(Some)).collect()
}

fn name(load: Option<Neighbour>) -> String {
    load.and_then(|load| load.to_possible_value())
        .map_or_else(|| "quiet".to_owned(), |value| value.get_name().to_owned())
}

impl Neighbour {
    /// Errors: this machine cannot have it, or it does not begin.
    fn start(self, bench: &Bench, seed: u64) -> Result<Loaded> {
        let busy = |cpu, percent| Load::Busy { cpu, percent, seed };
        let load = match self {
            Neighbour::Quarter => busy(bench.cpu, 25),
            Neighbour::Half => busy(bench.cpu, 50),
            Neighbour::Whole => busy(bench.cpu, 100),
            Neighbour::OtherCpu => busy(bench.two_cpus()?[1], 100),
            Neighbour::Memory => Load::Copy { cpu: bench.two_cpus()?[1] },
            Neighbour::Throttled => {
                let _group = Throttle::half()?;
                return Ok(Loaded::Throttled { _group });
            }
        };
        let _child = load.start()?;
        Ok(Loaded::Alongside { _child })
    }
}

/// What can be measured on this machine.
fn operations() -> Vec<Check> {
    let own = |point: &str| without_lmbench(check(point, Effort::QUICK));
    let mut operations: Vec<Check> = [
        "os.syscall",
        "os.context_switch between=processes",
        "sync.mutex threads=1",
        "file.read cache=warm",
        "memory.bandwidth size=1MiB",
    ]
    .map(own)
    .into();
    let reads = own("memory.bandwidth op=read");
    match &reads.lacks {
        None => operations.push(reads),
        Some(why) => println!("reads of main memory are skipped: {why}"),
    }
    operations
}

/// Who measures an operation: costof first, and then the tools.
fn side_name(operation: &Check, side: usize) -> &'static str {
    let tool = side.checked_sub(1).and_then(|tool| operation.peers.get(tool));
    tool.map_or("costof", |peer| peer.tool)
}

/// Measures everything once a round, in an order drawn for each; all of a round meets the same turns of
/// a load. What gives no number in a round is printed, and tried again in the next.
///
/// Errors: the user ended it.
fn measure(
    bench: &Bench,
    operations: &mut [Check],
    loads: &[Option<Neighbour>],
) -> Result<Readings> {
    let mut cells: Vec<Cell> = Vec::new();
    for (number, operation) in operations.iter().enumerate() {
        let sides = 0..=operation.peers.len();
        cells.extend(sides.flat_map(|side| (0..loads.len()).map(move |load| (number, side, load))));
    }
    let mut random = Rng::new();
    let mut readings = Readings::new();
    for round in 0..bench.rounds(ROUNDS) {
        let began = Instant::now();
        random.shuffle(&mut cells);
        for cell @ (number, side, load) in &cells {
            let operation = &mut operations[*number];
            let load = loads[*load];
            let file = format!("{}-{number}-{round}.jsonl", name(load));
            let loaded = load.map_or(Ok(Loaded::Quiet), |load| load.start(bench, round as u64));
            match loaded.and_then(|_loaded| measure_once(operation, bench, *side, &file)) {
                Ok(reading) => readings.entry(*cell).or_default().push(reading),
                Err(Error::Interrupted) => return Err(Error::Interrupted),
                Err(Error::Failed(why)) => {
                    let side = side_name(operation, *side);
                    let why = why.lines().next().unwrap_or_default();
                    println!("{side}, {}, {}: no number: {why}", operation.point(), name(load));
                }
            }
        }
        println!(
            "round {}: {} measurements in {:.0} s",
            round + 1,
            cells.len(),
            began.elapsed().as_secs_f64()
        );
    }
    println!();
    Ok(readings)
}

fn measure_once(operation: &mut Check, bench: &Bench, side: usize, file: &str) -> Result<Reading> {
    if let Some(tool) = side.checked_sub(1) {
        let value = operation.peers[tool].measure(Conditions {
            cpu: bench.cpu,
            next: None,
            folder: &bench.lasting_folder("programs"),
            limit: TOOL_LIMIT,
            interrupt: &bench.interrupt,
        })?;
        return Ok(Reading { value, grade: None });
    }
    let settings = settings(&operation.axes);
    let arguments = format!("{} --quick --cpu {} {settings}", operation.probe, bench.cpu);
    let run = bench.run(file, &arguments)?;
    Ok(Reading {
        value: the_only(&run, operation.metric)?.median,
        grade: run.points.first().map(|point| point.grade),
    })
}

/// Each number's distance from the median without a load, as a share of that; none without one.
fn distances(readings: &Readings, (operation, side, load): Cell) -> Vec<(f64, Option<Grade>)> {
    let numbers = |load| -> Option<&Vec<Reading>> { readings.get(&(operation, side, load)) };
    let values = |all: &Vec<Reading>| all.iter().map(|one| one.value).collect::<Vec<_>>();
    let quiet = numbers(0).and_then(|quiet| median(&values(quiet)));
    let (Some(quiet), Some(loaded)) = (quiet, numbers(load)) else {
        return Vec::new();
    };
    loaded.iter().map(|one| (one.value / quiet - 1.0, one.grade)).collect()
}

fn print(operation: &Check, number: usize, loads: &[Option<Neighbour>], readings: &Readings) {
    println!("{}: {}", operation.point(), operation.metric);
    let unit = match operation.metric {
        "throughput" => Unit::BytesPerSecond,
        _ => Unit::Nanoseconds,
    };
    println!(
        "  {:<10} {:<10} {:>10} {:>9}  {:<23} {:>8}  grades",
        "load", "by", "median", "bias", "95 % interval", "CV"
    );
    for (load, neighbour) in loads.iter().enumerate() {
        for side in 0..=operation.peers.len() {
            let cell = (number, side, load);
            let all = readings.get(&cell).map_or(&[][..], Vec::as_slice);
            let values: Vec<f64> = all.iter().map(|one| one.value).collect();
            let (distances, grades): (Vec<f64>, Vec<Option<Grade>>) =
                distances(readings, cell).into_iter().unzip();
            // Of the ratios, which are what is above zero.
            let ratios: Vec<f64> = distances.iter().map(|distance| 1.0 + distance).collect();
            let interval = median_interval(&ratios).map_or_else(String::new, |interval| {
                let [low, high] = [interval.low, interval.high].map(|end| signed(end - 1.0));
                format!("{low} to {high}")
            });
            let absent = || "-".to_owned();
            println!(
                "  {:<10} {:<10} {:>10} {:>9}  {interval:<23} {:>8}  {}",
                name(*neighbour),
                side_name(operation, side),
                median(&values).map_or_else(absent, |value| unit.display(value)),
                median(&distances).map_or_else(absent, signed),
                coefficient(&values).map_or_else(absent, |cv| format!("{:.1} %", 100.0 * cv)),
                grades.iter().flatten().map(Grade::to_string).collect::<String>()
            );
        }
    }
    println!();
}

fn signed(share: f64) -> String {
    format!("{:+.1} %", 100.0 * share)
}

/// How many numbers there are, and how many of them are near the quiet value.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Near {
    near: usize,
    all: usize,
}

impl Near {
    fn count(distances: impl Iterator<Item = f64>) -> Near {
        let mut found = Near::default();
        for distance in distances {
            found.all += 1;
            found.near += usize::from(distance.abs() <= NEAR);
        }
        found
    }
}

impl std::fmt::Display for Near {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} of {}", self.near, self.all)
    }
}

/// Prints how many numbers under a load are near the quiet ones, and judges costof's rows by their grades.
fn judge(
    operations: &[Check],
    loads: &[Option<Neighbour>],
    load: usize,
    readings: &Readings,
) -> Verdict {
    let mut rows = Vec::new();
    let mut of_tools: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for (number, operation) in operations.iter().enumerate() {
        rows.extend(distances(readings, (number, 0, load)));
        for side in 1..=operation.peers.len() {
            let numbers =
                distances(readings, (number, side, load)).into_iter().map(|(distance, _)| distance);
            of_tools.entry(side_name(operation, side)).or_default().extend(numbers);
        }
    }
    let (trusted, verdict) = promise(&rows);
    let tools: Vec<String> = of_tools
        .into_iter()
        .map(|(tool, numbers)| format!("{tool} {}", Near::count(numbers.into_iter())))
        .collect();
    verdict.end_line(&format!(
        "{}: within 3 % of the quiet value: costof {}, {}; of costof's rows of grade A to C {trusted}",
        name(loads[load]),
        Near::count(rows.iter().map(|(distance, _)| *distance)),
        tools.join(", "),
    ))
}

/// The rows of grade A to C, all of which must be near.
fn promise(rows: &[(f64, Option<Grade>)]) -> (Near, Verdict) {
    let trusted = rows.iter().filter(|(_, grade)| grade.is_some_and(|grade| grade < Grade::D));
    let trusted = Near::count(trusted.map(|(distance, _)| *distance));
    let verdict = match trusted.all {
        0 => Verdict::Undecided(
            "costof has no row of grade A to C, so it promises nothing".to_owned(),
        ),
        all => Verdict::from(trusted.near == all),
    };
    (trusted, verdict)
}

#[cfg(test)]
mod tests {
    use super::*;
    use Grade::{A, C, D};

    fn readings(quiet: &[f64], loaded: &[(f64, Grade)]) -> Readings {
        let reading = |value: f64, grade| Reading { value, grade: Some(grade) };
        Readings::from([
            ((0, 0, 0), quiet.iter().map(|value| reading(*value, A)).collect()),
            ((0, 0, 1), loaded.iter().map(|(value, grade)| reading(*value, *grade)).collect()),
        ])
    }

    #[test]
    fn distances_are_from_the_median_of_the_quiet_rounds() {
        let readings = readings(&[100.0, 90.0, 200.0], &[(102.0, A), (50.0, D)]);
        let found = distances(&readings, (0, 0, 1));
        assert!((found[0].0 - 0.02).abs() < 1e-12 && found[0].1 == Some(A));
        assert_eq!(found[1], (-0.5, Some(D)));
        assert_eq!(distances(&readings, (0, 0, 0))[0].0, 0.0);
        // A tool without a quiet number has no distance.
        assert!(distances(&readings, (0, 1, 1)).is_empty());
        let mut alone = readings;
        alone.remove(&(0, 0, 0));
        assert!(distances(&alone, (0, 0, 1)).is_empty());
    }

    #[test]
    fn what_is_far_is_of_grade_d_or_breaks_the_promise() {
        let judge = |rows: &[(f64, Grade)]| {
            let rows: Vec<_> = rows.iter().map(|row| (row.0, Some(row.1))).collect();
            promise(&rows)
        };
        let near = |near, all| Near { near, all };
        let kept = judge(&[(0.03, A), (-0.029, C), (0.5, D)]);
        assert_eq!(kept, (near(2, 2), Verdict::Holds));
        let broken = judge(&[(0.031, C), (0.0, A)]);
        assert_eq!(broken, (near(1, 2), Verdict::DoesNotHold));
        assert_eq!(judge(&[(-0.04, A)]).1, Verdict::DoesNotHold);
        let none = judge(&[(0.5, D), (0.0, D)]);
        assert!(none.0 == near(0, 0) && matches!(none.1, Verdict::Undecided(_)));
    }

    #[test]
    fn loads_go_by_the_names_of_the_command_line() {
        let names: Vec<String> =
            Neighbour::value_variants().iter().map(|load| name(Some(*load))).collect();
        let expected = "busy-25 busy-50 busy-100 other-cpu memory throttled";
        assert_eq!(names.join(" "), expected);
        assert_eq!(name(None), "quiet");
    }

    #[test]
    fn each_operation_is_measured_by_a_tool_too() {
        for operation in operations() {
            assert!(!operation.peers.is_empty(), "{}", operation.point());
            assert_eq!(side_name(&operation, 0), "costof");
            assert_eq!(side_name(&operation, 1), operation.peers[0].tool);
        }
    }

    #[test]
    fn a_locks_time_is_the_whole_over_the_locks() {
        let output = "General statistics:\n    total time:                          0.5500s\n    \
                      total number of events:              1\n";
        let sysbench = &check("sync.mutex threads=1", Effort::QUICK).peers[0];
        assert!((sysbench.number(output).unwrap() - 11.0).abs() < 1e-9);
        assert!(sysbench.number("total time: fast").is_err());
    }
}
