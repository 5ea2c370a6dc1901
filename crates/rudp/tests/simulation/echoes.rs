//! How long echoes take where packets are lost, in round trips of the link.

use crate::network::Path;
use crate::world::{CLIENT, SERVER, World};
use rudp::{Accept, Config, Control, Event};

const DELAY_NS: u64 = 95_000_000;
const ECHOES: usize = 1000;

/// Sends a thousand messages at once, each of which is sent back. How long each took, in
/// round trips, shortest first.
fn echoes(control: Control, loss: f64) -> Vec<f64> {
    let path = Path {
        delay_ns: DELAY_NS,
        loss,
        rate: Some(12.5e6),
        queue: 1000,
        ..Path::default()
    };
    let config = Config {
        control,
        is_ordered: false,
        ..Config::default()
    };
    let accept = Accept {
        config: config.clone(),
        ..Accept::default()
    };
    let mut world = World::new(1, [path; 2], accept);
    let client = world.connect(config);
    let mut began = 0;
    let mut took = Vec::new();
    let mut happened = Vec::new();
    while took.len() < ECHOES {
        world.tell(|end, id, event| happened.push((end, id, event)));
        for (end, id, event) in happened.drain(..) {
            let now = world.now;
            let mut send = |id, message: Vec<u8>| {
                let connection = world.ends[end].endpoint.connection(id).expect("it is open");
                connection.send(message).expect("there is room");
            };
            match (end, event) {
                (CLIENT, Event::Connected) => {
                    began = now;
                    (0..ECHOES).for_each(|_| send(client, vec![1; 64]));
                }
                (CLIENT, Event::Message(_)) => {
                    took.push((now - began) as f64 / (2 * DELAY_NS) as f64);
                }
                (SERVER, Event::Message(message)) => send(id, message),
                (_, Event::Closed(reason)) => panic!("{reason:?}"),
                _ => {}
            }
        }
        world.advance();
    }
    took.sort_unstable_by(f64::total_cmp);
    took
}

#[test]
fn a_thousand_echoes_at_once_are_back_after_few_round_trips() {
    for control in [
        Control::Fixed { messages: 1000 },
        Control::Rate,
        Control::Cubic,
    ] {
        for loss in [0.0, 0.1, 0.3] {
            let took = echoes(control, loss);
            let [p50, p99, most] = [500, 990, 999].map(|at| took[at]);
            println!(
                "{control:?}, loss {loss} both ways: p50 {p50:.2}, p99 {p99:.2}, all {most:.2}"
            );
            // The others begin with ten packets and have to find the rate first.
            let is_fixed = control != Control::Rate && control != Control::Cubic;
            if is_fixed && loss <= 0.1 {
                assert!(p99 <= 4.0, "{p99} round trips");
            }
        }
    }
}
