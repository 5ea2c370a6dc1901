//! Strangers connect wherever a run listens, all the time, and send what they like. No launch is lost.

use crate::common::{Place, expect_every_launch, was_starved};
use std::collections::VecDeque;
use std::io::Write;
use std::net::{Ipv4Addr, TcpStream, UdpSocket};
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{scope, sleep};
use std::time::Duration;

/// Where the run listens.
const PORTS: RangeInclusive<u16> = 46_310..=46_313;
const HERE: Ipv4Addr = Ipv4Addr::LOCALHOST;
/// Between two rounds of a stranger: long enough for the run to have the CPU too.
const PAUSE: Duration = Duration::from_millis(1);
const RUBBISH: &[u8] = b"GET / HTTP/1.1\r\nHost: rubbish\r\n\r\n";

/// Connects, sends nothing or rubbish, and stays for a while.
fn connect(enough: &AtomicBool) {
    const STAY: usize = 200;
    let mut staying = VecDeque::new();
    while !enough.load(Ordering::Relaxed) {
        for port in PORTS {
            let Ok(mut stream) = TcpStream::connect((HERE, port)) else {
                continue;
            };
            if staying.len() % 2 == 0 {
                // It may have been refused already.
                let _ = stream.write_all(RUBBISH);
            }
            staying.push_back(stream);
            if staying.len() > STAY {
                staying.pop_front();
            }
        }
        sleep(PAUSE);
    }
}

/// Sends datagrams: empty ones, which would end an exchange if they came from its client, and others.
fn spray(enough: &AtomicBool) {
    let socket = UdpSocket::bind((HERE, 0)).unwrap();
    while !enough.load(Ordering::Relaxed) {
        for port in PORTS {
            for datagram in [&[][..], RUBBISH, &[7; 1400]] {
                // Most of the time, nobody listens there.
                let _ = socket.send_to(datagram, (HERE, port));
            }
        }
        sleep(PAUSE);
    }
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn strangers_cost_no_launch() {
    let place = Place::new();
    let enough = &AtomicBool::new(false);
    scope(|scope| {
        for stranger in [connect, spray] {
            scope.spawn(move || stranger(enough));
        }
        let tried = std::panic::catch_unwind(|| {
            expect_all_launches(&place, "net.rtt* --set over=tcp,udp --set payload=string");
            expect_all_launches(
                &place,
                "net.connect rpc.first_call* rudp.stages rudp.loss --set payload=string64",
            );
        });
        enough.store(true, Ordering::Relaxed);
        tried.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
    place.expect_nothing_runs();
}

/// Runs these probes with these values, and expects every launch.
fn expect_all_launches(place: &Place, probes: &str) {
    let ended = place.run(&format!(
        "run --only {probes} --set size=1024 --set cpus=cross --set wake=awake --launches 3 --seed 1 \
         --peer local --peer-port {}-{} --out run.jsonl",
        PORTS.start(),
        PORTS.end()
    ));
    ended.expect_code(0);
    let run = place.run_file();
    std::fs::remove_file(place.path("run.jsonl")).unwrap();
    let lost: Vec<_> =
        run.failures.iter().filter(|row| row.launch.is_some() && !was_starved(row)).collect();
    assert!(lost.is_empty(), "{lost:?}");
    expect_every_launch(&run);
}
