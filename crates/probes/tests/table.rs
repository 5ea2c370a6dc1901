//! What must hold of every probe in the table.

use costof_measure::clock;
use costof_measure::meter::{Meter, Record};
use costof_measure::probe::{Probe, Role};
use costof_model::axis::{Axes, Domain};
use costof_model::facts::Facts;
use costof_model::failure::{Failure, FailureKind};
use costof_model::plan::{self, Settings};
use costof_model::point::Point;
use costof_model::prediction::Known;
use costof_model::probe_info::ProbeInfo;
use costof_model::protocol::{ClockInfo, ClockSource, Launch, Offers};
use costof_model::rows::State;
use costof_os::affinity;
use costof_probes::TABLE;
use std::collections::BTreeSet;
use std::sync::atomic::AtomicBool;

/// Counts allocations, to see that timed batches have none.
#[global_allocator]
static ALLOCATOR: costof_os::allocator::Counting = costof_os::allocator::Counting;

fn planned(info: &ProbeInfo) -> Vec<Point> {
    plan::points(info, &Settings::new()).expect("a probe's own plan has its own axes")
}

fn headlines(probe: &Probe, facts: &Facts) -> Vec<Point> {
    (probe.headlines)(facts)
        .into_iter()
        .map(|headline| at(probe, headline.axes))
        .collect()
}

fn at(probe: &Probe, axes: Axes) -> Point {
    Point {
        probe: probe.info.id.clone(),
        axes,
        link: "none".into(),
    }
}

#[test]
fn ids_are_unique_and_say_their_layer() {
    let ids: BTreeSet<&str> = TABLE.iter().map(|probe| &*probe.info.id).collect();
    assert_eq!(ids.len(), TABLE.len());
    for probe in TABLE {
        let layer = probe.info.layer();
        assert!(
            [
                "null", "cpu", "sync", "os", "memory", "ipc", "file", "net", "copy", "rudp", "rpc"
            ]
            .contains(&layer),
            "{}",
            probe.info.id
        );
    }
}

#[test]
fn predictions_go_in_no_circle() {
    let infos: Vec<&ProbeInfo> = TABLE.iter().map(|probe| &probe.info).collect();
    let mut before: BTreeSet<&str> = BTreeSet::new();
    for level in plan::levels(&infos) {
        for info in &level {
            let waits_for = info.after.iter().find(|id| !before.contains(&***id));
            assert_eq!(waits_for, None, "{} is after it", info.id);
        }
        before.extend(level.iter().map(|info| &*info.id));
    }
}

#[test]
fn every_probe_explains_itself() {
    for Probe { info, .. } in TABLE {
        for (what, text) in [
            ("question", &info.question),
            ("how", &info.how),
            ("predicted_from", &info.predicted_from),
        ] {
            assert!(!text.trim().is_empty(), "{} has no {what}", info.id);
        }
        assert!(
            info.question.ends_with('?'),
            "{}: {}",
            info.id,
            info.question
        );
        assert!(!info.sources.is_empty(), "{} has no source", info.id);
        assert!(info.method >= 1, "{}", info.id);
        assert!(!info.primary().about.is_empty(), "{}", info.id);
        for axis in info.axes.iter() {
            assert!(!axis.about.is_empty(), "{} {}", info.id, axis.name);
            assert!(!axis.usual().is_empty(), "{} {}", info.id, axis.name);
            if let Domain::Choice(choices) = &axis.domain {
                assert!(
                    choices.iter().all(|choice| !choice.about.is_empty()),
                    "{}",
                    info.id
                );
            }
        }
    }
}

#[test]
fn every_description_survives_the_run_file() {
    for probe in TABLE {
        let json = serde_json::to_string(&probe.info).expect("plain data");
        let back: ProbeInfo = serde_json::from_str(&json).expect("the same plain data");
        assert_eq!(back, probe.info);
    }
}

#[test]
fn roles_and_dependencies_exist() {
    for probe in TABLE {
        assert_eq!(
            probe.roles.len(),
            probe.info.roles.len(),
            "{}",
            probe.info.id
        );
        for id in probe.info.after.iter() {
            assert!(TABLE.iter().any(|other| other.info.id == *id), "{id}");
        }
        for axis in probe.blocks_by {
            assert!(probe.info.axis(axis).is_ok(), "{}: {axis}", probe.info.id);
        }
    }
}

