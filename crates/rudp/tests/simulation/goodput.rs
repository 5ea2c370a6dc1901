//! How much of a long lossy link each control uses, in virtual time: 100 Mb/s, 95 ms
//! each way, a queue of a thousand packets.

use crate::network::{Network, Path};
use crate::world::{CLIENT, SECOND, SERVER, World};
use rudp::{Accept, Config, ConnectionId, Control, Event, Stats, Time, study};
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};

const LINK: Path =
    Path { delay_ns: 95_000_000, rate: Some(100e6 / 8.0), queue: 1000, ..Path::IDEAL };
const MESSAGE: usize = 64 << 10;

/// What one connection did.
#[derive(Clone, Copy, Debug, Default)]
struct Flow {
    /// Bytes of messages handed over in the time that counts.
    bytes: u64,
    /// Seconds until it first delivered nine tenths of what it did on average later.
    start_s: f64,
    stats: Stats,
}

impl Flow {
    fn megabits(&self, seconds: u64) -> f64 {
        self.bytes as f64 * 8.0 / 1e6 / seconds as f64
    }
}

/// Connections with these controls share the paths; what counts is from `from` to `to`
/// seconds.
fn share(controls: &[Control], paths: [Path; 2], from: u64, to: u64) -> Vec<Flow> {
    share_changing(1, controls, paths, None, from, to)
}

/// The same over the network of a seed, whose rate changes: after how many seconds, and to how many
/// bytes per second.
fn share_changing(
    seed: u64,
    controls: &[Control],
    paths: [Path; 2],
    changes: Option<(u64, f64)>,
    from: u64,
    to: u64,
) -> Vec<Flow> {
    let mut world = World::new(seed, paths, Accept::default());
    world.batch = 16;
    let ids: Vec<ConnectionId> = controls
        .iter()
        .map(|control| world.connect(Config { control: *control, ..Config::default() }))
        .collect();
    // The server sees them in the order in which they connect, told apart by the label that
    // their messages begin with.
    let mut seconds: Vec<BTreeMap<u64, u64>> = vec![BTreeMap::new(); ids.len()];
    let mut happened = Vec::new();
    // Time counts from when all are connected, which takes long where much is lost.
    let (mut connecting, mut begin) = (ids.len(), u64::MAX);
    while world.now.saturating_sub(begin) < to * SECOND {
        if connecting == 0 {
            begin = begin.min(world.now);
        }
        let elapsed = world.now.saturating_sub(begin);
        if let Some((at, rate)) = changes
            && elapsed > at * SECOND
        {
            world.network.paths[CLIENT].rate = Some(rate);
        }
        world.take_events(|end, _, event| match (end, event) {
            (CLIENT, Event::Connected) => connecting -= 1,
            (SERVER, Event::Message(message)) => {
                happened.push((usize::from(message[0]), message.len() as u64));
            }
            _ => {}
        });
        let second = elapsed / (SECOND / 10);
        for (flow, bytes) in happened.drain(..) {
            *seconds[flow].entry(second).or_default() += bytes;
        }
        for (flow, id) in ids.iter().enumerate() {
            let connection = world.client(*id);
            // Twice what fits into link and queue, and no more, so that each step stays cheap.
            while connection.stats().queued_bytes < 16 << 20 {
                let mut message = vec![0; MESSAGE];
                message[0] = flow as u8;
                if connection.send(message).is_err() {
                    break;
                }
            }
        }
        world.advance();
    }
    ids.iter()
        .zip(seconds)
        .map(|(id, tenths)| {
            let bytes: u64 = tenths.range(from * 10..to * 10).map(|(_, bytes)| bytes).sum();
            let average = bytes as f64 / (to - from) as f64;
            // Over a second, because a lost fragment holds up what follows in order.
            let is_at_speed = |start: u64| {
                let bytes: u64 = tenths.range(start..start + 10).map(|(_, bytes)| bytes).sum();
                bytes as f64 > 0.9 * average
            };
            let start_s = (0..to * 10).find(|start| is_at_speed(*start)).unwrap_or(to * 10);
            let connection = world.client(*id);
            Flow { bytes, start_s: start_s as f64 / 10.0, stats: connection.stats() }
        })
        .collect()
}

fn one_way_loss(loss: f64) -> [Path; 2] {
    [Path { loss, ..LINK }, LINK]
}

