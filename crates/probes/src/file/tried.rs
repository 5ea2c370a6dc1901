//! Measures a point of a probe in this process, for tests.

use costof_measure::meter::{Meter, Record};
use costof_measure::probe::{Measure, RoleAt};
use costof_model::failure::Failure;
use costof_model::metric::Data;
use costof_model::point::Point;
use costof_model::protocol::{ClockInfo, ClockSource, Launch, Offers, Report};
use costof_model::typed::At;
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What is read from devices is counted for the whole process, so one test at a time reads.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    static ONLY: Mutex<()> = Mutex::new(());
    ONLY.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How long a point is measured.
const TIME_NS: f64 = 1e6;

pub(crate) fn launch() -> Launch {
    launch_of(Vec::new())
}

fn launch_of(points: Vec<Point>) -> Launch {
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
pub(crate) fn run<P: Measure>(role: &mut impl RoleAt<P>, point: &At<P>) -> Result<Report, Failure> {
    metered(point, |meter| {
        role.run(point, meter)?;
        role.finish(point, meter)
    })
}

/// Prepares and measures a point.
pub(crate) fn measure<P: Measure>(axes: P) -> Result<Report, Failure> {
    let typed = At::from(axes);
    let point = Point::from(&typed);
    let _alone = alone();
    let mut role = (P::ROLES[0])(&launch_of(vec![point.clone()]))?;
    role.prepare(&point, &Offers::new())?;
    metered(&typed, |meter| {
        role.run(&point, meter)?;
        role.finish(&point, meter)
    })
}

fn metered<P: Measure>(
    point: &At<P>,
    measure: impl FnOnce(&mut Meter<'_>) -> Result<(), Failure>,
) -> Result<Report, Failure> {
    let clock = costof_measure::clock::open(&launch().clock).expect("CLOCK_MONOTONIC");
    let (stop, mut record) = (AtomicBool::new(false), Record::default());
    let primary = P::METRICS[0].name;
    let mut meter = Meter::new(&*clock, TIME_NS, &stop, None, primary, &mut record);
    measure(&mut meter)?;
    Ok(P::derive(
        point,
        vec![record.into_report(false, Vec::new())],
    ))
}

/// A metric that is one number.
pub(crate) fn value(report: &Report, name: &str) -> Option<f64> {
    let measured = report.metrics.iter().find(|metric| metric.name == name)?;
    match measured.data {
        Data::Value(value) => Some(value),
        _ => None,
    }
}
