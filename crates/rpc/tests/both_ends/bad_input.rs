//! What goes wrong is said by an error that names it, and the server goes on serving the others.

use crate::{STACKS, connect, in_flight, listen, times};
use costof_rpc::{Kind, Options, Payload, RpcError, Stack};
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// The call fails with an error like this.
macro_rules! assert_fails {
    ($stack:expr, $call:expr, $error:pat $(if $condition:expr)?) => {
        let error = $call.unwrap_err();
        let is_like_this = matches!(error, $error $(if $condition)?);
        assert!(is_like_this, "{}: {error:?}", $stack);
    };
}

/// Long enough for an answer on a busy machine, short enough to wait for one that never comes.
const PATIENCE: Duration = Duration::from_secs(2);
/// For what always comes.
const LONG: Duration = Duration::from_secs(60);

/// With this deadline.
fn within(deadline: Duration) -> Options {
    Options { deadline: Some(deadline), ..Options::default() }
}

/// A server still serves who asks it something right.
fn serves(stack: Stack, address: SocketAddr) {
    let mut client = connect(stack, address, &Options::default());
    client
        .call(&Payload::new(Kind::Structure))
        .unwrap_or_else(|error| panic!("{stack} does not serve any more: {error}"));
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
fn a_message_that_is_too_long_is_named_by_either_end() {
    let long = Payload::new(Kind::String(100_000));
    let short = Options { max_message_bytes: 64 << 10, ..Options::default() };
    for stack in STACKS {
        let (_server, address) = listen(stack, &short);
        let mut other = connect(stack, address, &Options::default());
        other.call(&Payload::new(Kind::Int)).unwrap();

        let mut by_client = connect(stack, address, &short);
        assert_fails!(stack, by_client.call(&long), RpcError::TooLong(_));
        by_client.call(&Payload::new(Kind::Int)).unwrap();

        let mut by_server = connect(stack, address, &Options::default());
        let error = by_server.call(&long).unwrap_err();
        assert!(matches!(error, RpcError::TooLong(_)), "{stack}: {error:?}");
        assert!(error.to_string().contains("100"), "{error}");

        let mut by_server = connect(stack, address, &Options::default());
        let more = times(2);
        assert_fails!(stack, by_server.upload(100_000, more), RpcError::TooLong(_));

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
    let (_server, address) = listen(Stack::THRIFT, &Options::default());
    for message in [&list, &map, &string, &negative, &deep] {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(LONG)).unwrap();
        let length = (message.len() as u32).to_be_bytes();
        stream.write_all(&length).unwrap();
        // It says why, or nothing; and closes the connection, maybe before all of it was said.
        let said = stream.write_all(message);
        let closed = said.and_then(|()| stream.read_to_end(&mut Vec::new()));
        let is_closed = |error: &std::io::Error| {
            matches!(error.kind(), ErrorKind::ConnectionReset | ErrorKind::BrokenPipe)
        };
        assert!(closed.as_ref().err().is_none_or(is_closed), "{closed:?}");
    }
    serves(Stack::THRIFT, address);
}

#[test]
fn a_method_that_does_not_exist_is_named_and_the_connection_goes_on() {
    let (_server, address) = listen(Stack::THRIFT, &Options::default());
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    // With an argument, a string of three bytes, which has to be skipped.
    let unknown = b"\x80\x01\x00\x01\x00\x00\x00\x07no_such\x00\x00\x00\x01\
        \x0b\x00\x01\x00\x00\x00\x03abc\x00";
    let known = b"\x80\x01\x00\x01\x00\x00\x00\x08echo_int\x00\x00\x00\x02\
        \x08\x00\x01\x00\x00\x00\x07\x00";
    let mut call = |message: &[u8]| {
        let length = (message.len() as u32).to_be_bytes();
        stream.write_all(&[&length, message].concat()).unwrap();
        let mut length = [0; 4];
        stream.read_exact(&mut length).unwrap();
        let mut answer = vec![0; u32::from_be_bytes(length) as usize];
        stream.read_exact(&mut answer).unwrap();
        answer
    };
    for _ in 0..2 {
        let answer = call(unknown);
        // An exception, by its name, which is that of an unknown method (1).
        assert_eq!(answer[..4], *b"\x80\x01\x00\x03");
        assert_eq!(answer[8..15], *b"no_such");
        assert!(answer.ends_with(b"\x08\x00\x02\x00\x00\x00\x01\x00"));
        let answer = call(known);
        assert_eq!(answer[..4], *b"\x80\x01\x00\x02");
        assert!(answer.ends_with(b"\x08\x00\x00\x00\x00\x00\x07\x00"));
    }
    // A client that is answered so.
    let says = b"\x00\x00\x00\x27\x80\x01\x00\x03\x00\x00\x00\x08echo_int\x00\x00\x00\x01\
        \x0b\x00\x01\x00\x00\x00\x04none\x08\x00\x02\x00\x00\x00\x01\x00";
    let mut client = connect(Stack::THRIFT, peer(says, false), &within(LONG));
    let error = client.call(&Payload::new(Kind::Int)).unwrap_err();
    assert!(matches!(&error, RpcError::NoSuchMethod(why) if why == "none"), "{error:?}");
}

#[test]
fn an_answer_that_is_another_is_named() {
    let says = b"\x00\x00\x00\x1c\x80\x01\x00\x02\x00\x00\x00\x08echo_int\x00\x00\x00\x01\
        \x08\x00\x00\x00\x00\x00\x07\x00";
    let mut client = connect(Stack::THRIFT, peer(says, false), &within(LONG));
    assert_fails!("", client.call(&Payload::new(Kind::Int)), RpcError::WrongAnswer(_));
}

#[test]
fn a_peer_of_another_protocol_is_named_and_harms_nobody() {
    for stack in STACKS {
        let (_server, address) = listen(stack, &Options::default());
        for other in STACKS.into_iter().filter(|other| *other != stack) {
            let mut stranger = connect(other, address, &within(PATIENCE));
            let error = stranger.call(&Payload::new(Kind::Structure)).unwrap_err();
            assert!(
                matches!(
                    error,
                    RpcError::OtherProtocol { .. }
                        | RpcError::Closed(_)
                        // A length or a version that is none: it waits for the rest.
                        | RpcError::DeadlineExceeded(_)
                ),
                "{other} to a server of {stack}: {error:?}"
            );
        }
        for said in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0; 100], &[0xff; 100], b"\n"] {
            let mut stranger = TcpStream::connect(address).unwrap();
            stranger.write_all(said).unwrap();
        }
        serves(stack, address);
    }
}