/// Measures, and tells. What part of the link's rate arrives, of what loss lets through.
fn measure(control: Control, paths: [Path; 2], way: &str) -> f64 {
    let loss = paths[0].loss;
    let flow = share(&[control], paths, 10, 20)[0];
    let megabits = flow.megabits(10);
    let part = megabits / (100.0 * (1.0 - loss));
    println!(
        "{control:?}, loss {loss} {way}: {megabits:.1} Mb/s, {part:.3} of what arrives; at speed \
         after {:.1} s, round trip {:.0?}, lost {} of {} packets, {} of them while a queue stood",
        flow.start_s,
        flow.stats.round_trip,
        flow.stats.packets_lost,
        flow.stats.packets_sent,
        flow.stats.packets_lost_in_queue,
    );
    if control == Control::Rate {
        assert!(part >= 0.9, "{part}");
        assert!(flow.start_s <= 10.0, "{} s", flow.start_s);
    }
    part
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn rate_fills_a_link_that_loses_at_random() {
    // Before the line, where more can be sent than it carries, and behind it.
    let late = Path { loss: 0.3, loses_late: true, ..LINK };
    measure(Control::Rate, [late, LINK], "one way, behind the line");
    measure(Control::Rate, one_way_loss(0.1), "one way");
    measure(Control::Rate, [Path { loss: 0.3, ..LINK }; 2], "both ways");
}

const STALLING: Path = Path { stall_ns: 60_000_000, ..LINK };

/// What share of what the link lets through arrives in the sixth and seventh second, in ascending order
/// for so many seeds.
fn after_five_seconds(path: Path, seeds: u64) -> Vec<f64> {
    let part = |seed| {
        let flows = share_changing(seed, &[Control::Rate], [path, path], None, 5, 7);
        flows[0].megabits(2) / (100.0 * (1.0 - path.loss))
    };
    let seeds: Vec<u64> = (0..seeds).collect();
    let half = |seeds: &[u64]| seeds.iter().copied().map(part).collect::<Vec<_>>();
    let (one, other) = seeds.split_at(seeds.len() / 2);
    let mut parts = std::thread::scope(|scope| {
        let one = scope.spawn(|| half(one));
        let other = half(other);
        [one.join().expect("it does not panic"), other].concat()
    });
    parts.sort_unstable_by(f64::total_cmp);
    let at = |tenths: usize| parts[(parts.len() - 1) * tenths / 10];
    println!(
        "loss {}, stalls of up to {} ns: least {:.3}, tenths {:.3?}, {} of {} below 0.7",
        path.loss,
        path.stall_ns,
        parts[0],
        [1, 5, 9].map(at),
        parts.iter().filter(|part| **part < 0.7).count(),
        parts.len(),
    );
    parts
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn rate_finds_the_rate_in_five_seconds_whatever_is_lost_and_stalls() {
    let parts = after_five_seconds(Path { loss: 0.3, ..STALLING }, 6);
    assert!(parts[1] > 0.7, "{parts:.2?}");
}

#[test]
#[ignore = "a minute of simulation; ./check --all runs it"]
fn rate_finds_the_rate_in_five_seconds_over_120_networks() {
    for path in [LINK, STALLING] {
        for loss in [0.0, 0.1, 0.3] {
            let parts = after_five_seconds(Path { loss, ..path }, 20);
            assert!(parts[2] > 0.7 && parts[0] > 0.1, "{parts:.2?}");
        }
    }
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn packets_that_overtake_do_not_starve_rate() {
    // They are acknowledged long before all others, as if nobody else had to wait in a queue.
    let path = Path { overtakes: 0.01, delay_ns: 2_000_000, jitter_ns: 2_000_000, ..LINK };
    let forth = Path { loss: 0.3, ..path };
    measure(Control::Rate, [forth, path], "one way, 1 % overtake");
}

#[test]
#[ignore = "half a minute of simulation; ./check --all runs it"]
fn every_control_over_a_link_that_loses_at_random() {
    for control in [Control::Rate, Control::Cubic, Control::Fixed { messages: 36 }] {
        for loss in [0.0, 0.01, 0.1, 0.2, 0.3] {
            let part = measure(control, one_way_loss(loss), "one way");
            assert!(loss > 0.0 || part > 0.9, "without loss each fills the link");
            measure(control, [Path { loss, ..LINK }; 2], "both ways");
        }
    }
}

#[test]
#[ignore = "two minutes over three shared links; ./check --all runs it"]
fn connections_that_share_a_link_each_get_a_part() {
    for (one, other, least) in [
        (Control::Cubic, Control::Cubic, 0.25),
        (Control::Rate, Control::Rate, 0.25),
        // Who gives way to delay gives way to who does not.
        (Control::Cubic, Control::Rate, 0.0),
    ] {
        let flows = share(&[one, other], [LINK, LINK], 20, 60);
        let megabits: Vec<f64> = flows.iter().map(|flow| flow.megabits(40)).collect();
        println!("{one:?} beside {other:?}: {megabits:.1?} Mb/s");
        let sum: f64 = megabits.iter().sum();
        assert!(sum > 70.0, "{sum}");
        for part in megabits {
            assert!(part / sum >= least, "{part} of {sum}");
        }
    }
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn rate_does_not_make_up_for_loss_of_its_own_making() {
    // Hardly a queue: what is too much is lost, and no round trip grows.
    let policed = Path { queue: 20, ..LINK };
    for loss in [0.0, 0.1] {
        let flow = share(&[Control::Rate], [Path { loss, ..policed }, LINK], 10, 30)[0];
        let sent = flow.stats.bytes_sent as f64 / 30.0 * 8e-6;
        let megabits = flow.megabits(20);
        println!("policed, loss {loss}: {megabits:.1} Mb/s, sent {sent:.1} Mb/s");
        assert!(sent < 1.3 * 100.0 / (1.0 - loss), "{sent} Mb/s sent");
        assert!(megabits > 0.7 * 100.0 * (1.0 - loss), "{megabits} Mb/s arrive");
    }
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn loss_of_ones_own_making_is_told_from_that_of_the_wire() {
    // One message at a time never fills the line; CUBIC goes on until its queue overflows.
    let wire = share(&[Control::Fixed { messages: 1 }], one_way_loss(0.1), 0, 20)[0];
    let queue = share(&[Control::Cubic], [LINK, LINK], 0, 20)[0];
    for (flow, most, least) in [(wire, 0.05, 0.0), (queue, 1.0, 0.9)] {
        let Stats { packets_lost: lost, packets_lost_in_queue: in_queue, .. } = flow.stats;
        println!("lost {lost}, {in_queue} of them while a queue stood");
        let share = in_queue as f64 / lost as f64;
        assert!(lost > 0 && (least..=most).contains(&share), "{share}");
    }
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn rate_follows_a_link_that_becomes_slower_or_faster() {
    for (before, after) in [(100e6, 20e6), (20e6, 100e6)] {
        let path = Path { rate: Some(before / 8.0), ..LINK };
        let changes = Some((8, after / 8.0));
        let flow = share_changing(1, &[Control::Rate], [path, LINK], changes, 14, 24)[0];
        let part = flow.megabits(10) / (after * 1e-6);
        println!(
            "from {before:.0} to {after:.0} bit/s: {part:.3} of it 6 s later, round trip {:.0?}, \
             lost {} of {}",
            flow.stats.round_trip, flow.stats.packets_lost, flow.stats.packets_sent,
        );
        assert!(part > 0.8, "{part}");
        assert!(flow.stats.packets_lost * 5 < flow.stats.packets_sent);
    }
}

#[test]
fn the_study_waits_a_second_for_each_loss() {
    let (here, there): (SocketAddr, SocketAddr) =
        ((Ipv4Addr::LOCALHOST, 1).into(), (Ipv4Addr::LOCALHOST, 2).into());
    for loss in [0.0, 0.1, 0.2, 0.3] {
        for window in [1, 64] {
            let mut network = Network::new(1, one_way_loss(loss));
            let mut sender = study::Sender::new(window);
            let mut receiver = study::Receiver::default();
            let (mut request, mut answer) = (Vec::new(), Vec::new());
            let (mut now, mut bytes) = (0, 0);
            while now < 60 * SECOND {
                while sender.waiting() < 2 * window {
                    sender.send(vec![7; 1400]);
                }
                while sender.poll_transmit(Time::from_nanos(now), &mut request) {
                    network.send(now, 0, here, there, &request);
                }
                let times = [sender.poll_timeout().map(Time::as_nanos), network.next_ns()];
                now = now.max(times.into_iter().flatten().min().expect("something is in flight"));
                while let Some(datagram) = network.receive(now) {
                    if datagram.to == here {
                        sender.handle_datagram(&datagram.bytes);
                        continue;
                    }
                    let message = receiver.handle_datagram(&datagram.bytes, &mut answer);
                    bytes += message.map_or(0, <[u8]>::len);
                    network.send(now, 1, there, here, &answer);
                }
            }
            let megabits = bytes as f64 * 8e-6 / 60.0;
            println!(
                "study, window {window}, loss {loss}: {megabits:.3} Mb/s, {} retransmissions",
                sender.retransmissions()
            );
            assert!(megabits > 0.01);
        }
    }
}
