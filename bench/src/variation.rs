//! `costof run`, several times in a row: by how much each row varies from run to run, how many rows
//! have grade A or B, how wide intervals are, and which change two of the runs could show.

use crate::bench::Bench;
use crate::costof::failures;
use crate::error::{Result, failed};
use crate::machine::{self, Watch};
use crate::verdict::Verdict;
use costof_measure::compare::{self, Metrics};
use costof_model::noise::{Grade, MEASURED};
use costof_model::point::Point;
use costof_model::rows::PointRow;
use costof_model::run_file::Run;
use costof_model::unit::Unit;
use costof_peers::caches;
use costof_stats::{mean, standard_deviation};

const RUNS: usize = 5;
const CYCLES: &str = "estimated_core_cycles";
/// The coefficient of variation of most of what runs on one CPU, of how many of these rows at least, and
/// the greatest of any.
const STEADY: f64 = 0.01;
const STEADY_SHARE: f64 = 0.9;
const ONE_CPU_BOUND: f64 = 0.03;
/// The greatest coefficient of variation of what hands over between CPUs while both spin.
const SPINNING_BOUND: f64 = 0.03;
/// That of what waits for main memory.
const MEMORY_BOUND: f64 = 0.05;
/// That of each mode of what is not this CPU's alone.
const SHARED_BOUND: f64 = 0.10;
/// The least share of a run's rows that have grade A or B.
const GOOD_SHARE: f64 = 75.0 / 90.0;
/// The greatest width of an interval over its median: of the median row, and of the upper quartile.
const MEDIAN_WIDTH: f64 = 0.04;
const UPPER_WIDTH: f64 = 0.10;
/// The greatest change that two runs may miss, in the median row.
const VISIBLE: f64 = 0.02;

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
    /// The grade in each run.
    grades: Vec<Grade>,
}

/// Modes lie apart by more than this many times what one may vary by.
const MODES_APART: f64 = 2.5;

/// What is demanded of a row.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Demand {
    /// It runs on one CPU: judged with all that does, in estimated core cycles where it has them, since
    /// the core clock drifts.
    OneCpu,
    /// The greatest coefficient of variation, in its own unit, of each mode.
    Own(f64),
}

impl Demand {
    fn bound(self) -> f64 {
        match self {
            Demand::OneCpu => ONE_CPU_BOUND,
            Demand::Own(bound) => bound,
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
            let run = bench.run(&format!("run-{number}.jsonl"), &format!("--cpu {cpus}"))?;
            println!("run {number}: {} rows{}", run.points.len(), failures(&run));
            Ok(run)
        })
        .collect::<Result<_>>()?;
    println!();
    let rows = variations(&runs);
    print(&rows);
    let verdicts = vec![
        judge_one_cpu(&rows),
        judge_others(&rows),
        judge_grades(&runs),
        judge_widths(&runs),
        judge_visible(&runs),
    ];
    println!();
    machine::was_quiet(&watch);
    Ok(verdicts)
}

