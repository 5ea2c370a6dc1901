//! Measuring where another command leads, and what is in its way.

use crate::common::{
    COSTOF, Ended, Place, assert_contains, assert_contains_all, expect_complete, misbehaving,
    or_skip, run, skipped,
};
use crate::namespaces::Namespaces;
use costof_model::failure::FailureKind;
use costof_model::run_file::Run;
use rustix::process::geteuid;
use std::fs;

/// The host that a command of the shell leads to, with `WORKER` in it for one
/// that starts a worker.
fn host(command: &str) -> String {
    let command = command.replace("WORKER", &format!("{COSTOF} worker"));
    format!("exec:{command}")
}

/// A cheap run on such a host.
fn on(command: &str, more: &str) -> (Place, Ended) {
    let place = Place::new();
    let line = format!("run --only null --quick --out run.jsonl {more} --on");
    let ended = run(place.costof(&line).arg(host(command)));
    place.expect_nothing_runs();
    (place, ended)
}

/// A run without failures is complete.
#[track_caller]
pub(crate) fn expect_whole(run: &Run) {
    assert!(run.failures.is_empty(), "{:?}", run.failures);
    expect_complete(run);
}

/// The addresses of both ends of a run.
pub(crate) fn addresses(run: &Run) -> [String; 2] {
    let (near, far) = run.attempts[0].peer.as_ref().unwrap().addresses.unwrap();
    [near.to_string(), far.to_string()]
}

