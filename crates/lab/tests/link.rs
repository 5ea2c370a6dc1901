//! Links with real packets. This program is also the process that holds the link
//! and those that talk over it, which is why it has a main function of its own.

#![expect(clippy::unwrap_used, reason = "a test fails where it cannot go on")]
#![expect(clippy::print_stdout, reason = "a test says what it does")]
#![expect(clippy::print_stderr, reason = "a test that cannot run here says why")]

mod common;

use common::{GOES_ON, HANGS, Part, command, end_what_hangs};
use costof_lab::link::{self, End, FAR_ADDRESS, FAR_ADDRESS_V6, Made};
use costof_model::failure::FailureKind;
use costof_model::link_report::LinkReport;
use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Read, Write};
use std::net::{IpAddr, TcpListener, TcpStream, UdpSocket};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Where the far end listens.
const PORT: u16 = 5000;
/// Where nobody does.
const NOBODY: u16 = 9;

const PACKETS: u32 = 100_000;
/// How many packets may be in flight unanswered: so few that neither a device
/// nor a socket drops one, and so many that they are not all lost.
const MAX_IN_FLIGHT: u32 = 64;

const TESTS: [(&str, fn()); 8] = [
    ("what a holder has just started ends with it", a_holder_ends_with_what_it_started),
    ("a cable carries nothing of its own", a_cable_carries_nothing_of_its_own),
    ("questions are answered while packets come without a pause", questions_are_answered),
    ("a relay whose device is gone says so", a_relay_without_its_device_says_so),
    (
        "as many packets are lost as were asked for, and the same ones again",
        losses_are_drawn_by_seed,
    ),
    ("what passes is the rate that was asked for", the_rate_is_that_which_was_asked_for),
    (
        "packets are held up for as long as was asked for",
        the_delay_is_at_least_that_which_was_asked_for,
    ),
    ("either version of IP passes", either_version_of_the_internet_protocol_passes),
];

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let part: fn(&str) = match words[..] {
        ["hold", link] => return link::hold(&link.parse().unwrap()).unwrap(),
        ["hold busy", link] => {
            start_marked();
            return link::hold(&link.parse().unwrap()).unwrap();
        }
        ["part", "echo", _] => echo,
        ["part", "exchange", _] => exchange,
        ["part", "lost", _] => count_lost,
        ["part", "flood", _] => flood,
        // Whatever else cargo test hands on chooses from the tests.
        ref filter => {
            let filter = filter.iter().find(|word| !word.starts_with('-'));
            for (name, test) in TESTS {
                if filter.is_none_or(|filter| name.contains(filter)) {
                    println!("{name}");
                    test();
                }
            }
            return;
        }
    };
    end_what_hangs();
    part(words[2]);
}

/// The link, or nothing where there is none here.
fn made(link: &str) -> Option<Made> {
    common::made("hold", link)
}

/// Waits for what must come, however long it takes on a busy machine.
fn wait_for(what: &str, mut is_there: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_there() {
        assert!(began.elapsed() < HANGS, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// What the link has done since the launch began.
fn report(made: &mut Made) -> LinkReport {
    made.report(&GOES_ON).unwrap().expect("something emulates it")
}

/// A part that has to do with an address.
fn part_at(end: &End, what: &str, address: IpAddr) -> Part {
    Part::start(end, &["part", what, &address.to_string()])
}

fn begins() {
    println!("begins");
}

/// Each processor sends bursts of large packets, with pauses: more than the line takes, but few
/// enough that the relay has time to drop the surplus.
const LARGE_BYTES: usize = 1000;
const FLOOD_PACKETS: u32 = 32;
const FLOOD_PAUSE: Duration = Duration::from_millis(2);

/// Sends packets, small ones without a pause, from every processor, to where nobody listens.
fn flood(bytes: &str) {
    let bytes: usize = bytes.parse().unwrap();
    let threads = std::thread::available_parallelism().unwrap().get();
    for _ in 0..threads {
        let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
        std::thread::spawn(move || {
            let packet = vec![7; bytes];
            loop {
                for _ in 0..FLOOD_PACKETS {
                    // One that is refused is not missed.
                    let _ = socket.send_to(&packet, (FAR_ADDRESS, NOBODY));
                }
                if bytes >= LARGE_BYTES {
                    std::thread::sleep(FLOOD_PAUSE);
                }
            }
        });
    }
    begins();
    std::thread::sleep(HANGS);
}

/// Sends back whatever comes, to everybody.
fn echo(address: &str) {
    let address: IpAddr = address.parse().unwrap();
    let socket = UdpSocket::bind((address, PORT)).unwrap();
    let listener = TcpListener::bind((address, PORT)).unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            io::copy(&mut stream.try_clone().unwrap(), &mut stream).unwrap();
        }
    });
    begins();
    let mut buffer = [0; 1500];
    loop {
        let (bytes, from) = socket.recv_from(&mut buffer).unwrap();
        socket.send_to(&buffer[..bytes], from).unwrap();
    }
}

