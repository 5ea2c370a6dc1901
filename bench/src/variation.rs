//! `costof run`, several times in a row: by how much each row varies from run to
//! run, and how many rows have grade A or B.

use crate::bench::Bench;
use crate::costof::{self, failures};
use crate::error::{Result, failed};
use crate::machine::{self, Watch};
use crate::verdict::{self, Verdict};
use costof_measure::statistics::quantile::{mean, standard_deviation};
use costof_model::noise::Grade;
use costof_model::point::Point;
use costof_model::rows::PointRow;
use costof_model::run_file::Run;
use costof_model::unit::Unit;
use costof_peers::caches;

const RUNS: usize = 5;
const CYCLES: &str = "estimated_core_cycles";
/// The greatest coefficient of variation of the first `cpu.*` and of `os.syscall`.
const CORE_BOUND: f64 = 0.02;
/// That of whatever else runs on one processor.
const PINNED_BOUND: f64 = 0.03;
/// That of what waits for main memory.
const MEMORY_BOUND: f64 = 0.05;
/// That of each mode of what is not this processor's alone.
const SHARED_BOUND: f64 = 0.10;
/// The least share of rows of grade A or B.
pub(crate) const GOOD_SHARE: f64 = 0.8;

/// One row of the latency table, over all runs.
#[derive(Debug, PartialEq)]
struct Variation {
    label: String,
    demand: Option<Demand>,
    unit: Option<Unit>,
    /// The median of each run, in the row's own unit; empty where a run has none.
    own: Vec<f64>,
    /// The same in estimated core cycles; empty where there are none.
    cycles: Vec<f64>,
    /// For each mode its medians in the runs that show it, in the row's own unit;
    /// empty where a run has none.
    modes: Vec<Vec<f64>>,
    /// Whether some run tells modes itself.
    tells_modes: bool,
    /// The grade in each run.
    grades: Vec<Grade>,
}

/// Modes lie apart by more than this many times what one may vary by.
const MODES_APART: f64 = 2.5;

/// What is demanded of a row: the greatest coefficient of variation.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Demand {
    /// In estimated core cycles where the row has them, since the core clock drifts.
    Cycles(f64),
    /// In the row's own unit.
    Own(f64),
}

impl Demand {
    fn bound(self) -> f64 {
        match self {
            Demand::Cycles(bound) | Demand::Own(bound) => bound,
        }
    }
}

pub(crate) fn compare(bench: &Bench) -> Result<Vec<Verdict>> {
    let runs = bench.rounds(RUNS);
    if runs < 2 {
        return Err(failed("--rounds 1: one run does not vary"));
    }
    bench.introduce(&format!("costof run, {runs} times in a row"));
    let watch = Watch::start();
    let cpus = bench.cpu_list();
    let runs: Vec<Run> = (1..=runs)
        .map(|number| {
            let run = costof::run(bench, &format!("run-{number}.jsonl"), &["--cpu", &cpus])?;
            println!("run {number}: {} rows{}", run.points.len(), failures(&run));
            Ok(run)
        })
        .collect::<Result<_>>()?;
    println!();
    let rows = variations(&runs);
    print(&rows);
    let quiet = machine::was_quiet(&watch);
    let verdicts = vec![judge_variation(&rows, quiet), judge_grades(&rows, quiet)];
    bench.conclude();
    Ok(verdicts)
}

/// The rows of the first run, found again in the others.
fn variations(runs: &[Run]) -> Vec<Variation> {
    let Some((first, others)) = runs.split_first() else {
        return Vec::new();
    };
    first
        .points
        .iter()
        .map(|point| {
            let again = |run: &'_ Run| -> Option<PointRow> {
                run.points
                    .iter()
                    .find(|other| other.point == point.point)
                    .cloned()
            };
            let rows: Option<Vec<PointRow>> = std::iter::once(Some(point.clone()))
                .chain(others.iter().map(again))
                .collect();
            let rows = rows.unwrap_or_default();
            let medians = |name: &str| -> Option<Vec<f64>> {
                rows.iter()
                    .map(|row| Some(row.estimate(name)?.median))
                    .collect()
            };
            let demand = demand(&point.point, caches::last_cache_bytes());
            Variation {
                label: point
                    .label
                    .clone()
                    .unwrap_or_else(|| point.point.to_string()),
                modes: modes(&rows, demand.map_or(SHARED_BOUND, Demand::bound)),
                tells_modes: rows
                    .iter()
                    .any(|row| row.primary().is_some_and(|number| !number.modes.is_empty())),
                demand,
                unit: point.primary().map(|estimate| estimate.unit),
                own: medians(&point.primary).unwrap_or_default(),
                cycles: medians(CYCLES).unwrap_or_default(),
                grades: rows.iter().map(|row| row.grade).collect(),
            }
        })
        .collect()
}

