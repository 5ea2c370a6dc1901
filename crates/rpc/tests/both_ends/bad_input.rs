//! What goes wrong is said by an error that names it, and the server goes on serving the others.

use crate::{PLAIN, STACKS, connect, listen, times};
use costof_rpc::{Kind, Payload, Stack};
use std::fmt::Debug;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// The call fails, and says one of these.
#[track_caller]
fn fails<T: Debug>(call: io::Result<T>, says: &[&str]) {
    let error = call.expect_err("it fails").to_string();
    assert!(says.iter().any(|says| error.contains(says)), "{error}");
}

/// For what always comes.
const LONG: Duration = Duration::from_secs(60);

/// A server still serves who asks it something right.
fn serves(stack: Stack, address: SocketAddr) {
    let mut client = connect(stack, address);
    client
        .call(&Payload::new(Kind::Structure))
        .unwrap_or_else(|error| panic!("{stack:?} does not serve any more: {error}"));
}

/// A peer that says this to whoever connects, and then either nothing or goodbye.
fn peer(says: &'static [u8], goes: bool) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("there is a port");
    let address = listener.local_addr().expect("it is bound");
    // It lasts as long as the test does.
    thread::spawn(move || {
        let mut kept = Vec::new();
        for mut stream in listener.incoming().flatten() {
            // What is said before anything is asked may be read too soon.
            let _ = stream.read(&mut [0; 1024]);
            let _ = stream.write_all(says);
            if goes {
                drop(stream.shutdown(Shutdown::Both));
            } else {
                kept.push(stream);
            }
        }
    });
    address
}

#[test]
fn a_message_that_is_too_long_fails_and_the_others_are_served() {
    const TOO_LONG: usize = 9 << 20;
    for stack in STACKS {
        let (_server, address) = listen(stack);
        let mut other = connect(stack, address);
        other.call(&Payload::new(Kind::Int)).unwrap();

        let long = connect(stack, address).call(&Payload::new(Kind::String(TOO_LONG)));
        fails(long, &["too large", "size limit", "SizeLimit"]);
        connect(stack, address).upload(TOO_LONG, times(2)).unwrap_err();

        other.call(&Payload::new(Kind::Structure)).unwrap();
        serves(stack, address);
    }
}

#[test]
fn thrift_does_not_believe_the_lengths_it_is_told() {
    // A call of echo_structure in the strict binary protocol, up to the field that follows.
    let begins = b"\x80\x01\x00\x01\x00\x00\x00\x0eecho_structure\x00\x00\x00\x01\x0c\x00\x01";
    let list = [&begins[..], b"\x0f\x00\x06\x08\x7f\xff\xff\xff"].concat();
    let map = [&begins[..], b"\x0d\x00\x08\x0b\x0b\x7f\xff\xff\xff"].concat();
    let string = [&begins[..], b"\x0b\x00\x02\x7f\xff\xff\xff"].concat();
    let negative = [&begins[..], b"\x0b\x00\x02\xff\xff\xff\xff"].concat();
    // Structures in structures without end, in a field that nobody knows.
    let deep = [&begins[..], &b"\x0c\x00\x63".repeat(100_000)].concat();
    let (_server, address) = listen(Stack::Thrift);
    for message in [&list, &map, &string, &negative, &deep] {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(LONG)).unwrap();
        let length = (message.len() as u32).to_be_bytes();
        stream.write_all(&length).unwrap();
        // It says why, or nothing; and closes the connection, maybe before all of it was said.
        let said = stream.write_all(message).and_then(|()| stream.shutdown(Shutdown::Write));
        let closed = said.and_then(|()| stream.read_to_end(&mut Vec::new()));
        let is_closed = |error: &std::io::Error| {
            matches!(error.kind(), ErrorKind::ConnectionReset | ErrorKind::BrokenPipe)
        };
        assert!(closed.as_ref().err().is_none_or(is_closed), "{closed:?}");
    }
    serves(Stack::Thrift, address);
}

