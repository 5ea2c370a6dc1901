//! Measuring where another command leads, and what is in its way.

use crate::common::{
    Ended, Place, assert_contains, assert_contains_all, expect_complete, read, run,
};
use crate::namespaces::Namespaces;
use costof_model::failure::FailureKind;
use rustix::process::geteuid;
use std::fs;

/// The host that a command of the shell leads to, with `WORKER` in it for one
/// that starts a worker.
fn host(place: &Place, command: &str) -> String {
    let costof = place.costof(&[]);
    let worker = format!("{} worker", Place::program(&costof));
    format!("exec:{}", command.replace("WORKER", &worker))
}

/// A cheap run on such a host.
fn on(command: &str, more: &[&str]) -> (Place, Ended) {
    let place = Place::new();
    let host = host(&place, command);
    let usual = [
        "run",
        "null",
        "--quick",
        "--out",
        "run.jsonl",
        "--on",
        &host,
    ];
    let ended = run(place.costof(&usual).args(more));
    place.expect_nothing_runs();
    (place, ended)
}

#[test]
fn whatever_the_command_only_its_input_and_output_are_relied_on() {
    for command in [
        "WORKER",
        "exec WORKER",
        // Shells between, of which none is replaced by the worker.
        "sh -c 'WORKER; true'; true",
        "cat | WORKER | cat",
        // What starts the worker ends long before it.
        "exec 3<&0; (WORKER <&3 &) ; true",
        "echo noise >&2; WORKER",
    ] {
        let (place, ended) = on(command, &[]);
        ended.expect_code(0);
        let run = read(&place.path("run.jsonl"));
        expect_complete(&run);
        let on = run.run.plan.hosts.on.unwrap();
        assert!(on.starts_with("exec:"), "{on}");
    }
}

#[test]
fn a_command_that_a_file_names_is_not_run_unseen() {
    let (place, ended) = on("WORKER", &[]);
    ended.expect_code(0);
    let resume = "run --resume run.jsonl";
    let ended = run(&mut place.costof(resume)).expect_code(2);
    assert_contains_all(&ended.err, &["exec:", "--force"]);
    run(place.costof(resume).arg("--force")).expect_code(0);
}

/// Nothing is measured, and the error names all of these.
#[track_caller]
fn refused(command: &str, more: &[&str], named: &[&str]) {
    let (place, ended) = on(command, more);
    let ended = ended.expect_code(3);
    for name in named {
        assert_contains(&ended.err, name);
    }
    assert!(!place.path("run.jsonl").exists());
}

#[test]
fn a_banner_before_the_worker_is_told_from_it_and_shown() {
    refused(
        "echo 'Welcome to node7!'; WORKER",
        &[],
        &["first line", "`Welcome to node7!`", "print nothing"],
    );
}

#[test]
fn what_says_nothing_is_given_up_within_the_limit() {
    refused(
        "cat",
        &["--timeout", "1"],
        &["exec:cat", "introduce itself within 1 s"],
    );
}

#[test]
fn what_is_not_there_is_named() {
    refused(
        "no-such-program",
        &[],
        &["exit code 127", "no-such-program"],
    );
}

#[test]
fn another_protocol_is_refused_by_both_versions_and_the_way_out() {
    let hello = r#"{"is":"hello","protocol":7,"costof":"3.0","more":[]}"#;
    refused(
        &format!("echo '{hello}'; cat >&2"),
        &[],
        &[
            "costof 3.0",
            "protocol 7",
            env!("CARGO_PKG_VERSION"),
            "protocol 1",
            "same release",
        ],
    );
}

