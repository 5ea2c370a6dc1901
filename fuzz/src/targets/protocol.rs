//! The messages between controller and worker, from both sides.

use super::run::{plain, shown};
use crate::same::is_same;
use costof_lab::host::WorkerCommand;
use costof_lab::launch::{self, Lost, Place, Setting};
use costof_measure::probe::find;
use costof_model::facts::Facts;
use costof_model::noise::Placement;
use costof_model::point::Point;
use costof_model::prediction::MeasuredRows;
use costof_model::protocol::Command;
use costof_model::rows::{LaunchPoint, LaunchRow};
use costof_model::testing;
use costof_probes::{TABLE, interactive};
use std::io::Write;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// A caller of a costof that listens sends these bytes: a greeting, and commands, of which it may have the launches
/// of an answering role that fits.
pub(crate) fn caller(bytes: &[u8]) {
    costof_lab::fuzzing::greeting(bytes);
    for line in bytes.split(|byte| *byte == b'\n') {
        if let Ok(Command::Open(launch)) = serde_json::from_slice(line)
            && interactive::allowed(&launch).is_ok()
        {
            let probe = find(TABLE, &launch.points[0].probe).expect("it is a probe");
            assert!(probe.info.roles.len() == 2 && probe.info.roles[0] == launch.role);
            for point in &launch.points {
                assert!(probe.info.allows(&point.axes), "{point:?}");
            }
        }
    }
}

/// A worker answers with these bytes, whatever it is asked. What it measured becomes a run, which is shown.
pub(crate) fn answers(bytes: &[u8]) {
    let mut answers = tempfile::NamedTempFile::new().expect("there is a folder for it");
    answers.write_all(bytes).expect("it is written");
    let path = answers.path().to_str().expect("it is UTF-8");
    let setting = Setting {
        command: &WorkerCommand::new("cat", &[path]),
        limit: Duration::from_secs(10),
        interrupted: &AtomicBool::new(false),
        enough: None,
    };
    let mut run = testing::run(&[]);
    let probe = TABLE[0];
    let point =
        Point { probe: probe.info.id.clone(), axes: probe.info.defaults(), link: "none".into() };
    let launches = vec![testing::launch_message(vec![point.clone()])];
    match launch::run(&[Place::LOCAL], launches, &setting) {
        Err(Lost::Failed(_, failure)) => plain(&failure.reason),
        Err(Lost::Interrupted) => panic!("nobody interrupted it"),
        Ok(mut outcome) => {
            let report = (probe.derive)(&point, outcome.reports.remove(0));
            run.probes.push((*probe.info).clone());
            run.run.plan.blocks[0].points.push(point.clone());
            for launch in 0..3 {
                run.launches.push(LaunchRow {
                    block: 0,
                    launch,
                    of: 3,
                    wall_ns: 1e6,
                    points: vec![LaunchPoint {
                        point: point.clone(),
                        state: report.state,
                        metrics: report.metrics.clone(),
                        allocations: report.allocations,
                    }],
                    noise: outcome.noise.clone(),
                    placement: Placement::default(),
                    link: None,
                });
            }
            shown(run);
        }
    }
}

/// A command is written as it was read, and a point that a probe allows has a time, a size and perhaps a
/// prediction.
pub(crate) fn commands(bytes: &[u8]) {
    let Ok(command) = serde_json::from_slice::<Command>(bytes) else {
        return;
    };
    let written = serde_json::json!(command);
    let again: Command =
        serde_json::from_value(written.clone()).expect("it is read as it is written");
    assert!(is_same(&serde_json::json!(again), &written), "{written}");
    let Command::Open(launch) = command else {
        return;
    };
    for point in &launch.points {
        let of = TABLE.iter().find(|probe| probe.info.id == point.probe);
        let Some(probe) = of.filter(|probe| probe.info.allows(&point.axes)) else {
            continue;
        };
        assert!((probe.least_ns)(point) >= 0.0 && (probe.processors)(point) > 0);
        (probe.memory_bytes)(point);
        let measured = MeasuredRows::new(&[]);
        if let Some(prediction) = (probe.predict)(point, &Facts::default(), &measured) {
            assert!(prediction.low <= prediction.high, "{point}: {prediction:?}");
        }
    }
}
