//! The places that a study leaves open: in which folder files lie, and which file of another machine is read.

use crate::error::{Result, bail};
use crate::record::Table;
use costof_measure::probe;
use costof_model::{Axis, AxisValue, Domain, Point, ProbeInfo, Run, nearest};

/// The word for no place at all.
const UNSET: &str = "unset";

/// An axis, and the place on it.
pub(super) type Place = (String, Vec<String>);

/// Checks that each names one place, on an axis that has places.
pub(super) fn check(infos: &[&ProbeInfo], places: &[Place]) -> Result<()> {
    let mut known: Vec<&str> =
        infos.iter().flat_map(|info| axes(info)).map(|axis| &*axis.name).collect();
    known.sort_unstable();
    known.dedup();
    for (axis, values) in places {
        if !known.contains(&&**axis) {
            bail!(
                "--set names a place for a study, and `{axis}` is none{} (axes: {})",
                nearest::hint(axis, known.iter().copied()),
                known.join(", ")
            );
        }
        if values.len() != 1 {
            bail!("--set {axis}=… names several places: a study has one");
        }
    }
    Ok(())
}

fn axes(info: &ProbeInfo) -> impl Iterator<Item = &Axis> {
    let axes = info.axes.iter();
    axes.filter(|axis| matches!(axis.domain, Domain::Place { .. }))
}

/// Whether one of these probes has places on this axis.
pub(super) fn has(table: Table, probes: &[String], axis: &str) -> bool {
    let mut probes = probes.iter().filter_map(|id| probe::find(table, id));
    probes.any(|probe| axes(&probe.info).any(|known| known.name == axis))
}

/// The places at which a run measured, other than the defaults.
pub(super) fn of_run(run: &Run) -> Vec<Place> {
    let mut places: Vec<Place> = Vec::new();
    for point in run.run.plan.points() {
        let own = run.probe(&point.probe).into_iter().flat_map(axes);
        for axis in own {
            let is_new = places.iter().all(|(known, _)| *known != axis.name);
            let value = point.axes.0.get(&*axis.name).filter(|_| is_new);
            // Of an anonymous run nobody knows them.
            let is_known = |value: &&AxisValue| **value != axis.default() && axis.allows(value);
            if let Some(value) = value.filter(is_known) {
                places.push((axis.name.to_string(), vec![value.to_string()]));
            }
        }
    }
    places
}

/// Checks that the point names what it reads, if nothing is read by default.
pub(super) fn named(table: Table, point: &Point) -> Result<(), String> {
    let info = probe::find(table, &point.probe).map(|probe| &*probe.info);
    let unset = AxisValue::Word(UNSET.into());
    let mut open = info.into_iter().flat_map(axes);
    let Some(axis) = open.find(|axis| point.axes.0.get(&*axis.name) == Some(&unset)) else {
        return Ok(());
    };
    Err(format!("nothing says which file is read: `--set {}=nfs://HOST/EXPORT/FILE`", axis.name))
}