/// What is demanded of a row, by what its number depends on.
fn demand(point: &Point, last_cache_bytes: Option<u64>) -> Option<Demand> {
    let is = |axis: &str, word: &str| point.axes.find_word(axis) == Some(word);
    let at_least = |axis: &str, least: u64| point.axes.find_number(axis) >= Some(least);
    match &*point.probe {
        "null" => None,
        // The hypervisor's, or the timer's and the scheduler's.
        "cpu.hiccup" | "cpu.vm_exit" | "os.timer" => Some(Demand::Own(SHARED_BOUND)),
        // The device's.
        "os.page_fault" if is("kind", "major") => Some(Demand::Own(SHARED_BOUND)),
        // Shared with neighbours.
        "memory.bandwidth" if at_least("size", last_cache_bytes.unwrap_or(0)) => {
            Some(Demand::Own(SHARED_BOUND))
        }
        // Two processors.
        "sync.core_to_core" => Some(Demand::Own(SHARED_BOUND)),
        _ if is("cpus", "cross") || at_least("threads", 2) => Some(Demand::Own(SHARED_BOUND)),
        // Main memory's, whose channels neighbours use too.
        "memory.latency" => Some(Demand::Own(MEMORY_BOUND)),
        "cpu.memcpy" if is("source", "cold") => Some(Demand::Own(MEMORY_BOUND)),
        "os.page_fault" if is("kind", "huge") => Some(Demand::Own(MEMORY_BOUND)),
        "cpu.clock" | "cpu.frequency" | "cpu.loop" | "cpu.call" | "os.syscall" => {
            Some(Demand::Cycles(CORE_BOUND))
        }
        _ => Some(Demand::Cycles(PINNED_BOUND)),
    }
}

/// For each mode its medians in the runs that show it: what the runs tell as modes,
/// and the median of a run that tells none, in groups that lie apart by more than
/// a mode may vary by far. Empty where a run has no number.
fn modes(rows: &[PointRow], bound: f64) -> Vec<Vec<f64>> {
    let of_runs: Option<Vec<Vec<f64>>> = rows
        .iter()
        .map(|row| {
            let number = row.primary()?;
            Some(match number.modes.as_slice() {
                [] => vec![number.median],
                modes => modes.iter().map(|mode| mode.median).collect(),
            })
        })
        .collect();
    let mut all: Vec<f64> = of_runs.unwrap_or_default().concat();
    all.sort_by(f64::total_cmp);
    let apart = |pair: &[f64]| pair[1] > pair[0] * (1.0 + MODES_APART * bound);
    let mut groups = Vec::new();
    let mut from = 0;
    for to in 1..=all.len() {
        if to == all.len() || apart(&all[to - 1..=to]) {
            groups.push(all[from..to].to_vec());
            from = to;
        }
    }
    groups
}

/// The coefficient of variation: the runs' standard deviation over their mean.
fn coefficient(runs: &[f64]) -> Option<f64> {
    Some(standard_deviation(runs)? / mean(runs)?)
}

impl Variation {
    /// The runs that are judged, each mode for itself, with their unit.
    fn judged(&self) -> (Vec<&[f64]>, Option<Unit>) {
        match self.demand {
            // Without a mode that a run tells, groups may be the core clock's drift.
            Some(Demand::Cycles(_)) if !self.cycles.is_empty() && !self.tells_modes => {
                (vec![&self.cycles], Some(Unit::Cycles))
            }
            _ if self.modes.len() > 1 => {
                (self.modes.iter().map(Vec::as_slice).collect(), self.unit)
            }
            _ => (vec![&self.own], self.unit),
        }
    }

    /// Whether the row varies by no more than is demanded; a row without a
    /// number in some run does. A mode that one run alone shows does not vary, but
    /// more than half of the runs must show the same one: else there are none.
    fn holds(&self) -> bool {
        let Some(demand) = self.demand else {
            return true;
        };
        let (judged, _) = self.judged();
        let most = judged.iter().map(|runs| runs.len()).max().unwrap_or(0);
        let varies = |runs: &&[f64]| !coefficient(runs).is_some_and(|it| it <= demand.bound());
        !self.own.is_empty()
            && 2 * most > self.own.len()
            && !judged.iter().filter(|runs| runs.len() > 1).any(varies)
    }
}

