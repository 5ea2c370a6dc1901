//! What must hold of every probe in the table.

use costof_measure::meter::{Meter, Record};
use costof_measure::probe::{Probe, Role, find};
use costof_model::axis::{Axes, Domain};
use costof_model::facts::Facts;
use costof_model::failure::{Failure, FailureKind};
use costof_model::names;
use costof_model::plan::{self, Settings};
use costof_model::point::Point;
use costof_model::prediction::MeasuredRows;
use costof_model::probe_info::ProbeInfo;
use costof_model::protocol::{ClockInfo, Launch, Offers, Rendezvous, Report};
use costof_model::rows::{PointRow, State};
use costof_model::testing;
use costof_os::sched::affinity;
use costof_probes::TABLE;
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};

fn planned(probe: &Probe) -> Vec<Point> {
    let axes = plan::points(&probe.info, &Settings::new());
    axes.expect("a probe's own plan has its own axes")
        .into_iter()
        .map(|axes| at(probe, axes))
        .collect()
}

fn headlines(probe: &Probe, facts: &Facts) -> Vec<Point> {
    (probe.headlines)(facts).into_iter().map(|headline| at(probe, headline.axes)).collect()
}

fn at(probe: &Probe, axes: Axes) -> Point {
    Point {
        probe: probe.info.id.clone(),
        axes,
        link: if probe.info.needs_link() { "loopback".into() } else { "none".into() },
    }
}

#[test]
fn a_share_of_a_whole_is_at_most_1() {
    // More is read ahead than asked for; a rate below the link's; a distance relative to a rise.
    let others = ["device_share", "goodput_share", "off_line"];
    for probe in TABLE {
        for metric in probe.info.metrics.iter() {
            let is_share = metric.about.contains("share of") && !others.contains(&&*metric.name);
            assert!(!is_share || metric.most() <= 1.0, "{} {}", probe.info.id, metric.name);
        }
    }
}

#[test]
fn old_names_are_those_of_points_that_exist() {
    for probe in TABLE {
        for alias in probe.info.aliases.iter() {
            assert_eq!(names::check(alias, &probe.info), Ok(()));
        }
    }
}

/// Ids leave defaults out, files leave out what their costof did not know, and a released probe keeps its defaults:
/// so no line of `defaults.txt` changes or goes, but where an alias has the new name. A new axis is a new line.
#[test]
fn defaults_stay() {
    let axes = TABLE.iter().flat_map(|probe| {
        let axes = probe.info.axes.iter();
        axes.map(|axis| format!("{} {}={}", probe.info.id, axis.name, axis.default()))
    });
    let axes: BTreeSet<String> = axes.collect();
    let listed: BTreeSet<String> =
        include_str!("defaults.txt").lines().map(str::to_owned).collect();
    let differing: Vec<&String> = axes.symmetric_difference(&listed).collect();
    assert!(differing.is_empty(), "not both in TABLE and in defaults.txt: {differing:#?}");
}

#[test]
fn ids_are_unique_and_say_their_layer() {
    let ids: BTreeSet<&str> = TABLE.iter().map(|probe| &*probe.info.id).collect();
    assert_eq!(ids.len(), TABLE.len());
    for probe in TABLE {
        let layer = probe.info.layer();
        assert!(
            [
                "harness", "cpu", "sync", "os", "memory", "node", "ipc", "file", "net", "copy",
                "rudp", "rpc"
            ]
            .contains(&layer),
            "{}",
            probe.info.id
        );
    }
}

#[test]
fn predictions_go_in_no_circle() {
    let infos: Vec<&ProbeInfo> = TABLE.iter().map(|probe| &*probe.info).collect();
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
        assert!(info.question.ends_with('?'), "{}: {}", info.id, info.question);
        assert!(!info.sources.is_empty(), "{} has no source", info.id);
        assert!(info.method >= 1, "{}", info.id);
        assert!(!info.primary().about.is_empty(), "{}", info.id);
        for axis in info.axes.iter() {
            assert!(!axis.about.is_empty(), "{} {}", info.id, axis.name);
            assert!(!axis.defaults().is_empty(), "{} {}", info.id, axis.name);
            if let Domain::Choice(choices) = &axis.domain {
                assert!(choices.iter().all(|choice| !choice.about.is_empty()), "{}", info.id);
            }
        }
    }
}

#[test]
fn every_description_survives_the_run_file() {
    for probe in TABLE {
        let json = serde_json::to_string(&*probe.info).expect("plain data");
        let back: ProbeInfo = serde_json::from_str(&json).expect("the same plain data");
        assert_eq!(back, *probe.info);
    }
}

