//! Reliable messages over a link that loses, duplicates and reorders packets: all bytes
//! arrive, in order and unchanged. This program is also the process that holds the link
//! and both ends, which is why it has a main function of its own.

#![expect(clippy::unwrap_used, reason = "a test fails where it cannot go on")]
#![expect(clippy::print_stdout, reason = "a test says what it does")]
#![expect(clippy::print_stderr, reason = "a test that cannot run here says why")]

mod common;

use common::{GOES_ON, Part, end_what_hangs};
use costof_lab::link::{self, FAR_ADDRESS, NEAR_ADDRESS};
use rudp::socket::Socket;
use rudp::{Accept, Config, Control, Event, Reason};
use std::hash::{DefaultHasher, Hasher};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// 30 % of what the sender sends is lost, and 10 % of the acknowledgements.
const LINK: &str = "delay=2ms,jitter=1ms,rate=2Gbit,up.loss=30%,down.loss=10%,reorder=1%,\
                    duplicate=1%,queue=5000";
/// How much arrives here always, and with `--include-ignored`.
const MESSAGES: u32 = 1 << 10;
const MESSAGES_MANY: u32 = 1 << 14;
const MESSAGE_BYTES: usize = 1 << 16;

const PORT: u16 = 5000;
const SILENCE: Option<Duration> = Some(Duration::from_secs(60));

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        ["hold", link] => link::hold(&link.parse().unwrap()).unwrap(),
        ["receive"] => {
            end_what_hangs();
            receive();
        }
        ["send", messages] => {
            end_what_hangs();
            send(messages.parse().unwrap());
        }
        // Whatever else cargo test hands on.
        ref others => {
            let is_long = others.contains(&"--include-ignored");
            all_bytes_arrive(if is_long { MESSAGES_MANY } else { MESSAGES });
        }
    }
}

fn all_bytes_arrive(messages: u32) {
    let Some(mut made) = common::made("hold", LINK) else {
        return;
    };
    made.begin(1, &GOES_ON).unwrap();
    let mut receiver = Part::start(&made.far, &["receive"]);
    let began = Instant::now();
    let mut sender = Part::start(&made.near, &["send", &messages.to_string()]);
    let (came, sent) = (receiver.line(), sender.line());
    println!(
        "{messages} messages of {MESSAGE_BYTES} bytes in {:.1} s",
        began.elapsed().as_secs_f64()
    );
    let up = made.report(&GOES_ON).unwrap().expect("something emulates it").up;
    println!(
        "of what was sent {} packets passed, {} were lost, {:?} came twice, {:?} overtook",
        up.packets, up.lost, up.duplicated, up.reordered
    );
    let sent_packets = (up.packets + up.lost) as f64;
    let lost = up.lost as f64 / sent_packets;
    assert!((0.28..0.32).contains(&lost), "{lost} were lost");
    // Where the kernel emulates the link it counts neither.
    for count in [up.duplicated, up.reordered].into_iter().flatten() {
        assert!(count as f64 > 0.005 * sent_packets, "{count}");
    }
    assert_eq!(came, sent, "the receiver has other bytes than the sender");
    assert!(came.starts_with(&format!("{messages} messages")), "{came}");
}

fn config() -> Config {
    Config { control: Control::Rate, ..Config::default() }
}

fn receive() {
    let at = SocketAddr::from((FAR_ADDRESS, PORT));
    let accept = Accept { config: config(), ..Accept::default() };
    let mut socket = Socket::bind(at, [1; 16], Some(accept)).unwrap();
    println!("begins");
    let mut all = DefaultHasher::new();
    let mut messages = 0;
    loop {
        let (_, event) = socket.poll(SILENCE).unwrap().expect("something comes");
        match event {
            Event::Message(message) => {
                all.write(&message);
                messages += 1;
            }
            Event::Closed(reason) => {
                assert_eq!(reason, Reason::Finished);
                println!("{messages} messages, hash {:016x}", all.finish());
                // The other end hears of the end, too.
                while socket.poll(Some(Duration::from_secs(1))).unwrap().is_some() {}
                return;
            }
            _ => {}
        }
    }
}

/// Messages that all differ, and their hash.
fn send(messages: u32) {
    let mut socket = Socket::bind(SocketAddr::from((NEAR_ADDRESS, 0)), [2; 16], None).unwrap();
    let id = socket.connect(SocketAddr::from((FAR_ADDRESS, PORT)), config()).unwrap();
    println!("begins");
    let mut random = fastrand::Rng::with_seed(1);
    let mut all = DefaultHasher::new();
    let (mut taken, mut waits) = (0, None);
    loop {
        let (_, event) = socket.poll(SILENCE).unwrap().expect("something happens");
        if let Event::Closed(reason) = event {
            assert_eq!(reason, Reason::Finished);
            break;
        }
        let now = socket.now();
        let Some(connection) = socket.connection(id) else {
            continue;
        };
        while taken < messages {
            let message = waits.take().unwrap_or_else(|| {
                let mut message = vec![0; MESSAGE_BYTES];
                random.fill(&mut message);
                all.write(&message);
                message
            });
            // It is handed over for good only where there is room for it.
            if connection.stats().queued_bytes + MESSAGE_BYTES as u64 > config().queue_bytes {
                waits = Some(message);
                break;
            }
            connection.send(message).unwrap();
            taken += 1;
        }
        if taken == messages {
            connection.close(now);
        }
    }
    println!("{messages} messages, hash {:016x}", all.finish());
}
