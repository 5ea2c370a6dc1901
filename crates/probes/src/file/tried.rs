//! Measures a point of a probe in this process, for tests.

use costof_measure::meter::{Meter, Record};
use costof_measure::probe::{Probe, Role};
use costof_model::axis::Axes;
use costof_model::failure::Failure;
use costof_model::metric::Data;
use costof_model::point::Point;
use costof_model::protocol::{ClockInfo, ClockSource, Launch, Offers, Report};
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What is read from devices is counted for the whole process, so one test at a time reads.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    static ONLY: Mutex<()> = Mutex::new(());
    ONLY.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How long a point is measured.
const TIME_NS: f64 = 1e6;

pub(crate) fn launch(points: Vec<Point>) -> Launch {
    Launch {
        role: "only".into(),
        points,
        cpus: Vec::new(),
        partners: Vec::new(),
        seed: 1,
        point_time_ns: TIME_NS as u64,
        rounds: 1,
        clock: ClockInfo {
            source: ClockSource::Monotonic,
            because: "a test needs no other".to_owned(),
            hz: 1e9,
            spread_ppm: 0.0,
            resolution_ns: 30.0,
            read_ns: 30.0,
            core_floor: None,
        },
        meeting: None,
    }
}

/// Has a role measure a point that it has prepared.
pub(crate) fn run(probe: &Probe, role: &mut dyn Role, point: &Point) -> Result<Report, Failure> {
    let launch = launch(vec![point.clone()]);
    let clock = costof_measure::clock::open(&launch.clock).expect("CLOCK_MONOTONIC");
    let (stop, mut record) = (AtomicBool::new(false), Record::default());
    let primary = &probe.info.primary().name;
    let mut meter = Meter::new(&*clock, TIME_NS, &stop, None, primary, &mut record);
    role.run(point, &mut meter)?;
    role.finish(point, &mut meter)?;
    Ok((probe.derive)(
        point,
        vec![record.into_report(false, Vec::new())],
    ))
}

/// Prepares and measures a point.
pub(crate) fn measure(probe: &Probe, axes: Axes) -> Result<Report, Failure> {
    let point = crate::literal::point(probe, axes);
    let _alone = alone();
    let mut role = (probe.roles[0])(&launch(vec![point.clone()]))?;
    role.prepare(&point, &Offers::new())?;
    run(probe, &mut *role, &point)
}

/// A metric that is one number.
pub(crate) fn value(report: &Report, name: &str) -> Option<f64> {
    let measured = report.metrics.iter().find(|metric| metric.name == name)?;
    match measured.data {
        Data::Value(value) => Some(value),
        _ => None,
    }
}