#[test]
fn a_method_that_does_not_exist_is_named() {
    let (_server, address) = listen(Stack::Thrift);
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    let message = b"\x80\x01\x00\x01\x00\x00\x00\x07no_such\x00\x00\x00\x01\x00";
    let length = (message.len() as u32).to_be_bytes();
    stream.write_all(&[&length, &message[..]].concat()).unwrap();
    let mut answer = [0; 4 + 15];
    stream.read_exact(&mut answer).unwrap();
    // An exception, by its name.
    assert_eq!(answer[4..8], *b"\x80\x01\x00\x03");
    assert_eq!(answer[12..], *b"no_such");
    serves(Stack::Thrift, address);
    // A client that is answered so.
    let says = b"\x00\x00\x00\x27\x80\x01\x00\x03\x00\x00\x00\x08echo_int\x00\x00\x00\x01\
        \x0b\x00\x01\x00\x00\x00\x04none\x08\x00\x02\x00\x00\x00\x01\x00";
    let mut client = connect(Stack::Thrift, peer(says, false));
    fails(client.call(&Payload::new(Kind::Int)), &["none"]);
}

#[test]
fn an_answer_that_is_another_is_named() {
    let says = b"\x00\x00\x00\x1c\x80\x01\x00\x02\x00\x00\x00\x08echo_int\x00\x00\x00\x01\
        \x08\x00\x00\x00\x00\x00\x07\x00";
    let mut client = connect(Stack::Thrift, peer(says, false));
    fails(client.call(&Payload::new(Kind::Int)), &["differs from what was sent"]);
}

#[test]
fn a_peer_of_another_protocol_fails_and_harms_nobody() {
    for stack in STACKS {
        let (_server, address) = listen(stack);
        let is_like_this = |other: &Stack| (*other == Stack::Thrift) == (stack == Stack::Thrift);
        for other in
            PLAIN.into_iter().filter(|other| stack == Stack::GrpcTls || !is_like_this(other))
        {
            connect(other, address).call(&Payload::new(Kind::Structure)).unwrap_err();
        }
        for said in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0; 100], &[0xff; 100], b"\n"] {
            let mut stranger = TcpStream::connect(address).unwrap();
            stranger.write_all(said).unwrap();
        }
        serves(stack, address);
    }
}

#[test]
fn an_answer_in_another_protocol_is_an_error() {
    for stack in PLAIN {
        let http = b"HTTP/1.1 400 Bad Request\r\nconnection: close\r\n\r\n";
        for goes in [false, true] {
            let mut client = connect(stack, peer(http, goes));
            fails(client.call(&Payload::new(Kind::Int)), &["rame", "http2"]);
        }
        connect(stack, peer(b"", true)).call(&Payload::new(Kind::Int)).unwrap_err();
    }
}

#[test]
fn a_server_with_another_key_is_not_trusted() {
    let server = costof_rpc::server(Stack::GrpcTls).unwrap();
    let (_, another) = costof_rpc::tls::server().unwrap();
    let key = costof_rpc::key(Stack::GrpcTls).unwrap().unwrap();
    let over = |key: &str| {
        let (ours, its) = UnixStream::pair().unwrap();
        server.serve(its.into()).unwrap();
        costof_rpc::client(Stack::GrpcTls, Some(key)).unwrap().over(ours.into())
    };
    over(key).unwrap();
    fails(over(&another), &["certificate"]);
    fails(over("0g"), &["not a key"]);
}

#[test]
fn a_server_that_dies_in_mid_stream_is_missed() {
    for stack in STACKS {
        let (server, address) = listen(stack);
        // It dies when it comes to its turn, beside whatever else runs.
        let mut client = connect(stack, address);
        let begun = Arc::new(AtomicBool::new(false));
        let streams = Arc::clone(&begun);
        let dies = thread::spawn(move || {
            while !streams.load(Ordering::Acquire) {
                thread::yield_now();
            }
            drop(server);
        });
        let mut chunks = 0;
        let more = move || {
            chunks += 1;
            begun.store(chunks > 10, Ordering::Release);
            true
        };
        client.upload(1000, Box::new(more)).unwrap_err();
        dies.join().unwrap();
        let error = TcpStream::connect(address).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
    }
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn connections_that_say_nothing_and_go_leave_nothing_behind() {
    for stack in STACKS {
        let (_server, address) = listen(stack);
        for _ in 0..3 {
            let silent: Vec<_> = (0..100).map(|_| TcpStream::connect(address)).collect();
            drop(silent);
        }
        serves(stack, address);
    }
}

#[test]
fn a_server_ends_while_somebody_is_connected_and_says_nothing() {
    for stack in STACKS {
        let server = costof_rpc::server(stack).expect("it starts");
        let (_silent, its) = UnixStream::pair().expect("there are sockets");
        server.serve(its.into()).expect("it serves");
        let (sender, ended) = mpsc::channel();
        thread::spawn(move || {
            drop(server);
            sender.send(())
        });
        assert_eq!(ended.recv_timeout(LONG), Ok(()), "{stack:?}");
    }
}