#[test]
fn an_answer_in_another_protocol_is_named() {
    for stack in STACKS {
        let http = b"HTTP/1.1 400 Bad Request\r\nconnection: close\r\n\r\n";
        for goes in [false, true] {
            let mut client = connect(stack, peer(http, goes), &within(LONG));
            let error = client.call(&Payload::new(Kind::Int)).unwrap_err();
            assert!(
                matches!(error, RpcError::OtherProtocol { stack: named, .. } if named == stack),
                "{stack}: {error:?}"
            );
            assert!(error.to_string().contains(&stack.to_string()), "{error}");
        }
        let mut client = connect(stack, peer(b"", true), &within(LONG));
        assert_fails!(stack, client.call(&Payload::new(Kind::Int)), RpcError::Closed(_));
    }
}

#[test]
fn who_waits_too_long_is_told_by_the_deadline() {
    let brief = within(Duration::from_millis(100));
    for stack in STACKS {
        let silent = peer(b"", false);
        let mut client = connect(stack, silent, &brief);
        assert_fails!(stack, client.call(&Payload::new(Kind::Int)), RpcError::DeadlineExceeded(after) if Some(after) == brief.deadline);
        if let Ok(mut calls) = in_flight(stack, silent, 2, &brief) {
            let mut late = 0;
            for number in 0..5 {
                assert_eq!(calls.begin(&Payload::new(Kind::Int)).unwrap(), number);
            }
            while late < 5 {
                let mut answered = |_, answer: Result<(), RpcError>| {
                    assert_fails!("", answer, RpcError::DeadlineExceeded(_));
                    late += 1;
                };
                calls.poll(Duration::from_millis(20), &mut answered).unwrap();
            }
            assert_eq!(calls.count(), 0);
        }
    }
}

#[test]
fn an_answer_that_comes_byte_by_byte_is_not_waited_for_without_end() {
    let brief = within(Duration::from_millis(200));
    for stack in STACKS {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = connect(stack, listener.local_addr().unwrap(), &brief);
        let drips = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            // What may begin a long answer: a frame of HTTP/2, or of Thrift.
            let begins: &[u8] = match stack {
                Stack::Grpc => b"\0\0\xff\x04\0",
                Stack::Thrift(_) => b"\0\0\xff\xff",
            };
            let mut bytes = begins.iter().chain(std::iter::repeat_n(&0, 1000));
            // Until nobody is there any more.
            bytes.find(|byte| {
                thread::sleep(Duration::from_millis(20));
                stream.write_all(&[**byte]).is_err()
            });
        });
        assert_fails!(stack, client.call(&Payload::new(Kind::Int)), RpcError::DeadlineExceeded(_));
        client.disconnect();
        drips.join().unwrap();
    }
}

#[test]
fn a_stream_that_takes_too_long_ends_and_the_server_serves_the_others() {
    let brief = within(Duration::from_millis(200));
    for stack in STACKS {
        let (_server, address) = listen(stack, &Options::default());
        let mut late = connect(stack, address, &brief);
        let error = late.upload(100_000, || {
            thread::sleep(Duration::from_millis(1));
            true
        });
        assert_fails!(stack, error, RpcError::DeadlineExceeded(_));
        serves(stack, address);
    }
}

#[test]
fn a_server_that_dies_in_mid_stream_is_missed() {
    for stack in STACKS {
        let (server, address) = listen(stack, &Options::default());
        // It dies when it comes to its turn, beside whatever else runs.
        let mut client = connect(stack, address, &within(LONG));
        let begun = Arc::new(AtomicBool::new(false));
        let streams = Arc::clone(&begun);
        let dies = thread::spawn(move || {
            while !streams.load(Ordering::Acquire) {
                thread::yield_now();
            }
            drop(server);
        });
        let mut chunks = 0;
        let error = client.upload(1000, move || {
            chunks += 1;
            begun.store(chunks > 10, Ordering::Release);
            true
        });
        assert_fails!(stack, error, RpcError::Closed(_));
        dies.join().unwrap();
        let error = TcpStream::connect(address).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
    }
}

#[test]
#[ignore = "long; ./check --all runs it"]
fn connections_that_say_nothing_and_go_leave_nothing_behind() {
    for stack in STACKS {
        let (_server, address) = listen(stack, &Options::default());
        for _ in 0..3 {
            let silent: Vec<_> = (0..100).map(|_| TcpStream::connect(address)).collect();
            drop(silent);
        }
        serves(stack, address);
    }
}
