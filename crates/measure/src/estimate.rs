//! Turns the launches of a block into the results of its points. Pure, so that a point can be
//! derived again from its launches at any time.

mod metric;

pub(crate) use metric::{core_of, half_bucket, launch_cycles, launch_medians, selection_of};

use crate::grade::link::{link_causes, without_relay};
use crate::grade::{self, Kept, causes, core_never_alone, core_shared, other_distances};
use crate::launches::{Counting, launches_with};
use crate::schedule::MIN_LAUNCHES;
use costof_model::noise::{DISAGREE, FEW_LAUNCHES, Placement};
use costof_model::{
    Better, ClockInfo, Data, Estimate, Failure, Grade, LaunchPoint, LaunchRow, Measured,
    MetricInfo, Noise, Point, PointRow, Prediction, ProbeInfo, Run, Selection, State, Text, Unit,
    Warning, counted, span,
};
use costof_stats::{Distribution, Interval, median, refuted_doubling};
use metric::{
    Shown, core_share, distribution, estimate, is_enough, measured, selection, shown_of, summary,
};
use std::collections::BTreeMap;

/// Estimates, in an unfinished run, the points that have no row yet but enough launches for an
/// interval.
pub fn so_far(run: &Run) -> Vec<PointRow> {
    if run.end.is_some() {
        return Vec::new();
    }
    let has_row = |point: &Point| run.points.iter().any(|row| row.point == *point);
    let mut rows = Vec::new();
    for (block, planned) in run.run.plan.blocks.iter().enumerate() {
        for (position, point) in planned.points.iter().enumerate() {
            if !has_row(point) {
                rows.extend(planned_point(run, block, position).ok());
            }
        }
    }
    rows.retain(|row| row.launches >= MIN_LAUNCHES);
    rows
}

/// Adds these estimates to an unfinished run, in memory only.
pub fn add_so_far(run: &mut Run) {
    let rows = so_far(run);
    run.points.extend(rows);
}

/// Estimates the point at this position of this block of the run's plan, from its launches.
///
/// # Panics
/// If the plan has no such block or position.
pub fn planned_point(run: &Run, block: usize, position: usize) -> Result<PointRow, Failure> {
    let planned = &run.run.plan.blocks[block];
    let place = &planned.points[position];
    let (Some(info), Some(attempt)) = (run.probe(&place.probe), run.attempts.last()) else {
        return Err(Failure::error("the run does not describe its probe"));
    };
    let launches: Vec<&LaunchRow> =
        run.launches.iter().filter(|launch| launch.block == block).collect();
    let (label, prediction) = (planned.label(position), run.prediction(place));
    point(info, place, label, &launches, prediction, &attempt.clock)
}