/// Sends numbered packets, and prints which of them nobody answers.
fn count_lost(address: &str) {
    let address: IpAddr = address.parse().unwrap();
    let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
    socket.connect((address, PORT)).unwrap();
    begins();
    let mut answered = BTreeSet::new();
    let mut next = 0;
    // Order is kept: when one is answered that was sent after the last that
    // counts, nothing is in flight any more of those that do.
    while answered.last().is_none_or(|last| *last < PACKETS) {
        let first_unanswered = answered.last().map_or(0, |last| last + 1);
        let room = next < first_unanswered + MAX_IN_FLIGHT;
        if room {
            socket.send(&u32::to_le_bytes(next)).unwrap();
            next += 1;
        }
        socket.set_nonblocking(room).unwrap();
        let mut number = [0; 4];
        match socket.recv(&mut number) {
            Ok(bytes) => {
                assert_eq!(bytes, 4);
                assert!(answered.insert(u32::from_le_bytes(number)), "answered twice");
            }
            Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock, "{error}"),
        }
    }
    let lost: Vec<String> = (0..PACKETS)
        .filter(|number| !answered.contains(number))
        .map(|number| number.to_string())
        .collect();
    println!("{}", lost.join(" "));
}

/// Sends bytes there and back over a stream, and checks them.
fn exchange(address: &str) {
    let address: IpAddr = address.parse().unwrap();
    let bytes: Vec<u8> = (0..1_000_000_u32).map(|number| number as u8).collect();
    let mut stream = TcpStream::connect((address, PORT)).unwrap();
    begins();
    let mut answers = stream.try_clone().unwrap();
    let length = bytes.len();
    let reader = std::thread::spawn(move || {
        let mut answer = vec![0; length];
        answers.read_exact(&mut answer).unwrap();
        answer
    });
    stream.write_all(&bytes).unwrap();
    assert!(reader.join().unwrap() == bytes);
    println!("{}", stream.peer_addr().unwrap().ip());
}

/// Starts what lasts longer than any test, known by its environment.
#[expect(clippy::zombie_processes, reason = "that its holder is ended ends it")]
fn start_marked() {
    let mut lasting = Command::new("sleep");
    let parent = std::os::unix::process::parent_id();
    lasting.arg("300").env("COSTOF_TEST_BY", parent.to_string());
    lasting.stdin(Stdio::null()).stdout(Stdio::null());
    lasting.spawn().unwrap();
}

fn a_holder_ends_with_what_it_started() {
    let own = format!("COSTOF_TEST_BY={}", std::process::id());
    let lasts = || {
        let processes = fs::read_dir("/proc").unwrap().flatten();
        // Of a zombie there is nothing to read.
        let mut environments =
            processes.flat_map(|process| fs::read(process.path().join("environ")));
        environments.any(|all| all.split(|byte| *byte == 0).any(|one| one == own.as_bytes()))
    };
    let Some(made) = common::made("hold busy", "veth") else {
        return;
    };
    wait_for("what it started", lasts);
    drop(made);
    wait_for("what it started to end", || !lasts());
}

/// A device reports to the other end seconds later that it joined a group, and so the groups are
/// looked at: these two are not reported (RFC 3810 section 6).
fn a_cable_carries_nothing_of_its_own() {
    const SILENT: [&str; 2] =
        ["ff020000000000000000000000000001", "ff010000000000000000000000000001"];
    let Some(made) = made("veth") else {
        return;
    };
    for end in [&made.near, &made.far] {
        let groups = read_at(end, "/proc/net/igmp6");
        for group in groups.lines().filter(|line| line.contains(" costof ")) {
            let address = group.split_whitespace().nth(2).unwrap();
            assert!(SILENT.contains(&address), "{group}");
        }
        let devices = read_at(end, "/proc/net/dev");
        let counts = devices.split_once("costof:").unwrap().1.lines().next().unwrap();
        assert!(counts.split_whitespace().all(|count| count == "0"), "{counts}");
    }
}

/// What stands in a file at an end of a link; nothing where there is none.
fn read_at(end: &End, path: &str) -> String {
    let output = command(end, "cat", &[path]).output();
    String::from_utf8(output.unwrap().stdout).unwrap()
}

fn questions_are_answered() {
    // A small packet leaves every 46 microseconds: too little to sleep for. So
    // many wait that this goes on while who sends them waits for a processor.
    let Some(mut made) = made("delay=1ms,rate=5Mbit,queue=60000") else {
        return;
    };
    let _flood = Part::start(&made.near, &["part", "flood", "1"]);
    wait_for("the queue to be full", || report(&mut made).up.queue_drops != Some(0));
    for seed in 0..100 {
        made.begin(seed, &GOES_ON).unwrap();
        // It never sleeps, and says all the same where it runs.
        let relay = report(&mut made).relay;
        assert!(relay.is_none_or(|relay| !relay.cpus.is_empty()));
    }
}

