//! What those can do who are not at the other end of a connection: nothing that costs
//! anything worth having.

use crate::network::Path;
use crate::world::{CLIENT, SECOND, SERVER, World};
use fastrand::Rng;
use rudp::{Accept, Config, ConnectionId, Endpoint, Event, Reason, Time};
use std::net::SocketAddr;
use std::time::Duration;

const T: Time = Time::from_nanos(1);

fn address(host: u8, port: u16) -> SocketAddr {
    SocketAddr::from(([198, 51, 100, host], port))
}

fn server(accept: Accept) -> Endpoint {
    Endpoint::new([1; 16], Some(accept)).expect("the configuration is sound")
}

/// All that an endpoint has to send now, each datagram by itself.
fn sent(endpoint: &mut Endpoint, now: Time) -> Vec<Vec<u8>> {
    let mut buffer = Vec::new();
    let mut all = Vec::new();
    while endpoint.poll_transmit(now, 1, 0, &mut buffer).is_some() {
        all.push(buffer.clone());
    }
    all
}

/// A client's first datagram, and the one with the token.
fn hellos(server: &mut Endpoint, from: SocketAddr, secret: u8) -> (Vec<u8>, Vec<u8>) {
    let mut client = Endpoint::new([secret; 16], None).unwrap();
    client.connect(T, address(0, 1), Config::default()).unwrap();
    let hello = sent(&mut client, T).remove(0);
    server.handle_datagram(T, from, &hello);
    let retry = sent(server, T).remove(0);
    client.handle_datagram(T, address(0, 1), &retry);
    let with_token = sent(&mut client, T).remove(0);
    (hello, with_token)
}

#[test]
fn who_does_not_prove_an_address_is_not_remembered_and_gets_less_than_was_sent() {
    let mut server = server(Accept::default());
    let mut client = Endpoint::new([2; 16], None).unwrap();
    client.connect(T, address(0, 1), Config::default()).unwrap();
    let hello = sent(&mut client, T).remove(0);
    for host in 0..100 {
        server.handle_datagram(T, address(host, 9), &hello);
        let answers = sent(&mut server, T);
        assert_eq!(answers.len(), 1);
        assert!(answers[0].len() <= hello.len(), "it would amplify");
    }
    assert_eq!(server.connections(), 0);
    // However many ask at once, only a limited number of answers wait.
    for port in 0..5000 {
        server.handle_datagram(T, address(1, port), &hello);
    }
    assert!(sent(&mut server, T).len() <= 256);
    assert_eq!((server.connections(), server.poll_timeout()), (0, None));
}

#[test]
fn a_token_is_worth_nothing_elsewhere_or_later() {
    let mut server = server(Accept::default());
    let (_, with_token) = hellos(&mut server, address(1, 1), 3);
    let later = T + Duration::from_secs(11);
    for (now, from) in [(T, address(2, 1)), (T, address(1, 2)), (later, address(1, 1))] {
        server.handle_datagram(now, from, &with_token);
        assert_eq!(server.connections(), 0);
        assert_eq!(sent(&mut server, now).len(), 1, "a new token, no more");
    }
    for bit in 0..with_token.len() * 8 {
        let mut forged = with_token.clone();
        forged[bit / 8] ^= 1 << (bit % 8);
        server.handle_datagram(T, address(1, 1), &forged);
        assert_eq!((server.connections(), sent(&mut server, T).len()), (0, 0));
    }
    server.handle_datagram(T, address(1, 1), &with_token);
    assert_eq!(server.connections(), 1);
    // Said twice, it is the same connection.
    server.handle_datagram(T, address(1, 1), &with_token);
    assert_eq!(server.connections(), 1);
}

#[test]
fn one_address_has_only_so_many_connections_and_all_together_too() {
    let accept = Accept { connections: 5, connections_per_address: 2, ..Accept::default() };
    let mut server = server(accept);
    for (secret, host, connections) in
        [(10, 1, 1), (11, 1, 2), (12, 1, 2), (13, 2, 3), (14, 3, 4), (15, 4, 5), (16, 5, 5)]
    {
        let (_, with_token) = hellos(&mut server, address(host, 1), secret);
        server.handle_datagram(T, address(host, 1), &with_token);
        assert_eq!(server.connections(), connections);
    }
    // Nobody of them says a word: twenty seconds later there is room again.
    sent(&mut server, T);
    let later = T + Duration::from_secs(21);
    server.handle_timeout(later);
    sent(&mut server, later);
    while server.poll_event().is_some() {}
    assert_eq!(server.connections(), 0);
}