/// Estimates one point of a block from its launches.
///
/// # Errors
/// If no launch has a number for it, or if twice the work did not take twice the time. The point is
/// below resolution if more than half of its launches are; otherwise those launches are left out.
// METHOD 8
pub fn point(
    info: &ProbeInfo,
    point: &Point,
    label: Option<&str>,
    launches: &[&LaunchRow],
    prediction: Option<&Prediction>,
    clock: &ClockInfo,
) -> Result<PointRow, Failure> {
    let mut given: Vec<(&LaunchRow, &LaunchPoint)> = launches
        .iter()
        .filter_map(|launch| {
            let given = launch.points.iter().find(|given| given.point == *point)?;
            (given.state != State::Failed).then_some((*launch, given))
        })
        .collect();
    if given.is_empty() {
        return Err(Failure::error("no launch gave it a number"));
    }
    let is_below = |point: &LaunchPoint| point.state == State::BelowResolution;
    let below = 2 * given.iter().filter(|(_, point)| is_below(point)).count() > given.len();
    if !below {
        given.retain(|(_, point)| !is_below(point));
    }
    let Counting { given, never_alone, other_end_shared, elsewhere } = Counting::new(given);
    let points: Vec<&LaunchPoint> = given.iter().map(|(_, point)| *point).collect();
    let primary = info.primary();
    let noise: Vec<Noise> = given.iter().map(|(row, _)| without_relay(row)).collect();
    let launches: Vec<&Measured> = measured(&points, &primary.name).collect();
    let shown = metric::shown(&launches);
    let core = core_share(&launches, shown.selection);
    // Preemption is not recorded for single operations.
    let is_batched = launches.iter().all(|launch| !matches!(launch.data, Data::Histogram(_)));
    let is_alone = core.is_some_and(|core| core.selection == Selection::Alone) && is_batched;
    let counts_preemptions = (noise.iter()).all(|noise| !noise.unknown.contains_key("preemptions"));
    let is_unmoved = is_batched && counts_preemptions && is_unmoved(primary, &points, clock);
    let kept = Kept { is_alone, is_unmoved, is_at_one_clock: shown.is_at_one_clock() };
    let mut warnings = causes(&noise.iter().collect::<Vec<_>>(), kept);
    warnings.extend(core.and_then(|core| core_shared(&core)));
    warnings.extend(shown.of_few.map(|_| grade::few_alone(shown.launches.len(), given.len())));
    let of_other_ends = given.len() + elsewhere;
    warnings.extend(core_never_alone(never_alone, of_other_ends + other_end_shared.0));
    warnings.extend(grade::other_end_shared(other_end_shared, of_other_ends));
    warnings.extend(other_distances(elsewhere, given.len()));
    let rows: Vec<&LaunchRow> = given.iter().map(|(row, _)| *row).collect();
    warnings.extend(link_causes(&rows));
    if !below {
        let is_disturbed = worst(&warnings) >= Grade::C;
        twice_the_work_takes_twice_the_time(&points, is_disturbed)?;
    }
    let mut metrics: Vec<Estimate> = Vec::new();
    if !below {
        metrics.extend(info.metrics.iter().filter_map(|metric| estimate(metric, &points, clock)));
        metrics.extend(counters(info, &points, clock));
        metrics.extend(estimated_core_cycles(primary, &given));
        add_ranges(&mut metrics, &points);
        let Some(found) = metrics.iter().find(|metric| metric.name == primary.name) else {
            costof_model::fail!("no launch gave its primary metric, {}", primary.name);
        };
        warnings.extend(without_interval(found, given.len()));
    }
    warnings.extend(allocated(&points));
    Ok(PointRow {
        point: point.clone(),
        method: info.method,
        primary: primary.name.clone(),
        headline: label.is_some(),
        label: label.map(str::to_owned),
        launches: given.len() as u32,
        state: if below { State::BelowResolution } else { State::Ok },
        metrics,
        prediction: prediction.cloned(),
        grade: worst(&warnings),
        warnings,
        placement: all_cpus(&rows),
    })
}

/// The CPUs that each role used in any of the launches, those of the first one first.
fn all_cpus(launches: &[&LaunchRow]) -> Placement {
    let mut all: BTreeMap<Text, Vec<usize>> = BTreeMap::new();
    for (role, cpus) in launches.iter().flat_map(|launch| launch.placement.0.iter()) {
        let known = all.entry(role.clone()).or_default();
        for cpu in cpus {
            if !known.contains(cpu) {
                known.push(*cpu);
            }
        }
    }
    Placement(all.into_iter().collect())
}

/// The grade that these warnings leave.
fn worst(warnings: &[Warning]) -> Grade {
    let grades = warnings.iter().map(|warning| warning.grade);
    grades.max().unwrap_or(Grade::A)
}

/// Whether one thread did all the work of a metric's batches, most launches have others than those that were
/// preempted, and these do not move its median out of its interval.
fn is_unmoved(metric: &MetricInfo, points: &[&LaunchPoint], clock: &ClockInfo) -> bool {
    let launches: Vec<&Measured> = measured(points, &metric.name).collect();
    let by_one_thread = launches.iter().all(|launch| launch.by_one_thread);
    // A launch whose batches were all preempted does not show what they cost otherwise.
    let shows = |launch: &&&Measured| launch.disturbed.len() < launch.data.costs().len();
    let is_shown = 2 * launches.iter().filter(shows).count() > launches.len();
    let is_inside = |estimate: Estimate| {
        let (low, high) = estimate.usable_interval()?;
        let undisturbed = estimate.undisturbed.unwrap_or(estimate.median);
        Some((low..=high).contains(&undisturbed))
    };
    by_one_thread && is_shown && estimate(metric, points, clock).and_then(is_inside) == Some(true)
}

