//! How long echoes take where packets are lost, in round trips of the link.

use crate::network::Path;
use crate::world::{CLIENT, SERVER, World};
use rudp::{Accept, Config, Control, Event};

const DELAY_NS: u64 = 95_000_000;
/// As many are in flight at first, and from then on where more are asked for than that.
const ECHOES: usize = 1000;
const CONTROLS: [Control; 3] = [Control::Fixed { messages: 1000 }, Control::Rate, Control::Cubic];

/// Sends a thousand messages at once, each of which is sent back, and another one whenever one is
/// back, until there have been `all`. Returns how long each took, in round trips.
fn echoes(seed: u64, control: Control, loss: f64, all: usize) -> Vec<f64> {
    let path = Path { delay_ns: DELAY_NS, loss, rate: Some(12.5e6), queue: 1000, ..Path::IDEAL };
    let config = Config { control, is_ordered: false, ..Config::default() };
    let accept = Accept::from(config.clone());
    let mut world = World::new(seed, [path; 2], accept);
    let client = world.connect(config);
    let mut asked = 0;
    let mut took = Vec::new();
    let mut happened = Vec::new();
    while took.len() < all {
        world.take_events(|end, id, event| happened.push((end, id, event)));
        for (end, id, event) in happened.drain(..) {
            let now = world.now;
            let mut send = |id, message: Vec<u8>| {
                let connection = world.connection(end, id).expect("it is open");
                connection.send(message).expect("there is room");
            };
            let mut ask = |at_once: usize| {
                for _ in 0..at_once.min(all - asked) {
                    let mut message = vec![1; 64];
                    message[..8].copy_from_slice(&now.to_be_bytes());
                    send(client, message);
                    asked += 1;
                }
            };
            match (end, event) {
                (CLIENT, Event::Connected) => ask(ECHOES),
                (CLIENT, Event::Message(message)) => {
                    let then = message.first_chunk().map(|then| u64::from_be_bytes(*then));
                    let then = then.expect("it says when it was asked for");
                    took.push((now - then) as f64 / (2 * DELAY_NS) as f64);
                    ask(1);
                }
                (SERVER, Event::Message(message)) => send(id, message),
                (_, Event::Closed(reason)) => panic!("{reason:?}"),
                _ => {}
            }
        }
        world.advance();
    }
    took
}

/// The quantile of these.
fn quantile(of: &mut [f64], p: f64) -> f64 {
    of.sort_unstable_by(f64::total_cmp);
    of[((of.len() - 1) as f64 * p).round() as usize]
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn a_thousand_echoes_at_once_are_back_after_few_round_trips() {
    const SEEDS: u64 = 100;
    for control in CONTROLS {
        for loss in [0.0, 0.1, 0.3] {
            let mut hundredths = Vec::new();
            for seed in 0..SEEDS {
                hundredths.push(quantile(&mut echoes(seed, control, loss, ECHOES), 0.99));
            }
            let within = hundredths.iter().filter(|p99| **p99 <= 4.0).count();
            let [middle, most] = [0.5, 1.0].map(|p| quantile(&mut hundredths, p));
            println!(
                "{control:?}, loss {loss} both ways: p99 {middle:.2}, at most {most:.2}, \
                 {within} times of {SEEDS} within 4"
            );
            // Who takes every loss for congestion has no window for them.
            if control != Control::Cubic && loss <= 0.1 {
                assert!(within >= 88, "{within} of {SEEDS}");
            }
        }
    }
}

#[test]
fn with_a_thousand_echoes_in_flight_nearly_all_are_back_after_few_round_trips() {
    for control in CONTROLS {
        for seed in 0..5 {
            let mut took = echoes(seed, control, 0.1, 20 * ECHOES);
            // Not the first ones, for which the rate is not known yet.
            let [p50, p99, most] = [0.5, 0.99, 1.0].map(|p| quantile(&mut took[5 * ECHOES..], p));
            println!("{control:?}, seed {seed}: p50 {p50:.2}, p99 {p99:.2}, at most {most:.2}");
            if control != Control::Cubic {
                assert!(p99 <= 4.0, "{p99} round trips");
            }
        }
    }
}
