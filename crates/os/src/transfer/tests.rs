use super::channel::datagrams_to;
use super::marks::{MARK_EVERY_NS, MARKS, Marks};
use super::*;
use std::io::{Read, Write};
use std::net::Ipv4Addr;
use std::net::{IpAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

const TOKEN: &[u8] = b"0123456789abcdef0123456789abcdef";
const LOCAL: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// Sends for a moment; the receivers, whether each knew the end, and the senders.
fn transfer(over: Over, flows: usize, size: usize) -> (Vec<Receiver>, Vec<Sender>) {
    let listener = Listener::open(over, LOCAL, (0, 0), flows).unwrap();
    let address = listener.address().unwrap();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let receivers = scope.spawn(|| {
            let mut receivers = listener.accept(TOKEN, &stop).unwrap();
            thread::scope(|scope| {
                for receiver in &mut receivers {
                    scope.spawn(|| assert!(receiver.receive(size, &stop).unwrap()));
                }
            });
            receivers
        });
        let mut senders = call(over, &address, (flows, size), None, TOKEN).unwrap();
        thread::scope(|scope| {
            for sender in &mut senders {
                scope.spawn(|| {
                    sender.send(Duration::from_millis(20)).unwrap();
                    sender.end().unwrap();
                });
            }
        });
        stop.store(true, Ordering::Release);
        (receivers.join().unwrap(), senders)
    })
}

#[test]
fn every_byte_arrives_in_its_place() {
    for over in [Over::Tcp, Over::Unix] {
        for (flows, size) in [(1, 64), (2, 1000), (1, 128 << 10), (3, 1 << 20)] {
            let (receivers, senders) = transfer(over, flows, size);
            for (receiver, sender) in receivers.iter().zip(&senders) {
                assert!(receiver.last_piece_is_right(), "{over:?} {size}");
                assert_eq!(receiver.allocations(), 0);
                assert_eq!(sender.allocations(), 0);
                assert!(receiver.marks().is_sorted_by_key(|mark| mark.bytes));
            }
            let sent: u64 = senders.iter().map(|sender| sender.sent.bytes).sum();
            let came: u64 = receivers.iter().map(|receiver| receiver.bytes).sum();
            assert_eq!(sent, came, "{over:?} {size}");
        }
    }
}

#[test]
fn datagrams_arrive_or_are_known_to_be_lost() {
    for (flows, size) in [(1, 64), (2, 1472), (1, DATAGRAM_MOST_BYTES)] {
        let (receivers, senders) = transfer(Over::Udp, flows, size);
        for (receiver, sender) in receivers.iter().zip(&senders) {
            assert!(receiver.last_piece_is_right());
            let datagrams = receiver.datagrams().unwrap().unwrap();
            assert_eq!(datagrams.sent, sender.sent.blocks);
            assert!(datagrams.arrived > 0);
            // Loopback loses nothing itself.
            assert!(
                datagrams.arrived + datagrams.dropped >= datagrams.sent,
                "{datagrams:?}"
            );
        }
    }
}

#[test]
fn strangers_are_dropped() {
    for over in [Over::Tcp, Over::Udp] {
        let listener = Listener::open(over, LOCAL, (0, 0), 1).unwrap();
        let address = listener.address().unwrap();
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            let receivers = scope.spawn(|| {
                let mut receivers = listener.accept(TOKEN, &stop).unwrap();
                receivers[0].receive(64, &stop).unwrap()
            });
            let stranger = [0; TOKEN.len()];
            match over {
                Over::Udp => {
                    let socket = datagrams_to(address.parse().unwrap()).unwrap();
                    socket.send(&stranger).unwrap();
                }
                _ => {
                    let mut stream = TcpStream::connect(&address).unwrap();
                    stream.write_all(&stranger).unwrap();
                    assert!(matches!(stream.read(&mut [0]), Ok(0) | Err(_)));
                }
            }
            let mut senders = call(over, &address, (1, 64), None, TOKEN).unwrap();
            senders[0].send(Duration::from_millis(1)).unwrap();
            senders[0].end().unwrap();
            stop.store(true, Ordering::Release);
            assert!(receivers.join().unwrap());
        });
    }
}

#[test]
fn what_was_not_sent_is_an_error() {
    let listener = Listener::open(Over::Tcp, LOCAL, (0, 0), 1).unwrap();
    let mut stream = TcpStream::connect(listener.address().unwrap()).unwrap();
    stream.write_all(TOKEN).unwrap();
    stream.write_all(&[1; 4096]).unwrap();
    let stop = AtomicBool::new(false);
    let mut receivers = listener.accept(TOKEN, &stop).unwrap();
    let error = receivers[0].receive(4096, &stop).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidData);
}

#[test]
fn one_that_is_stopped_before_the_end_says_so() {
    for over in [Over::Tcp, Over::Udp] {
        let listener = Listener::open(over, LOCAL, (0, 0), 1).unwrap();
        let address = listener.address().unwrap();
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            let receivers = scope.spawn(|| {
                let mut receivers = listener.accept(TOKEN, &stop).unwrap();
                receivers[0].receive(64, &stop).unwrap()
            });
            let senders = call(over, &address, (1, 64), None, TOKEN).unwrap();
            stop.store(true, Ordering::Release);
            assert!(!receivers.join().unwrap());
            drop(senders);
        });
        let listener = Listener::open(over, LOCAL, (0, 0), 1).unwrap();
        let error = listener.accept(TOKEN, &stop).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Interrupted);
    }
}

#[test]
fn what_does_not_fit_or_is_not_there_is_refused() {
    let to = |over, size, control: Option<&str>| {
        let listener = Listener::open(Over::Tcp, LOCAL, (0, 0), 1).unwrap();
        let address = listener.address().unwrap();
        call(over, &address, (1, size), control, TOKEN)
            .map(drop)
            .unwrap_err()
            .kind()
    };
    assert_eq!(to(Over::Tcp, 63, None), ErrorKind::InvalidInput);
    let too_large = DATAGRAM_MOST_BYTES + 1;
    assert_eq!(to(Over::Udp, too_large, None), ErrorKind::InvalidInput);
    assert_eq!(to(Over::Tcp, 64, Some("nosuch")), ErrorKind::NotFound);
}

#[test]
fn marks_thin_out_where_they_become_many() {
    let mut marks = Marks::new();
    for at_ns in (0..5000).map(|number| number * MARK_EVERY_NS) {
        if at_ns >= marks.next_ns {
            marks.add(Mark {
                at_ns,
                ..Mark::default()
            });
        }
    }
    assert!((MARKS / 2..=MARKS).contains(&marks.marks.len()));
    assert!(marks.marks.is_sorted_by_key(|mark| mark.at_ns));
    assert_eq!(marks.marks[0].at_ns, 0);
    assert_eq!(marks.every_ns, 8 * MARK_EVERY_NS);
}
