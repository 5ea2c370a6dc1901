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
use std::io::Read;
use std::net::UdpSocket;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command};
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
            let delay = traffic.delay_ns.expect("packets left");
            // The histogram has three digits.
            assert!(delay.min >= delay_ns * 0.999, "{delay:?}");
            assert!(traffic.lateness_ns.is_some());
        }
        let relayed_ns = link.relay.as_ref().map_or(0.0, |relay| relay.cpu_ns);
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
fn a_link_has_names_until_it_is_interrupted() {
    let _turn = NAMED.lock().unwrap_or_else(PoisonError::into_inner);
    let place = Place::new();
    let refused = |line: &str| place.run(&format!("link {line}"));
    refused("loopback").expect_wrong(&["no namespaces"]);
    if !geteuid().is_root() {
        refused("veth").expect_wrong(&["/run/costof-link.json", "root"]);
        return skipped("named network namespaces need root");
    }
    let up = match Up::make(&place, "veth") {
        Err(ended) if ended.err.contains("permitted") => return skipped(ended.err),
        made => made.unwrap(),
    };
    assert_contains_all(&up.says, &["veth is up", "costof-server", "10.0.0.1"]);
    // There is one at a time.
    refused("lan").expect_wrong(&["a link is up already"]);
    reaches("10.0.0.1", "1");
    reaches("fd00:c057::1", "1");
    assert_eq!(up.end(), "");
    expect_nothing_named(&place);

    let lossy = |seed: u32| format!("up.loss=30%,duplicate=5% --seed {seed}");
    let up = match Up::make(&place, &lossy(7)) {
        Err(ended) => {
            ended.expect_wrong(&["/dev/net/tun"]);
            expect_nothing_named(&place);
            return skipped("no emulated link here");
        }
        Ok(up) => up,
    };
    assert_contains(&up.says, "up.loss=30%");
    let first = answers_of_hundred();
    assert!(first.len() < 90, "{first:?}");
    assert_contains(&up.end(), "lost as configured");
    expect_nothing_named(&place);
    // The same seed loses the same packets, another one others.
    for (seed, is_same) in [(7, true), (8, false)] {
        let up = Up::make(&place, &lossy(seed)).unwrap();
        assert_eq!(answers_of_hundred() == first, is_same, "seed {seed}");
        reaches("fd00:c057::1", "20");
        up.end();
    }

    let relayed = "delay=1ms,jitter=0.5ms";
    let up = Up::make(&place, relayed).unwrap();
    reaches("10.0.0.1", "2");
    assert_contains_all(&up.end(), &["the relay: ", "from the client: 2 packets"]);

    // Who takes its device away, or its process, has a link that says so and ends.
    let up = Up::make(&place, relayed).unwrap();
    ip("netns exec costof-client ip link delete costof");
    let ended = crate::common::ended(up.child);
    ended.expect_wrong(&["the relay has ended", "device costof"]);
    expect_nothing_named(&place);
    let up = Up::make(&place, relayed).unwrap();
    for process in place.running() {
        if process.command.contains(" hold ") {
            kill_process(process.pid, Signal::KILL).unwrap();
        }
    }
    crate::common::ended(up.child).expect_wrong(&["the link has failed"]);
    expect_nothing_named(&place);

    // A small packet leaves every 46 microseconds, which is too little to sleep
    // for: it answers all the same.
    let up = Up::make(&place, "delay=1ms,jitter=0.1ms,rate=5Mbit,queue=60000").unwrap();
    let flood = Flood::start();
    assert_contains(&up.end(), "dropped by the queue");
    drop(flood);
    expect_nothing_named(&place);
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn a_link_takes_over_what_a_killed_one_has_left() {
    let _turn = NAMED.lock().unwrap_or_else(PoisonError::into_inner);
    let place = Place::new();
    for part in 1..=10 {
        let began = Instant::now();
        let up = match Up::make(&place, "delay=1ms") {
            Err(ended) => return skipped(ended.err),
            Ok(up) => up,
        };
        let usual = began.elapsed();
        reaches("10.0.0.1", "1");
        up.end();
        expect_nothing_named(&place);
        // The last one is killed when it is up.
        let up = spawn(&mut place.costof("link delay=1ms"));
        std::thread::sleep(usual * part / 5);
        signal(&up, Signal::KILL);
        crate::common::ended(up);
        place.expect_nothing_runs();
    }
    assert!(Path::new("/run/netns/costof-client").exists());
    Up::make(&place, "delay=2ms").unwrap().end();
    expect_nothing_named(&place);
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn of_two_links_that_are_made_at_once_one_has_the_names() {
    let _turn = NAMED.lock().unwrap_or_else(PoisonError::into_inner);
    let place = Place::new();
    match Up::make(&place, "veth") {
        Err(ended) => return skipped(ended.err),
        Ok(up) => up.end(),
    };
    for _ in 0..6 {
        let both = ["link veth", "link veth --seed 2"].map(|line| spawn(&mut place.costof(line)));
        let [one, other] = both.map(Up::of);
        let (up, refused) = match (one, other) {
            (Ok(up), Err(refused)) | (Err(refused), Ok(up)) => (up, refused),
            (one, other) => panic!("{:?} {:?}", one.err(), other.err()),
        };
        refused.expect_wrong(&["a link is up already"]);
        reaches("10.0.0.1", "1");
        up.end();
        expect_nothing_named(&place);
    }
}

/// A link with names that is up.
#[derive(Debug)]
struct Up {
    child: Child,
    /// What it said when it was up.
    says: String,
}

impl Up {
    fn make(place: &Place, line: &str) -> Result<Up, Ended> {
        Up::of(spawn(&mut place.costof(&format!("link {line}"))))
    }

    /// Waits until it is up, or has ended instead.
    fn of(mut child: Child) -> Result<Up, Ended> {
        let mut says = Vec::new();
        while !says.ends_with(b"ping 10.0.0.1\n") {
            let mut byte = [0];
            // A reader with a buffer would take away what it says at its end.
            match child.stdout.as_mut().unwrap().read(&mut byte).unwrap() {
                0 => return Err(crate::common::ended(child)),
                _ => says.push(byte[0]),
            }
        }
        Ok(Up { child, says: String::from_utf8(says).unwrap() })
    }

    /// What it says at its end.
    #[track_caller]
    fn end(self) -> String {
        signal(&self.child, Signal::INT);
        crate::common::ended(self.child).expect_code(0).out
    }
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
    for path in ["/run/netns/costof-server", "/run/netns/costof-client", "/run/costof-link.json"] {
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
