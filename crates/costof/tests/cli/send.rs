//! `costof send`: two terminals, and what comes between them.

use crate::common::{
    Ended, Place, assert_contains, assert_contains_all, ended, interrupt, run, signal, spawn,
    wait_for,
};
use costof_measure::probe::find;
use costof_model::point::Point;
use costof_model::protocol::{Answer, ByHand, Command as Asked, Launch, Offers, Rendezvous};
use costof_model::testing::launch_message;
use costof_probes::TABLE;
use rustix::process::{Pid, Signal, kill_process};
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Lines, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The end that listens, what it wrote so far in files, and where it can be called.
struct Listening<'a> {
    place: &'a Place,
    child: Child,
    address: String,
}

impl<'a> Listening<'a> {
    /// At this address, behind which options may stand.
    fn start(place: &'a Place, at: &str) -> Listening<'a> {
        let child = place
            .costof(&format!("send --listen {at}"))
            .env_remove("COSTOF_TOKEN")
            .stdin(Stdio::null())
            .stdout(File::create(place.path("out")).unwrap())
            .stderr(File::create(place.path("err")).unwrap())
            .spawn()
            .unwrap();
        let mut listening = Listening { place, child, address: String::new() };
        listening.wait_for("senders: ");
        listening.address = listening.word_after("listening at ");
        listening
    }

    /// The first word that it wrote behind this.
    fn word_after(&self, before: &str) -> String {
        let err = self.err();
        let (_, after) = err.split_once(before).unwrap();
        after.split_whitespace().next().unwrap().to_owned()
    }

    fn err(&self) -> String {
        fs::read_to_string(self.place.path("err")).unwrap()
    }

    fn out(&self) -> String {
        fs::read_to_string(self.place.path("out")).unwrap()
    }

    fn wait_for(&mut self, text: &str) {
        wait_for(text, || {
            assert_eq!(self.child.try_wait().unwrap(), None, "{}", self.err());
            self.err().contains(text)
        });
    }

    /// The token in the command that it shows.
    fn token(&self) -> String {
        self.word_after("COSTOF_TOKEN=")
    }

    /// Sends a signal to the workers that it has started.
    fn signal_workers(&self, what: Signal) {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.child.id())).unwrap();
        for task in tasks {
            let children = fs::read_to_string(task.unwrap().path().join("children")).unwrap();
            for worker in children.split_whitespace() {
                kill_process(Pid::from_raw(worker.parse().unwrap()).unwrap(), what).unwrap();
            }
        }
    }

    fn sender(&self, token: &str, options: &str) -> Command {
        let line = format!("send --to {} {options}", self.address);
        let mut command = self.place.costof(&line);
        command.env("COSTOF_TOKEN", token);
        command
    }

    /// Interrupts it, and gives what it wrote.
    fn end(mut self) -> Ended {
        signal(&self.child, Signal::INT);
        let mut code = None;
        wait_for("the receiver to end", || {
            code = self.child.try_wait().unwrap();
            code.is_some()
        });
        let ended = Ended { code: code.unwrap().code(), out: self.out(), err: self.err() };
        self.place.expect_nothing_runs();
        ended.expect_code(130)
    }
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn every_pattern_says_what_both_ends_measured() {
    let place = Place::new();
    let listening = Listening::start(&place, "127.0.0.1:0");
    let token = listening.token();
    let stream = "--primitive sendmsg --size 4KiB --count 3000 --set threads=2";
    let sent = run(&mut listening.sender(&token, stream)).expect_code(0);
    // Messages of each connection, and not one less.
    assert_contains(&sent.out, ": 6000 sent, 6000 messages (");
    for metric in "throughput rate cpu_sender cpu_receiver system_calls".split(' ') {
        assert_contains(&sent.out, &format!("\n {metric} "));
    }
    let echo = "--set pattern=echo --set in_flight=4 --size 64 --duration 200ms --json";
    let sent = run(&mut listening.sender(&token, echo)).expect_code(0);
    assert_eq!(sent.out.lines().count(), 1, "{}", sent.out);
    assert_contains_all(
        &sent.out,
        &[r#""pattern":"echo""#, r#""name":"latency""#, r#""percent":99.0"#],
    );
    let trigger = "--set pattern=trigger --set in_flight=8 --count 1000 --primitive copy_and_send";
    let sent = run(&mut listening.sender(&token, trigger)).expect_code(0);
    assert_contains(&sent.out, ": 1000 sent, 1000 messages (");
    assert_contains(&sent.out, "\n latency ");
    let heard = listening.end();
    let clients = ["client 1 (127.0.0.1:", "client 2 (127.0.0.1:"];
    assert_contains_all(&heard.out, &clients);
    assert_contains(&heard.out, "\n cpu_receiver ");
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn a_sender_prints_what_arrived_beside_what_it_sent() {
    let place = Place::new();
    let mut listening = Listening::start(&place, "127.0.0.1:0 --open");
    let udp = "--over udp --duration 2s --json";
    let sending = spawn(&mut listening.sender("", udp));
    listening.wait_for("client 1 ");
    sleep(Duration::from_millis(300));
    // Nobody reads the socket, whose queue overflows.
    listening.signal_workers(Signal::STOP);
    sleep(Duration::from_millis(500));
    listening.signal_workers(Signal::CONT);
    let sender = ended(sending).expect_code(0);
    let row: serde_json::Value = serde_json::from_str(&sender.out).unwrap();
    let (sent, arrived) = (row["sent"].as_u64(), row["messages"].as_u64());
    assert!(arrived > Some(0) && arrived < sent, "{}", sender.out);
    let counted = format!(": {} messages (", arrived.unwrap());
    assert_contains(&listening.end().out, &counted);
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn reliable_datagrams_all_arrive_although_some_are_dropped() {
    let place = Place::new();
    let listening = Listening::start(&place, "127.0.0.1:0 --open");
    for (options, dropped) in [
        ("--over rudp --count 2000", 0.0),
        // So large that each has a datagram of its own: of few, hardly one may be lost.
        ("--over rudp --size 50KiB --count 300 --drop 20%", 0.2),
        ("--over rudp --set control=rate --set window=0 --size 50KiB --count 300 --drop 20%", 0.2),
        ("--over study-datagrams --count 500 --drop 20% --retry 5ms", 0.2),
    ] {
        let options = format!("{options} --json");
        let sent = run(&mut listening.sender("", &options)).expect_code(0);
        let row: serde_json::Value = serde_json::from_str(&sent.out).unwrap();
        assert_eq!(row["messages"], row["sent"], "{options}");
        let metrics = row["metrics"].as_array().unwrap();
        let lost = metrics.iter().find(|metric| metric["name"] == "lost").unwrap()["median"]
            .as_f64()
            .unwrap();
        assert!(dropped == 0.0 || lost > dropped / 2.0, "{options}: {lost}");
    }
    let with_retry = "--over study-datagrams --set window=1 --count 20 --retry 5ms";
    let sent = run(&mut listening.sender("", with_retry)).expect_code(0);
    let says = ["over=study window=1 over loopback, retransmitted after 5ms", "\n latency "];
    assert_contains_all(&sent.out, &says);
    listening.end();
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn a_run_has_measured_nothing_if_only_what_predicts_has_numbers() {
    let place = Place::new();
    // A run is two clients.
    let listening = Listening::start(&place, "127.0.0.1:0 --open --max-clients 1");
    let line = "run net.rtt --set over=tcp --quick --launches 3 --seed 1 --out run.jsonl --peer";
    place.run(&format!("{line} tcp:{}", listening.address)).expect_code(3);
    let run = place.run_file();
    assert!(!run.points.is_empty() && run.points.len() == run.run.plan.needed().count());
    listening.end();
}

#[test]
fn sends_without_a_copy_have_their_verdict() {
    let place = Place::new();
    // Where the machine has IPv6, by it.
    let at = match TcpListener::bind("[::1]:0") {
        Ok(_) => "[::1]:0 --open",
        Err(_) => "127.0.0.1:0 --open",
    };
    let listening = Listening::start(&place, at);
    let msg_zerocopy = "--primitive msg_zerocopy --duration 300ms";
    let sent = run(&mut listening.sender("", msg_zerocopy)).expect_code(0);
    assert_contains_all(&sent.out, &["copied 100 %", "(loopback)"]);
    listening.end();
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn a_sender_that_vanishes_and_strangers_hold_up_nobody() {
    let place = Place::new();
    let mut listening = Listening::start(&place, "127.0.0.1:0");
    let token = listening.token();
    let lasting = "--duration 1h --size 1MiB";
    let going_on = spawn(&mut listening.sender(&token, lasting));
    listening.wait_for("client 1 ");
    for (client, options) in [(2, lasting), (3, "--duration 1h --set pattern=echo")] {
        let vanishing = spawn(&mut listening.sender(&token, options));
        listening.wait_for(&format!("client {client} "));
        // Until some of it has come: it goes in the midst of a message.
        sleep(Duration::from_millis(200));
        signal(&vanishing, Signal::KILL);
        assert_eq!(ended(vanishing).code, None);
        listening.wait_for("ended early");
    }
    for rubbish in [
        &b"GET / HTTP/1.1\r\n\r\n"[..],
        &[b'x'; 5000],
        b"costof send 1 token\n{}\n",
        b"costof send 3\nno answer\n{}\n",
    ] {
        let mut stranger = TcpStream::connect(&listening.address).unwrap();
        stranger.write_all(rubbish).unwrap();
        // It is told something, or nothing, and hung up on.
        let _ = stranger.read_to_end(&mut Vec::new());
    }
    let silent = TcpStream::connect(&listening.address).unwrap();
    // One that comes after all of them is served while the first one goes on.
    run(&mut listening.sender(&token, "--count 100")).expect_code(0);
    drop(silent);
    assert_contains(&interrupt(going_on).out, "\n throughput ");
    let heard = listening.end();
    assert_eq!(heard.err.matches("ended early").count(), 2, "{}", heard.err);
    assert_contains_all(&heard.err, &["closed the connection", "not a `costof send`"]);
}

/// More connections than may wait, which say nothing, and others that say too little.
#[test]
#[ignore = "long; ./check --all runs it"]
fn silent_connections_lock_nobody_out_and_fill_no_log() {
    let place = Place::new();
    let began = Instant::now();
    let mut listening = Listening::start(&place, "127.0.0.1:0");
    let token = listening.token();
    let mut silent = Vec::new();
    for number in 0..200 {
        let mut stranger = TcpStream::connect(&listening.address).unwrap();
        if number % 2 == 0 {
            stranger.write_all(b"c").unwrap();
        }
        silent.push(stranger);
    }
    run(&mut listening.sender(&token, "--count 100")).expect_code(0);
    // The first of them had to give way, and were told.
    listening.wait_for("too many connections");
    for _ in 0..100 {
        let mut stranger = TcpStream::connect(&listening.address).unwrap();
        stranger.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    }
    run(&mut listening.sender(&token, "--count 100")).expect_code(0);
    drop(silent);
    let heard = listening.end();
    // At most ten in ten seconds.
    let most = 20 + began.elapsed().as_secs();
    let lines = heard.err.matches("is refused").count() as u64;
    assert!(lines <= most, "{lines} lines: {}", heard.err);
    assert_contains(&heard.err, " more connections were refused");
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn only_who_has_the_token_is_served() {
    let place = Place::new();
    let mut listening = Listening::start(&place, "127.0.0.1:0 --max-clients 1");
    for (token, says) in [("wrong", "another token"), ("", "no token")] {
        run(&mut listening.sender(token, "--count 10")).expect_wrong(&[says, "--token"]);
    }
    let token = listening.token();
    let with_token = format!("--count 10 --token {token}");
    run(&mut listening.sender("", &with_token)).expect_code(0);
    let first = spawn(&mut listening.sender(&token, "--duration 1h"));
    listening.wait_for("client 2 ");
    let second = run(&mut listening.sender(&token, "--count 10")).expect_code(3);
    assert_contains(&second.err, "--max-clients");
    // Who listens may end it too.
    let heard = listening.end();
    assert_contains(&heard.err, "this end was stopped");
    let first = ended(first).expect_code(0);
    assert_contains(&first.err, "ended the connection");
    assert_contains(&first.out, "\n throughput ");
}

/// Who calls what listens, and speaks its language by hand.
struct Caller {
    stream: TcpStream,
    lines: Lines<BufReader<TcpStream>>,
}

/// An address to which no role may go.
const ELSEWHERE: &str = "192.0.2.1";

impl Caller {
    /// One that is served, by a receiver without a token.
    fn served(address: &str) -> Caller {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(b"costof send 3\n\n").unwrap();
        let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
        assert_contains(&lines.next().unwrap().unwrap(), "costof challenge ");
        let mut caller = Caller { stream, lines };
        assert!(matches!(caller.answer(), Some(Answer::Hello { .. })));
        caller
    }

    /// The next answer; none where the connection has ended.
    fn answer(&mut self) -> Option<Answer> {
        let line = self.lines.next()?.ok()?;
        let answer = serde_json::from_str(&line);
        Some(answer.unwrap_or_else(|error| panic!("{error}: {line}")))
    }

    fn ask(&mut self, command: &Asked) -> Option<Answer> {
        let line = serde_json::to_string(command).unwrap();
        writeln!(self.stream, "{line}").ok()?;
        self.answer()
    }

    /// Asks for a launch of this role, whose point has the defaults.
    fn open(&mut self, role: &'static str, probe: &str, by_hand: Option<ByHand>) -> Option<Answer> {
        let probe = find(TABLE, probe).unwrap();
        let (axes, link) = (probe.info.defaults(), "loopback".into());
        let point = Point { probe: probe.info.id.clone(), axes, link };
        let rendezvous = Rendezvous {
            address: ELSEWHERE.parse().unwrap(),
            scope: 0,
            receive_buffer: None,
            ports: (0, 0),
            token: "00".to_owned(),
            apart: false,
            sink: None,
        };
        self.ask(&Asked::Open(Box::new(Launch {
            role: role.into(),
            rendezvous: Some(rendezvous),
            by_hand,
            ..launch_message(vec![point])
        })))
    }
}

/// A caller gets a worker's answers, but only for an answering role, which listens where the caller came and goes
/// nowhere.
#[test]
fn a_caller_gets_an_answering_role_and_nothing_else() {
    let place = Place::new();
    let listening = Listening::start(&place, "127.0.0.1:0 --open");
    let mut caller = Caller::served(&listening.address);
    assert!(matches!(caller.ask(&Asked::Describe), Some(Answer::Description(_))));
    for (role, probe) in [("only", "os.syscall"), ("sender", "copy.send"), ("client", "net.rtt")] {
        let refused = caller.open(role, probe, None);
        assert!(matches!(refused, Some(Answer::Failed(_))), "{role} of {probe}");
    }
    assert_eq!(caller.open("receiver", "copy.send", None), Some(Answer::Opened));
    let offers = Offers::from([("address".into(), format!("{ELSEWHERE}:9"))]);
    let prepared = caller.ask(&Asked::Prepare { point: 0, offers });
    let Some(Answer::Prepared { offers }) = prepared else {
        panic!("it is not prepared: {prepared:?}");
    };
    assert!(offers["address"].starts_with("127.0.0.1:"), "{offers:?}");
    // What is no command ends it.
    writeln!(caller.stream, "rubbish").unwrap();
    assert_eq!(caller.answer(), None);
    assert_eq!(listening.end().out, "");
}

/// A second launch would be promised memory that the worker already holds for the first one.
#[test]
fn a_caller_has_one_launch_which_begins_when_it_is_prepared() {
    let place = Place::new();
    let listening = Listening::start(&place, "127.0.0.1:0 --open");
    let mut caller = Caller::served(&listening.address);
    let by_hand = Some(ByHand::default());
    assert_eq!(caller.open("receiver", "copy.send", by_hand), Some(Answer::Opened));
    for _ in 0..3 {
        assert!(matches!(caller.ask(&Asked::Run), Some(Answer::Failed(_))));
        let Some(Answer::Failed(again)) = caller.open("server", "net.rtt", None) else {
            panic!("it is opened twice");
        };
        assert_contains(&again.reason, "unexpected message");
    }
    // The first launch is still there to be reported.
    drop(caller);
    let mut listening = listening;
    listening.wait_for("ended early");
    let heard = listening.end();
    assert!(!heard.err.contains("sends: "), "{}", heard.err);
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn a_receiver_ends_although_a_caller_goes_on_asking() {
    let place = Place::new();
    let listening = Listening::start(&place, "127.0.0.1:0 --open");
    let mut caller = Caller::served(&listening.address);
    assert_eq!(caller.open("receiver", "copy.send", None), Some(Answer::Opened));
    signal(&listening.child, Signal::INT);
    // Each takes a millisecond or more.
    let is_over = (0..100_000).any(|_| {
        sleep(Duration::from_millis(1));
        caller.ask(&Asked::Watch).is_none()
    });
    assert!(is_over, "it is served although the receiver was interrupted");
    listening.end();
}

/// What listens answers every probe with two ends, and no other.
#[test]
fn a_run_calls_what_listens() {
    let place = Place::new();
    let listening = Listening::start(&place, "127.0.0.1:0");
    let host = format!("tcp:{}", listening.address);
    let line = "run --only net.rtt --set payload=int --set over=grpc --quick --launches 3 --seed 1 --out run.jsonl";
    let run_with = |token: &str, hosts: &str| {
        let mut command = place.costof(&format!("{line} {hosts}"));
        run(command.env("COSTOF_TOKEN", token))
    };
    let peer = format!("--peer {host}");
    let refused = run_with("wrong", &peer).expect_code(3);
    assert_contains(&refused.err, "another token");
    run_with(&listening.token(), &format!("--on {host}")).expect_wrong(&["only answers", "--peer"]);
    run_with(&listening.token(), &peer).expect_code(0);
    let measured = place.run_file();
    assert_eq!(measured.run.plan.hosts.peer, Some(host));
    assert!(!measured.launches.is_empty(), "{:?}", measured.failures);
    assert!(measured.points.iter().all(|row| row.point.link == "loopback"));
    listening.end();
}

/// Who reads all that a sender says can neither read the token in it nor say it again.
#[test]
#[ignore = "long; ./check --all runs it"]
fn what_a_sender_says_has_no_token_and_serves_nobody_else() {
    let place = Place::new();
    let listening = Listening::start(&place, "127.0.0.1:0");
    let token = listening.token();
    let eavesdropper = TcpListener::bind("127.0.0.1:0").unwrap();
    let to = format!("send --to {} --count 10", eavesdropper.local_addr().unwrap());
    let mut sender = place.costof(&to);
    let sender = spawn(sender.env("COSTOF_TOKEN", &token));
    let (mut from_sender, _) = eavesdropper.accept().unwrap();
    let mut to_receiver = TcpStream::connect(&listening.address).unwrap();
    let mut from_receiver = to_receiver.try_clone().unwrap();
    let mut to_sender = from_sender.try_clone().unwrap();
    let back = std::thread::spawn(move || std::io::copy(&mut from_receiver, &mut to_sender));
    let mut said = Vec::new();
    let mut some = [0; 4096];
    while let Ok(length @ 1..) = from_sender.read(&mut some) {
        said.extend_from_slice(&some[..length]);
        let _ = to_receiver.write_all(&some[..length]);
    }
    ended(sender).expect_code(0);
    drop(back);
    let text = String::from_utf8(said.clone()).unwrap();
    assert!(text.contains("costof send 3") && !text.contains(&token), "{text}");
    let mut again = TcpStream::connect(&listening.address).unwrap();
    again.write_all(&said).unwrap();
    let mut reply = String::new();
    let _ = again.read_to_string(&mut reply);
    assert_contains(&reply, "another token");
    assert_eq!(listening.end().err.matches("client ").count(), 1);
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn a_receiver_that_is_killed_is_told_by_who_sends() {
    for pattern in ["stream", "echo"] {
        let place = Place::new();
        let mut listening = Listening::start(&place, "127.0.0.1:0 --open");
        let sending = format!("--duration 1h --set pattern={pattern}");
        let sending = spawn(&mut listening.sender("", &sending));
        listening.wait_for("client 1 ");
        listening.child.kill().unwrap();
        listening.child.wait().unwrap();
        let sent = ended(sending).expect_code(3);
        // In the midst of it, or before anything was sent.
        let reasons = ["closed the connection", "has hung up"];
        let is_known = reasons.iter().any(|why| sent.err.contains(why));
        assert!(is_known, "{}", sent.err);
        place.expect_nothing_runs();
    }
}

/// A queue of connections that is full: the kernel answers none, and the sender waits.
#[test]
fn a_sender_is_interrupted_while_it_connects() {
    let place = Place::new();
    let listener = UnixListener::bind(place.path("full")).unwrap();
    rustix::net::listen(&listener, 0).unwrap();
    let _queued = UnixStream::connect(place.path("full")).unwrap();
    let connecting = spawn(&mut place.costof("send --to unix:full"));
    wait_for("the signal to be handled", || catches_interrupts(&connecting));
    interrupt(connecting);
}

/// Whether a process has a handler for SIGINT, by the kernel's account.
fn catches_interrupts(child: &Child) -> bool {
    let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    let caught = caught.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    caught.is_some_and(|mask| mask & 1 << (Signal::INT.as_raw() - 1) != 0)
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn a_unix_socket_and_a_token_file_leave_nothing() {
    let place = Place::new();
    let listening = Listening::start(&place, "unix:socket --token-file token");
    let permissions = fs::metadata(place.path("token")).unwrap().permissions();
    assert_eq!(permissions.mode() & 0o777, 0o600);
    place.run("send --listen unix:socket").expect_code(2);
    let with_file = "--token-file token --count 50";
    let sent = run(&mut listening.sender("", with_file)).expect_code(0);
    assert_contains(&sent.out, "over=unix over loopback");
    listening.end();
    for left in ["socket", "token"] {
        assert!(!place.path(left).exists(), "{left}");
    }
    // What one that was killed has left is no hindrance.
    let mut killed = Listening::start(&place, "unix:socket");
    killed.child.kill().unwrap();
    killed.child.wait().unwrap();
    assert!(place.path("socket").exists());
    Listening::start(&place, "unix:socket").end();
}

#[test]
fn what_cannot_be_is_told_with_the_way_out() {
    let place = Place::new();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken_at = taken.local_addr().unwrap().to_string();
    let listening = place.run(&format!("send --listen {taken_at}"));
    listening.expect_wrong(&["another process listens", "another port"]);
    // A port at which nobody is.
    drop(taken);
    let nobody = place.run(&format!("send --to {taken_at}")).expect_code(3);
    assert_contains(&nobody.err, "costof send --listen");
    // And one at which somebody else is.
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let other_at = other.local_addr().unwrap().to_string();
    let sender = spawn(&mut place.costof(&format!("send --to {other_at}")));
    let (mut stream, _) = other.accept().unwrap();
    stream.write_all(b"220 mail.example ESMTP\r\n").unwrap();
    let ended = ended(sender).expect_code(3);
    assert_contains(&ended.err, "not a `costof send --listen`");
}

#[test]
fn a_receiver_removes_no_token_or_socket_of_another() {
    let [one, other] = [Place::new(), Place::new()];
    let [token, socket] = ["token", "socket"].map(|name| one.path(name));
    let at = format!("unix:{} --token-file {}", socket.display(), token.display());
    let first = Listening::start(&one, &at);
    fs::remove_file(&token).unwrap();
    fs::remove_file(&socket).unwrap();
    let second = Listening::start(&other, &at);
    first.end();
    assert!(token.exists() && socket.exists());
    let with_file = format!("--token-file {} --count 50", token.display());
    run(&mut second.sender("", &with_file)).expect_code(0);
    second.end();
    assert!(!token.exists() && !socket.exists());
}

#[test]
fn an_endless_token_file_is_refused() {
    let place = Place::new();
    for end in ["--listen 127.0.0.1:0", "--to 127.0.0.1:1"] {
        let line = format!("send {end} --token-file /dev/zero");
        place.run(&line).expect_wrong(&["/dev/zero", "4096 bytes"]);
    }
}