#[test]
fn rubbish_changes_nothing() {
    let mut random = Rng::with_seed(1);
    let mut server = server(Accept::default());
    let mut bytes = [0; 1500];
    for _ in 0..100_000 {
        let len = random.usize(..200);
        random.fill(&mut bytes[..len]);
        if len > 0 && random.bool() {
            bytes[0] = random.u8(0x10..0x17);
        }
        server.handle_datagram(T, address(1, 1), &bytes[..len]);
    }
    assert_eq!((server.connections(), sent(&mut server, T).len()), (0, 0));
}

/// The server's events until this time.
fn run(world: &mut World, until_ns: u64) -> Vec<(ConnectionId, Event)> {
    let events = world.run(until_ns).into_iter().filter(|(end, ..)| *end == SERVER);
    events.map(|(_, id, event)| (id, event)).collect()
}

fn world() -> World {
    let path = Path { delay_ns: 1_000_000, ..Path::IDEAL };
    World::new(1, [path, path], Accept::default())
}

#[test]
fn packets_that_are_replayed_from_anywhere_or_of_an_older_connection_change_nothing() {
    let mut world = world();
    world.network.record = Some(Vec::new());
    let old = world.connect(Config::default());
    run(&mut world, SECOND / 10);
    let client = world.client(old);
    client.send(vec![1; 5000]).unwrap();
    world.close(old);
    let events = run(&mut world, SECOND);
    assert!(events.iter().any(|(_, event)| *event == Event::Closed(Reason::Finished)));
    assert_eq!(world.ends[SERVER].endpoint.connections(), 0);

    let new = world.connect(Config::default());
    let events = run(&mut world, SECOND + SECOND / 10);
    let (there, _) = events[0].clone();
    let record = world.network.record.take().unwrap();
    assert!(record.len() > 10);
    let now = Time::from_nanos(world.now);
    let stats = |world: &mut World| {
        let server = world.connection(SERVER, there).unwrap().stats();
        let client = world.client(new).stats();
        [server, client].map(|stats| (stats.packets_received, stats.held_bytes, stats.window_bytes))
    };
    let before = stats(&mut world);
    for stranger in [None, Some(address(66, 6))] {
        for datagram in &record {
            let end = world.ends.iter_mut().find(|end| end.address == datagram.to).unwrap();
            let from = stranger.unwrap_or(datagram.from);
            end.endpoint.handle_datagram(now, from, &datagram.bytes);
        }
    }
    assert_eq!(stats(&mut world), before);
    assert_eq!(world.ends[SERVER].endpoint.connections(), 1, "an old hello lets nobody in");
    // The new connection still works.
    let client = world.client(new);
    client.send(vec![2; 100]).unwrap();
    let events = run(&mut world, 2 * SECOND);
    assert_eq!(events, [(there, Event::Message(vec![2; 100]))]);
}

#[test]
fn a_packet_is_taken_from_the_other_ends_address_alone() {
    let mut world = world();
    let id = world.connect(Config::default());
    let events = run(&mut world, SECOND / 10);
    let (there, _) = events[0].clone();
    let client = world.client(id);
    client.send(vec![1; 100]).unwrap();
    let now = Time::from_nanos(world.now);
    let datagram = sent(&mut world.ends[CLIENT].endpoint, now).remove(0);
    let from = world.ends[CLIENT].address;
    let server = &mut world.ends[SERVER].endpoint;
    server.handle_datagram(now, address(66, 6), &datagram);
    assert_eq!(server.poll_event(), None);
    server.handle_datagram(now, from, &datagram);
    let message = Event::Message(vec![1; 100]);
    assert_eq!(server.poll_event(), Some((there, message)));
}