#[test]
fn roles_and_dependencies_exist() {
    for probe in TABLE {
        assert_eq!(probe.roles.len(), probe.info.roles.len(), "{}", probe.info.id);
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
        // What takes long for itself need not be in every run.
        let is_long = probe.budget.is_some();
        // Nor what must be told where to look.
        let is_told = probe.info.axes.iter().any(|axis| axis.default() == "unset".into());
        assert!(is_long || is_told || !headlines.is_empty(), "{}", probe.info.id);
        let more = (probe.more_points)(&Facts::default())
            .into_iter()
            .map(|planned| at(probe, planned.axes));
        let points = headlines.into_iter().chain(planned(probe)).chain(more);
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
        for point in planned(probe) {
            if let Some(prediction) =
                (probe.predict)(&point, &Facts::default(), &MeasuredRows::new(&[]))
            {
                assert!(prediction.low > 0.0, "{point}");
                assert!(prediction.low < prediction.high, "{point}");
                assert!(!prediction.because.is_empty(), "{point}");
                let measured = probe.info.metrics.iter().any(|m| m.name == prediction.metric);
                assert!(measured, "{point} predicts {}", prediction.metric);
            }
        }
    }
}

#[test]
fn relations_are_between_points_that_there_are() {
    let exist = |info: &ProbeInfo, axes: &Axes| {
        let mut values = axes.0.iter();
        values.all(|(name, value)| info.axis(name).is_ok_and(|axis| axis.allows(value)))
    };
    for probe in TABLE {
        for relation in probe.info.relations.iter() {
            let other = relation.probe.as_deref().unwrap_or(&probe.info.id);
            let other = find(TABLE, other).expect("a probe of the table");
            assert!(exist(&probe.info, &relation.these), "{relation:?}");
            assert!(exist(&other.info, &relation.those), "{relation:?}");
            let mut rises = relation.rises_with.iter();
            assert!(rises.all(|axis| probe.info.axis(axis).is_ok()), "{relation:?}");
        }
    }
}

/// What a launch of these points is told in this process.
fn launch(points: &[Point]) -> Launch {
    let launch = testing::launch_message(points.to_vec());
    Launch {
        // A clock as fine as any: by a coarse one, batches of what a probe prepares are long enough on a slow
        // core, and too short on a fast one.
        clock: ClockInfo { resolution_ns: 1.0, read_ns: 1.0, ..launch.clock },
        cpus: affinity::allowed().expect("a process may run somewhere"),
        rendezvous: Some(Rendezvous {
            address: IpAddr::V4(Ipv4Addr::LOCALHOST),
            scope: 0,
            receive_buffer: None,
            ports: (0, 0),
            token: "0123456789abcdef0123456789abcdef".to_owned(),
            apart: false,
            sink: None,
        }),
        ..launch
    }
}

#[test]
fn what_gives_up_its_processor_says_so() {
    for probe in TABLE {
        let points = planned(probe);
        let leading = probe.roles.last().expect("a probe has roles");
        let role = leading(&launch(&points)).expect("it starts anywhere");
        for point in points {
            let word = |axis| point.axes.find_word(axis).unwrap_or("");
            let waits = match &*probe.info.id {
                "os.context_switch" | "os.process" | "os.quota" | "os.thread" | "os.timer" => true,
                "os.overhead" => {
                    word("operation") == "switch"
                        || ["strace", "seccomp_notify"].contains(&word("of"))
                }
                "ipc.latency" => word("wait") == "block",
                "ipc.bandwidth" => true,
                "memory.first_touch" => word("how").starts_with("userfaultfd"),
                "sync.mutex" => point.axes.number("threads") > 1,
                "net.rtt" | "net.stages" | "rudp.stages" => word("wait") == "block",
                "file.read" => word("cache") != "warm",
                "file.write" => word("cache") == "direct",
                "file.sync" | "file.contention" | "file.cache_size" => true,
                "file.remote" | "file.remote_call" => true,
                "copy.parts" | "rpc.marshal" | "rpc.load" => false,
                id => ["net.", "copy.", "rudp.", "rpc."].iter().any(|layer| id.starts_with(layer)),
            };
            assert_eq!(role.blocks(&point), waits, "{point}");
        }
    }
}

/// Every point of every plan as a run would know it, each with a primary metric of half a
/// microsecond.
fn all_known() -> Vec<PointRow> {
    let row = |probe: &Probe, point: Point| {
        let primary = &probe.info.primary().name;
        PointRow {
            primary: primary.clone(),
            metrics: vec![testing::estimate(primary.clone(), 500.0)],
            point: point.clone(),
            ..testing::row(point.probe, point.axes, 500.0)
        }
    };
    let rows = TABLE.iter().flat_map(|probe| {
        let points = planned(probe).into_iter();
        points.map(move |point| row(probe, point))
    });
    rows.collect()
}

