//! `costof run`, several times in a row: by how much each row varies from run to
//! run, and how many rows have grade A or B.

use crate::bench::Bench;
use crate::costof::{Costof, reasons};
use crate::error::{Result, failed};
use crate::machine::{self, Watch};
use crate::verdict::{self, Verdict};
use costof_measure::statistics::quantile::{mean, standard_deviation};
use costof_model::noise::Grade;
use costof_model::rows::PointRow;
use costof_model::run_file::Run;
use costof_model::unit::Unit;

const RUNS: usize = 5;
const CYCLES: &str = "estimated_core_cycles";
/// The greatest coefficient of variation of `cpu.*` and `os.syscall`.
const CORE_BOUND: f64 = 0.02;
/// That of `memory.latency`.
const MEMORY_BOUND: f64 = 0.05;
/// The least share of rows of grade A or B.
pub(crate) const GOOD_SHARE: f64 = 0.8;

/// One row of the latency table, over all runs.
#[derive(Debug, PartialEq)]
struct Variation {
    label: String,
    probe: String,
    unit: Option<Unit>,
    /// The median of each run, in the row's own unit; empty where a run has none.
    own: Vec<f64>,
    /// The same in estimated core cycles; empty where there are none.
    cycles: Vec<f64>,
    /// The grade in each run.
    grades: Vec<Grade>,
}

/// What is demanded of a row.
#[derive(Debug, PartialEq)]
enum Demand {
    /// A coefficient of variation at most this, in estimated core cycles where
    /// the row has them.
    Cycles(f64),
    /// One at most this in the row's own unit.
    Own(f64),
    Nothing,
}

pub(crate) fn compare(bench: &Bench) -> Result<Vec<Verdict>> {
    let runs = bench.rounds(RUNS);
    if runs < 2 {
        return Err(failed("--rounds 1: one run does not vary"));
    }
    bench.introduce(&format!("costof run, {runs} times in a row"));
    let watch = Watch::start();
    let cpu = bench.cpu.to_string();
    let runs: Vec<Run> = (1..=runs)
        .map(|number| {
            let run = Costof::run(bench, &format!("run-{number}.jsonl"), &["--cpu", &cpu])?;
            println!("run {number}: {}", headline(&run));
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

fn headline(run: &Run) -> String {
    let failures = match run.failures.len() {
        0 => String::new(),
        count => format!(", {count} failures: {}", reasons(run)),
    };
    format!("{} rows{failures}", run.points.len())
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
            Variation {
                label: point
                    .label
                    .clone()
                    .unwrap_or_else(|| point.point.to_string()),
                probe: point.point.probe.to_string(),
                unit: point.primary().map(|estimate| estimate.unit),
                own: medians(&point.primary).unwrap_or_default(),
                cycles: medians(CYCLES).unwrap_or_default(),
                grades: rows.iter().map(|row| row.grade).collect(),
            }
        })
        .collect()
}

/// The coefficient of variation: the runs' standard deviation over their mean.
fn coefficient(runs: &[f64]) -> Option<f64> {
    Some(standard_deviation(runs)? / mean(runs)?)
}

impl Variation {
    fn demand(&self) -> Demand {
        match self.probe.as_str() {
            "os.syscall" => Demand::Cycles(CORE_BOUND),
            "memory.latency" => Demand::Own(MEMORY_BOUND),
            probe if probe.starts_with("cpu.") => Demand::Cycles(CORE_BOUND),
            _ => Demand::Nothing,
        }
    }

    /// The runs that are judged, with their unit.
    fn judged(&self) -> (&[f64], Option<Unit>) {
        match self.demand() {
            Demand::Cycles(_) if !self.cycles.is_empty() => (&self.cycles, Some(Unit::Cycles)),
            _ => (&self.own, self.unit),
        }
    }

    /// Whether the row varies by no more than is demanded; a row without a
    /// number in some run does.
    fn holds(&self) -> bool {
        match self.demand() {
            Demand::Cycles(bound) | Demand::Own(bound) => {
                coefficient(self.judged().0).is_some_and(|variation| variation <= bound)
            }
            Demand::Nothing => true,
        }
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
        let demand = match (row.demand(), row.judged().1) {
            (Demand::Cycles(bound), Some(Unit::Cycles)) => format!("{} ~cycles", percent(bound)),
            (Demand::Cycles(bound) | Demand::Own(bound), _) => percent(bound),
            (Demand::Nothing, _) => "-".to_owned(),
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
    }
    println!("\nCV: standard deviation over mean of the runs; ~cycles: estimated core cycles");
    for row in rows.iter().filter(|row| !row.holds()) {
        let (runs, unit) = row.judged();
        let runs: Vec<String> = runs.iter().map(|run| shown(Some(*run), unit)).collect();
        println!("varies more: {}: {}", row.label, runs.join(", "));
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
    let asked: Vec<&Variation> = rows
        .iter()
        .filter(|row| row.demand() != Demand::Nothing)
        .collect();
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
    use costof_model::metric::Estimate;
    use costof_model::noise::Placement;
    use costof_model::point::Point;
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
            plan: Plan {
                precision: "default".into(),
                blocks: Vec::new(),
                placement: Placement::default(),
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
            ([450.0; 5].as_slice(), Some(Unit::Cycles))
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
        assert_eq!(harness[0].demand(), Demand::Nothing);
        assert!(harness[0].holds());
    }

    #[test]
    fn a_row_without_cycles_is_judged_by_its_own_unit() {
        let frequency = variations(&NS.map(|hz| run("cpu.frequency", hz, None, Grade::A)));
        assert_eq!(frequency[0].demand(), Demand::Cycles(CORE_BOUND));
        assert!(!frequency[0].holds());
        let steady = variations(&[4.0; 5].map(|hz| run("cpu.frequency", hz, None, Grade::A)));
        assert!(steady[0].holds());
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
