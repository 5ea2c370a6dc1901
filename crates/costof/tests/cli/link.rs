//! Links that costof makes: they work, they are measured, and nothing is left
//! of them, whoever is killed.
//!
//! Each needs a network namespace, and an emulated one a TUN device; where a
//! machine gives none to whoever runs the tests, they say so and pass.

use crate::common::{
    COSTOF, Ended, Place, Running, assert_contains, assert_contains_all, network_namespace, run,
    signal, skipped, spawn, wait_for, within,
};
use costof_model::failure::FailureKind;
use costof_os::process::namespace::Namespace;
use rustix::process::{Signal, geteuid, kill_process};
use std::fs;
use std::net::UdpSocket;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

/// Over this link something emulates.
const EMULATED: &str = "delay=1ms,down.delay=2ms";

/// Of `net.rtt` one point, over this link.
fn over(link: &str, more: &str) -> String {
    format!(
        "run --only net.rtt --set size=56B --timeout 10 --seed 1 --out run.jsonl --link {link} {more}"
    )
}

/// Whether there is no such link here, which is said with the reason.
fn is_refused(place: &Place, link: &str) -> bool {
    let ended = place.run(&over(link, "--quick"));
    let _ = fs::remove_file(place.path("run.jsonl"));
    let mut lines = ended.out.lines();
    let Some(says) = lines.find(|line| line.contains("cannot make the link")) else {
        return false;
    };
    assert_eq!(ended.code, Some(3), "{says}");
    let names = ["root", "/dev/net/tun", "user namespaces", "iproute2"];
    let has_way_out = names.iter().any(|name| says.contains(name));
    assert!(has_way_out, "no way out: {says}");
    skipped(format_args!("the link {link}: {says}"));
    true
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn a_launch_says_what_its_emulated_link_did() {
    let place = Place::new();
    if is_refused(&place, EMULATED) {
        return;
    }
    place.run(&over(EMULATED, "--quick")).expect_code(0);
    let run = place.run_file();
    assert!(!run.launches.is_empty());
    for launch in &run.launches {
        let link = launch.link.as_ref().expect("something emulates it");
        for (traffic, delay_ns) in [(&link.up, 1e6), (&link.down, 2e6)] {
            assert_eq!(traffic.asked_delay_ns, delay_ns);
            assert!(traffic.packets >= 5, "{traffic:?}");
            assert!(traffic.bytes > traffic.packets * 40, "{traffic:?}");
            assert_eq!(traffic.lost, 0, "{traffic:?}");
            assert_eq!(traffic.queue_drops, Some(0), "{traffic:?}");
            if link.by == "relay" {
                let delay = traffic.delay_ns.expect("packets left");
                // The histogram has three digits.
                assert!(delay.min >= delay_ns * 0.999, "{delay:?}");
                assert!(traffic.lateness_ns.is_some());
            } else {
                assert!(link.absent.contains_key("delay_ns"));
            }
        }
        assert_eq!(link.by == "relay", link.relay.is_some());
        let relayed_ns = link.relay.as_ref().map_or(1.0, |relay| relay.cpu_ns);
        assert!(relayed_ns > 0.0 && link.duration_ns > 0.0);
    }
    let round_trip = run.points[0].primary().expect("it was measured");
    assert!(round_trip.min >= 3e6, "{round_trip:?}");
    place.expect_nothing_runs();
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn what_is_killed_leaves_no_process_namespace_or_device() {
    let place = Place::new();
    for link in ["veth", EMULATED, "sink"] {
        if is_refused(&place, link) {
            continue;
        }
        for victim in ["run", "hold", "stop hold", "worker", "worker last"] {
            let found = killed(&place, link, victim);
            place.expect_nothing_runs();
            // Their devices end with them.
            wait_for("the namespaces to end", || !is_used(&found));
            let _ = fs::remove_file(place.path("run.jsonl"));
        }
    }
}

/// What runs long enough over a link to be met in the middle.
fn long_run(place: &Place, link: &str) -> Command {
    if link != "sink" {
        let more = "--full --set over=tcp --set wait=block,spin";
        return place.costof(&over(link, more));
    }
    // Nothing of costof's own can be measured there.
    let words = "run test.two_ends --full --timeout 10 --seed 1 --out run.jsonl --link sink";
    place.misbehaving(words)
}

/// Kills one of the processes of a run over a link, waits for the run to end,
/// and says which namespaces there were.
fn killed(place: &Place, link: &str, victim: &str) -> Vec<String> {
    let controller = spawn(&mut long_run(place, link));
    let own = network_namespace("self");
    // The worker that has described the machine stays outside of the link.
    let of = |what: &str| -> Vec<Running> {
        let mut found = place.running();
        found.retain(|process| {
            process.command.split(' ').nth(1) == Some(what)
                && (what == "hold" || process.network_namespace() != own)
        });
        found
    };
    let mut namespaces: Vec<String> = Vec::new();
    // Each worker has a second process, which reads its commands.
    wait_for("holder and workers at both ends", || {
        namespaces.clear();
        let workers = of("worker").into_iter();
        namespaces.extend(workers.filter_map(|process| process.network_namespace()));
        namespaces.retain(|namespace| Some(namespace) != own.as_ref());
        namespaces.sort();
        namespaces.dedup();
        !of("hold").is_empty() && namespaces.len() == 2
    });
    // A process that is stopped is there and does not answer.
    let (victim, sent) = match victim.strip_prefix("stop ") {
        Some(victim) => (victim, Signal::STOP),
        None => (victim, Signal::KILL),
    };
    let (what, last) = victim.split_once(' ').unwrap_or((victim, ""));
    match what {
        "run" => signal(&controller, Signal::KILL),
        what => {
            let found = of(what);
            let chosen = match last {
                "" => found.first(),
                _ => found.last(),
            };
            // It may have ended by itself just now, which changes nothing.
            if let Some(process) = chosen {
                let _ = kill_process(process.pid, sent);
            }
            // The run survives the loss. What is to come of it takes long.
            wait_for("the run to go on", || {
                let text = fs::read_to_string(place.path("run.jsonl")).unwrap_or_default();
                text.matches("\"type\":\"launch\"").count() >= 3
            });
            signal(&controller, Signal::INT);
        }
    }
    let ended = crate::common::ended(controller);
    let expected = if what == "run" { None } else { Some(130) };
    assert_eq!(ended.code, expected, "{victim} over {link}: {ended:?}");
    assert!(!ended.err.contains("panicked"), "{}", ended.err);
    let is_told = ended.err.contains("that holds the link");
    assert!(is_told || sent == Signal::KILL, "{}", ended.err);
    if what != "run" {
        // Only the launch that was met is lost, and so no point.
        let run = place.run_file();
        for row in &run.failures {
            // A worker whose reader of commands was killed does not hear that it is to stop.
            let is_expected = match last {
                "" => row.kind == FailureKind::Crashed,
                _ => matches!(row.kind, FailureKind::Crashed | FailureKind::TimedOut),
            };
            assert!(is_expected, "{victim} over {link}: {row:?}");
            assert!(row.launch.is_some(), "{victim} over {link}: {row:?}");
        }
    }
    namespaces
}

/// Whether anything keeps one of these namespaces: a process that is in it or
/// holds it open, or a mount.
fn is_used(namespaces: &[String]) -> bool {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    if namespaces.iter().any(|own| mounts.contains(own)) {
        return true;
    }
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let mut links = processes.flat_map(|process| {
        let open = fs::read_dir(process.path().join("fd")).into_iter().flatten();
        let open = open.flatten().map(|descriptor| descriptor.path());
        open.chain([process.path().join("ns/net")]).collect::<Vec<_>>()
    });
    links.any(|link| {
        fs::read_link(link).is_ok_and(|to| namespaces.iter().any(|own| to == Path::new(own)))
    })
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn over_a_link_the_other_end_may_be_at_an_address_of_ip_version_6() {
    if fs::metadata("/proc/net/if_inet6").is_err() {
        return skipped("this kernel has no IPv6");
    }
    let place = Place::new();
    for link in ["veth", EMULATED] {
        if is_refused(&place, link) {
            continue;
        }
        let line = format!(
            "run --only net.rtt --set over=udp --set size=1B --quick --out run.jsonl \
             --peer-address fd00:c057::1 --link {link}"
        );
        place.run(&line).expect_code(0);
        let run = place.run_file();
        assert!(run.failures.is_empty(), "{:?}", run.failures);
        for report in run.launches.iter().filter_map(|launch| launch.link.as_ref()) {
            // The headers of IP version 6 and of UDP; those of version 4 are smaller.
            let least = report.up.packets * (40 + 8 + 1);
            assert!(report.up.bytes >= least, "{report:?}");
        }
        fs::remove_file(place.path("run.jsonl")).unwrap();
    }
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn nothing_is_measured_over_the_sink_that_needs_the_other_end() {
    let place = Place::new();
    if is_refused(&place, "sink") {
        return;
    }
    let line = "run --only net.bandwidth net.rtt --set size=1KiB --link sink --quick";
    let ended = place.run(line).expect_code(3);
    for probe in ["net.bandwidth", "net.rtt"] {
        let absent = format!("absent: {probe}");
        let mut lines = ended.out.lines().filter(|line| line.starts_with(&absent));
        assert!(lines.clone().count() > 0, "{}", ended.out);
        assert!(lines.all(|line| line.contains("unsupported") && line.contains("has no receiver")));
    }
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn an_ordinary_user_has_a_cable_by_a_user_namespace() {
    const NOBODY: u32 = 65534;
    let place = Place::new();
    let mut command = place.costof(&over("veth", "--quick"));
    if geteuid().is_root() {
        // The build's folder may be root's alone.
        let program = place.path("costof");
        fs::copy(COSTOF, &program).unwrap();
        fs::set_permissions(place.path("."), fs::Permissions::from_mode(0o777)).unwrap();
        let line = format!("{} {}", program.display(), over("veth", "--quick"));
        let become_nobody = format!("setpriv --reuid {NOBODY} --regid {NOBODY} --clear-groups");
        let outer: Vec<&str> = become_nobody.split(' ').collect();
        command = within(&outer, &place.command(&line));
    }
    let ended = run(&mut command);
    if ended.code == Some(3) && ended.out.contains("user namespaces") {
        return skipped(ended.out);
    }
    ended.expect_code(0);
    let run = place.run_file();
    assert!(run.failures.is_empty(), "{:?}", run.failures);
    assert!(!run.points.is_empty());
    assert!(run.launches.iter().all(|launch| launch.link.is_none()));
    place.expect_nothing_runs();
}

/// There is one named link on a machine: its tests take turns.
static NAMED: Mutex<()> = Mutex::new(());

#[test]
#[ignore = "long; ./check --all runs it"]
fn the_named_link_is_up_until_it_is_taken_down() {
    let _turn = NAMED.lock().unwrap_or_else(PoisonError::into_inner);
    let place = Place::new();
    let link = |line: &str| place.run(&format!("link {line}"));
    // What a command that must succeed says.
    let says = |line: &str| link(line).expect_code(0).out;
    if !geteuid().is_root() {
        link("up").expect_wrong(&["/run/costof", "root"]);
        return skipped("named network namespaces need root");
    }
    if !says("status").contains("no link is up") {
        return skipped("a link is up that is not this test's");
    }
    let _taken_down = TakenDown(&place);
    let made = link("up");
    if made.code != Some(0) && made.err.contains("permitted") {
        return skipped(made.err);
    }
    let up = made.expect_code(0).out;
    assert_contains_all(&up, &["veth is up", "costof-server", "10.0.0.1"]);
    reaches("10.0.0.1", "1");
    reaches("fd00:c057::1", "1");
    assert_contains(&says("up veth"), "already up");
    link("up lan").expect_wrong(&["veth is up", "costof link down"]);
    link("up veth --seed 2").expect_wrong(&["with seed 1", "costof link down"]);
    assert_contains(&says("down"), "is down");
    expect_nothing_named(&place);
    assert_contains(&says("down"), "no link was up");
    link("up loopback").expect_wrong(&["no namespaces"]);

    let emulated = link("up up.loss=30%,duplicate=5% --seed 7");
    if emulated.code != Some(0) {
        emulated.expect_wrong(&["/dev/net/tun", "netem"]);
        expect_nothing_named(&place);
        return skipped("no emulated link here");
    }
    let by = ["relay", "netem"];
    let is_emulated = by.iter().any(|by| emulated.out.contains(by));
    assert!(is_emulated, "{}", emulated.out);
    let first = answers_of_hundred();
    assert!(first.len() < 90, "{first:?}");
    assert_contains(&says("status"), "up.loss=30%");
    let as_nobody = ["setpriv", "--reuid", "65534", "--clear-groups"];
    // The build's folder may be root's alone.
    let program = place.path("costof");
    fs::copy(COSTOF, &program).unwrap();
    fs::set_permissions(place.path("."), fs::Permissions::from_mode(0o755)).unwrap();
    let line = format!("{} link status", program.display());
    let looked = run(&mut within(&as_nobody, &place.command(&line)));
    looked.expect_wrong(&["only root may inspect"]);
    assert_contains(&says("down"), "is down");
    expect_nothing_named(&place);
    // The same seed loses the same packets, another one others.
    for (seed, is_same) in [("7", true), ("8", false)] {
        says(&format!("up up.loss=30%,duplicate=5% --seed {seed}"));
        assert_eq!(answers_of_hundred() == first, is_same, "seed {seed}");
        reaches("fd00:c057::1", "20");
        says("down");
    }

    assert_contains(&says("up delay=1ms,jitter=0.5ms"), "relay");
    assert_contains(&says("status"), "from the client: 0 packets");
    reaches("10.0.0.1", "2");
    assert_contains(&says("status"), "from the client: 2 packets");
    // Jitter is never left to netem, so there is a relay. Whatever comes next clears away what is left.
    for next in ["down", "up delay=1ms,jitter=0.1ms"] {
        kill_all(&place);
        link("status").expect_wrong(&["incomplete", "costof link down"]);
        says(next);
        if next == "down" {
            expect_nothing_named(&place);
            says("up delay=1ms,jitter=0.1ms");
        }
    }
    reaches("10.0.0.1", "1");

    // Who takes its device away has a relay that says so, as often as it is asked.
    ip("netns exec costof-client ip link delete costof");
    for _ in 0..2 {
        link("status").expect_wrong(&["the relay has ended", "device costof", "link down"]);
    }
    says("down");
    expect_nothing_named(&place);

    // A small packet leaves every 46 microseconds, which is too little to sleep
    // for: it answers all the same.
    says("up delay=1ms,jitter=0.1ms,rate=5Mbit,queue=60000");
    let flood = Flood::start();
    let mut passed = String::new();
    wait_for("the queue to be full", || {
        passed = says("status");
        passed.contains("dropped by the queue") && !passed.contains(" 0 dropped by the queue,")
    });
    for _ in 0..5 {
        says("status");
    }
    drop(flood);
    says("down");
    expect_nothing_named(&place);

    // Killed at some moment, `link up` leaves what the next one takes over.
    for part in 1..10 {
        let began = Instant::now();
        says("up delay=1ms");
        let usual = began.elapsed();
        says("down");
        let up = spawn(&mut place.costof("link up delay=1ms"));
        std::thread::sleep(usual * part / 10);
        signal(&up, Signal::KILL);
        crate::common::ended(up);
        // What it had begun ends by itself; only a relay that was told to stay does.
        wait_for("all but the relay to end", || place.running().len() <= 1);
        let next = if part % 2 == 0 { "down" } else { "up delay=1ms" };
        says(next);
        says("down");
        expect_nothing_named(&place);
    }
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn links_that_are_made_and_removed_at_once_leave_nothing() {
    let _turn = NAMED.lock().unwrap_or_else(PoisonError::into_inner);
    let place = Place::new();
    let link = |line: &str| spawn(&mut place.costof(&format!("link {line}")));
    let relayed = "up delay=1ms";
    if !geteuid().is_root() || crate::common::ended(link(relayed)).code != Some(0) {
        return skipped("named network namespaces need root");
    }
    let _taken_down = TakenDown(&place);
    crate::common::ended(link("down")).expect_code(0);
    for _ in 0..6 {
        // Of two that are different, one is made.
        let both = [link(relayed), link("up delay=2ms")].map(crate::common::ended);
        let codes = both.each_ref().map(|ended| ended.code);
        assert!([[0, 2], [2, 0]].map(|codes| codes.map(Some)).contains(&codes), "{both:?}");
        let refused = both.into_iter().find(|ended| ended.code == Some(2)).unwrap();
        refused.expect_wrong(&["is up, with seed", "costof link down"]);
        assert!(place.running().len() <= 1);
        // And whatever comes first, both commands do what they say.
        let [down, up] = [link("down"), link(relayed)].map(crate::common::ended);
        down.expect_code(0);
        assert!(up.code == Some(0) || up.err.contains("is up, with seed"), "{up:?}");
        crate::common::ended(link("down")).expect_code(0);
        expect_nothing_named(&place);
    }
    // A relay that no record names ends by itself.
    crate::common::ended(link(relayed)).expect_code(0);
    fs::remove_dir_all("/run/costof").unwrap();
    place.expect_nothing_runs();
    crate::common::ended(link("down")).expect_code(0);
    expect_nothing_named(&place);
}

/// Of a test that fails no link stays either.
struct TakenDown<'a>(&'a Place);

impl Drop for TakenDown<'_> {
    fn drop(&mut self) {
        let _ = self.0.costof("link down").output();
    }
}

/// Kills what runs of a place.
fn kill_all(place: &Place) {
    for process in place.running() {
        kill_process(process.pid, Signal::KILL).unwrap();
    }
    place.expect_nothing_runs();
}

/// Threads that send small packets without a pause from the client's namespace.
struct Flood(Arc<AtomicBool>, Vec<JoinHandle<()>>);

impl Flood {
    fn start() -> Flood {
        let ends = Arc::new(AtomicBool::new(false));
        let flood = |_| {
            let ends = Arc::clone(&ends);
            std::thread::spawn(move || {
                let client = Namespace::open_named("costof-client").unwrap();
                client.enter().unwrap();
                let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
                while !ends.load(Ordering::Relaxed) {
                    // One that is refused is not missed.
                    let _ = socket.send_to(b"x", "10.0.0.1:9");
                }
            })
        };
        let threads = std::thread::available_parallelism().unwrap().get();
        let threads = (0..threads).map(flood).collect();
        Flood(ends, threads)
    }
}

impl Drop for Flood {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
        for thread in self.1.drain(..) {
            thread.join().unwrap();
        }
    }
}

fn expect_nothing_named(place: &Place) {
    place.expect_nothing_runs();
    for path in ["/run/netns/costof-server", "/run/netns/costof-client", "/run/costof"] {
        assert!(!Path::new(path).exists(), "{path} is left");
    }
}

fn ping(words: &str) -> Ended {
    ip(&format!("netns exec costof-client ping -n {words}"))
}

fn ip(words: &str) -> Ended {
    run(Command::new("ip").args(words.split(' ')))
}

/// Checks that at least one of several packets is answered.
#[track_caller]
fn reaches(address: &str, packets: &str) {
    let ended = ping(&format!("-c {packets} -i 0.01 -W 10 {address}"));
    let answers = answers(&ended);
    assert!(!answers.is_empty(), "{ended:?}");
}

/// Which of a hundred packets are answered, and how often. It goes on until a
/// hundred were, those that are sent later among them: order is kept, so that
/// nothing is in flight any more of the first hundred, however slow the link is.
fn answers_of_hundred() -> Vec<String> {
    let ended = ping("-c 100 -i 0.01 -w 60 10.0.0.1");
    let mut answers = answers(&ended);
    let is_later = |number: &String| number.parse::<u32>().unwrap() > 100;
    assert!(answers.iter().any(is_later), "{ended:?}");
    answers.retain(|number| !is_later(number));
    answers
}

fn answers(ended: &Ended) -> Vec<String> {
    let numbers = ended.out.lines().filter_map(|line| {
        let (_, rest) = line.split_once("icmp_seq=")?;
        Some(rest.split(' ').next()?.to_owned())
    });
    let mut numbers: Vec<String> = numbers.collect();
    numbers.sort();
    numbers
}
