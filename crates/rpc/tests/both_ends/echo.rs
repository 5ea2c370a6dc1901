//! Our servers and our clients with each other: every payload, every stack, over TCP and Unix sockets.

use crate::{Listening, STACKS, STUDY, connect, in_flight, listen, loopback, reconnect, times};
use costof_rpc::{Client, Kind, Marshal, Options, Payload, RpcError, Server};
use costof_rpc::{Socket, Stack};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// The study's, and those of no bytes, of more than a buffer and of more than a window.
fn payloads() -> impl Iterator<Item = Payload> {
    let strings = [0, 1, 64, 4_096, 65_536, 1_000_003].map(Kind::String);
    STUDY.into_iter().chain(strings).map(Payload::new)
}

#[test]
fn every_payload_comes_back_through_every_stack_and_by_every_way() {
    let all = ([0, 0, 0, 0], 0).into();
    for (stack, address) in STACKS.iter().flat_map(|stack| [(*stack, loopback()), (*stack, all)]) {
        let options = Options::default();
        let (server, address) = Listening::at(stack, address, &options);
        let mut client = connect(stack, ([127, 0, 0, 1], address.port()).into(), &options);
        for payload in payloads() {
            for _ in 0..3 {
                let called = client.call(&payload);
                called.unwrap_or_else(|error| panic!("{stack} {}: {error}", payload.kind()));
            }
        }
        drop(server);
        assert!(client.call(&Payload::new(Kind::Int)).is_err(), "{stack}");
    }
}

#[test]
fn a_client_connects_again_and_a_server_has_many() {
    for stack in STACKS {
        let options = Options::default();
        let (_server, address) = listen(stack, &options);
        let payload = Payload::new(Kind::Structure);
        let mut clients: Vec<Client> =
            (0..8).map(|_| Client::new(stack, &options).unwrap()).collect();
        for client in &mut clients {
            let unconnected = client.call(&payload);
            assert!(matches!(unconnected, Err(RpcError::NotConnected)));
            reconnect(client, address);
        }
        for client in clients.iter_mut().chain([]) {
            client.call(&payload).unwrap();
            client.disconnect();
            let unconnected = client.call(&payload);
            assert!(matches!(unconnected, Err(RpcError::NotConnected)));
            reconnect(client, address);
            client.call(&payload).unwrap();
        }
    }
}

#[test]
fn connections_that_are_there_already_are_used() {
    for stack in STACKS {
        let options = Options::default();
        let server = Server::start(stack, &options).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let tcp = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (one, other) = UnixStream::pair().unwrap();
        let mut client = Client::new(stack, &options).unwrap();
        for (ours, its) in [
            (Socket::from(tcp), Socket::from(listener.accept().unwrap().0)),
            (one.into(), other.into()),
        ] {
            server.serve(its).unwrap();
            client.over(ours).unwrap();
            client.call(&Payload::new(Kind::Structure)).unwrap();
        }
    }
}

#[test]
fn chunks_are_counted_by_who_receives_them() {
    for stack in STACKS {
        let options = Options::default();
        let (_server, address) = listen(stack, &options);
        let mut client = connect(stack, address, &options);
        for (size, chunks) in [(1, 1000), (0, 3), (65_536, 100), (4 << 20, 3), (7, 0)] {
            let more = times(chunks);
            let arrived = client.upload(size, more).unwrap();
            assert_eq!(arrived.chunks, chunks as u64, "{stack}");
            assert_eq!(arrived.bytes, chunks as u64 * size as u64, "{stack}");
        }
        client.call(&Payload::new(Kind::Structure)).unwrap();
    }
}

#[test]
fn many_calls_at_once_are_all_answered_once() {
    for stack in STACKS {
        let options = Options::default();
        let (_server, address) = listen(stack, &options);
        for connections in [1, 3] {
            let mut calls = in_flight(stack, address, connections, &options).unwrap();
            // What is sent is more than a socket holds, and nobody reads meanwhile.
            for (kind, count) in
                [(Kind::Int, 300), (Kind::Structure, 50), (Kind::String(1 << 20), 20)]
            {
                let payload = Payload::new(kind);
                let mut open: Vec<u64> = Vec::new();
                for _ in 0..count {
                    open.push(calls.begin(&payload).unwrap());
                }
                assert_eq!(calls.count(), count);
                let other = calls.begin(&Payload::new(Kind::Double));
                assert!(matches!(other, Err(RpcError::Unsupported(_))));
                while !open.is_empty() {
                    let mut answered = |number, answer: Result<(), RpcError>| {
                        answer.unwrap_or_else(|error| panic!("{stack} {kind}: {error}"));
                        let at = open.iter().position(|open| *open == number);
                        open.remove(at.expect("it is open"));
                    };
                    calls.poll(Duration::from_millis(100), &mut answered).unwrap();
                }
                assert_eq!(calls.count(), 0);
                // For who keeps asking.
                calls.begin(&payload).unwrap();
                while calls.count() > 0 {
                    calls.poll(Duration::ZERO, &mut |_, answer| answer.unwrap()).unwrap();
                }
            }
        }
    }
}

#[test]
fn what_is_marshalled_has_the_bytes_that_go_over_the_wire() {
    // By hand: five bytes of gRPC, a tag, and 1,234,567 in seven bits a byte.
    let grpc = Marshal::new(Stack::Grpc, &Payload::new(Kind::Int)).unwrap();
    assert_eq!(grpc.wire_bytes(), 5 + 1 + 3);
    // A length of four; a version, a name with its length, a number; a field's type and id, its
    // value; and the end of fields.
    let thrift = Marshal::new(Stack::THRIFT, &Payload::new(Kind::Int)).unwrap();
    assert_eq!(thrift.wire_bytes(), 4 + (4 + 4 + 8 + 4) + (3 + 4) + 1);
    for stack in STACKS {
        for payload in payloads() {
            let mut marshal = Marshal::new(stack, &payload).unwrap();
            let bytes = marshal.wire_bytes();
            for _ in 0..3 {
                assert_eq!(marshal.encode(2).unwrap(), bytes, "{stack}");
                marshal.decode(2).unwrap();
            }
            if let Kind::String(length) = payload.kind() {
                assert!((length..length + 64).contains(&bytes), "{stack}: {bytes}");
            }
        }
    }
}