/// Adds between which values the launches of each estimate without a usable interval lie, which is
/// all that is known of it.
fn add_ranges(metrics: &mut [Estimate], points: &[&LaunchPoint]) {
    for metric in metrics.iter_mut().filter(|metric| !metric.is_usable()) {
        let Shown { launches, selection, .. } = shown_of(points, &metric.name);
        let medians = metric::medians(&launches, selection);
        let range = medians.iter().map(|median| (*median, *median));
        metric.range = range.reduce(|all, own| (all.0.min(own.0), all.1.max(own.1)));
    }
}

/// Warns that a metric has no usable interval, so that there is no number for a user.
fn without_interval(estimate: &Estimate, launches: usize) -> Option<Warning> {
    estimate.why_unusable()?;
    let ends = estimate.range.unwrap_or((estimate.median, estimate.median));
    let [low, high] = [ends.0, ends.1].map(|end| estimate.unit.display(end));
    let range = span(&low, " to ", &high);
    Some(match estimate.ci95 {
        Some(_) => grade::warning(
            DISAGREE,
            Grade::D,
            format!("its launches disagree: their medians reach from {range}"),
            "measure more often (--launches) or longer (--full), or look in the run file for what \
             differs between them",
        ),
        None => grade::warning(
            FEW_LAUNCHES,
            Grade::D,
            format!(
                "only {} gave a number ({range}), too few for an interval",
                counted(launches, "launch")
            ),
            "measure it again, with more time; if launches were lost, the notes say why",
        ),
    })
}

/// Checks, for every sampled metric, the batches of n and of 2n operations by launch. If a recorded
/// cause leaves grade C or D, whichever cause it is, the machine may have disturbed the longer
/// batches more: other processes interrupt a batch of twice the length more than twice as often.
/// More than twice the time then proves nothing about the work.
// METHOD 4
fn twice_the_work_takes_twice_the_time(
    points: &[&LaunchPoint],
    is_disturbed: bool,
) -> Result<(), Failure> {
    for name in names(points) {
        let launches: Vec<&Measured> = measured(points, name).collect();
        let selection = selection(&launches);
        let ratios: Vec<f64> = launches
            .iter()
            .filter(|launch| is_enough(launch, selection))
            .filter_map(|launch| doubling_ratio(launch, selection))
            .collect();
        if let Some((ratio, Interval { low, high, .. })) = refuted_doubling(&ratios)
            && !(is_disturbed && ratio > 2.0)
        {
            let what = match () {
                () if high < HARDLY_LONGER => {
                    "most of its time does not depend on how often it is done"
                }
                () if high < 2.0 => "one costs less in a longer batch",
                () => "one costs more in a longer batch",
            };
            let range = span(&format!("{low:.2}"), " to ", &format!("{high:.2}"));
            costof_model::fail!(
                "twice the work took {ratio:.2} times as long for {name} (95 % interval {range}): {what}, so there is no cost of one operation"
            );
        }
    }
    Ok(())
}

/// Below this ratio, most of the time is not that of the work.
const HARDLY_LONGER: f64 = 1.5;

/// The ratio of the median times of batches of 2n and of n operations.
fn doubling_ratio(launch: &Measured, selection: Selection) -> Option<f64> {
    let Data::Samples(samples) = &launch.data else {
        return None;
    };
    let samples: Vec<(u64, f64)> = launch.positions(selection).map(|at| samples[at]).collect();
    let mut counts: BTreeMap<u64, usize> = BTreeMap::new();
    for (operations, _) in &samples {
        *counts.entry(*operations).or_default() += 1;
    }
    // A launch that shortened its batches too much lengthened them again.
    let doubled = counts.iter().filter(|(n, _)| counts.contains_key(&(2 * **n)));
    let (once, _) = doubled.max_by_key(|(_, count)| **count)?;
    let time = |wanted: u64| {
        let wanted = samples.iter().filter(|(operations, _)| *operations == wanted);
        median(&wanted.map(|(_, ns)| *ns).collect::<Vec<f64>>())
    };
    Some(time(2 * once)? / time(*once)?)
}

