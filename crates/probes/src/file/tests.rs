//! What the tests of file probes share: points that are measured in this process, and machines with one
//! disk.

use costof_measure::meter::{Meter, Record};
use costof_measure::probe::{Measure, RoleAt};
use costof_model::facts::{Disk, DiskKind, Facts, FileSystem};
use costof_model::failure::{Failure, FailureKind};
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

fn launch(points: Vec<Point>) -> Launch {
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

/// Prepares and measures a point; none where that is not supported here.
pub(crate) fn measure_if_supported<P: Measure + Clone>(axes: &P) -> Option<Report> {
    supported(measure(axes.clone()))
}

/// The result of preparing or measuring a point; none where that is not supported here.
pub(crate) fn supported<T>(result: Result<T, Failure>) -> Option<T> {
    let failed = |failure: &Failure| {
        assert_eq!(failure.kind, FailureKind::Unsupported, "{failure}");
        eprintln!("checked less: {failure}");
    };
    result.inspect_err(failed).ok()
}

/// Prepares and measures a point.
pub(crate) fn measure<P: Measure>(axes: P) -> Result<Report, Failure> {
    let typed = At::from(axes);
    let point = Point::from(&typed);
    let _alone = alone();
    let mut role = (P::ROLES[0])(&launch(vec![point.clone()]))?;
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
    let clock = costof_measure::clock::open(&launch(Vec::new()).clock).expect("CLOCK_MONOTONIC");
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

/// A machine whose temporary folder lies on a disk of this kind, `vda`.
pub(crate) fn facts(kind: DiskKind) -> Facts {
    Facts {
        disks: vec![Disk {
            name: "vda".to_owned(),
            kind,
            ..Disk::default()
        }],
        file_systems: vec![FileSystem {
            mount_point: "/".to_owned(),
            kind: "ext4".to_owned(),
            disk: Some("vda".to_owned()),
            ..FileSystem::default()
        }],
        temporary_folder: Some("/tmp".to_owned()),
        ..Facts::default()
    }
}