fn print(rows: &[Variation]) {
    let width = rows.iter().map(|row| row.label.chars().count()).max();
    let width = width.unwrap_or(0).max("row".len());
    println!(
        "{:<width$}  {:>9} {:>8}  {:>8} {:>8}  at most      grades",
        "row", "mean", "CV", "~cycles", "CV"
    );
    for row in rows {
        let demand = match (row.demand, row.judged().1) {
            (None, _) => absent(),
            (Some(Demand::Cycles(bound)), Some(Unit::Cycles)) => {
                format!("{} ~cycles", percent(bound))
            }
            (Some(demand), _) if row.modes.len() > 1 => {
                format!("{} a mode", percent(demand.bound()))
            }
            (Some(demand), _) => percent(demand.bound()),
        };
        println!(
            "{:<width$}  {:>9} {:>8}  {:>8} {:>8}  {demand:<11}  {}",
            row.label,
            shown(mean(&row.own), row.unit),
            coefficient(&row.own).map_or_else(absent, percent_exactly),
            shown(mean(&row.cycles), Some(Unit::One)),
            coefficient(&row.cycles).map_or_else(absent, percent_exactly),
            row.grades.iter().map(Grade::to_string).collect::<String>()
        );
        if row.modes.len() > 1 {
            for runs in &row.modes {
                println!(
                    "{:<width$}  {:>9} {:>8}",
                    format!("  a mode, in {} of {} runs", runs.len(), row.own.len()),
                    shown(mean(runs), row.unit),
                    coefficient(runs).map_or_else(absent, percent_exactly)
                );
            }
        }
    }
    println!("\nCV: standard deviation over mean of the runs; ~cycles: estimated core cycles");
    for row in rows.iter().filter(|row| !row.holds()) {
        let (mut judged, unit) = row.judged();
        if row.own.is_empty() {
            judged = vec![&row.own];
        }
        for runs in judged {
            let runs: Vec<String> = runs.iter().map(|run| shown(Some(*run), unit)).collect();
            println!(
                "varies more: {}: {}",
                row.label,
                match runs.as_slice() {
                    [] => "there is no number in some run".to_owned(),
                    runs => runs.join(", "),
                }
            );
        }
    }
    println!();
}

fn shown(value: Option<f64>, unit: Option<Unit>) -> String {
    value
        .zip(unit)
        .map_or_else(absent, |(value, unit)| unit.display(value))
}

fn absent() -> String {
    "-".to_owned()
}

fn percent(share: f64) -> String {
    format!("{:.0} %", 100.0 * share)
}

fn percent_exactly(share: f64) -> String {
    format!("{:.2} %", 100.0 * share)
}

fn judge_variation(rows: &[Variation], quiet: bool) -> Verdict {
    let asked: Vec<&Variation> = rows.iter().filter(|row| row.demand.is_some()).collect();
    let beyond: Vec<&str> = asked
        .iter()
        .filter(|row| !row.holds())
        .map(|row| row.label.as_str())
        .collect();
    let holds = beyond.is_empty() && !asked.is_empty();
    let verdict = verdict::on_a_quiet_machine(holds, quiet);
    let which = match beyond.as_slice() {
        [] => String::new(),
        beyond => format!(" (not: {})", beyond.join(", ")),
    };
    println!(
        "{} of {} rows vary by no more than they may{which}; verdict: {verdict}",
        asked.len() - beyond.len(),
        asked.len()
    );
    verdict
}

/// The share of grades A and B; `None` of none.
pub(crate) fn good_share<'a>(grades: impl Iterator<Item = &'a Grade>) -> Option<f64> {
    let good: Vec<f64> = grades
        .map(|grade| f64::from(u8::from(*grade <= Grade::B)))
        .collect();
    mean(&good)
}

fn judge_grades(rows: &[Variation], quiet: bool) -> Verdict {
    let share = good_share(rows.iter().flat_map(|row| &row.grades)).unwrap_or(0.0);
    let verdict = verdict::on_a_quiet_machine(share >= GOOD_SHARE, quiet);
    println!(
        "{} of rows have grade A or B, and at least {} should on a quiet machine; verdict: \
         {verdict}",
        percent(share),
        percent(GOOD_SHARE)
    );
    verdict
}