/// The names of the launches' metrics, each once.
fn names<'a>(points: &[&'a LaunchPoint]) -> Vec<&'a Text> {
    let mut names: Vec<&Text> = Vec::new();
    for metric in points.iter().flat_map(|point| &point.metrics) {
        if !names.contains(&&metric.name) {
            names.push(&metric.name);
        }
    }
    names
}

/// The launch medians from which a point's primary metric would be estimated, for
/// [`needs_more`](crate::schedule::needs_more).
pub fn medians(info: &ProbeInfo, point: &Point, launches: &[&LaunchRow]) -> Vec<f64> {
    let counting = Counting::new(launches_with(launches.iter().copied(), point));
    let points: Vec<&LaunchPoint> = counting.given.into_iter().map(|(_, point)| point).collect();
    let primary = &info.primary().name;
    launch_medians(&points, primary, selection_of(&points, primary))
}

/// How many more launches with enough batches alone a point's primary metric needs, so that its estimate uses these; 0
/// if it does, or if no gauge was read.
pub fn lacking_alone(info: &ProbeInfo, point: &Point, launches: &[&LaunchRow]) -> u32 {
    let counting = Counting::new(launches_with(launches.iter().copied(), point));
    let points: Vec<&LaunchPoint> = counting.given.into_iter().map(|(_, point)| point).collect();
    // A launch with too few samples in all never has enough of them alone.
    let can_suffice =
        |launch: &&Measured| launch.gauged.is_some() && launch.suffices(Selection::All);
    let gauged: Vec<&Measured> =
        measured(&points, &info.primary().name).filter(can_suffice).collect();
    if gauged.is_empty() || selection(&gauged) == Selection::Alone {
        return 0;
    }
    let alone = gauged.iter().filter(|launch| launch.suffices(Selection::Alone));
    MIN_LAUNCHES.saturating_sub(alone.count() as u32)
}

/// What was measured without a declaration in the probe: hardware counters.
fn counters(info: &ProbeInfo, points: &[&LaunchPoint], clock: &ClockInfo) -> Vec<Estimate> {
    let is_declared = |name: &Text| info.metrics.iter().any(|metric| metric.name == *name);
    let counters = names(points).into_iter().filter(|name| !is_declared(name));
    counters
        .filter_map(|name| {
            let metric = MetricInfo {
                name: name.clone(),
                unit: match &**name {
                    "cycles" | "cycles_user" => Unit::Cycles,
                    _ => Unit::One,
                },
                better: Better::Neither,
                about: Text::Borrowed("a counter, per operation"),
            };
            estimate(&metric, points, clock)
        })
        .collect()
}

/// A cost in cycles of the core clock, as read around its batches, or else in the same launch.
// METHOD 18
fn estimated_core_cycles(
    primary: &MetricInfo,
    given: &[(&LaunchRow, &LaunchPoint)],
) -> Option<Estimate> {
    // A latency may be the time of a CPU that is idle.
    if primary.name != "cost" || primary.unit != Unit::Nanoseconds {
        return None;
    }
    let points: Vec<&LaunchPoint> = given.iter().map(|(_, point)| *point).collect();
    let Shown { launches, selection, .. } = shown_of(&points, &primary.name);
    let metric = MetricInfo {
        name: Text::Borrowed("estimated_core_cycles"),
        unit: Unit::Cycles,
        better: primary.better,
        about: Text::Borrowed("the primary metric as cycles of the core clock"),
    };
    let of_launch = |cycles: f64| Distribution::new([(cycles, 1)]);
    if let Some((cycles, _)) = metric::cycles(&launches, selection) {
        return summary(&metric, &cycles.into_iter().map(of_launch).collect::<Vec<_>>());
    }
    let by_launch: Vec<Distribution> = given
        .iter()
        .filter_map(|(LaunchRow { noise, .. }, point)| {
            let is_shown =
                |measured: &&Measured| launches.iter().any(|shown| std::ptr::eq(*shown, *measured));
            let measured = point.metrics.iter().find(is_shown)?;
            let hz = f64::midpoint(noise.core_clock_before_hz?, noise.core_clock_after_hz?);
            Some(of_launch(distribution(measured, selection)?.median()? * hz / 1e9))
        })
        .collect();
    summary(&metric, &by_launch)
}

