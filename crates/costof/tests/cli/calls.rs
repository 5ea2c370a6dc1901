//! Remote procedure calls: every stack, every probe, over several links.

use crate::common::{
    Place, assert_contains, assert_contains_all, expect_failed_by, expect_metrics, is_starved,
    median,
};
use costof_model::rows::{PointRow, State};
use costof_model::run_file::Run;
use std::path::Path;

/// Something emulates this one.
const EMULATED: &str = "delay=1ms,rate=100Mbit";

/// What these words give.
fn measured(words: &str) -> Run {
    Place::new().quick(words).0
}

/// The rows of a run, all of whose points must have one unless their link cannot be made here.
fn rows(run: &Run) -> &[PointRow] {
    expect_failed_by(run, &["cannot make the link"]);
    let planned = run.run.plan.points().count();
    assert!(run.points.len() + run.failures.len() >= planned);
    for row in &run.points {
        assert_eq!(row.state, State::Ok, "{row:?}");
    }
    &run.points
}

/// The CPU time of the stack's own threads, where this kernel counts it.
#[track_caller]
fn expect_cpu(row: &PointRow, metric: &str) {
    if Path::new("/proc/self/schedstat").exists() {
        expect_metrics(row, &[metric]);
    }
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn every_stack_is_there_and_back_over_every_link_and_stands_on_the_ladder() {
    let place = Place::new();
    let (run, _) = place.quick(&format!(
        "net.rtt --set over=grpc,thrift,tcp,rudp,udp --set payload=int,structure \
         --link loopback --link veth --link {EMULATED}"
    ));
    for row in rows(&run) {
        expect_metrics(row, &["latency", "cpu_client"]);
        let is_datagrams = matches!(row.axes().find_word("over"), Some("rudp" | "udp"));
        assert_eq!(row.estimate("lost").is_some(), is_datagrams, "{row:?}");
        expect_cpu(row, "cpu_server");
    }
    // Where others use the processors, nothing is held to be the stacks'.
    let quiet = place.make_quiet("run.jsonl");
    let shown = place.run("show run.jsonl --notes").expect_code(0).out;
    for link in ["loopback", "veth"] {
        if quiet.points.iter().any(|row| row.point.link == link) {
            assert_contains(&shown, &format!("a call with structure over {link}: "));
        }
    }
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn calls_go_over_unix_sockets() {
    let run = measured("net.rtt --set over=grpc_unix,thrift_unix,unix --set payload=int");
    assert_eq!(run.points.len(), 3, "{:?}", run.failures);
    for row in &run.points {
        assert_eq!(row.point.probe, "net.rtt");
        expect_metrics(row, &["latency"]);
    }
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn the_first_call_stands_beside_the_others() {
    let run = measured(&format!(
        "rpc.first_call --set over=grpc,thrift --link loopback --link {EMULATED}"
    ));
    for row in rows(&run) {
        expect_metrics(row, &["first", "connection", "latency"]);
        expect_metrics(row, &["first_again", "connection_again"]);
    }
    // A process has one first call.
    for block in &run.run.plan.blocks {
        assert_eq!(block.points.len(), 1);
    }
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn every_payload_is_marshalled_and_unmarshalled() {
    let run = measured("rpc.marshal");
    let rows = rows(&run);
    assert_eq!(rows.len(), 2 * 9 * 2);
    let bytes = |stack, payload, direction| {
        let is_it = |row: &&PointRow| {
            ["stack", "payload", "direction"].map(|axis| row.axes().find_word(axis))
                == [stack, payload, direction].map(Some)
        };
        let row = rows.iter().find(is_it).expect("it is planned");
        expect_metrics(row, &["cost", "wire_bytes"]);
        median(row, "wire_bytes")
    };
    for stack in ["grpc", "thrift"] {
        for payload in ["int", "double", "structure", "string2048"] {
            let both = ["marshal", "unmarshal"].map(|direction| bytes(stack, payload, direction));
            assert_eq!(both[0], both[1], "{stack} {payload}");
        }
        assert!(bytes(stack, "string2048", "marshal") >= 2048.0);
    }
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn streams_carry_messages_of_a_byte_and_of_megabytes() {
    let over_links = format!("--set size=1,64KiB --link loopback --link {EMULATED}");
    for words in [&*over_links, "--set size=4MiB"] {
        let run = measured(&format!("net.stream --set over=grpc,thrift,tcp,rudp {words}"));
        for row in rows(&run) {
            expect_metrics(row, &["throughput", "rate"]);
            if !is_starved(&run, row) {
                expect_metrics(row, &["cpu_sender", "mtu"]);
                expect_cpu(row, "cpu_receiver");
            }
            let size = row.axes().number("size") as f64;
            let by_rate = median(row, "rate") * size / median(row, "throughput");
            assert!((0.5..2.0).contains(&by_rate), "{row:?}");
        }
    }
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn calls_are_made_at_a_rate() {
    let run = measured("rpc.load --set rate=200,2000 --set connections=1,3");
    for row in rows(&run) {
        expect_metrics(row, &["latency", "rate", "cpu_client"]);
        expect_cpu(row, "cpu_server");
        for metric in ["in_flight", "in_flight_most", "unanswered"] {
            assert!(median(row, metric) >= 0.0, "{metric} {row:?}");
        }
    }
    // No more calls than the rate allows, for however long a slow first call makes it last.
    for launch in &run.launches {
        for point in &launch.points {
            let most = point.point.axes.number("rate") as f64 * launch.wall_ns / 1e9;
            let calls = point.metrics.iter().find(|metric| metric.name == "latency");
            let calls = calls.map_or(0, |latency| latency.count(None));
            assert!(calls as f64 <= most, "{calls} of {most}: {point:?}");
        }
    }
}

#[test]
fn the_plan_of_calls_has_what_they_are_made_of() {
    let shown = Place::new().run("run net.rtt net.stream rpc --dry-run").expect_code(0);
    assert_contains_all(
        &shown.out,
        &[
            "net.rtt over=grpc size=64B wait=block cpus=cross wake=awake rate=0 payload=string over loopback",
            "net.rtt over=rudp size=64KiB wait=block cpus=cross wake=awake rate=0 payload=string over loopback",
            "net.rtt over=thrift_unix size=56B wait=block cpus=cross wake=awake rate=0 payload=string over loopback",
            "rpc.first_call over=thrift payload=structure cpus=cross wake=awake over loopback",
            "rpc.marshal stack=thrift payload=int direction=unmarshal",
            "net.stream over=rudp size=1B window=0 control=cubic congestion_control=default over loopback",
            "rpc.load over=grpc payload=string64 rate=120000 connections=1 over loopback",
            "os.syscall call=read",
            "os.page_fault kind=minor_file",
            "net.bandwidth",
        ],
    );
}