#[cfg(test)]
mod tests {
    use super::*;
    use costof_model::axis::Axes;
    use costof_model::metric::{Estimate, Mode};
    use costof_model::noise::Placement;
    use costof_model::rows::{Plan, RunRow, SCHEMA, State};
    use costof_model::unit::Better;

    fn estimate(name: &'static str, unit: Unit, median: f64) -> Estimate {
        Estimate {
            name: name.into(),
            unit,
            better: Better::Lower,
            median,
            ci95: None,
            interval: None,
            mean: median,
            sd: None,
            min: median,
            percentiles: Vec::new(),
            n: 1,
            undisturbed: None,
            core: None,
            modes: Vec::new(),
        }
    }

    /// A run with one row, which took `ns` and `cycles`.
    fn run(probe: &'static str, ns: f64, cycles: Option<f64>, grade: Grade) -> Run {
        let mut run = Run::new(RunRow {
            schema: SCHEMA,
            id: "1".to_owned(),
            started: String::new(),
            command: Vec::new(),
            seed: 1,
            beside: None,
            plan: Plan {
                precision: "default".into(),
                launches: None,
                blocks: Vec::new(),
                placement: Placement::default(),
                hosts: costof_model::rows::Hosts::default(),
            },
        });
        let mut metrics = vec![estimate("cost", Unit::Nanoseconds, ns)];
        metrics.extend(cycles.map(|cycles| estimate(CYCLES, Unit::Cycles, cycles)));
        run.points.push(PointRow {
            point: Point {
                probe: probe.into(),
                axes: Axes::default(),
                link: "none".into(),
            },
            method: 1,
            primary: "cost".into(),
            headline: true,
            label: None,
            launches: 9,
            state: State::Ok,
            metrics,
            prediction: None,
            grade,
            warnings: Vec::new(),
            placement: Placement::default(),
        });
        run
    }

    const NS: [f64; 5] = [100.0, 110.0, 90.0, 105.0, 95.0];

    #[test]
    fn cycles_count_where_the_core_clock_drifts() {
        let runs = NS.map(|ns| run("os.syscall", ns, Some(450.0), Grade::A));
        let rows = variations(&runs);
        assert_eq!(rows[0].own, NS);
        // numpy.std(NS, ddof=1) / 100
        let variation = coefficient(&NS).unwrap();
        assert!((variation - 0.079_056_941_504_209).abs() < 1e-12);
        assert_eq!(
            rows[0].judged(),
            (vec![[450.0; 5].as_slice()], Some(Unit::Cycles))
        );
        assert_eq!(judge_variation(&rows, true), Verdict::Holds);
    }

    #[test]
    fn memory_is_judged_in_nanoseconds_and_the_harness_is_not() {
        let memory = variations(&NS.map(|ns| run("memory.latency", ns, Some(4.0), Grade::A)));
        assert_eq!(judge_variation(&memory, true), Verdict::DoesNotHold);
        assert!(matches!(
            judge_variation(&memory, false),
            Verdict::CannotBeTold(_)
        ));
        let harness = variations(&NS.map(|ns| run("null", ns, None, Grade::A)));
        assert_eq!(harness[0].demand, None);
        assert!(harness[0].holds());
    }

    #[test]
    fn a_row_without_cycles_is_judged_by_its_own_unit() {
        let frequency = variations(&NS.map(|hz| run("cpu.frequency", hz, None, Grade::A)));
        assert_eq!(frequency[0].demand, Some(Demand::Cycles(CORE_BOUND)));
        assert!(!frequency[0].holds());
        let steady = variations(&[4.0; 5].map(|hz| run("cpu.frequency", hz, None, Grade::A)));
        assert!(steady[0].holds());
    }