// METHOD 21
fn allocated(points: &[&LaunchPoint]) -> Option<Warning> {
    let allocations: u64 = points.iter().map(|point| point.allocations).sum();
    (allocations > 0).then(|| {
        let what = format!("{allocations} allocations happened while it was timed");
        grade::warning("allocations", Grade::C, what, "report this fault of the probe")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use costof_model::metric::{BatchClock, CoreState, Gauged};
    use costof_model::testing::{clock_info, estimate as known, launch, probe_info, row, run};

    /// The row of a point whose launches measured these times.
    fn of(launches: &[f64]) -> PointRow {
        let mut run = run(&[]);
        let row = row("p", Default::default(), 1.0);
        for ns in launches {
            self::launch(&mut run, &[(&row, &[("cost", *ns)])]);
        }
        let rows: Vec<&LaunchRow> = run.launches.iter().collect();
        point(&probe_info("p"), &row.point, None, &rows, None, &clock_info()).unwrap()
    }

    #[test]
    fn a_value_of_one_or_two_launches_is_no_number() {
        for (launches, shown) in [
            (&[8.5][..], "too few launches: 8.50 ns"),
            (&[10.0, 780.0], "too few launches: 10.0–780 ns"),
        ] {
            let row = of(launches);
            assert_eq!(row.primary().unwrap().display(), shown);
            assert!(!row.is_usable());
            let doubt = row.worst_doubt().unwrap();
            assert_eq!((&*doubt.kind, row.grade), (FEW_LAUNCHES, Grade::D));
        }
        let row = of(&[10.0, 10.1, 10.2]);
        assert!(row.is_usable());
        assert_eq!((row.primary().unwrap().range, row.grade), (None, Grade::A));
    }

    #[test]
    fn launches_whose_batches_were_all_preempted_do_not_show_what_they_cost_otherwise() {
        let grade = |disturbed: &[u32]| {
            let mut run = run(&[]);
            let row = row("p", Default::default(), 1.0);
            for ns in [10.0, 10.1, 10.2] {
                self::launch(&mut run, &[(&row, &[("cost", ns)])]);
                let launch = run.launches.last_mut().unwrap();
                (launch.noise.duration_ns, launch.noise.others_ns) = (1e9, Some(0.8e9));
                let measured = &mut launch.points[0].metrics[0];
                measured.data = Data::Samples(vec![(1, ns); 6]);
                measured.by_one_thread = true;
                measured.disturbed = disturbed.to_vec();
            }
            let rows: Vec<&LaunchRow> = run.launches.iter().collect();
            point(&probe_info("p"), &row.point, None, &rows, None, &clock_info()).unwrap().grade
        };
        assert_eq!([&[][..], &[0], &[0, 1, 2, 3, 4, 5]].map(grade), [Grade::C, Grade::C, Grade::D]);
    }

    #[test]
    fn launches_at_different_clocks_count_the_same_cycles() {
        let mut run = run(&[]);
        let row = row("p", Default::default(), 1.0);
        for (cycles, hz) in [(300.0, 3e9), (303.0, 2.7e9), (297.0, 3.3e9)] {
            self::launch(&mut run, &[(&row, &[("cost", cycles / hz * 1e9)])]);
            let measured = &mut run.launches.last_mut().unwrap().points[0].metrics[0];
            measured.core_clock = Some(BatchClock { all_hz: hz, alone_hz: None });
        }
        let estimate = |run: &Run| {
            let rows: Vec<&LaunchRow> = run.launches.iter().collect();
            point(&probe_info("p"), &row.point, None, &rows, None, &clock_info()).unwrap()
        };
        let found = estimate(&run);
        let width = |row: &PointRow| {
            let (low, high) = row.primary().unwrap().ci95.unwrap();
            (high - low) / row.primary().unwrap().median
        };
        // At the median clock, 3 GHz.
        assert!((found.primary().unwrap().median - 100.0).abs() < 1e-9);
        assert!(width(&found) < 0.06, "{found:?}");
        assert!((found.median("estimated_core_cycles").unwrap() - 300.0).abs() < 1e-9);
        // A launch that does not know its clock may be at any.
        run.launches[1].points[0].metrics[0].core_clock = None;
        let found = estimate(&run);
        assert!(width(&found) > 0.3 && found.median("estimated_core_cycles").is_none());
    }

    #[test]
    fn a_row_has_the_cpus_of_all_its_launches() {
        let mut run = run(&[]);
        let row = row("p", Default::default(), 1.0);
        for cpus in [vec![3, 1], vec![0, 1], vec![3, 1]] {
            launch(&mut run, &[(&row, &[("cost", 1.0)])]);
            run.launches.last_mut().unwrap().placement.0.insert("only".into(), cpus);
        }
        let rows: Vec<&LaunchRow> = run.launches.iter().collect();
        let row = point(&probe_info("p"), &row.point, None, &rows, None, &clock_info()).unwrap();
        assert_eq!(row.placement.0.get("only"), Some(&vec![3, 1, 0]));
    }

    #[test]
    fn one_launch_alone_is_shown_as_wide_as_the_others_scatter() {
        let with = |launches: &[(CoreState, f64)]| {
            let mut run = run(&[]);
            let row = row("p", Default::default(), 1.0);
            for (state, ns) in launches {
                self::launch(&mut run, &[(&row, &[("cost", *ns)])]);
                let measured = &mut run.launches.last_mut().unwrap().points[0].metrics[0];
                measured.data = Data::Samples(vec![(1, *ns); 6]);
                measured.gauged = Some(Gauged::Samples(vec![*state; 6]));
            }
            let rows: Vec<&LaunchRow> = run.launches.iter().collect();
            let lacking = lacking_alone(&probe_info("p"), &row.point, &rows);
            let row =
                point(&probe_info("p"), &row.point, None, &rows, None, &clock_info()).unwrap();
            let number = row.primary().unwrap().clone();
            (number.median, number.core.unwrap().selection, number.ci95, row.grade, lacking)
        };
        use CoreState::{Alone, Shared};
        let shared = [(Shared, 200.0), (Shared, 206.0), (Shared, 203.0), (Shared, 199.0)];
        let one = [&[(Alone, 100.0)], &shared[..]].concat();
        let (median, selection, interval, grade, lacking) = with(&one);
        assert_eq!((median, selection, lacking), (100.0, Selection::Alone, 2));
        let (low, high) = interval.unwrap();
        // Half of it: t of 3 degrees of freedom times 1.6 %.
        assert!(low < 96.0 && low > 94.0 && high > 104.0 && high < 106.0, "{low} to {high}");
        assert!(grade >= Grade::B);
        // Where the others say nothing, all are shown.
        for others in [&[(Shared, 200.0)][..], &[(Shared, 20.0), (Shared, 2000.0)]] {
            let (_, selection, ..) = with(&[&[(Alone, 100.0)], others].concat());
            assert_eq!(selection, Selection::All);
        }
    }

    #[test]
    fn launches_of_too_few_samples_lack_none_alone() {
        let lacking = |samples: usize| {
            let mut run = run(&[]);
            let row = row("p", Default::default(), 1.0);
            for _ in 0..3 {
                self::launch(&mut run, &[(&row, &[("cost", 1.0)])]);
                let measured = &mut run.launches.last_mut().unwrap().points[0].metrics[0];
                measured.data = Data::Samples(vec![(1, 1.0); samples]);
                measured.gauged = Some(Gauged::Samples(vec![CoreState::Shared; samples]));
            }
            let rows: Vec<&LaunchRow> = run.launches.iter().collect();
            lacking_alone(&probe_info("p"), &row.point, &rows)
        };
        assert_eq!([4, 6].map(lacking), [0, 3]);
    }

    #[test]
    fn launches_that_disagree_show_the_range_of_their_medians() {
        let row = of(&[16.0, 45.0, 127.0]);
        assert_eq!(row.primary().unwrap().display(), "too noisy: 16.0–127 ns");
        let doubt = row.worst_doubt().unwrap();
        assert_eq!(&*doubt.kind, DISAGREE);
        assert!(doubt.what.ends_with("from 16.0 ns to 127 ns"), "{}", doubt.what);
        assert_eq!(without_interval(&known("cost", 1.0), 3), None);
    }
}
