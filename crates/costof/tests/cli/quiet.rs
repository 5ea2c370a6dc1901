//! Runs as a quiet machine gives them. On a busy one a row may honestly have no number, a bad grade or no verdict, so
//! what a test asserts of answers and formats is asserted of a run that was made quiet.

use crate::common::{Ended, Place};
use crate::released::{releases, unpacked};
use costof_measure::estimate::planned_point;
use costof_model::metric::{CoreState, Data, Gauged, Measured};
use costof_model::noise::{CoreGauge, Gaps, Noise};
use costof_model::point::Point;
use costof_model::rows::{LaunchPoint, State};
use costof_model::run_file::{self, Run};
use std::collections::BTreeMap;
use std::fs;

/// By this share each launch takes longer than the one before it, so that intervals have a width.
const STEP: f64 = 0.001;

impl Place {
    /// `costof run` of these words into this file, in which every planned point then has a number.
    #[track_caller]
    pub(crate) fn quiet_run(&self, words: &str, file: &str) -> Run {
        self.run(&format!("run {words} --out {file}")).expect_measured();
        let run = self.make_quiet(file);
        let planned = run.run.plan.points().count();
        assert_eq!(run.points.len(), planned, "{:?}", run.failures);
        run
    }

    /// Makes the run in this file quiet.
    #[track_caller]
    pub(crate) fn make_quiet(&self, file: &str) -> Run {
        let run = quiet(self.read(file));
        self.write(file, run.clone());
        run
    }

    /// Writes a run to this file.
    pub(crate) fn write(&self, file: &str, run: Run) {
        let lines = run.into_rows().flat_map(|row| run_file::line(&row));
        fs::write(self.path(file), lines.collect::<Vec<u8>>()).unwrap();
    }
}

impl Ended {
    /// A command that measures and succeeds, unless the machine was so busy that nothing has a number.
    #[track_caller]
    pub(crate) fn expect_measured(self) -> Ended {
        let is_busy = self.code == Some(3) && self.err.contains("nothing could be measured");
        assert!(is_busy || self.code == Some(0), "{self:?}");
        self
    }
}

/// The run, as if nothing had disturbed its launches: each gives the result of the first one that has one, and the
/// points are estimated anew.
pub(crate) fn quiet(mut run: Run) -> Run {
    let mut first: BTreeMap<Point, LaunchPoint> = BTreeMap::new();
    for launch in &mut run.launches {
        launch.noise = undisturbed(&launch.noise);
        for point in &mut launch.points {
            if point.metrics.is_empty() && !first.contains_key(&point.point) {
                continue;
            }
            let first = first.entry(point.point.clone()).or_insert(point.clone());
            *point = repeated(first, launch.launch);
        }
    }
    run.points.clear();
    for (block, planned) in run.run.plan.blocks.iter().enumerate() {
        let rows: Vec<_> = (0..planned.points.len())
            .filter_map(|at| planned_point(&run, block, at).ok())
            .collect();
        run.points.extend(rows);
    }
    let has_number = |point: &Point| run.points.iter().any(|row| row.point == *point);
    run.failures.retain(|row| row.launch.is_some() || !has_number(&row.point));
    if let Some(end) = &mut run.end {
        end.points = run.points.len() as u64;
        end.failures = run.failures.len() as u64;
    }
    run
}

/// The result of a launch of this number that measured the same as the first one.
fn repeated(first: &LaunchPoint, launch: u32) -> LaunchPoint {
    let longer = 1.0 + STEP * f64::from(launch);
    let mut point = LaunchPoint { state: State::Ok, allocations: 0, ..first.clone() };
    for metric in &mut point.metrics {
        let mut costs = metric.data.costs();
        costs.sort_by(f64::total_cmp);
        let median = costs.get(costs.len() / 2).copied();
        if let (Data::Samples(samples), Some(cost)) = (&mut metric.data, median) {
            for (operations, ns) in samples {
                *ns = cost * longer * *operations as f64;
            }
        }
        be_alone(metric);
    }
    point
}

/// Has all samples of a metric measured on a core that was alone, whose clock stayed.
fn be_alone(metric: &mut Measured) {
    metric.disturbed.clear();
    metric.core_clock = None;
    match (&mut metric.gauged, &metric.data) {
        (Some(Gauged::Samples(states)), _) => states.fill(CoreState::Alone),
        (Some(Gauged::Histogram(parts)), Data::Histogram(buckets)) => {
            parts.alone = buckets.clone();
            parts.shared.clear();
        }
        _ => {}
    }
}

/// What is recorded of a launch that nothing disturbed.
fn undisturbed(noise: &Noise) -> Noise {
    let none = |ns: Option<f64>| ns.map(|_| 0.0);
    let alone = |core: Option<CoreGauge>| {
        core.map(|core| CoreGauge {
            floor: 0.25,
            alone_ns: core.all_ns().unwrap_or(1.0),
            ..CoreGauge::default()
        })
    };
    Noise {
        steal_ns: none(noise.steal_ns),
        others_ns: none(noise.others_ns),
        others_elsewhere: none(noise.others_elsewhere),
        run_queue_wait_ns: none(noise.run_queue_wait_ns),
        throttled_ns: none(noise.throttled_ns),
        preemptions: 0,
        migrations: noise.migrations.map(|_| 0),
        gaps: noise.gaps.map(|gaps| Gaps { watched_ns: gaps.watched_ns, ..Gaps::default() }),
        // A busy machine may show none.
        core_clock_before_hz: Some(3e9),
        core_clock_after_hz: Some(3e9),
        distance_ns: noise.distance_ns.map(|_| (100.0, 100.0)),
        core: alone(noise.core),
        other_core: alone(noise.other_core),
        unknown: BTreeMap::new(),
        ..noise.clone()
    }
}

#[test]
fn a_run_that_was_made_quiet_has_a_sound_number_for_every_point() {
    let release = releases().into_iter().max().unwrap();
    let (place, runs) = unpacked(&release);
    let runs = runs.iter().map(|name| place.read(&format!("{name}.jsonl")));
    // An export has no launches.
    for mut run in runs.filter(|run| !run.launches.is_empty()) {
        for launch in &mut run.launches {
            launch.noise.steal_ns = Some(launch.noise.duration_ns);
            let longer = 100_f64.powi(launch.launch as i32);
            for metric in launch.points.iter_mut().flat_map(|point| &mut point.metrics) {
                if let Data::Samples(samples) = &mut metric.data {
                    samples.iter_mut().for_each(|(_, ns)| *ns *= longer);
                }
            }
        }
        let points = run.points.len();
        let disturbed = planned_point(&run, 0, 0);
        assert!(disturbed.is_ok_and(|row| !row.is_sound()));
        let quiet = quiet(run);
        assert!(quiet.points.len() >= points);
        for row in &quiet.points {
            assert!(row.is_sound(), "{:?} {:?}", row.point, row.warnings);
        }
    }
}