    #[test]
    fn what_is_demanded_depends_on_what_a_number_depends_on() {
        let demand = |probe: &'static str, axes: Axes| {
            let point = Point {
                probe: probe.into(),
                axes,
                link: "none".into(),
            };
            demand(&point, Some(32 << 20))
        };
        let with = |axis: &'static str, word: &'static str| Axes::default().with(axis, word);
        let shared = Some(Demand::Own(SHARED_BOUND));
        let pinned = Some(Demand::Cycles(PINNED_BOUND));
        let size = |bytes: u64| Axes::default().with("size", bytes);
        let threads = |count: u64| Axes::default().with("threads", count);
        assert_eq!(demand("os.context_switch", with("cpus", "same")), pinned);
        assert_eq!(demand("os.context_switch", with("cpus", "cross")), shared);
        assert_eq!(demand("sync.mutex", threads(1)), pinned);
        assert_eq!(demand("sync.mutex", threads(2)), shared);
        let memory = Some(Demand::Own(MEMORY_BOUND));
        assert_eq!(demand("os.page_fault", with("kind", "huge")), memory);
        assert_eq!(demand("cpu.memcpy", with("source", "cold")), memory);
        assert_eq!(demand("cpu.memcpy", with("source", "hot")), pinned);
        assert_eq!(demand("os.page_fault", with("kind", "major")), shared);
        assert_eq!(demand("memory.bandwidth", size(1 << 20)), pinned);
        assert_eq!(demand("memory.bandwidth", size(1 << 30)), shared);
        assert_eq!(demand("os.timer", Axes::default()), shared);
        assert_eq!(demand("cpu.branch_miss", Axes::default()), pinned);
    }

    /// Runs of a row that crosses processors; each number is one run's mode.
    fn crossing(runs: [&[f64]; 5]) -> Vec<Variation> {
        let runs = runs.map(|modes| {
            let mut run = run("sync.core_to_core", modes[0], None, Grade::A);
            if modes.len() > 1 {
                run.points[0].metrics[0].modes = modes
                    .iter()
                    .map(|median| Mode {
                        median: *median,
                        share: 0.5,
                    })
                    .collect();
            }
            run
        });
        variations(&runs)
    }

    #[test]
    fn modes_are_judged_each_for_itself() {
        let rows = crossing([&[13.0, 60.0], &[13.5], &[61.0], &[13.2, 59.0], &[60.5]]);
        assert_eq!(
            rows[0].modes,
            [vec![13.0, 13.2, 13.5], vec![59.0, 60.0, 60.5, 61.0]]
        );
        assert!(rows[0].holds());
        assert!(coefficient(&rows[0].own).unwrap() > 0.5);
        let scattered = crossing([&[13.0, 60.0], &[16.0], &[10.0], &[13.2, 59.0], &[60.5]]);
        assert!(!scattered[0].holds());
    }

    #[test]
    fn runs_may_meet_one_mode_each_but_most_must_meet_the_same() {
        let rows = crossing([&[13.0], &[60.0], &[13.1], &[60.2], &[13.2]]);
        assert_eq!(rows[0].modes, [vec![13.0, 13.1, 13.2], vec![60.0, 60.2]]);
        assert!(rows[0].holds());
        let scattered = crossing([&[10.0], &[13.0], &[17.0], &[22.0], &[29.0]]);
        assert_eq!(scattered[0].modes.len(), 5);
        assert!(!scattered[0].holds());
    }

    #[test]
    fn a_mode_of_one_run_does_not_vary() {
        let rows = crossing([&[13.0, 60.0], &[13.1], &[13.2], &[13.0], &[13.1]]);
        assert_eq!(rows[0].modes[1], [60.0]);
        assert!(rows[0].holds());
    }

    #[test]
    fn a_row_that_a_run_lacks_does_not_hold() {
        let mut runs = NS.map(|_| run("cpu.loop", 1.0, Some(4.0), Grade::A));
        runs[2].points.clear();
        let rows = variations(&runs);
        assert!(rows[0].own.is_empty() && rows[0].cycles.is_empty());
        assert_eq!(judge_variation(&rows, true), Verdict::DoesNotHold);
    }

    #[test]
    fn grades_a_and_b_are_counted() {
        let grades = [Grade::A, Grade::B, Grade::A, Grade::B, Grade::C];
        assert_eq!(good_share(grades.iter()), Some(0.8));
        assert_eq!(good_share([].iter()), None);
        let rows = |grades: [Grade; 5]| {
            variations(&grades.map(|grade| run("cpu.loop", 1.0, Some(4.0), grade)))
        };
        assert_eq!(judge_grades(&rows(grades), true), Verdict::Holds);
        let bad = [Grade::D, Grade::B, Grade::A, Grade::B, Grade::C];
        assert_eq!(judge_grades(&rows(bad), true), Verdict::DoesNotHold);
        assert!(matches!(
            judge_grades(&rows(bad), false),
            Verdict::CannotBeTold(_)
        ));
    }
}
