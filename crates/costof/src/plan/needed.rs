//! The points of other probes that predictions need, which are measured together with the requested ones.
//!
//! A probe declares in `AFTER` which probes its predictions read. Which of their points follows from the prediction
//! alone, which chooses them by the point and by the machine's facts: so it is tried with assumed numbers. To declare
//! the points too would be to write each of these choices twice.

use super::{Paths, ProbePlan, Target, cost, own_points};
use crate::error::Result;
use crate::record::Table;
use costof_measure::probe::{self, Probe};
use costof_measure::schedule::Precision;
use costof_model::plan::add_new;
use costof_model::prediction::Used;
use costof_model::{
    Block, Earlier, Estimate, Facts, Grade, MeasuredRows, MetricInfo, Placement, Point, PointRow,
    State,
};
use std::collections::HashSet;
use std::time::Duration;

/// If measuring the points takes longer, those that an earlier run knows are not measured again.
const SHORT: Duration = Duration::from_secs(5);

/// At most this many of a probe's requested points are looked through for each point to predict.
const MAX_CANDIDATES: usize = 500;

/// The points that the predictions of these plans use and that the plans do not have, as far as they are in
/// the probes' own plans.
// METHOD 19
pub(super) fn points(plans: &[ProbePlan], table: Table, paths: &Paths<'_>) -> Result<Vec<Point>> {
    let mut needed: Vec<Point> = Vec::new();
    for plan in plans {
        let before = plan.probe.info.after.iter().filter(|id| **id != plan.probe.info.id);
        let mut rows = Vec::new();
        for probe in before.filter_map(|id| probe::find(table, id)) {
            let points = candidates(probe, plans, &over_links_of(plan, paths))?;
            rows.extend(points.iter().map(|point| assumed(probe, point)));
        }
        let used = Used::default();
        for point in &plan.points {
            (plan.probe.predict)(point, paths.target.facts, &MeasuredRows::noting(&rows, &used));
        }
        add_new(&mut needed, used.points());
    }
    let planned: HashSet<&Point> = plans.iter().flat_map(|plan| &plan.points).collect();
    needed.retain(|point| !planned.contains(point));
    Ok(needed)
}

/// Removes from these points those that earlier runs know by the same method, if measuring all of them would
/// take long.
pub(super) fn take_known(
    needed: &mut Vec<Point>,
    table: Table,
    precision: Precision,
    target: &Target<'_>,
) -> Vec<Earlier> {
    let once = needed.iter().map(|point| {
        let block = Block { points: vec![point.clone()], rounds: 1, ..Block::default() };
        cost::launch_time(table, &block, precision)
    });
    if once.sum::<Duration>() * precision.launches() <= SHORT {
        return Vec::new();
    }
    let mut earlier = (target.earlier)(needed);
    let is_same = |row: &PointRow| {
        let probe = probe::find(table, &row.point.probe);
        probe.is_some_and(|probe| probe.info.method == row.method)
    };
    earlier.retain(|known| is_same(&known.row));
    needed.retain(|point| !earlier.iter().any(|known| known.row.point == *point));
    earlier
}

/// Adds these points to the plans.
pub(super) fn add(plans: &mut Vec<ProbePlan>, needed: Vec<Point>, table: Table, facts: &Facts) {
    for point in needed {
        let probe = probe::find(table, &point.probe).expect("a candidate is of the table");
        let is_its = |plan: &&mut ProbePlan| plan.probe.info.id == probe.info.id;
        match plans.iter_mut().find(is_its) {
            Some(plan) => plan.points.push(point),
            None => plans.push(ProbePlan {
                probe,
                headlines: (probe.headlines)(facts),
                asked: HashSet::new(),
                points: vec![point],
            }),
        }
    }
}

/// The links of a plan's points; if these have none, the links of the request.
fn over_links_of<'a>(plan: &ProbePlan, paths: &Paths<'a>) -> Paths<'a> {
    let mut links = Vec::new();
    let points = plan.points.iter().map(|point| point.link.clone());
    add_new(&mut links, points.filter(|link| link != "none"));
    if links.is_empty() {
        links.clone_from(&paths.links);
    }
    Paths { links, asked: true, target: paths.target }
}

/// The points of a probe that a prediction may use: first the points that are measured anyway, in the order
/// of the run.
fn candidates(probe: &'static Probe, plans: &[ProbePlan], paths: &Paths<'_>) -> Result<Vec<Point>> {
    let planned = plans.iter().filter(|plan| plan.probe.info.id == probe.info.id);
    let planned = planned.flat_map(|plan| plan.points.iter().cloned());
    let mut points: Vec<Point> = planned.take(MAX_CANDIDATES).collect();
    let headlines = (probe.headlines)(paths.target.facts);
    add_new(&mut points, own_points(probe, &headlines, paths)?);
    Ok(points)
}

/// A row of a point before it is measured, with an assumed number for each metric.
pub(super) fn assumed(probe: &Probe, point: &Point) -> PointRow {
    const NUMBER: f64 = 500.0;
    let estimate = |metric: &MetricInfo| Estimate {
        name: metric.name.clone(),
        unit: metric.unit,
        better: metric.better,
        median: NUMBER,
        ci95: Some((NUMBER, NUMBER)),
        range: None,
        interval: None,
        mean: NUMBER,
        sd: None,
        min: NUMBER,
        percentiles: Vec::new(),
        n: 1,
        undisturbed: None,
        core: None,
        modes: Vec::new(),
    };
    PointRow {
        point: point.clone(),
        method: probe.info.method,
        primary: probe.info.primary().name.clone(),
        headline: false,
        label: None,
        launches: 1,
        state: State::Ok,
        metrics: probe.info.metrics.iter().map(estimate).collect(),
        prediction: None,
        grade: Grade::A,
        warnings: Vec::new(),
        placement: Placement::default(),
    }
}