#[test]
fn what_is_expected_between_two_ends_contains_what_the_link_holds_up() {
    let measured = all_known();
    for probe in TABLE.iter().filter(|probe| probe.info.needs_link()) {
        for point in planned(probe) {
            let over = |link: &'static str| {
                let point = Point { link: link.into(), ..point.clone() };
                let expected =
                    (probe.predict)(&point, &Facts::default(), &MeasuredRows::new(&measured));
                if let Some(expected) = &expected {
                    assert!(expected.low > 0.0, "{point}: {expected:?}");
                    assert!(expected.low < expected.high, "{point}: {expected:?}");
                }
                expected
            };
            let Some(plain) = over("loopback") else {
                continue;
            };
            if plain.metric != "latency" {
                continue;
            }
            let far = over("delay=95ms").expect("what is known of the ends is known of a link");
            assert!(far.low >= 190e6, "{point}: {far:?}");
            // A window that grows, or a message that takes more datagrams than on loopback.
            let has_more = ["more round trips", "datagrams written"];
            let has_more = has_more.iter().any(|more| far.because.contains(more));
            assert!(has_more || far.high <= plain.high + 191e6, "{point}: {far:?}");
            assert!(far.because.contains("95"), "{point}: {far:?}");
        }
    }
}

/// Answers that need a core to themselves, which a test does not have: by what
/// their failures say, and why.
const NEED_A_QUIET_CORE: [(&str, &str); 2] = [
    // Two chains of instructions must agree to 2 % to give the core clock.
    ("cpu.frequency", "the two chains never agreed"),
    // Six costs must lie on a straight line.
    ("cpu.branch_miss", "are not on a line"),
];

/// Whether a point may go without a number in a test: where it is not to be had
/// here, or needs a quiet core. Anything else is a bug.
fn may_be_absent(point: &Point, failure: &Failure) -> bool {
    failure.kind == FailureKind::Unsupported
        || NEED_A_QUIET_CORE
            .iter()
            .any(|(probe, says)| point.probe == *probe && failure.reason.contains(says))
}

/// What is asked of a role that plays in a thread of its own.
enum Asked {
    Prepare(Point, Offers),
    Run,
}

/// What it answers.
enum Answer {
    Prepared(Offers),
    Ran(Report),
}

/// A role, as the controller sees its worker.
struct Player<'a> {
    asked: Sender<Asked>,
    answers: Receiver<Result<Answer, Failure>>,
    stop: &'a AtomicBool,
}

impl Player<'_> {
    fn answer(&self) -> Result<Answer, Failure> {
        self.answers.recv().expect("a role answers")
    }
}

/// How long each point is measured in these tests: for some time, or for so little that a round
/// trip takes longer, as over a long link.
const SOME_NS: u64 = 1_000_000;
const LITTLE_NS: u64 = 1_000;

/// How often a point without a number is measured again.
const SECOND_TRIES: usize = 3;

/// Plays a role of a probe until nobody asks any more.
fn play(
    probe: &Probe,
    position: usize,
    launch: &Launch,
    stop: &'static AtomicBool,
    asked: Receiver<Asked>,
    answers: Sender<Result<Answer, Failure>>,
) {
    affinity::pin(&launch.cpus[..1]).expect("a test may run where it may");
    let clock = costof_measure::clock::open(&launch.clock).expect("CLOCK_MONOTONIC");
    let mut role: Box<dyn Role> = (probe.roles[position])(launch).expect("it starts anywhere");
    let mut at = None;
    for what in asked {
        let answer = match what {
            Asked::Prepare(point, offers) => {
                stop.store(false, Ordering::Release);
                let prepared = role.prepare(&point, &offers);
                at = Some(point);
                prepared.map(Answer::Prepared)
            }
            Asked::Run => {
                let point = at.take().expect("it is prepared");
                let mut record = Record::default();
                let time_ns = launch.point_time_ns as f64;
                let primary = &probe.info.primary().name;
                let mut meter = Meter::new(&*clock, time_ns, stop, None, primary, &mut record);
                role.run(&point, &mut meter)
                    .and_then(|()| role.finish(&point, &mut meter))
                    .map(|()| Answer::Ran(record.into_report(false, Vec::new())))
            }
        };
        answers.send(answer).expect("the test waits for it");
    }
}