/// The rows of the first run, found again in the others.
fn variations(runs: &[Run]) -> Vec<Variation> {
    let Some(first) = runs.first() else {
        return Vec::new();
    };
    let attempt = first.attempts.last();
    let facts = attempt.and_then(|attempt| attempt.hosts.get(MEASURED));
    let second_cache = facts.and_then(|facts| Some(facts.claimed_cache(2)?.size_bytes));
    first
        .points
        .iter()
        .map(|point| {
            let again = |run: &Run| {
                let mut rows = run.points.iter();
                rows.find(|row| row.point == point.point).cloned()
            };
            let rows: Option<Vec<PointRow>> = runs.iter().map(again).collect();
            let rows = rows.unwrap_or_default();
            let medians = |name: &str| -> Option<Vec<f64>> {
                rows.iter().map(|row| Some(row.estimate(name)?.median)).collect()
            };
            let demand = demand(&point.point, second_cache, caches::last_cache_bytes());
            Variation {
                label: point.label.clone().unwrap_or_else(|| point.point.to_string()),
                modes: modes(&rows, demand.map_or(SHARED_BOUND, Demand::bound)),
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
fn demand(
    point: &Point,
    second_cache_bytes: Option<u64>,
    last_cache_bytes: Option<u64>,
) -> Option<Demand> {
    let is = |axis: &str, word: &str| point.axes.find_word(axis) == Some(word);
    let at_least = |axis: &str, least: u64| point.axes.find_number(axis) >= Some(least);
    let is_any_of = |probes: &[&str]| probes.iter().any(|probe| point.probe.starts_with(probe));
    // The other end of these is a process on another CPU.
    let crosses = is("cpus", "cross")
        || at_least("threads", 2)
        || is_any_of(&["net.", "rudp.", "copy.send", "copy.receive"])
        || is_any_of(&["rpc."]) && !is_any_of(&["rpc.marshal"]);
    let is_from_memory = at_least("size", second_cache_bytes.map_or(0, |bytes| bytes + 1));
    let bound = match &*point.probe {
        "harness.null" => return None,
        // The hypervisor's, or the timer's and the scheduler's.
        "cpu.hiccup" | "cpu.neighbour" | "cpu.vm_exit" | "os.timer" => SHARED_BOUND,
        // The device's.
        "file.sync" => SHARED_BOUND,
        "os.page_fault" if is("kind", "major") => SHARED_BOUND,
        "file.read" if is("cache", "direct") => SHARED_BOUND,
        // Shared with neighbours.
        "memory.bandwidth" if at_least("size", last_cache_bytes.unwrap_or(0)) => SHARED_BOUND,
        // Two CPUs.
        "sync.core_to_core" => SHARED_BOUND,
        _ if crosses && is("wait", "spin") => SPINNING_BOUND,
        _ if crosses => SHARED_BOUND,
        // The last cache's and main memory's, which neighbours use too.
        "memory.latency" if is_from_memory => MEMORY_BOUND,
        "cpu.memcpy" if is("source", "cold") => MEMORY_BOUND,
        "os.page_fault" if is("kind", "huge") => MEMORY_BOUND,
        _ => return Some(Demand::OneCpu),
    };
    Some(Demand::Own(bound))
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
    let is_same = |one: &f64, next: &f64| *next <= *one * (1.0 + MODES_APART * bound);
    all.chunk_by(is_same).map(<[f64]>::to_vec).collect()
}

/// The coefficient of variation: the runs' standard deviation over their mean.
pub(crate) fn coefficient(runs: &[f64]) -> Option<f64> {
    Some(standard_deviation(runs)? / mean(runs)?)
}

impl Variation {
    /// The runs that are judged, each mode for itself, with their unit.
    fn judged(&self) -> (Vec<&[f64]>, Option<Unit>) {
        match self.demand {
            Some(Demand::OneCpu) if !self.cycles.is_empty() => {
                (vec![&self.cycles], Some(Unit::Cycles))
            }
            Some(Demand::OneCpu) => (vec![&self.own], self.unit),
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
    let width =
        rows.iter().map(|row| row.label.chars().count()).max().unwrap_or(0).max("row".len());
    println!(
        "{:<width$}  {:>9} {:>8}  {:>8} {:>8}  at most      grades",
        "row", "mean", "CV", "~cycles", "CV"
    );
    for row in rows {
        let bound = |demand: Demand| match (demand, row.judged().1) {
            (Demand::OneCpu, Some(Unit::Cycles)) => format!("{} ~cycles", percent(ONE_CPU_BOUND)),
            (Demand::Own(bound), _) if row.modes.len() > 1 => format!("{} a mode", percent(bound)),
            _ => percent(demand.bound()),
        };
        let demand = row.demand.map_or_else(absent, bound);
        println!(
            "{:<width$}  {:>9} {:>8}  {:>8} {:>8}  {demand:<11}  {}",
            row.label,
            shown(mean(&row.own), row.unit),
            coefficient(&row.own).map_or_else(absent, percent_exactly),
            shown(mean(&row.cycles), Some(Unit::One)),
            coefficient(&row.cycles).map_or_else(absent, percent_exactly),
            row.grades.iter().map(Grade::to_string).collect::<String>()
        );
        if row.judged().0.len() > 1 {
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
        let (judged, unit) = row.judged();
        if row.own.is_empty() {
            println!("varies more: {}: there is no number in some run", row.label);
            continue;
        }
        for runs in judged {
            let runs: Vec<String> = runs.iter().map(|run| shown(Some(*run), unit)).collect();
            println!("varies more: {}: {}", row.label, runs.join(", "));
        }
    }
    println!();
}

fn shown(value: Option<f64>, unit: Option<Unit>) -> String {
    value.zip(unit).map_or_else(absent, |(value, unit)| unit.display(value))
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

/// By how much each row of one CPU varies over some runs, in the unit that is judged: infinitely where a run lacks it.
pub(crate) struct Spread(pub(crate) Vec<f64>);

impl Spread {
    fn new<'r>(
        rows: impl Iterator<Item = &'r Variation>,
        of: impl Fn(&Variation) -> Option<f64>,
    ) -> Spread {
        Spread(rows.map(|row| of(row).unwrap_or(f64::INFINITY)).collect())
    }

    /// How many rows vary by no more than this.
    pub(crate) fn within(&self, bound: f64) -> usize {
        self.0.iter().filter(|one| **one <= bound).count()
    }

    pub(crate) fn worst(&self) -> f64 {
        self.0.iter().copied().fold(0.0, f64::max)
    }
}

/// That of these runs.
pub(crate) fn of_one_cpu(runs: &[Run]) -> Spread {
    let rows = variations(runs);
    Spread::new(one_cpu(&rows), in_judged)
}

fn one_cpu(rows: &[Variation]) -> impl Iterator<Item = &Variation> {
    rows.iter().filter(|row| row.demand == Some(Demand::OneCpu))
}

fn in_judged(row: &Variation) -> Option<f64> {
    row.judged().0.first().and_then(|runs| coefficient(runs))
}

/// Of what runs on one CPU, nine rows in ten are steady, and none varies much.
fn judge_one_cpu(rows: &[Variation]) -> Verdict {
    let judged = Spread::new(one_cpu(rows), in_judged);
    let own = Spread::new(one_cpu(rows), |row| coefficient(&row.own));
    let (all, count, most) = (judged.0.len(), judged.within(STEADY), judged.worst());
    let holds = all > 0 && count as f64 >= STEADY_SHARE * all as f64 && most <= ONE_CPU_BOUND;
    Verdict::from(holds).end_line(&format!(
        "on one CPU: {count} of {all} rows vary by {} or less, the most by {} ({} and {} in their own \
         units); {} of them should, and none vary by more than {}",
        percent(STEADY),
        percent_exactly(most),
        own.within(STEADY),
        percent_exactly(own.worst()),
        percent(STEADY_SHARE),
        percent(ONE_CPU_BOUND),
    ))
}

/// What hands over between CPUs, waits for memory, or is the device's or the hypervisor's: each row by
/// its own bound.
fn judge_others(rows: &[Variation]) -> Verdict {
    let others = rows.iter().filter(|row| matches!(row.demand, Some(Demand::Own(_))));
    let (within, beyond): (Vec<&Variation>, Vec<&Variation>) = others.partition(|row| row.holds());
    let holds = beyond.is_empty();
    let all = within.len() + beyond.len();
    let beyond: Vec<&str> = beyond.iter().map(|row| row.label.as_str()).collect();
    let which = match beyond.as_slice() {
        [] => String::new(),
        beyond => format!(" (not: {})", beyond.join(", ")),
    };
    Verdict::from(holds).end_line(&format!(
        "between CPUs, from memory and devices: {} of {all} rows vary by no more than they may{which}",
        within.len(),
    ))
}

/// The share of grades A and B; `None` of none.
pub(crate) fn good_share<'a>(grades: impl Iterator<Item = &'a Grade>) -> Option<f64> {
    let good: Vec<f64> = grades.map(|grade| f64::from(u8::from(*grade <= Grade::B))).collect();
    mean(&good)
}

/// In each run.
fn judge_grades(runs: &[Run]) -> Verdict {
    let grades = |run: &Run| good_share(run.points.iter().map(|row| &row.grade)).unwrap_or(0.0);
    let holds = !runs.is_empty() && runs.iter().all(|run| grades(run) >= GOOD_SHARE);
    let counts: Vec<String> = runs
        .iter()
        .map(|run| {
            let good = grades(run) * run.points.len() as f64;
            format!("{good:.0} of {}", run.points.len())
        })
        .collect();
    Verdict::from(holds).end_line(&format!(
        "grade A or B: {} rows; at least {} should in each run",
        counts.join(", "),
        percent(GOOD_SHARE)
    ))
}

/// The least number that so great a share does not exceed. What is none (a change that is not to be seen)
/// exceeds all; without any number, all is exceeded.
fn rank(numbers: &[f64], share: f64) -> f64 {
    let infinite_if_none = |one: &f64| if one.is_nan() { f64::INFINITY } else { *one };
    let mut sorted: Vec<f64> = numbers.iter().map(infinite_if_none).collect();
    sorted.sort_by(f64::total_cmp);
    let at = (share * sorted.len() as f64).ceil() as usize;
    let found = sorted.get(at.saturating_sub(1));
    found.copied().unwrap_or(f64::INFINITY)
}

/// The 95 % intervals of all rows of all runs.
fn judge_widths(runs: &[Run]) -> Verdict {
    let numbers = runs.iter().flat_map(|run| &run.points);
    // A number without an interval may be anything.
    let widths: Vec<f64> = numbers
        .filter_map(PointRow::primary)
        .map(|number| match number.ci95 {
            Some((low, high)) => (high - low) / number.median,
            None => f64::INFINITY,
        })
        .collect();
    let (middle, upper) = (rank(&widths, 0.5), rank(&widths, 0.75));
    let holds = middle <= MEDIAN_WIDTH && upper <= UPPER_WIDTH;
    Verdict::from(holds).end_line(&format!(
        "width of the 95 % interval over the median: median row {}, upper quartile {}; at most {} and \
         {}",
        percent_exactly(middle),
        percent_exactly(upper),
        percent(MEDIAN_WIDTH),
        percent(UPPER_WIDTH)
    ))
}

/// What `costof compare` of the first run and the last could see.
fn judge_visible(runs: &[Run]) -> Verdict {
    let (Some(first), Some(last)) = (runs.first(), runs.last()) else {
        return Verdict::Undecided("there is no run".to_owned());
    };
    let compared = compare::compare(first, last, Metrics::Primary, compare::MATTERS);
    let visible: Vec<f64> = compared.rows.iter().map(|row| row.visible).collect();
    let middle = rank(&visible, 0.5);
    Verdict::from(middle <= VISIBLE).end_line(&format!(
        "smallest change that costof compare of the first and the last run would see: median of {} rows \
         {}; at most {}",
        visible.len(),
        percent_exactly(middle),
        percent(VISIBLE)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use costof_model::axis::Axes;
    use costof_model::metric::{Estimate, Mode};
    use costof_model::testing;

    fn estimate(name: &'static str, unit: Unit, median: f64) -> Estimate {
        Estimate { unit, ci95: None, ..testing::estimate(name, median) }
    }

    /// A run with one row, which took `ns` and `cycles`.
    fn run(probe: &'static str, ns: f64, cycles: Option<f64>, grade: Grade) -> Run {
        let mut run = testing::planned([]);
        let mut metrics = vec![estimate("cost", Unit::Nanoseconds, ns)];
        metrics.extend(cycles.map(|cycles| estimate(CYCLES, Unit::Cycles, cycles)));
        run.points.push(PointRow {
            headline: true,
            metrics,
            grade,
            ..testing::row(probe, Axes::default(), ns)
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
        assert_eq!(rows[0].judged(), (vec![[450.0; 5].as_slice()], Some(Unit::Cycles)));
        assert_eq!(judge_one_cpu(&rows), Verdict::Holds);
    }

    #[test]
    fn memory_is_judged_in_nanoseconds_and_the_harness_is_not() {
        let mut runs = NS.map(|ns| run("memory.latency", ns, Some(4.0), Grade::A));
        for run in &mut runs {
            run.points[0].point.axes = Axes::default().with("size", 1_u64 << 30);
        }
        let mut memory = variations(&runs);
        memory[0].demand = Some(Demand::Own(MEMORY_BOUND));
        assert_eq!(judge_others(&memory), Verdict::DoesNotHold);
        let harness = variations(&NS.map(|ns| run("harness.null", ns, None, Grade::A)));
        assert_eq!(harness[0].demand, None);
        assert!(harness[0].holds());
    }

    #[test]
    fn a_row_without_cycles_is_judged_by_its_own_unit() {
        let frequency = variations(&NS.map(|hz| run("cpu.frequency", hz, None, Grade::A)));
        assert_eq!(frequency[0].demand, Some(Demand::OneCpu));
        assert!(!frequency[0].holds());
        let steady = variations(&[4.0; 5].map(|hz| run("cpu.frequency", hz, None, Grade::A)));
        assert!(steady[0].holds());
    }

    #[test]
    fn what_is_demanded_depends_on_what_a_number_depends_on() {
        let demand = |probe: &'static str, axes: Axes| {
            let point = Point { probe: probe.into(), axes, link: "none".into() };
            demand(&point, Some(1 << 20), Some(32 << 20))
        };
        let with = |axis: &'static str, word: &'static str| Axes::default().with(axis, word);
        let shared = Some(Demand::Own(SHARED_BOUND));
        let pinned = Some(Demand::OneCpu);
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
        assert_eq!(demand("memory.latency", size(1 << 20)), pinned);
        assert_eq!(demand("memory.latency", size(4 << 20)), memory);
        let spinning = with("cpus", "cross").with("wait", "spin");
        let spinning = demand("ipc.latency", spinning);
        assert_eq!(spinning, Some(Demand::Own(SPINNING_BOUND)));
        assert_eq!(demand("copy.send", Axes::default()), shared);
        assert_eq!(demand("net.stream", Axes::default()), shared);
        assert_eq!(demand("rpc.marshal", Axes::default()), pinned);
        assert_eq!(demand("file.read", with("cache", "direct")), shared);
        assert_eq!(demand("file.read", with("cache", "warm")), pinned);
        assert_eq!(demand("os.timer", Axes::default()), shared);
        assert_eq!(demand("cpu.branch_miss", Axes::default()), pinned);
    }

    /// Runs of a row that crosses processors; each number is one run's mode.
    fn crossing(runs: [&[f64]; 5]) -> Vec<Variation> {
        let runs = runs.map(|modes| {
            let mut run = run("sync.core_to_core", modes[0], None, Grade::A);
            if modes.len() > 1 {
                run.points[0].metrics[0].modes =
                    modes.iter().map(|median| Mode { median: *median, share: 0.5 }).collect();
            }
            run
        });
        variations(&runs)
    }

    #[test]
    fn modes_are_judged_each_for_itself() {
        let rows = crossing([&[13.0, 60.0], &[13.5], &[61.0], &[13.2, 59.0], &[60.5]]);
        assert_eq!(rows[0].modes, [vec![13.0, 13.2, 13.5], vec![59.0, 60.0, 60.5, 61.0]]);
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
        assert!(!rows[0].holds());
        assert_eq!(judge_one_cpu(&rows), Verdict::DoesNotHold);
    }

    /// Rows of one CPU whose five runs have these coefficients of variation.
    fn rows(coefficients: &[f64]) -> Vec<Variation> {
        let one = |cv: &f64| {
            // Five numbers of which one is off by d vary by d / sqrt(5) over their mean.
            let off = 5.0_f64.sqrt() * cv;
            let cycles = [100.0 * (1.0 + 0.8 * off), 0.0, 0.0, 0.0, 0.0]
                .map(|one| if one > 0.0 { one } else { 100.0 * (1.0 - 0.2 * off) });
            Variation {
                label: String::new(),
                demand: Some(Demand::OneCpu),
                unit: Some(Unit::Nanoseconds),
                own: cycles.to_vec(),
                cycles: cycles.to_vec(),
                modes: Vec::new(),
                grades: Vec::new(),
            }
        };
        coefficients.iter().map(one).collect()
    }

    #[test]
    fn on_one_cpu_nine_rows_in_ten_are_steady_and_none_varies_much() {
        let judge = |last: [f64; 2]| judge_one_cpu(&rows(&[&[0.009; 8][..], &last].concat()));
        assert!((coefficient(&rows(&[0.02])[0].own).unwrap() - 0.02).abs() < 1e-12);
        assert_eq!(judge([0.009, 0.029]), Verdict::Holds);
        assert_eq!(judge([0.011, 0.029]), Verdict::DoesNotHold);
        assert_eq!(judge([0.009, 0.031]), Verdict::DoesNotHold);
        assert_eq!(judge_one_cpu(&[]), Verdict::DoesNotHold);
    }

    /// A run of rows with these grades.
    fn graded(good: usize, bad: usize) -> Run {
        let mut all = run("cpu.loop", 1.0, None, Grade::A);
        let row = all.points.remove(0);
        let grades = std::iter::repeat_n(Grade::B, good).chain(std::iter::repeat_n(Grade::C, bad));
        all.points = grades.map(|grade| PointRow { grade, ..row.clone() }).collect();
        all
    }

    #[test]
    fn grades_a_and_b_are_counted_in_each_run() {
        let grades = [Grade::A, Grade::B, Grade::A, Grade::B, Grade::C];
        assert_eq!(good_share(grades.iter()), Some(0.8));
        assert_eq!(good_share([].iter()), None);
        let runs = [graded(75, 15), graded(90, 0)];
        assert_eq!(judge_grades(&runs), Verdict::Holds);
        let runs = [graded(74, 16), graded(90, 0)];
        assert_eq!(judge_grades(&runs), Verdict::DoesNotHold);
    }

    /// A run of rows whose intervals are so wide.
    fn intervals(widths: &[Option<f64>]) -> Run {
        let mut all = graded(widths.len(), 0);
        for (row, width) in all.points.iter_mut().zip(widths) {
            row.metrics[0].ci95 = width.map(|width| (1.0, 1.0 + width));
        }
        all
    }

    #[test]
    fn half_of_the_intervals_are_narrow_and_three_quarters_are_not_wide() {
        let judge = |widths: [Option<f64>; 4]| judge_widths(&[intervals(&widths)]);
        let wide = [Some(0.03), Some(0.04), Some(0.1), None];
        assert_eq!(judge([Some(0.03), Some(0.03), Some(0.09), None]), Verdict::Holds);
        assert_eq!(judge([Some(0.03), Some(0.05), Some(0.09), None]), Verdict::DoesNotHold);
        assert_eq!(judge([Some(0.03), Some(0.03), Some(0.11), None]), Verdict::DoesNotHold);
        assert_eq!(judge_widths(&[]), Verdict::DoesNotHold);
        assert_eq!(rank(&wide.map(|one| one.unwrap_or(f64::NAN)), 0.75), 0.1);
        assert_eq!(rank(&[f64::NAN, 1.0], 1.0), f64::INFINITY);
        assert_eq!(rank(&[], 0.5), f64::INFINITY);
    }

    #[test]
    fn runs_that_cannot_be_compared_show_no_change() {
        let runs = [graded(1, 0), graded(1, 0)];
        assert_eq!(judge_visible(&runs), Verdict::DoesNotHold);
    }
}
