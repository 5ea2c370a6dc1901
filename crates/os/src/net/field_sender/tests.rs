use super::*;
use crate::memory::arena::PageSize;
use crate::memory::fields::write_contents;
use std::collections::hash_map::DefaultHasher;
use std::hash::Hasher;
use std::io::Read;
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::unix::net::UnixStream;
use std::thread;

const COUNT: usize = 3;

fn messages(size: usize, fields: usize) -> Messages {
    Messages::new((COUNT, size, fields), PageSize::Base, &mut |order| {
        order.rotate_left(1);
    })
    .unwrap()
}

/// The hash of this many messages in a row.
fn expected(size: usize, sent: usize) -> u64 {
    let mut hasher = DefaultHasher::new();
    let mut message = vec![0; size];
    for number in 0..sent {
        write_contents(number % COUNT, 0, &mut message);
        hasher.write(&message);
    }
    hasher.finish()
}

/// Hashes a stream to its end, a whole message at a time.
fn received(mut stream: impl Read, size: usize) -> u64 {
    let mut hasher = DefaultHasher::new();
    let mut message = vec![0; size];
    while stream.read_exact(&mut message).is_ok() {
        hasher.write(&message);
    }
    hasher.finish()
}

/// Sends and receives messages through both ends of a stream.
fn through(
    primitive: Primitive,
    (near, far): (OwnedFd, impl Read + Send),
    (size, fields): (usize, usize),
    sent: usize,
) -> io::Result<(u64, Counts)> {
    let mut sender = FieldSender::new(near, primitive, messages(size, fields))?;
    thread::scope(|scope| {
        let receiver = scope.spawn(move || received(far, size));
        let result = (0..sent).try_for_each(|_| sender.send()).and_then(|()| sender.complete());
        let counts = sender.counts();
        rustix::net::shutdown(sender.socket(), rustix::net::Shutdown::Write)?;
        let hash = receiver.join().unwrap();
        result.map(|()| (hash, counts))
    })
}

fn tcp() -> (OwnedFd, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    near.set_nodelay(true).unwrap();
    (near.into(), listener.accept().unwrap().0)
}

fn unix() -> (OwnedFd, UnixStream) {
    let (near, far) = UnixStream::pair().unwrap();
    (near.into(), far)
}

/// Skips a primitive that this machine may lack, and fails otherwise.
fn skipped(primitive: Primitive, over: &str, error: &io::Error) {
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{primitive:?} over {over}: {error}");
    eprintln!("skipped: {primitive:?} over {over}: {error}");
}

#[test]
fn over_a_stream_arrives_what_was_sent_by_every_primitive() {
    for primitive in Primitive::ALL {
        // The pipe of splice, and a socket's buffer, are smaller than the largest message.
        for (size, fields) in [(65, 8), (4099, 8), (100_000, 1), (3_000_001, 8)] {
            let sent = (4_000_000 / size).clamp(2, 200);
            for over in ["tcp", "unix"] {
                let result = match over {
                    "tcp" => through(primitive, tcp(), (size, fields), sent),
                    _ => through(primitive, unix(), (size, fields), sent),
                };
                let (hash, counts) = match result {
                    Ok(result) => result,
                    Err(error) => {
                        skipped(primitive, over, &error);
                        let msg_zerocopy = primitive.has_completions();
                        let uring = error.to_string().contains("io_uring");
                        assert!(uring || (over == "unix" && msg_zerocopy), "{error}");
                        continue;
                    }
                };
                let what = format!("{primitive:?} {size} over {over}: {counts:?}");
                assert_eq!(hash, expected(size, sent), "{what}");
                assert_eq!(counts.messages, sent as u64, "{what}");
                assert!(counts.system_calls >= sent as u64, "{what}");
                assert_eq!(counts.asked, counts.completed, "{what}");
                // On one machine, everything that is received is copied.
                assert_eq!(counts.copied, counts.completed, "{what}");
                assert!(
                    counts.asked + counts.fallbacks >= counts.messages
                        || !primitive.has_completions(),
                    "{what}"
                );
            }
        }
    }
}

