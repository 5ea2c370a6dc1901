//! The points of a run in the order in which they are shown. A page refers to a row by its position.

use crate::names;
use costof_model::{Axis, LaunchPoint, MetricInfo, Point, PointRow, ProbeInfo, Run};
use std::collections::HashMap;

/// The points in the order of the plan.
pub(crate) fn in_order(run: &Run) -> impl Iterator<Item = &PointRow> {
    let mut measured: HashMap<&Point, &PointRow> = HashMap::with_capacity(run.points.len());
    for row in &run.points {
        measured.entry(&row.point).or_insert(row);
    }
    let planned = run.run.plan.points();
    planned.filter_map(move |point| measured.get(point).copied())
}

/// The points of a run, found by position, by point and by probe.
pub(crate) struct Rows<'a> {
    pub(crate) run: &'a Run,
    all: Vec<&'a PointRow>,
    at: HashMap<&'a Point, usize>,
    infos: HashMap<&'a str, &'a ProbeInfo>,
    launched: HashMap<&'a str, Vec<&'a LaunchPoint>>,
}

impl<'a> Rows<'a> {
    /// First the planned points in the order of the plan, then others. If a point is there twice, the first
    /// counts.
    pub(crate) fn new(run: &'a Run) -> Rows<'a> {
        let mut rows = Rows {
            run,
            all: Vec::with_capacity(run.points.len()),
            at: HashMap::with_capacity(run.points.len()),
            infos: HashMap::new(),
            launched: HashMap::new(),
        };
        for info in &run.probes {
            rows.infos.entry(&info.id).or_insert(info);
        }
        for point in run.launches.iter().flat_map(|launch| &launch.points) {
            let of_probe = rows.launched.entry(&point.point.probe).or_default();
            of_probe.push(point);
        }
        for row in in_order(run).chain(&run.points) {
            rows.add(row);
        }
        rows
    }

    fn add(&mut self, row: &'a PointRow) {
        let next = self.all.len();
        if *self.at.entry(&row.point).or_insert(next) == next {
            self.all.push(row);
        }
    }

    pub(crate) fn all(&self) -> &[&'a PointRow] {
        &self.all
    }

    /// The row at this position.
    pub(crate) fn row(&self, position: usize) -> &'a PointRow {
        self.all[position]
    }

    pub(crate) fn position(&self, point: &Point) -> Option<usize> {
        self.at.get(point).copied()
    }

    /// The description of a probe; an old or foreign file may have none.
    pub(crate) fn info(&self, probe: &str) -> Option<&'a ProbeInfo> {
        self.infos.get(probe).copied()
    }

    /// The description of an axis of a probe.
    pub(crate) fn axis(&self, probe: &str, name: &str) -> Option<&'a Axis> {
        let mut axes = self.info(probe)?.axes.iter();
        axes.find(|axis| axis.name == name)
    }

    /// The description of a metric of a probe.
    pub(crate) fn metric(&self, probe: &str, name: &str) -> Option<&'a MetricInfo> {
        let mut metrics = self.info(probe)?.metrics.iter();
        metrics.find(|metric| metric.name == name)
    }

    /// The launches of a probe's points, in their order.
    pub(crate) fn launched(&self, probe: &str) -> &[&'a LaunchPoint] {
        self.launched.get(probe).map_or(&[], Vec::as_slice)
    }

    /// `os.syscall call=read`.
    pub(crate) fn name(&self, position: usize) -> String {
        let point = &self.all[position].point;
        names::short_point(point, self.info(&point.probe))
    }

    /// The label of a point in the latency table, or else its name.
    pub(crate) fn label(&self, position: usize) -> String {
        let label = self.all[position].label.clone();
        label.unwrap_or_else(|| self.name(position))
    }

    /// The probes that have points, each with the positions of its rows, in the order in which they first
    /// appear.
    pub(crate) fn by_probe(&self) -> Vec<(&'a str, Vec<usize>)> {
        let mut probes: Vec<(&str, Vec<usize>)> = Vec::new();
        let mut known: HashMap<&str, usize> = HashMap::new();
        for (position, row) in self.all.iter().enumerate() {
            let probe: &'a str = &row.point.probe;
            let at = *known.entry(probe).or_insert_with(|| {
                probes.push((probe, Vec::new()));
                probes.len() - 1
            });
            probes[at].1.push(position);
        }
        probes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use costof_model::testing::{run_without_facts as run, sized_row as row};

    #[test]
    fn every_point_has_one_position() {
        let mut run = run();
        let (one, other) = (row("a.x", 1, 5.0), row("a.x", 2, 6.0));
        run.points = vec![other.clone(), one.clone(), other.clone()];
        run.run.plan.blocks[0].points = vec![one.point.clone(), one.point.clone()];
        let rows = Rows::new(&run);
        assert_eq!(rows.all().len(), 2);
        assert_eq!(rows.position(&one.point), Some(0));
        assert_eq!(rows.position(&other.point), Some(1));
        assert_eq!(rows.by_probe(), [("a.x", vec![0, 1])]);
    }
}