/// Measures points of a probe in this process, over loopback where it has two ends: all roles
/// prepare in turn, run together, and the last one leads, as in a launch.
fn measure(probe: &Probe, points: &[Point], time_ns: u64) -> Vec<Result<Vec<Report>, Failure>> {
    let mut cpus = affinity::allowed().expect("a process may run somewhere");
    let roles = probe.roles.len();
    if roles > 1 {
        cpus.truncate(2);
    }
    let stops: Vec<&'static AtomicBool> = (0..roles).map(|_| &*Box::leak(Box::default())).collect();
    std::thread::scope(|scope| {
        let mut players = Vec::new();
        for (position, stop) in stops.into_iter().enumerate() {
            let mut own = cpus.clone();
            own.rotate_left((roles - 1 - position) % cpus.len());
            let launch = Launch {
                role: probe.info.roles[position].clone(),
                cpus: own,
                point_time_ns: time_ns,
                deadline_ns: 0,
                ..launch(points)
            };
            let (asked, to_do) = mpsc::channel();
            let (done, answers) = mpsc::channel();
            scope.spawn(move || play(probe, position, &launch, stop, to_do, done));
            players.push(Player { asked, answers, stop });
        }
        points.iter().map(|point| measure_point(&players, point)).collect()
    })
}

fn measure_point(players: &[Player<'_>], point: &Point) -> Result<Vec<Report>, Failure> {
    let mut offers = Offers::new();
    for player in players {
        let prepare = Asked::Prepare(point.clone(), offers.clone());
        player.asked.send(prepare).expect("a role plays");
        match player.answer()? {
            Answer::Prepared(more) => offers.extend(more),
            Answer::Ran(_) => panic!("{point}: it was not told to run"),
        }
    }
    for player in players {
        player.asked.send(Asked::Run).expect("a role plays");
    }
    let mut reports = Vec::new();
    let mut failed = None;
    for (position, player) in players.iter().enumerate().rev() {
        if position + 1 < players.len() {
            player.stop.store(true, Ordering::Release);
        }
        match player.answer() {
            Ok(Answer::Ran(report)) => reports.insert(0, report),
            Ok(Answer::Prepared(_)) => panic!("{point}: it was told to run"),
            // The leading role's failure comes first, and is often the other's cause.
            Err(failure) => failed = failed.or(Some(failure)),
        }
    }
    match failed {
        Some(failure) => Err(failure),
        None => Ok(reports),
    }
}

/// Every point of the latency table in this process, for a millisecond each:
/// it has a number, and its timed batches allocate nothing.
#[test]
#[ignore = "long; ./check --all runs it"]
fn headline_points_are_measured_without_allocating() {
    for probe in TABLE {
        for skipped in check_points(probe, &headlines(probe, &Facts::default()), SOME_NS) {
            eprintln!("{skipped}");
        }
    }
}

/// The same of all that a probe with two ends has in its own plan.
#[test]
#[ignore = "long; ./check --all runs it"]
fn points_between_two_ends_are_measured_without_allocating() {
    for probe in TABLE.iter().filter(|probe| probe.info.needs_link()) {
        let some = check_points(probe, &planned(probe), SOME_NS);
        let few = headlines(probe, &Facts::default());
        let little = check_points(probe, &few, LITTLE_NS);
        for skipped in some.iter().chain(&little) {
            eprintln!("{skipped}");
        }
    }
}

/// The report of a point that was measured once. It is measured again where a core that was slow for a moment may be why
/// there is no number: a batch was then longer than what fits, or too little arrived in the time.
fn settled(
    probe: &Probe,
    point: &Point,
    time_ns: u64,
    mut measured: Result<Vec<Report>, Failure>,
) -> Result<Report, Failure> {
    let mut tries = SECOND_TRIES;
    loop {
        let report = measured.map(|reports| {
            assert!(reports.iter().all(|report| report.allocations == 0), "{point} allocates");
            (probe.derive)(point, reports)
        });
        let has_no_number = match &report {
            Ok(report) => report.state == State::BelowResolution,
            Err(failure) => !may_be_absent(point, failure),
        };
        if !has_no_number || tries == 0 {
            return report;
        }
        tries -= 1;
        measured = measure(probe, std::slice::from_ref(point), time_ns).remove(0);
    }
}

/// What was skipped, and why.
fn check_points(probe: &Probe, points: &[Point], time_ns: u64) -> Vec<String> {
    let mut skipped = Vec::new();
    for (point, measured) in points.iter().zip(measure(probe, points, time_ns)) {
        let report = match settled(probe, point, time_ns, measured) {
            Ok(report) => report,
            Err(failure) => {
                assert!(may_be_absent(point, &failure), "{point}: {failure}");
                skipped.push(format!("skipped: {point}: {failure}"));
                continue;
            }
        };
        assert_eq!(report.state, State::Ok, "{point}");
        let primary = &probe.info.primary().name;
        assert!(
            report.metrics.iter().any(|metric| metric.name == *primary),
            "{point} gives no {primary}"
        );
        for metric in &report.metrics {
            let declared = probe.info.metrics.iter();
            let is_declared = declared.clone().any(|info| info.name == metric.name);
            assert!(is_declared, "{point} does not declare {}", metric.name);
        }
    }
    skipped
}
