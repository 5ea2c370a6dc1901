use super::*;
use crate::rendezvous::Listener;
use costof_os::memory::arena::base_page_bytes;
use costof_os::net::receive::READY;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

const TOKEN: &[u8] = b"0123456789abcdef0123456789abcdef";
const LOCAL: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const ALL: [How; 5] = [How::Buffered, How::Scattered, How::Mapped, How::Discarded, How::Multishot];

/// The receiver's result; the reason, with a message, if it is not supported here.
fn received<T>(
    how: How,
    (over, by): (Over, SentBy),
    shape: Shape,
    segment: Option<u32>,
    receive: impl FnOnce(&mut Receiver) -> T,
) -> Option<T> {
    let listener = Listener::open(over, (LOCAL, 0), (0, 0), 1, TOKEN).unwrap();
    if let Some(bytes) = segment {
        listener.limit_segments(bytes).unwrap();
    }
    let address = listener.address().unwrap();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let sender = scope.spawn(|| {
            let mut sender = Sender::accept(&listener, &stop, shape.size, by)?;
            assert_eq!(sender.send(&stop)?.allocations, 0);
            io::Result::Ok(())
        });
        let received = match call(how, over, &address, shape, TOKEN) {
            Ok((mut receiver, _)) => Some(receive(&mut receiver)),
            Err(error) if error.kind() == ErrorKind::Unsupported => {
                eprintln!("skipped: {how:?} over {over:?}: {error}");
                None
            }
            Err(error) => panic!("{how:?} over {over:?}: {error}"),
        };
        stop.store(true, Ordering::Release);
        match sender.join().unwrap() {
            Err(error) if error.kind() != ErrorKind::Interrupted => panic!("{error}"),
            _ => received,
        }
    })
}

#[test]
fn what_is_received_is_what_was_sent() {
    for (over, by) in
        [(Over::Tcp, SentBy::Send), (Over::Tcp, SentBy::ZeroCopy), (Over::Unix, SentBy::Send)]
    {
        for how in ALL {
            for (size, fields) in [(64, 8), (1000, 1), (16 << 10, 8), (100_003, 64), (1 << 20, 8)] {
                let shape = Shape { size, fields };
                received(how, (over, by), shape, None, |receiver| {
                    for n in [0, 1, 30] {
                        receiver.receive(n).unwrap();
                        let is_right = receiver.next_is_right().unwrap();
                        assert!(is_right, "{how:?} {over:?} {by:?} {shape:?}");
                    }
                    let counts = receiver.counts();
                    assert_eq!(counts.messages, 34);
                    assert_eq!(counts.bytes, 34 * size as u64);
                    assert!(counts.mapped_bytes == 0 || how == How::Mapped);
                    assert!(counts.calls > 0 && counts.cpu_ns > 0 && counts.wall_ns > 0);
                });
            }
        }
    }
}

/// Whole pages of page-by-page copies are mapped; none of a plain send is.
#[test]
fn whole_pages_of_packets_are_mapped() {
    let page = base_page_bytes();
    let shape = Shape { size: 32 * page, fields: 8 };
    // With the options that carry timestamps.
    let segment = Some((page + 12) as u32);
    let mapped = |by, segment| {
        received(How::Mapped, (Over::Tcp, by), shape, segment, |receiver| {
            receiver.receive(100).unwrap();
            assert!(receiver.next_is_right().unwrap());
            let counts = receiver.counts();
            counts.mapped_bytes as f64 / counts.bytes as f64
        })
    };
    if page > 16 << 10 {
        eprintln!("skipped: a page of {page} B is larger than TCP_MAXSEG can be");
        return;
    }
    // If the receiver lags far behind, as on a busy machine, the kernel merges data, which no longer fills pages.
    let is_mapped = || {
        let ways = [(SentBy::Send, None), (SentBy::ZeroCopy, None), (SentBy::ZeroCopy, segment)];
        let shares = ways.map(|(by, segment)| mapped(by, segment));
        eprintln!("mapped: {shares:?}");
        let [Some(copied), Some(usual), Some(whole)] = shares else { return true };
        copied < 0.5 && usual > 0.0 && whole > 0.5
    };
    assert!((0..10).any(|_| is_mapped()));
}

#[test]
fn no_way_allocates() {
    let shape = Shape { size: 20_000, fields: 8 };
    for how in ALL {
        received(how, (Over::Tcp, SentBy::ZeroCopy), shape, None, |receiver| {
            receiver.receive(10).unwrap();
            let before = costof_os::memory::allocator::allocations();
            receiver.receive(100).unwrap();
            assert_eq!(costof_os::memory::allocator::allocations(), before, "{how:?}");
        });
    }
}

/// As if it were killed in the middle of a message.
#[test]
fn a_sender_that_ends_is_an_error_and_not_waited_for() {
    for how in ALL {
        let listener = Listener::open(Over::Tcp, (LOCAL, 0), (0, 0), 1, TOKEN).unwrap();
        let address = listener.address().unwrap();
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                let flow = listener.accept(&stop).unwrap().pop().unwrap();
                let mut socket = TcpStream::from(flow.socket);
                socket.write_all(TOKEN).unwrap();
                socket.read_exact(&mut [0; READY.len()]).unwrap();
                socket.write_all(&[7; 10_000]).unwrap();
            });
            let shape = Shape { size: 8192, fields: 8 };
            match call(how, Over::Tcp, &address, shape, TOKEN) {
                Ok((mut receiver, _)) => {
                    receiver.receive(1).unwrap();
                    let error = receiver.receive(1).unwrap_err();
                    assert_eq!(error.kind(), ErrorKind::UnexpectedEof, "{how:?}: {error}");
                }
                Err(error) if error.kind() == ErrorKind::Unsupported => {
                    eprintln!("skipped: {how:?}: {error}");
                }
                Err(error) => panic!("{how:?}: {error}"),
            }
        });
    }
}

#[test]
fn what_cannot_be_is_refused_with_its_reason() {
    let tiny = Shape { size: 64, fields: 8 };
    let refused = |how, over, shape| {
        let listener = Listener::open(over, (LOCAL, 0), (0, 0), 1, TOKEN).unwrap();
        let address = listener.address().unwrap();
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| Sender::accept(&listener, &stop, 64, SentBy::Send).map(drop));
            let error = call(how, over, &address, shape, TOKEN).err().unwrap();
            stop.store(true, Ordering::Release);
            error
        })
    };
    let large = Shape { size: 1 << 20, ..tiny };
    for (how, over, shape, says) in [
        (How::Mapped, Over::Tcp, tiny, "whole pages"),
        (How::Mapped, Over::Unix, large, "TCP"),
        (How::Discarded, Over::Unix, tiny, "only TCP"),
    ] {
        let error = refused(how, over, shape);
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        assert!(error.to_string().contains(says), "{error}");
    }
    for shape in [Shape { size: 63, ..tiny }, Shape { fields: 0, ..tiny }] {
        let error = refused(How::Buffered, Over::Tcp, shape);
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
    }
}
