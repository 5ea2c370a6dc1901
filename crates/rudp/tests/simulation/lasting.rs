//! Connections that last, go silent, are not listened to, or carry much.

use crate::network::Path;
use crate::world::{CLIENT, SECOND, SERVER, World};
use rudp::{Accept, Config, ConnectionId, Event, Reason, SendError, Time};
use std::time::Duration;

const PATH: Path = Path { delay_ns: 10_000_000, ..Path::IDEAL };

fn run(world: &mut World, until_ns: u64) -> Vec<(usize, Event)> {
    let events = world.run(until_ns).into_iter();
    events.map(|(end, _, event)| (end, event)).collect()
}

fn connected(config: Config) -> (World, ConnectionId) {
    let mut world = World::new(1, [PATH, PATH], Accept::from(config.clone()));
    let id = world.connect(config);
    let events = run(&mut world, SECOND);
    assert_eq!(events, [(CLIENT, Event::Connected), (SERVER, Event::Connected)]);
    (world, id)
}

#[test]
fn who_is_not_heard_any_more_is_given_up_and_messages_are_reported() {
    let idle_timeout = Duration::from_secs(8);
    let (mut world, id) = connected(Config { idle_timeout, ..Config::default() });
    world.network.paths = [Path { loss: 1.0, ..PATH }; 2];
    let client = world.client(id);
    let message = client.send(vec![1; 3000]).unwrap();
    let events = run(&mut world, 60 * SECOND);
    assert_eq!(
        events.iter().filter(|(end, _)| *end == CLIENT).collect::<Vec<_>>(),
        [&(CLIENT, Event::Undeliverable(message)), &(CLIENT, Event::Closed(Reason::TimedOut))]
    );
    assert!(events.contains(&(SERVER, Event::Closed(Reason::TimedOut))));
    let at_s = world.now / SECOND;
    assert!((8..12).contains(&at_s), "{at_s} s");
    assert_eq!(world.ends[CLIENT].endpoint.connections(), 0);
    // Some probes, and far fewer than a resend each round trip would be.
    assert!(world.network.faults.lost < 60, "{:?}", world.network.faults);
}

#[test]
fn a_silent_connection_is_kept_alive_where_that_was_asked_for() {
    for (keep_alive, is_kept) in [(Some(Duration::from_secs(5)), true), (None, false)] {
        let (mut world, id) = connected(Config { keep_alive, ..Config::default() });
        let events = run(&mut world, 600 * SECOND);
        assert_eq!(events.is_empty(), is_kept);
        assert_eq!(world.connection(CLIENT, id).is_some(), is_kept);
    }
}

#[test]
fn nobody_there_is_a_timeout_too() {
    let mut world = World::new(1, [Path { loss: 1.0, ..PATH }; 2], Accept::default());
    world.connect(Config::default());
    let events = run(&mut world, 100 * SECOND);
    assert_eq!(events, [(CLIENT, Event::Closed(Reason::TimedOut))]);
    assert_eq!(world.now / SECOND, 30);
}

#[test]
fn the_longest_message_arrives_and_a_longer_one_is_refused() {
    let (mut world, id) = connected(Config::default());
    world.network.paths = [Path { loss: 0.05, reorder: 0.05, ..PATH }; 2];
    let message: Vec<u8> = (0..16 << 20).map(|at: u32| (at ^ (at >> 8)) as u8).collect();
    let client = world.client(id);
    let most = client.message_bytes_max();
    assert_eq!(most, message.len());
    let bytes = most + 1;
    assert_eq!(client.send(vec![0; bytes]), Err(SendError::TooLong { bytes, most }));
    client.send(message.clone()).unwrap();
    world.close(id);
    let events = run(&mut world, 2000 * SECOND);
    let received = events.iter().find_map(|(_, event)| match event {
        Event::Message(received) => Some(*received == message),
        _ => None,
    });
    assert_eq!(received, Some(true));
    assert!(events.contains(&(CLIENT, Event::Closed(Reason::Finished))));
}