#[test]
fn headlines_and_plans_lie_on_the_axes_on_any_machine() {
    for probe in TABLE {
        let headlines = headlines(probe, &Facts::default());
        assert!(!headlines.is_empty(), "{}", probe.info.id);
        let more = (probe.more_points)(&Facts::default());
        let more = more.into_iter().map(|axes| at(probe, axes));
        let points = headlines
            .into_iter()
            .chain(planned(&probe.info))
            .chain(more);
        for point in points {
            assert_eq!(point.axes.0.len(), probe.info.axes.len(), "{point}");
            for axis in probe.info.axes.iter() {
                let value = axis.display(&point.axes.0[&axis.name]);
                assert_eq!(axis.parse(&value).as_ref(), Ok(&point.axes.0[&axis.name]));
            }
        }
    }
}

#[test]
fn predictions_need_no_facts_and_are_ranges() {
    for probe in TABLE {
        for point in planned(&probe.info) {
            if let Some(prediction) = (probe.predict)(&point, &Facts::default(), &Known(&[])) {
                assert!(prediction.low > 0.0, "{point}");
                assert!(prediction.low < prediction.high, "{point}");
                assert!(!prediction.because.is_empty(), "{point}");
                let known = probe
                    .info
                    .metrics
                    .iter()
                    .any(|m| m.name == prediction.metric);
                assert!(known, "{point} predicts {}", prediction.metric);
            }
        }
    }
}

/// What a launch of these points is told in this process.
fn launch(points: &[Point]) -> Launch {
    Launch {
        role: "only".into(),
        points: points.to_vec(),
        cpus: affinity::allowed().expect("a process may run somewhere"),
        seed: 1,
        point_time_ns: 1_000_000,
        rounds: 1,
        clock: ClockInfo {
            source: ClockSource::Monotonic,
            because: "a test needs no other".to_owned(),
            hz: 1e9,
            spread_ppm: 0.0,
            resolution_ns: 30.0,
            read_ns: 30.0,
        },
    }
}

#[test]
fn what_gives_up_its_processor_says_so() {
    for probe in TABLE {
        let points = planned(&probe.info);
        let role = (probe.roles[0])(&launch(&points)).expect("it starts anywhere");
        for point in points {
            let word = |axis| point.axes.find_word(axis).unwrap_or("");
            let waits = match &*probe.info.id {
                "os.context_switch" | "os.process" | "os.thread" | "os.timer" => true,
                "ipc.latency" => word("wait") == "block",
                "ipc.bandwidth" => word("over") != "shared_memory" || word("cpus") == "same",
                "sync.mutex" => point.axes.number("threads") > 1,
                _ => false,
            };
            assert_eq!(role.blocks(&point), waits, "{point}");
        }
    }
}

/// Answers that need a core to themselves, which a test does not have: by what
/// their failures say, and why.
const NEED_A_QUIET_CORE: [(&str, &str); 2] = [
    // Two chains of instructions must agree to 2 % to give the core clock.
    ("cpu.frequency", "the two chains never agreed"),
    // Six costs must lie on a straight line.
    ("cpu.branch_miss", "are on no line"),
];

/// Whether a point may go without a number in a test: where it is not to be had
/// here, or needs a quiet core. Anything else is a bug.
fn may_be_absent(point: &Point, failure: &Failure) -> bool {
    failure.kind == FailureKind::Unsupported
        || NEED_A_QUIET_CORE
            .iter()
            .any(|(probe, says)| point.probe == *probe && failure.reason.contains(says))
}

/// Every point of the latency table in this process, for a millisecond each:
/// it has a number, and its timed batches allocate nothing.
#[test]
fn headline_points_are_measured_without_allocating() {
    let clock = clock::open(&launch(&[]).clock).expect("CLOCK_MONOTONIC");
    for probe in TABLE {
        let points = headlines(probe, &Facts::default());
        let mut role: Box<dyn Role> =
            (probe.roles[0])(&launch(&points)).expect("it starts anywhere");
        for point in points {
            let stop = AtomicBool::new(false);
            let mut record = Record::default();
            let mut meter = Meter::new(&*clock, 1e6, &stop, None, "cost", &mut record);
            let measured = role
                .prepare(&point, &Offers::new())
                .and_then(|_| role.run(&point, &mut meter))
                .and_then(|()| role.finish(&point, &mut meter));
            if let Err(failure) = measured {
                assert!(may_be_absent(&point, &failure), "{point}: {failure}");
                eprintln!("skipped: {point}: {failure}");
                continue;
            }
            let report = record.into_report(false, Vec::new());
            assert_eq!(report.allocations, 0, "{point}");
            let report = (probe.derive)(&point, vec![report]);
            assert_eq!(report.state, State::Ok, "{point}");
            let primary = &probe.info.primary().name;
            assert!(
                report.metrics.iter().any(|metric| metric.name == *primary),
                "{point} gives no {primary}"
            );
        }
    }
}
