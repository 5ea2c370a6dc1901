//! Our servers and our clients with each other: every payload, every stack, over TCP and Unix sockets.

use crate::{Listening, STACKS, STUDY, connect, listen, loopback, reconnect, times};
use costof_rpc::{Client, InFlight, Kind, Marshal, Payload, Socket, Stack};
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::thread;

/// The study's, and those of no bytes, of more than a buffer and of more than a window.
fn payloads() -> impl Iterator<Item = Payload> {
    let strings = [0, 1, 64, 4_096, 65_536, 1_000_003].map(Kind::String);
    STUDY.into_iter().chain(strings).map(Payload::new)
}

#[test]
fn every_payload_comes_back_through_every_stack_and_by_every_way() {
    let all = ([0, 0, 0, 0], 0).into();
    for (stack, address) in STACKS.iter().flat_map(|stack| [(*stack, loopback()), (*stack, all)]) {
        let (server, address) = Listening::at(stack, address);
        let mut client = connect(stack, ([127, 0, 0, 1], address.port()).into());
        for payload in payloads() {
            for _ in 0..3 {
                let called = client.call(&payload);
                called.unwrap_or_else(|error| panic!("{stack:?} {}: {error}", payload.kind()));
            }
        }
        drop(server);
        assert!(client.call(&Payload::new(Kind::Int)).is_err(), "{stack:?}");
    }
}

#[test]
fn a_client_connects_again_and_a_server_has_many() {
    for stack in STACKS {
        let (_server, address) = listen(stack);
        let payload = Payload::new(Kind::Structure);
        let mut clients: Vec<Box<dyn Client>> = (0..8)
            .map(|_| costof_rpc::client(stack, costof_rpc::key(stack).unwrap()).unwrap())
            .collect();
        for client in &mut clients {
            let unconnected = client.call(&payload);
            assert!(unconnected.is_err_and(|error| error.kind() == ErrorKind::NotConnected));
            reconnect(&mut **client, address);
        }
        for client in clients.iter_mut().chain([]) {
            client.call(&payload).unwrap();
            client.disconnect();
            let unconnected = client.call(&payload);
            assert!(unconnected.is_err_and(|error| error.kind() == ErrorKind::NotConnected));
            reconnect(&mut **client, address);
            client.call(&payload).unwrap();
        }
    }
}

#[test]
fn connections_that_are_there_already_are_used() {
    for stack in STACKS {
        let server = costof_rpc::server(stack).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let tcp = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (one, other) = UnixStream::pair().unwrap();
        let mut client = costof_rpc::client(stack, costof_rpc::key(stack).unwrap()).unwrap();
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
        let (_server, address) = listen(stack);
        let mut client = connect(stack, address);
        for (size, chunks) in [(1, 1000), (0, 3), (65_536, 100), (4 << 20, 3), (7, 0)] {
            let more = times(chunks);
            let arrived = client.upload(size, more).unwrap();
            assert_eq!(arrived.chunks, chunks as u64, "{stack:?}");
            assert_eq!(arrived.bytes, chunks as u64 * size as u64, "{stack:?}");
        }
        client.call(&Payload::new(Kind::Structure)).unwrap();
    }
}

#[test]
fn many_calls_at_once_are_all_answered_once() {
    let (_server, address) = listen(Stack::Grpc);
    for connections in [1, 3] {
        // What is sent is more than a socket holds, and nobody reads meanwhile.
        for (kind, count) in [(Kind::Int, 300), (Kind::Structure, 50), (Kind::String(1 << 20), 20)]
        {
            let connect = |_| TcpStream::connect(address).expect("somebody listens").into();
            let sockets = (0..connections).map(connect).collect();
            let mut calls = InFlight::over(sockets, &Payload::new(kind)).unwrap();
            // Twice: the second time, what has come back is sent.
            for _ in 0..2 {
                let mut open: Vec<u64> = (0..count).map(|_| calls.begin()).collect();
                assert_eq!(calls.count(), count);
                while !open.is_empty() {
                    calls.poll(&mut |number, answer| {
                        answer.unwrap_or_else(|error| panic!("{kind}: {error}"));
                        let at = open.iter().position(|open| *open == number);
                        open.remove(at.expect("it is open"));
                    });
                }
                assert_eq!(calls.count(), 0);
            }
        }
    }
}

/// Passes on what comes until either end is gone, and returns it.
fn relay(mut from: &UnixStream, mut to: &UnixStream) -> Vec<u8> {
    let (mut seen, mut buffer) = (Vec::new(), [0; 4096]);
    while let Ok(length @ 1..) = from.read(&mut buffer) {
        seen.extend(&buffer[..length]);
        if to.write_all(&buffer[..length]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
    seen
}

/// The bytes of a connection with one call, there and back.
fn on_the_wire(stack: Stack, payload: &Payload) -> [Vec<u8>; 2] {
    let pair = || UnixStream::pair().expect("there are descriptors");
    let ((ours, near), (far, its)) = (pair(), pair());
    let server = costof_rpc::server(stack).expect("it works");
    server.serve(its.into()).expect("it works");
    thread::scope(|scope| {
        let there = scope.spawn(|| relay(&near, &far));
        let back = scope.spawn(|| relay(&far, &near));
        let mut client =
            costof_rpc::client(stack, costof_rpc::key(stack).expect("it works")).expect("it works");
        client.over(ours.into()).expect("it works");
        client.call(payload).expect("it works");
        drop(client);
        [there, back].map(|seen| seen.join().expect("it works"))
    })
}

#[test]
fn tls_hides_what_is_sent_and_gzip_shortens_it() {
    const BYTES: usize = 20_000;
    let payload = Payload::new(Kind::String(BYTES));
    let text = b"abcdefghijklmnopqrstuvwxyz";
    let has_text = |seen: &[u8]| seen.windows(text.len()).any(|seen| seen == text);
    for seen in on_the_wire(Stack::Grpc, &payload) {
        assert!(has_text(&seen) && seen.len() > BYTES);
    }
    for seen in on_the_wire(Stack::GrpcTls, &payload) {
        assert!(!has_text(&seen) && seen.len() > BYTES);
    }
    for seen in on_the_wire(Stack::GrpcGzip, &payload) {
        assert!(seen.len() < BYTES / 10, "{} B", seen.len());
    }
}

#[test]
fn what_is_marshalled_has_the_bytes_that_go_over_the_wire() {
    // By hand: five bytes of gRPC, a tag, and 1,234,567 in seven bits a byte.
    let grpc = Marshal::new(Stack::Grpc, &Payload::new(Kind::Int)).unwrap();
    assert_eq!(grpc.wire_bytes(), 5 + 1 + 3);
    // A length of four; a version, a name with its length, a number; a field's type and id, its
    // value; and the end of fields.
    let thrift = Marshal::new(Stack::Thrift, &Payload::new(Kind::Int)).unwrap();
    assert_eq!(thrift.wire_bytes(), 4 + (4 + 4 + 8 + 4) + (3 + 4) + 1);
    for stack in STACKS {
        for payload in payloads() {
            let mut marshal = Marshal::new(stack, &payload).unwrap();
            let bytes = marshal.wire_bytes();
            for _ in 0..3 {
                assert_eq!(marshal.encode(2).unwrap(), bytes, "{stack:?}");
                marshal.decode(2).unwrap();
            }
            if let Kind::String(length) = payload.kind() {
                assert!((length..length + 64).contains(&bytes), "{stack:?}: {bytes}");
            }
        }
    }
}