#[test]
fn what_nobody_takes_stops_the_sender_and_goes_on_when_it_is_taken() {
    let config = Config {
        message_bytes: 10_000,
        window_bytes: 50_000,
        queue_bytes: 200_000,
        ..Config::default()
    };
    let (mut world, id) = connected(config);
    let client = world.client(id);
    let mut sent = 0;
    while client.send(vec![sent; 10_000]).is_ok() {
        sent += 1;
    }
    assert_eq!(sent, 20);
    // The server's events stay where they are.
    world.deaf = Some(SERVER);
    let events = run(&mut world, 100 * SECOND);
    assert_eq!(events.len(), 5, "as many are acknowledged as the window holds");
    world.deaf = None;
    let events = run(&mut world, 200 * SECOND);
    let received = events.iter().filter_map(|(_, event)| match event {
        Event::Message(message) => Some(message[0]),
        _ => None,
    });
    assert!(received.eq(0..sent));
}

#[test]
fn a_window_hardly_longer_than_the_longest_message_lets_it_through() {
    let (mut world, id) =
        connected(Config { message_bytes: 10_000, window_bytes: 10_500, ..Config::default() });
    // The first takes less of the window than what credit is otherwise sent for.
    for bytes in [1_000, 10_000] {
        let client = world.client(id);
        client.send(vec![1; bytes]).unwrap();
        let until = world.now + SECOND;
        let events = run(&mut world, until);
        assert!(events.contains(&(SERVER, Event::Message(vec![1; bytes]))));
    }
}

#[test]
fn what_the_ends_agree_on_is_the_lesser_of_both() {
    let accept = Accept {
        config: Config {
            datagram_bytes: 1000,
            idle_timeout: Duration::from_secs(8),
            ..Config::default()
        },
        ..Accept::default()
    };
    let mut world = World::new(1, [PATH, PATH], accept);
    let id = world.connect(Config::default());
    run(&mut world, SECOND);
    world.network.record = Some(Vec::new());
    let client = world.client(id);
    client.send(vec![1; 20_000]).unwrap();
    run(&mut world, 2 * SECOND);
    let record = world.network.record.take().unwrap();
    let longest = record.iter().map(|datagram| datagram.bytes.len()).max();
    assert_eq!(longest, Some(1000));
    world.network.paths = [Path { loss: 1.0, ..PATH }; 2];
    let events = run(&mut world, 100 * SECOND);
    assert!(events.contains(&(CLIENT, Event::Closed(Reason::TimedOut))));
    let at_s = world.now / SECOND;
    assert!((8..12).contains(&at_s), "{at_s} s");
}

#[test]
fn connections_of_one_socket_take_turns() {
    let mut world = World::new(1, [PATH, PATH], Accept::default());
    let ids = [(); 2].map(|()| world.connect(Config::default()));
    run(&mut world, SECOND);
    for id in ids {
        let client = world.client(id);
        client.send(vec![1; 20_000]).unwrap();
    }
    let now = Time::from_nanos(world.now);
    let (mut receivers, mut buffer) = (Vec::new(), Vec::new());
    let client = &mut world.ends[CLIENT].endpoint;
    while client.poll_transmit(now, 1, 0, &mut buffer).is_some() {
        // Behind the kind of the packet.
        receivers.push(buffer[1..9].to_vec());
    }
    assert!(receivers.len() >= 4);
    let takes_turns = |two: &[Vec<u8>]| two[0] != two[1];
    assert!(receivers[..4].windows(2).all(takes_turns), "{receivers:?}");
}

#[test]
fn who_has_everything_says_so_for_long_enough_whatever_it_could_not_say_before() {
    let (mut world, id) =
        connected(Config { keep_alive: Some(Duration::from_millis(500)), ..Config::default() });
    // Nothing of the server's comes through, so that it asks again and again whether anybody is
    // there; by then the client closes, and what the server sees last is that.
    world.network.paths[SERVER].loss = 1.0;
    run(&mut world, 10 * SECOND);
    world.close(id);
    run(&mut world, 13 * SECOND);
    world.network.paths[SERVER].loss = 0.0;
    let events = run(&mut world, 60 * SECOND);
    for end in [CLIENT, SERVER] {
        let finished = (end, Event::Closed(Reason::Finished));
        assert!(events.contains(&finished), "{events:?}");
    }
}