fn a_relay_without_its_device_says_so() {
    let Some(mut made) = made("delay=1ms") else {
        return;
    };
    let delete = command(&made.near, "ip", &["link", "delete", "costof"]).status();
    assert!(delete.unwrap().success());
    // Each time that somebody asks.
    for _ in 0..2 {
        for error in [made.report(&GOES_ON).unwrap_err(), made.begin(1, &GOES_ON).unwrap_err()] {
            assert_eq!(error.kind, FailureKind::Crashed);
            for named in ["the relay has ended", "device costof", "os error"] {
                assert!(error.reason.contains(named), "{error}");
            }
        }
    }
}

fn losses_are_drawn_by_seed() {
    let Some(mut made) = made("up.loss=10%") else {
        return;
    };
    let _echo = part_at(&made.far, "echo", FAR_ADDRESS);
    let mut lost = |seed| -> String {
        made.begin(seed, &GOES_ON).unwrap();
        let sender = part_at(&made.near, "lost", FAR_ADDRESS);
        let lost = sender.rest();
        let count = lost.split(' ').count() as u64;
        assert!((9_800..=10_200).contains(&count), "seed {seed}: {count}");
        // On purpose all of them, and perhaps some of what came after.
        let up = report(&mut made).up;
        let on_purpose = count..=count + u64::from(MAX_IN_FLIGHT);
        assert!(on_purpose.contains(&up.lost), "{count} {up:?}");
        assert_eq!(up.overruns, 0, "{up:?}");
        println!("  seed {seed}: {count} of {PACKETS}");
        lost
    };
    let first = lost(1);
    assert!(lost(1) == first);
    for seed in 2..=5 {
        assert!(lost(seed) != first);
    }
}

fn the_rate_is_that_which_was_asked_for() {
    const RATE: f64 = 100e6;
    // More than two seconds of packets wait: the line is never idle, also while
    // who sends them waits for a processor.
    let Some(mut made) = made("up.rate=100Mbit,up.queue=20000") else {
        return;
    };
    let _flood = Part::start(&made.near, &["part", "flood", "1472"]);
    wait_for("the queue to be full", || report(&mut made).up.queue_drops != Some(0));
    made.begin(1, &GOES_ON).unwrap();
    std::thread::sleep(Duration::from_secs(2));
    let report = report(&mut made);
    let late_ns = report.up.lateness_ns.map_or(0.0, |late| late.max);
    let passes = |ns: f64| RATE / 8.0 * ns / 1e9;
    let passed = report.up.bytes as f64;
    println!("  {:.2} %", passed / passes(report.up.counted_ns) * 100.0);
    // A relay that waits for a processor sends late.
    let in_time_ns = (report.up.counted_ns - late_ns).max(0.0);
    assert!(passed >= 0.97 * passes(in_time_ns), "{report:?}");
    // What was decided before the beginning may have left late, after it.
    assert!(passed <= passes(report.up.counted_ns + late_ns) + 1500.0, "{report:?}");
}

fn the_delay_is_at_least_that_which_was_asked_for() {
    let Some(mut made) = made("delay=95ms") else {
        return;
    };
    made.begin(1, &GOES_ON).unwrap();
    let says = ping(&made.near, FAR_ADDRESS, 5);
    let summary = says.lines().find_map(|line| line.split_once(" = "));
    let (_, times) = summary.unwrap_or_else(|| panic!("{says}"));
    let least_ms: f64 = times.split('/').next().unwrap().parse().unwrap();
    assert!(least_ms >= 190.0, "{says}");
    let report = report(&mut made);
    for traffic in [&report.up, &report.down] {
        assert_eq!((traffic.asked_delay_ns, traffic.packets), (95e6, 5));
        let delay = traffic.delay_ns.expect("packets passed");
        // The histogram has three digits.
        assert!(delay.min >= 0.999 * 95e6 && delay.p50 >= delay.min);
    }
}

fn either_version_of_the_internet_protocol_passes() {
    for link in ["veth", "delay=1ms"] {
        let Some(made) = made(link) else {
            return;
        };
        for address in [FAR_ADDRESS, FAR_ADDRESS_V6] {
            if address.is_ipv6() && fs::metadata("/proc/net/if_inet6").is_err() {
                eprintln!("skipped: this kernel has no IPv6");
                continue;
            }
            let says = ping(&made.near, address, 2);
            assert!(says.contains("2 received"), "{link}: {says}");
            let _echo = part_at(&made.far, "echo", address);
            let exchange = part_at(&made.near, "exchange", address);
            assert_eq!(exchange.rest().trim_end(), address.to_string(), "{link}");
        }
    }
}

/// The output of ping(8), sending this many packets from this end.
fn ping(end: &End, to: IpAddr, packets: u32) -> String {
    let (packets, to) = (packets.to_string(), to.to_string());
    let words = ["-n", "-i", "0.2", "-W", "20", "-c", &packets, &to];
    let output = command(end, "ping", &words).output().unwrap();
    let says = String::from_utf8(output.stdout).unwrap();
    let complains = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{says}{complains}");
    says
}
