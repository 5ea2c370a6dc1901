//! Every probe between two ends, over every kind of path between them.

use crate::common::{
    Place, expect_complete, interrupt, or_skip, run, skipped, spawn, wait_for, was_starved,
};
use crate::namespaces::Namespaces;
use crate::ssh::There;
use costof_model::point::Point;
use costof_model::rows::{FailureRow, State};
use costof_model::run_file::Run;
use rustix::process::geteuid;
use std::fs;

/// Each probe, and what its points must have.
const PROBES: [(&str, &str); 9] = [
    ("net.rtt", "latency"),
    ("net.ping", "latency lost"),
    ("net.connect", "latency close tear_down accept server_close"),
    ("net.bandwidth", "throughput cost cpu_sender cpu_receiver"),
    ("net.stages", "latency send_to_queue queue_to_driver driver_to_stack stack_to_receive"),
    ("copy.send", "throughput rate cost cpu_sender cpu_receiver"),
    (
        "rudp.stages",
        "client client_send client_receive server server_receive server_send latency missing",
    ),
    ("net.stream", "throughput start_up cpu_sender cpu_receiver"),
    ("rudp.loss", "throughput latency starved"),
];

/// Something emulates this one.
const EMULATED: &str = "delay=1ms,rate=100Mbit";

/// All of them, few points of each, over this path.
fn words(path: &str) -> String {
    // A pattern may match a probe that cannot have all of the values.
    let probes = PROBES.map(|(probe, _)| format!("{probe}*")).join(" ");
    let sets = "--set over=tcp,udp,rudp,study --set size=1024 --set cpus=cross --set wake=awake";
    format!("run --only {probes} {sets} --quick --seed 1 --out run.jsonl {path}")
}

/// Every point of every probe over each of these links has its row and metrics.
#[track_caller]
fn expect_measured(run: &Run, links: &[&str]) {
    assert!(run.end.is_some());
    for (probe, metrics) in PROBES {
        for link in links {
            let mut points: Vec<&Point> = run.run.plan.points().collect();
            points.retain(|point| point.probe == probe && point.link == *link);
            assert!(!points.is_empty(), "{probe} over {link} is not planned");
            for point in points {
                expect_point(run, point, metrics);
            }
        }
    }
}

/// The point has its row and metrics, or there is no such thing here, which is said.
#[track_caller]
fn expect_point(run: &Run, point: &Point, metrics: &str) {
    let failures = run.failures.iter().filter(|row| row.point == *point);
    let Some(row) = run.points.iter().find(|row| row.point == *point) else {
        let failures: Vec<_> = failures.collect();
        let is_not_to_be_had = |row: &&FailureRow| {
            row.reason.contains("cannot make the link")
                || was_starved(row)
                || (point.probe == "net.ping" && !geteuid().is_root())
        };
        assert!(failures.iter().any(is_not_to_be_had), "{failures:?}");
        return skipped(format_args!("{point}: {}", failures[0].reason));
    };
    assert_eq!(row.state, State::Ok, "{row:?}");
    for metric in metrics.split(' ') {
        let has = row.metrics.iter().any(|own| own.name == metric);
        assert!(has, "{metric} is missing in {row:?}");
    }
    let lost: Vec<_> = failures.filter(|row| !was_starved(row)).collect();
    assert!(lost.is_empty(), "{lost:?}");
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn every_probe_is_measured_over_several_links_in_one_run() {
    let place = Place::new();
    let path = format!("--link loopback --link veth --link {EMULATED}");
    place.run(&words(&path)).expect_code(0);
    place.expect_nothing_runs();
    expect_measured(&place.run_file(), &["loopback", "veth", EMULATED]);
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn every_probe_is_measured_between_named_namespaces() {
    let namespaces = or_skip!(Namespaces::new("costofall"));
    let place = Place::new();
    let words = words(&format!("--peer netns:{}", namespaces.far));
    let costof = place.costof(&words);
    run(&mut namespaces.at_the_near_end(&costof)).expect_code(0);
    place.expect_nothing_runs();
    expect_measured(&place.run_file(), &["remote"]);
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn every_probe_is_measured_to_where_ssh_leads() {
    let namespaces = Namespaces::new("costofssh2");
    let there = match &namespaces {
        Ok(namespaces) => There::across(namespaces),
        Err(why) => {
            skipped(format_args!("a sshd elsewhere than on loopback: {why}"));
            There::new()
        }
    };
    let there = or_skip!(there);
    let mut costof = there.costof(&words("--peer ssh:there"));
    let link = match &namespaces {
        Ok(namespaces) => {
            costof = namespaces.at_the_near_end(&costof);
            "remote"
        }
        Err(_) => "loopback",
    };
    run(&mut costof).expect_code(0);
    there.place.expect_nothing_runs();
    expect_measured(&there.place.run_file(), &[link]);
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn an_interrupted_run_with_a_peer_goes_on_with_it() {
    let place = Place::new();
    let words = "run --only net.rtt --set over=tcp,udp --set size=1,56,1024 --quick --out run.jsonl \
                 --peer local --peer-port 46150-46199";
    let controller = spawn(&mut place.costof(words));
    wait_for("a launch", || {
        let text = fs::read_to_string(place.path("run.jsonl")).unwrap_or_default();
        text.contains("\n{\"type\":\"launch\"")
    });
    interrupt(controller);
    place.expect_nothing_runs();
    let kept = place.run_file();
    assert!(kept.end.is_none());

    place.run("run --resume run.jsonl").expect_code(0);
    place.expect_nothing_runs();
    let whole = place.run_file();
    expect_complete(&whole);
    assert!(whole.failures.is_empty(), "{:?}", whole.failures);
    assert_eq!(whole.launches[..kept.launches.len()], kept.launches[..]);
    assert!(whole.launches.len() > kept.launches.len());
    assert_eq!(whole.attempts.len(), 2);
    for attempt in &whole.attempts {
        let peer = attempt.peer.as_ref().expect("it has met its peer");
        assert!(peer.addresses.is_some());
    }
}
