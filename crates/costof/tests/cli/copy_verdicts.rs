//! What `costof run` says of sends that ask for no copy: whether the kernel has copied them after
//! all, and why, over links of which that is known.

use crate::common::{
    Ended, Place, Running, assert_contains_all, ended, is_installed, network_namespace, signal,
    skipped, spawn, wait_for, was_starved,
};
use costof_model::run_file::Run;
use rustix::process::{Signal, geteuid};
use std::fs;
use std::process::{Child, Stdio};

/// Sends over TCP and UDP, with a copy and without, over a link. A datagram is a packet on each: of those
/// that are cut into fragments, one that a busy machine drops has the others wait for it for 30 s, in
/// memory that the kernel limits (net.ipv4.ipfrag_high_thresh), and then nothing more arrives.
fn line(link: &str) -> String {
    format!(
        "run --only copy.send --set primitive=copy_and_send,msg_zerocopy --set size=1400 --set over=tcp,udp \
         --set congestion_control=default --quick --seed 1 --notes --out run.jsonl --link {link}"
    )
}

/// Why there is no such link, or no such send, here; it must be a reason of this machine's. A point that was starved
/// in all of its launches is not here either.
fn is_not_here(run: &Run) -> Option<String> {
    let reasons = ["cannot make the link", "cannot acknowledge", "SO_ZEROCOPY"];
    let mut failures = run.failures.iter().filter(|row| row.launch.is_none() || !was_starved(row));
    failures.next().map(|failure| {
        let is_known = reasons.iter().any(|why| failure.reason.contains(why));
        assert!(is_known || was_starved(failure), "{failure:?}");
        format!("{}: {}", failure.point, failure.reason)
    })
}

/// A line on the sends without a copy for each protocol, and each of these words in it.
#[track_caller]
fn expect_verdicts(ended: &Ended, words: &[&str]) {
    for over in ["tcp", "udp"] {
        let subject = format!("msg_zerocopy by {over} over");
        let lines: Vec<&str> =
            ended.out.lines().filter(|line| line.starts_with(&subject)).collect();
        assert_eq!(lines.len(), 1, "{over}: {}", ended.out);
        assert_contains_all(lines[0], words);
    }
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn a_receiver_on_this_machine_is_why_all_was_copied_and_into_a_sink_nothing_was() {
    for (link, words) in [
        ("loopback", ["copied 100 %", "on this machine"]),
        ("veth", ["copied 100 %", "on this machine"]),
        ("sink", ["not copied", "sink"]),
    ] {
        let place = Place::new();
        let ended = place.run(&line(link));
        if let Some(why) = is_not_here(&place.run_file()) {
            skipped(why);
            continue;
        }
        expect_verdicts(&ended, &words);
        expect_verdicts(&ended, &[link]);
        assert!(!ended.out.contains("sniffer"), "{}", ended.out);
        place.expect_nothing_runs();
    }
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn a_packet_sniffer_is_named() {
    let place = Place::new();
    let Some(ended) = sniffed(&place) else {
        return;
    };
    let run = place.run_file();
    let launches = run.launches.iter();
    let mut ends = launches.flat_map(|launch| launch.noise.ends.values());
    let is_sniffed = ends.any(|end| end.sniffers.is_some_and(|sniffers| sniffers > 0));
    assert!(is_sniffed, "{}", ended.out);
    expect_verdicts(&ended, &["copied", "sniffer", "tcpdump"]);
    place.expect_nothing_runs();
}

/// A run over veth beside which tcpdump looks at all that the link carries.
fn sniffed(place: &Place) -> Option<Ended> {
    if !is_installed("tcpdump") {
        skipped("there is no tcpdump (apt-get install tcpdump)");
        return None;
    }
    let mut controller = spawn(&mut place.costof(&line("veth")));
    let own = network_namespace("self");
    let is_in_link = |process: &Running| {
        process.command.split(' ').nth(1) == Some("worker")
            && process.network_namespace().is_some_and(|found| Some(found) != own)
    };
    let mut in_link = Vec::new();
    let mut ended_before = false;
    wait_for("the workers in the link", || {
        in_link = place.running();
        in_link.retain(is_in_link);
        ended_before = controller.try_wait().unwrap().is_some();
        in_link.len() == 2 || ended_before
    });
    if ended_before {
        let why = is_not_here(&place.run_file());
        skipped(why.expect("a run takes workers"));
        return None;
    }
    // While it is stopped no launch ends, and no other begins.
    signal(&controller, Signal::STOP);
    let mut looking: Vec<Child> =
        in_link.iter().map(|worker| tcpdump_beside(place, worker)).collect();
    let mut failed = false;
    wait_for("tcpdump to look", || {
        failed = looking.iter_mut().any(|tcpdump| tcpdump.try_wait().unwrap().is_some());
        failed || looking.iter().all(|tcpdump| is_sniffed(tcpdump.id()))
    });
    signal(&controller, Signal::CONT);
    let ended = ended(controller);
    for tcpdump in &mut looking {
        let _ = tcpdump.kill();
        let _ = tcpdump.wait();
    }
    if failed {
        let why = fs::read_to_string(place.path("tcpdump.txt")).unwrap_or_default();
        skipped(format_args!("tcpdump may not look here: {why}"));
        return None;
    }
    Some(ended)
}

/// tcpdump on every device of a worker's namespace; what it says is in a file.
fn tcpdump_beside(place: &Place, worker: &Running) -> Child {
    let as_user = if geteuid().is_root() { "" } else { "--user --preserve-credentials" };
    // It keeps its rights, as it may have no other user in a namespace of users.
    let line = format!(
        "nsenter --target {} --net {as_user} tcpdump -Z root -i any -n -s 64 -w /dev/null",
        worker.id()
    );
    let says = fs::File::create(place.path("tcpdump.txt")).unwrap();
    let mut command = place.command(&line);
    command.stdin(Stdio::null()).stdout(Stdio::null());
    command.stderr(says).spawn().unwrap()
}

/// Whether a process's namespace has a packet socket for all protocols that runs.
fn is_sniffed(process: u32) -> bool {
    let command = fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
    let sockets = fs::read_to_string(format!("/proc/{process}/net/packet")).unwrap_or_default();
    let sniffs = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        words.get(3) == Some(&"0003") && words.get(5) == Some(&"1")
    };
    command.starts_with(b"tcpdump") && sockets.lines().skip(1).any(sniffs)
}