#[test]
fn over_datagrams_arrives_what_was_sent_by_every_primitive() {
    for primitive in Primitive::ALL {
        for (size, fields) in [(65, 8), (4099, 8), (60_000, 1)] {
            let far = UdpSocket::bind("127.0.0.1:0").unwrap();
            far.set_read_timeout(Some(STALLED)).unwrap();
            let near = UdpSocket::bind("127.0.0.1:0").unwrap();
            near.connect(far.local_addr().unwrap()).unwrap();
            let sender = FieldSender::new(near.into(), primitive, messages(size, fields));
            let mut sender = match sender {
                Ok(sender) => sender,
                Err(error) => {
                    skipped(primitive, "udp", &error);
                    let registered = error.to_string().contains("each a datagram");
                    let uring = error.to_string().contains("io_uring");
                    assert!(uring || (registered && fields > 1), "{error}");
                    continue;
                }
            };
            let mut hasher = DefaultHasher::new();
            let mut datagram = vec![0; 65_536];
            for _ in 0..40 {
                sender.send().unwrap_or_else(|error| {
                    panic!("{primitive:?} {size} over udp: {error}");
                });
                let length = far.recv(&mut datagram).unwrap();
                assert_eq!(length, size, "{primitive:?}: a message is a datagram");
                hasher.write(&datagram[..length]);
            }
            sender.complete().unwrap();
            let counts = sender.counts();
            assert_eq!(hasher.finish(), expected(size, 40), "{primitive:?} {size}");
            assert_eq!(counts.asked, counts.completed, "{primitive:?} {counts:?}");
            assert_eq!(counts.messages, 40);
        }
    }
}

#[test]
fn system_calls_are_those_that_the_primitive_names() {
    for (primitive, each) in [
        (Primitive::CopyAndSend, 1),
        (Primitive::CopyAndSendAllocating, 1),
        (Primitive::Sendmsg, 1),
        (Primitive::SendEach, 8),
        (Primitive::IoUringSend, 1),
        (Primitive::IoUringSendRegistered, 1),
        (Primitive::SendfileMemfd, 1),
        (Primitive::Splice, 2),
    ] {
        match through(primitive, tcp(), (1024, 8), 20) {
            // A message that takes two calls is continued.
            Ok((_, counts)) => assert!(
                (20 * each..22 * each).contains(&counts.system_calls),
                "{primitive:?} {counts:?}"
            ),
            Err(error) => skipped(primitive, "tcp", &error),
        }
    }
}

#[test]
fn a_send_that_has_no_room_without_a_copy_is_made_with_one() {
    let Ok(text) = std::fs::read_to_string("/proc/sys/net/core/optmem_max") else {
        eprintln!("skipped: /proc/sys/net/core/optmem_max cannot be read");
        return;
    };
    let room: usize = text.trim().parse().unwrap();
    let (near, mut far) = tcp();
    let mut sender = FieldSender::new(near, Primitive::MsgZerocopy, messages(64, 8)).unwrap();
    // A completion is a buffer of some hundred bytes. The other end's kernel accepts the data, so
    // unread completions accumulate.
    let sent = (room / 100).min(20_000);
    for _ in 0..sent {
        sender.send().unwrap();
    }
    let counts = sender.counts();
    assert_eq!(counts.messages, sent as u64);
    assert!(counts.asked + counts.fallbacks >= sent as u64, "{counts:?}");
    let mut arrived = vec![0; 64 * sent];
    far.read_exact(&mut arrived).unwrap();
    let mut hasher = DefaultHasher::new();
    arrived.chunks_exact(64).for_each(|message| hasher.write(message));
    assert_eq!(hasher.finish(), expected(64, sent));
    sender.complete().unwrap();
}

#[test]
fn one_whose_other_end_has_gone_says_so() {
    for primitive in Primitive::ALL {
        let (near, far) = tcp();
        drop(far);
        let mut sender = match FieldSender::new(near, primitive, messages(4096, 8)) {
            Ok(sender) => sender,
            Err(error) => {
                skipped(primitive, "tcp", &error);
                continue;
            }
        };
        let failed = (0..1000).find_map(|_| sender.send().err());
        let kind = failed.expect("a reset connection takes nothing").kind();
        assert!(
            matches!(kind, ErrorKind::BrokenPipe | ErrorKind::ConnectionReset),
            "{primitive:?}: {kind:?}"
        );
    }
}