#[test]
#[ignore = "long; ./check --all runs it"]
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
        let (place, ended) = on(command, "");
        ended.expect_code(0);
        let run = place.run_file();
        expect_complete(&run);
        let on = run.run.plan.hosts.on.unwrap();
        assert!(on.starts_with("exec:"), "{on}");
    }
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn a_command_that_a_file_names_is_not_run_unseen() {
    let (place, ended) = on("WORKER", "");
    ended.expect_code(0);
    let ended = place.run("run --resume run.jsonl").expect_code(2);
    assert_contains_all(&ended.err, &["exec:", "--force"]);
    place.run("run --resume run.jsonl --force").expect_code(0);
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn what_is_no_worker_is_named_with_what_it_said_and_nothing_is_measured() {
    const OLD: &str = r#"echo '{"is":"hello","protocol":7,"costof":"3.0","more":[]}'; cat >&2"#;
    const OF_PROTOCOL: &str = r#"yes '{"is":"hello","protocol":1,"costof":"0.1.0"}'"#;
    const ESCAPES: &str =
        r#"printf '%b\n' '{"is":"hello","protocol":7,"costof":"\\u001b[2J"}'; cat >&2"#;
    let own = env!("CARGO_PKG_VERSION");
    for (command, more, named) in [
        // A banner before the worker is told from it and shown.
        (
            "echo 'Welcome to node7!'; WORKER",
            "",
            &["first line", "`Welcome to node7!`", "print nothing"][..],
        ),
        // What says nothing is given up within the limit.
        ("cat", "--timeout 1", &["exec:cat", "introduce itself within 1 s"]),
        // Nor is one that then does nothing.
        (
            "WORKER | (head -n 1; exec sleep 60)",
            "--timeout 10",
            &["describe its machine", "within 10 s"],
        ),
        ("no-such-program", "", &["exit code 127", "no-such-program"]),
        // Another protocol is refused by both versions and the way out.
        (OLD, "", &["costof 3.0", "protocol 7", own, "protocol 1", "same release"]),
        (ESCAPES, "", &["costof \u{fffd}[2J)"]),
        // One that talks without end is given up.
        ("yes", "", &["first line", "`y`"]),
        (OF_PROTOCOL, "", &["describe itself"]),
        // A line that does not end is cut where lines are bounded.
        ("tr '\\0' x < /dev/zero", "", &["first line", "xxx"]),
    ] {
        let (place, ended) = on(command, more);
        assert_contains_all(&ended.expect_code(3).err, named);
        assert!(!place.path("run.jsonl").exists());
    }
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn what_a_worker_says_of_itself_rules_no_terminal() {
    let facts = r#"s/"host_name":"[^"]*"/"host_name":"\\u001b[2J"/"#;
    let (place, ended) = on(&format!("WORKER | sed -u '{facts}'"), "");
    ended.expect_code(0);
    let run = place.run_file();
    let facts = &run.attempts[0].hosts["only"];
    assert_eq!(facts.host_name.as_deref(), Some("\u{fffd}[2J"));
}

#[test]
fn another_build_with_other_probes_is_a_host_whose_absent_probes_are_named() {
    let (place, ended) = on(&format!("{} worker", misbehaving()), "");
    ended.expect_code(3);
    let run = place.run_file();
    let failure = &run.failures[0];
    assert_eq!(failure.kind, FailureKind::Unsupported);
    assert_contains_all(&failure.reason, &["has no probe harness.null", "same release"]);
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn a_link_is_made_for_what_a_command_starts_here_and_for_nothing_elsewhere() {
    if !geteuid().is_root() {
        return skipped("only root leaves a link's namespace for the machine's own");
    }
    let elsewhere = format!("nsenter --net=/proc/{}/ns/net WORKER", std::process::id());
    // As whatever has to reach another machine first: it fails where nothing else is.
    let own = fs::read_link("/proc/self/ns/net").unwrap();
    let fails_there =
        format!("test \"$(readlink /proc/self/ns/net)\" = '{}' && WORKER", own.display());
    for (command, is_here) in [
        ("WORKER", true),
        ("true; WORKER; true", true),
        (elsewhere.as_str(), false),
        (fails_there.as_str(), false),
    ] {
        let place = Place::new();
        let line = "run --only net.rtt --set over=tcp --set size=56 --set wake=idle --link veth --link \
                    loopback --quick --out run.jsonl --on";
        run(place.costof(line).arg(host(command))).expect_code(0);
        place.expect_nothing_runs();
        let run = place.run_file();
        let mut failures = run.failures.iter().filter(|row| row.point.link == "veth");
        let cannot = "cannot make the link";
        if let Some(row) = failures.clone().find(|row| row.reason.contains(cannot)) {
            return skipped(&row.reason);
        }
        assert!(run.points.iter().any(|row| row.point.link == "loopback"));
        let measured = run.points.iter().any(|row| row.point.link == "veth");
        assert_eq!(measured, is_here, "{command}: {:?}", run.failures);
        let is_named = failures.any(|row| {
            row.kind == FailureKind::Unsupported && row.reason.contains("(run costof there)")
        });
        assert_eq!(is_named, !is_here, "{command}: {:?}", run.failures);
    }
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn of_a_worker_that_hangs_or_crashes_elsewhere_nothing_is_left() {
    // What hangs may take no time; what crashes may need much on a busy machine.
    for (words, kind) in [
        ("test.hang --set how=spin --timeout 20", FailureKind::TimedOut),
        ("test.hang --set how=stop --timeout 20", FailureKind::TimedOut),
        ("test.leaves_child --set end=crash", FailureKind::Crashed),
        ("test.rubbish --set to=protocol", FailureKind::Error),
    ] {
        let place = Place::new();
        let line = format!(
            "run {words} --quick --out run.jsonl --on 'exec:true; {} worker; true'",
            misbehaving()
        );
        place.run_misbehaving(&line).expect_code(3);
        place.expect_nothing_runs();
        let failures = place.run_file().failures;
        assert_eq!(failures[0].kind, kind, "{failures:?}");
        assert_contains(&failures[0].reason, "exec:true");
    }
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn both_ends_of_a_round_trip_may_be_anywhere_and_are_written_down() {
    let place = Place::new();
    let (on, peer) = (host("WORKER"), host("cat | WORKER"));
    let line = format!(
        "run --only net.rtt --set over=tcp,udp --quick --out run.jsonl --peer-port 46110-46140 \
         --peer-address 127.0.0.1 --on '{on}' --peer '{peer}'"
    );
    place.run(&line).expect_code(0);
    place.expect_nothing_runs();
    let measured = place.run_file();
    expect_whole(&measured);
    // One namespace of one machine, by whatever command.
    let mut points = measured.points.iter();
    assert!(points.all(|row| row.point.link == "loopback"));
    let hosts = &measured.run.plan.hosts;
    let named = [&hosts.on, &hosts.peer].map(Option::as_deref);
    assert_eq!(named, [&on, &peer].map(|host| Some(host.as_str())));
    assert_eq!(hosts.peer_ports, Some((46110, 46140)));
    let attempt = &measured.attempts[0];
    let roles: Vec<&str> = attempt.hosts.keys().map(|role| &**role).collect();
    assert_eq!(roles, ["only", "peer"]);
    assert!(attempt.peer.is_some());
    // And nobody else learns of it.
    let export = place.run("export --anonymous run.jsonl").expect_code(0);
    for secret in [COSTOF, "cat |", "127.0.0.1"] {
        assert!(!export.out.contains(secret), "`{secret}` is exported");
    }
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn the_other_end_may_be_at_an_address_of_ip_version_6() {
    if !fs::read_to_string("/proc/net/if_inet6").is_ok_and(|text| text.contains(" lo")) {
        return skipped("this machine's loopback has no ::1");
    }
    let place = Place::new();
    let line = "run --only net.rtt --set over=tcp,udp --quick --out run.jsonl --peer local \
                --peer-address ::1";
    place.run(line).expect_code(0);
    expect_whole(&place.run_file());
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn two_named_namespaces_are_two_hosts_on_one_machine() {
    let Namespaces { near, far } = &or_skip!(Namespaces::new("costof"));
    let place = Place::new();
    let line = format!(
        "run --only net.rtt --set over=tcp,udp --quick --out run.jsonl --on netns:{near} --peer netns:{far}"
    );
    place.run(&line).expect_code(0);
    place.expect_nothing_runs();
    let run = place.run_file();
    expect_whole(&run);
    assert!(run.points.iter().all(|row| row.point.link == "remote"));
    assert_eq!(addresses(&run), ["10.77.0.2", "10.77.0.1"]);
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn what_another_session_of_ssh_left_in_the_environment_is_no_address() {
    let Namespaces { near, far } = &or_skip!(Namespaces::new("costofold"));
    let left = "198.51.100.1 50000 198.51.100.7 22";
    let by_name = |name: &String| format!("netns:{name}");
    let by_command =
        |name: &String| host(&format!("ip netns exec {name} env SSH_CONNECTION='{left}' WORKER"));
    for [on, peer] in [[near, far].map(by_name), [near, far].map(by_command)] {
        let place = Place::new();
        let mut costof = place.costof("run --only net.rtt --set size=1 --quick --out run.jsonl");
        costof.args(["--on", &on, "--peer", &peer]);
        run(costof.env("SSH_CONNECTION", left)).expect_code(0);
        let addresses = addresses(&place.run_file());
        assert_eq!(addresses, ["10.77.0.2", "10.77.0.1"], "{on}");
    }
}

#[test]
fn a_namespace_that_is_not_there_is_named() {
    let line = "run --only null --quick --on netns:no-such-namespace";
    let ended = Place::new().run(line).expect_code(3);
    assert_contains_all(&ended.err, &["no-such-namespace", "ip netns list"]);
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn no_more_hosts_than_the_fanout_are_measured_at_the_same_time() {
    let place = Place::new();
    let log = place.path("log");
    let mut costof = place.costof("run --only null --quick --launches 3 --fanout 2 --out runs/");
    for number in 1..=6 {
        let note = |sign| format!("echo {sign} {number} >> {}", log.display());
        let command = format!("{}; WORKER; {}", note('+'), note('-'));
        costof.arg("--on").arg(host(&command));
    }
    let ended = run(&mut costof).expect_code(0);
    assert_contains(&ended.out, "6 of 6 hosts measured");
    // How many workers of each host there are.
    let mut workers = [0; 7];
    let mut most = 0;
    for line in fs::read_to_string(log).unwrap().lines() {
        let (sign, number) = line.split_once(' ').unwrap();
        let of_host = &mut workers[number.parse::<usize>().unwrap()];
        *of_host += if sign == "+" { 1 } else { -1 };
        most = most.max(workers.iter().filter(|count| **count > 0).count());
    }
    assert_eq!((most, workers), (2, [0; 7]));
}