#[test]
fn what_a_worker_says_of_itself_rules_no_terminal() {
    let escape = r"\\u001b[2J";
    let hello = format!(r#"{{"is":"hello","protocol":7,"costof":"{escape}"}}"#);
    refused(
        &format!("printf '%b\\n' '{hello}'; cat >&2"),
        &[],
        &["costof .[2J)"],
    );
    let facts = format!(r#"s/"host_name":"[^"]*"/"host_name":"{escape}"/"#);
    let (place, ended) = on(&format!("WORKER | sed -u '{facts}'"), &[]);
    ended.expect_code(0);
    let run = read(&place.path("run.jsonl"));
    let facts = &run.attempts[0].hosts["only"];
    assert_eq!(facts.host_name.as_deref(), Some(".[2J"));
}

#[test]
fn a_worker_that_talks_without_end_is_given_up() {
    refused("yes", &[], &["first line", "`y`"]);
    let hello = r#"{"is":"hello","protocol":1,"costof":"0.1.0"}"#;
    refused(&format!("yes '{hello}'"), &[], &["describe itself"]);
    // A line that does not end is cut where lines are bounded.
    refused("tr '\\0' x < /dev/zero", &[], &["first line", "xxx"]);
}

#[test]
fn another_build_with_other_probes_is_a_host_whose_absent_probes_are_named() {
    let place = Place::new();
    let other = place.misbehaving(&[]);
    let host = format!("exec:{} worker", Place::program(&other));
    let arguments = [
        "run",
        "null",
        "--quick",
        "--out",
        "run.jsonl",
        "--on",
        &host,
    ];
    run(&mut place.costof(&arguments)).expect_code(3);
    let run = read(&place.path("run.jsonl"));
    let failure = &run.failures[0];
    assert_eq!(failure.kind, FailureKind::Unsupported);
    assert_contains(&failure.reason, "has no probe null");
    assert_contains(&failure.reason, "same release");
}

#[test]
fn a_link_is_made_for_what_a_command_starts_here_and_for_nothing_elsewhere() {
    if !geteuid().is_root() {
        return eprintln!("skipped: only root leaves a link's namespace for the machine's own");
    }
    let elsewhere = format!("nsenter --net=/proc/{}/ns/net WORKER", std::process::id());
    // As whatever has to reach another machine first: it fails where nothing else is.
    let own = fs::read_link("/proc/self/ns/net").unwrap();
    let fails_there = format!(
        "test \"$(readlink /proc/self/ns/net)\" = '{}' && WORKER",
        own.display()
    );
    for (command, is_here) in [
        ("WORKER", true),
        ("true; WORKER; true", true),
        (elsewhere.as_str(), false),
        (fails_there.as_str(), false),
    ] {
        let place = Place::new();
        let on = host(&place, command);
        let words = "run net.rtt --set over=tcp --set size=56 --set wake=idle --link veth --link \
                     loopback --quick --out run.jsonl --on";
        run(place.costof(words).arg(&on)).expect_code(0);
        place.expect_nothing_runs();
        let run = read(&place.path("run.jsonl"));
        let mut failures = run.failures.iter().filter(|row| row.point.link == "veth");
        if failures
            .clone()
            .any(|row| row.reason.contains("cannot make the link"))
        {
            return eprintln!("skipped: {:?}", failures.next());
        }
        assert!(run.points.iter().any(|row| row.point.link == "loopback"));
        let measured = run.points.iter().any(|row| row.point.link == "veth");
        assert_eq!(measured, is_here, "{command}: {:?}", run.failures);
        let is_told = failures.any(|row| {
            row.kind == FailureKind::Unsupported
                && row.reason.contains("leads elsewhere (run costof there)")
        });
        assert_eq!(is_told, !is_here, "{command}: {:?}", run.failures);
    }
}

#[test]
fn of_a_worker_that_hangs_or_crashes_elsewhere_nothing_is_left() {
    for (words, kind) in [
        ("test.hang --set how=spin", FailureKind::TimedOut),
        ("test.hang --set how=stop", FailureKind::TimedOut),
        ("test.leaves_child --set end=crash", FailureKind::Crashed),
        ("test.rubbish --set to=protocol", FailureKind::Error),
    ] {
        let place = Place::new();
        let program = place.misbehaving(&[]);
        let on = format!("exec:true; {} worker; true", Place::program(&program));
        let words = format!("run {words} --quick --timeout 2 --out run.jsonl --on");
        let mut costof = place.misbehaving(&words);
        run(costof.arg(&on)).expect_code(3);
        place.expect_nothing_runs();
        let failures = read(&place.path("run.jsonl")).failures;
        assert_eq!(failures[0].kind, kind, "{failures:?}");
        assert!(failures[0].reason.contains("exec:true"), "{failures:?}");
    }
}

#[test]
fn both_ends_of_a_round_trip_may_be_anywhere_and_are_written_down() {
    let place = Place::new();
    let (on, peer) = (host(&place, "WORKER"), host(&place, "cat | WORKER"));
    let words = "run net.rtt --set over=tcp,udp --quick --out run.jsonl --peer-port 46110-46140";
    let mut costof = place.costof(words);
    costof.args(["--peer-address", "127.0.0.1", "--on", &on, "--peer", &peer]);
    run(&mut costof).expect_code(0);
    place.expect_nothing_runs();
    let measured = read(&place.path("run.jsonl"));
    assert!(measured.failures.is_empty(), "{:?}", measured.failures);
    expect_complete(&measured);
    // One namespace of one machine, by whatever command.
    assert!(
        measured
            .points
            .iter()
            .all(|row| row.point.link == "loopback")
    );
    let hosts = &measured.run.plan.hosts;
    assert_eq!(
        (hosts.on.as_ref(), hosts.peer.as_ref()),
        (Some(&on), Some(&peer))
    );
    assert_eq!(hosts.peer_ports, Some((46110, 46140)));
    let attempt = &measured.attempts[0];
    let roles: Vec<&str> = attempt.hosts.keys().map(|role| &**role).collect();
    assert_eq!(roles, ["only", "peer"]);
    assert!(attempt.peer.is_some());
    // And nobody else learns of it.
    let export = run(&mut place.costof("export --anonymous run.jsonl")).expect_code(0);
    let costof = place.costof(&[]);
    for secret in [Place::program(&costof), "cat |", "127.0.0.1"] {
        assert!(!export.out.contains(secret), "`{secret}` is exported");
    }
}

#[test]
fn the_other_end_may_be_at_an_address_of_ip_version_6() {
    if fs::read_to_string("/proc/net/if_inet6").is_ok_and(|text| text.contains(" lo")) {
        let place = Place::new();
        let words = "run net.rtt --set over=tcp,udp --quick --out run.jsonl --peer local \
                     --peer-address ::1";
        run(&mut place.costof(words)).expect_code(0);
        let run = read(&place.path("run.jsonl"));
        assert!(run.failures.is_empty(), "{:?}", run.failures);
        expect_complete(&run);
    } else {
        eprintln!("skipped: this machine's loopback has no ::1");
    }
}

#[test]
fn what_cannot_be_asked_of_hosts_is_refused_before_anything_starts() {
    let place = Place::new();
    for (words, named) in [
        ("null --on there", &["ssh:there"][..]),
        ("null --on ssh:-oProxyCommand=x", &["[USER@]HOST"]),
        ("null --peer local", &["two ends", "costof list net"]),
        ("net.rtt --link remote", &["--peer"]),
        (
            "net.rtt --link lan --link delay=0.05ms,rate=1Gbit",
            &["twice"],
        ),
        ("net.rtt --link veth --peer local", &["--link", "--peer"]),
        ("net.rtt --peer-port 5000", &["--peer"]),
        ("net.rtt --peer-address ::1", &["--peer", "--link"]),
        (
            "net.rtt --link veth --peer-address 192.0.2.1",
            &["veth", "10.0.0.1", "fd00:c057::1"],
        ),
        (
            "net.rtt --link veth --link sink --peer-address fd00:c057::1",
            &["sink", "10.0.0.1"],
        ),
        ("net.rtt --peer local --peer-port 9-5", &["5000-5010"]),
        (
            "net.rtt --link veth --peer-port 5000",
            &["--peer-port", "--link"],
        ),
        (
            "net.rtt --link veth --peer-cpu 0",
            &["--peer-cpu", "--link"],
        ),
        (
            "net.rtt --peer local --peer-cpu 0",
            &["--peer-cpu", "--cpu"],
        ),
        (
            "--resume run.jsonl --peer-address ::1",
            &["--peer-address", "--resume"],
        ),
        (
            "--resume run.jsonl --peer-cpu 0",
            &["--peer-cpu", "--resume"],
        ),
        (
            "net.rtt --peer local --peer-address 0.0.0.0",
            &["0.0.0.0", "one host"],
        ),
        (
            "net.rtt --peer local --peer-address ff02::1",
            &["ff02::1", "one host"],
        ),
        (
            "net.rtt --peer local --peer-address fe80::1",
            &["link-local"],
        ),
        ("null --on local --on local", &["twice"]),
        (
            "null --on local --on netns:a --json",
            &["--json", "one host"],
        ),
        ("null --on netns:../a", &["ip netns list"]),
    ] {
        let words: Vec<&str> = ["run"].into_iter().chain(words.split(' ')).collect();
        run(&mut place.costof(&words)).expect_wrong(named);
    }
}

#[test]
fn two_named_namespaces_are_two_hosts_on_one_machine() {
    let namespaces = match Namespaces::new("costof") {
        Ok(namespaces) => namespaces,
        Err(why) => return eprintln!("skipped: {why}"),
    };
    let place = Place::new();
    let near = format!("netns:{}", namespaces.near);
    let far = format!("netns:{}", namespaces.far);
    let words = "run net.rtt --set over=tcp,udp --quick --out run.jsonl";
    let mut costof = place.costof(words);
    run(costof.args(["--on", &near, "--peer", &far])).expect_code(0);
    place.expect_nothing_runs();
    let run = read(&place.path("run.jsonl"));
    assert!(run.failures.is_empty(), "{:?}", run.failures);
    expect_complete(&run);
    assert!(run.points.iter().all(|row| row.point.link == "remote"));
    let addresses = run.attempts[0].peer.as_ref().unwrap().addresses.unwrap();
    assert_eq!(addresses.0.to_string(), "10.77.0.2");
    assert_eq!(addresses.1.to_string(), "10.77.0.1");
}

#[test]
fn what_another_session_of_ssh_left_in_the_environment_is_no_address() {
    let namespaces = match Namespaces::new("costofold") {
        Ok(namespaces) => namespaces,
        Err(why) => return eprintln!("skipped: {why}"),
    };
    let place = Place::new();
    let left = "198.51.100.1 50000 198.51.100.7 22";
    let by_name = |name: &String| format!("netns:{name}");
    let by_command = |name: &String| {
        let command = format!("ip netns exec {name} env SSH_CONNECTION='{left}' WORKER");
        host(&place, &command)
    };
    for hosts in [
        [&namespaces.near, &namespaces.far].map(by_name),
        [&namespaces.near, &namespaces.far].map(by_command),
    ] {
        let words = "run net.rtt --set size=1 --quick --out run.jsonl";
        let mut costof = place.costof(words);
        costof.env("SSH_CONNECTION", left);
        run(costof.args(["--on", &hosts[0], "--peer", &hosts[1]])).expect_code(0);
        let run = read(&place.path("run.jsonl"));
        let (near, far) = run.attempts[0].peer.as_ref().unwrap().addresses.unwrap();
        assert_eq!(
            [near.to_string(), far.to_string()],
            ["10.77.0.2", "10.77.0.1"],
            "{hosts:?}"
        );
        fs::remove_file(place.path("run.jsonl")).unwrap();
    }
}

#[test]
fn a_namespace_that_is_not_there_is_named() {
    let place = Place::new();
    let words = ["run", "null", "--quick", "--on", "netns:no-such-namespace"];
    let ended = run(&mut place.costof(&words)).expect_code(3);
    assert_contains_all(&ended.err, &["no-such-namespace", "ip netns list"]);
}
