//! What the tests of file probes share: points that are measured in this process.

use crate::prelude::*;
use costof_measure::meter::Record;
use costof_model::testing::launch_message;
use costof_model::{Data, FailureKind, Point};
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Reads from devices are counted for the whole process, so only one test reads at a time.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    static ONLY: Mutex<()> = Mutex::new(());
    ONLY.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Has a role measure a point that it has prepared.
pub(crate) fn run<P: Measure>(role: &mut impl RoleAt<P>, point: &At<P>) -> Result<Report> {
    metered(point, |meter| {
        role.run(point, meter)?;
        role.finish(point, meter)
    })
}

/// Prepares and measures a point; `None` if that is not supported here.
pub(crate) fn measure_if_supported<P: Measure + Clone>(axes: &P) -> Option<Report> {
    supported(measure(axes.clone()))
}

/// The result of preparing or measuring a point; `None` if that is not supported here.
pub(crate) fn supported<T>(result: Result<T>) -> Option<T> {
    let failed = |failure: &Failure| {
        assert_eq!(failure.kind, FailureKind::Unsupported, "{failure}");
        eprintln!("checked less: {failure}");
    };
    result.inspect_err(failed).ok()
}

/// Prepares and measures a point.
pub(crate) fn measure<P: Measure>(axes: P) -> Result<Report> {
    let typed = At::from(axes);
    let point = Point::from(&typed);
    let _alone = alone();
    let mut role = (P::ROLES[0])(&launch_message(vec![point.clone()]))?;
    role.prepare(&point, &Offers::new())?;
    metered(&typed, |meter| {
        role.run(&point, meter)?;
        role.finish(&point, meter)
    })
}

fn metered<P: Measure>(
    point: &At<P>,
    measure: impl FnOnce(&mut Meter<'_>) -> Result,
) -> Result<Report> {
    static NEVER: AtomicBool = AtomicBool::new(false);
    let launch = launch_message(Vec::new());
    let clock = costof_measure::clock::open(&launch.clock).expect("CLOCK_MONOTONIC");
    let time_ns = launch.point_time_ns as f64;
    let mut record = Record::default();
    let primary = P::METRICS[0].name;
    let mut meter = Meter::new(&*clock, time_ns, &NEVER, None, primary, &mut record);
    measure(&mut meter)?;
    Ok(P::derive(point, vec![record.into_report(false, Vec::new())]))
}

/// A metric that is one number.
pub(crate) fn value(report: &Report, name: &str) -> Option<f64> {
    let measured = report.metrics.iter().find(|metric| metric.name == name)?;
    match measured.data {
        Data::Value(value) => Some(value),
        _ => None,
    }
}
