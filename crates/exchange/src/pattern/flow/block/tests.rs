use super::super::{Content, Receiver, Sender, accept, call_with_blocks as call};
use super::*;
use crate::rendezvous::{Address, Listener, Over};
use costof_os::net::socket::DATAGRAM_MAX_BYTES;
use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

const TOKEN: &[u8] = b"0123456789abcdef0123456789abcdef";
const LOCAL: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

fn listen(over: Over, flows: usize) -> (Listener, Address) {
    let listener = Listener::open(over, (LOCAL, 0), (0, 0), flows, TOKEN).unwrap();
    let address = listener.address().unwrap();
    (listener, address)
}

/// The address for a client other than costof.
fn plain(address: &Address) -> SocketAddr {
    match address {
        Address::Ip(addresses) => addresses[0],
        Address::Unix(name) => panic!("{name} is not an address"),
    }
}

fn receivers(
    listener: &Listener,
    over: Over,
    size: usize,
    stop: &AtomicBool,
) -> io::Result<Vec<Receiver>> {
    accept(listener, over, Content::Blocks(size), stop)
}

/// Transfers for a moment. Returns receivers and senders.
fn transfer(over: Over, flows: usize, size: usize) -> (Vec<Receiver>, Vec<Sender<Block>>) {
    let (listener, address) = listen(over, flows);
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let receivers = scope.spawn(|| {
            let mut receivers = receivers(&listener, over, size, &stop).unwrap();
            thread::scope(|scope| {
                for receiver in &mut receivers {
                    scope.spawn(|| receiver.receive(&stop).unwrap());
                }
            });
            receivers
        });
        let mut senders = call(over, &address, (flows, size), None, TOKEN).unwrap();
        thread::scope(|scope| {
            for sender in &mut senders {
                scope.spawn(|| {
                    sender.stream(Duration::from_millis(20)).unwrap();
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
                assert_eq!(receiver.progress.allocations, 0);
                assert_eq!(sender.progress.allocations, 0);
                assert!(receiver.progress.checkpoints().is_sorted_by_key(|one| one.bytes));
            }
            let blocks: u64 = senders.iter().map(Sender::<Block>::blocks).sum();
            let came: u64 = receivers.iter().map(|receiver| receiver.progress.bytes).sum();
            assert_eq!(blocks * size as u64, came, "{over:?} {size}");
        }
    }
}

#[test]
fn datagrams_arrive_or_are_known_to_be_lost() {
    for (flows, size) in [(1, 64), (2, 1472), (1, DATAGRAM_MAX_BYTES)] {
        let (receivers, senders) = transfer(Over::Udp, flows, size);
        for (receiver, sender) in receivers.iter().zip(&senders) {
            assert!(receiver.last_piece_is_right());
            let datagrams = receiver.datagrams().unwrap().unwrap();
            let sent = sender.blocks();
            assert!(datagrams.arrived > 0);
            // Loopback itself loses nothing.
            assert!(datagrams.arrived + datagrams.dropped >= sent, "{datagrams:?} of {sent}");
        }
    }
}

/// A stranger with the token, whose datagrams arrive first.
#[test]
fn datagrams_of_strangers_are_no_part_of_it() {
    let (listener, address) = listen(Over::Udp, 1);
    let stop = AtomicBool::new(false);
    let stranger = UdpSocket::bind("127.0.0.1:0").unwrap();
    let at = plain(&address);
    let caller = UdpSocket::bind("127.0.0.1:0").unwrap();
    let limit = Some(Duration::from_secs(10));
    caller.set_read_timeout(limit).unwrap();
    caller.connect(at).unwrap();
    stranger.send_to(&[0; TOKEN.len()], at).unwrap();
    caller.send(TOKEN).unwrap();
    for _ in 0..3 {
        stranger.send_to(&[1; 64], at).unwrap();
        caller.send(TOKEN).unwrap();
    }
    let mut receivers = receivers(&listener, Over::Udp, 64, &stop).unwrap();
    let mut said = [0; 100];
    assert_eq!(caller.recv(&mut said).unwrap(), TOKEN.len());
    let receiver = &mut receivers[0];
    thread::scope(|scope| {
        scope.spawn(|| receiver.receive(&stop).unwrap());
        stranger.send_to(&[1; 64], at).unwrap();
        // A repeated token, or a repeated end, is answered, and is not a block.
        for said in [TOKEN.to_vec(), [TOKEN, b" done"].concat()] {
            caller.send(&pattern(64)).unwrap();
            caller.send(&said).unwrap();
            let mut answer = [0; 100];
            let length = caller.recv(&mut answer).unwrap();
            assert_eq!(answer[..length], said);
        }
        stop.store(true, Ordering::Release);
    });
    assert_eq!(receivers[0].datagrams().unwrap().unwrap().arrived, 2);
}

#[test]
fn what_was_not_sent_is_an_error() {
    let (listener, address) = listen(Over::Tcp, 1);
    let mut stream = TcpStream::connect(plain(&address)).unwrap();
    stream.write_all(TOKEN).unwrap();
    stream.write_all(&[1; 4096]).unwrap();
    let stop = AtomicBool::new(false);
    let mut receivers = receivers(&listener, Over::Tcp, 4096, &stop).unwrap();
    let error = receivers[0].receive(&stop).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidData);
}

#[test]
fn of_each_datagram_the_first_bytes_behind_its_number_and_the_last_are_compared() {
    for (size, wrong) in [(64, 8), (64, 40), (64, 63), (1000, 20), (1000, 999)] {
        let (listener, address) = listen(Over::Udp, 1);
        let caller = UdpSocket::bind("127.0.0.1:0").unwrap();
        caller.connect(plain(&address)).unwrap();
        caller.send(TOKEN).unwrap();
        let stop = AtomicBool::new(false);
        let mut receivers = receivers(&listener, Over::Udp, size, &stop).unwrap();
        let mut block = pattern(size);
        block[..NUMBER_BYTES].copy_from_slice(&7_u64.to_le_bytes());
        caller.send(&block).unwrap();
        block[wrong] ^= 1;
        caller.send(&block).unwrap();
        let receiver = &mut receivers[0];
        thread::scope(|scope| {
            let received = scope.spawn(|| receiver.receive(&stop));
            // It ends by itself when it finds an error.
            for _ in 0..200 {
                if received.is_finished() {
                    break;
                }
                thread::sleep(Duration::from_millis(50));
            }
            stop.store(true, Ordering::Release);
            let error = received.join().unwrap().expect_err("a byte is wrong");
            assert_eq!(error.kind(), ErrorKind::InvalidData, "{size} {wrong}");
        });
        assert_eq!(receivers[0].datagrams().unwrap().unwrap().arrived, 1);
    }
}

/// As over a link on which the last bytes, or the message that ends the transfer, are lost.
#[test]
fn one_that_is_stopped_before_the_end_has_what_came() {
    for over in [Over::Tcp, Over::Udp, Over::Unix] {
        let (listener, address) = listen(over, 1);
        let (stop, came) = (AtomicBool::new(false), AtomicBool::new(false));
        thread::scope(|scope| {
            let receivers = scope.spawn(|| {
                let mut receivers = receivers(&listener, over, 64, &stop).unwrap();
                let receiver = &mut receivers[0];
                while receiver.progress.checkpoints().len() < 2 {
                    receiver.receive_once().unwrap();
                }
                came.store(true, Ordering::Release);
                receiver.receive(&stop).unwrap();
                receivers
            });
            let mut senders = call(over, &address, (1, 64), None, TOKEN).unwrap();
            while !came.load(Ordering::Acquire) {
                senders[0].stream(Duration::from_millis(1)).unwrap();
            }
            stop.store(true, Ordering::Release);
            let receivers = receivers.join().unwrap();
            assert!(receivers[0].progress.bytes > 0 && receivers[0].last_piece_is_right());
            drop(senders);
        });
    }
}

#[test]
fn what_does_not_fit_or_is_not_there_is_refused() {
    let to = |over, size, control: Option<&str>| {
        let (listener, address) = listen(over, 1);
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| receivers(&listener, over, 64, &stop).map(drop));
            let called = call(over, &address, (1, size), control, TOKEN);
            stop.store(true, Ordering::Release);
            called.map(drop).unwrap_err().kind()
        })
    };
    assert_eq!(to(Over::Tcp, 63, None), ErrorKind::InvalidInput);
    let too_large = DATAGRAM_MAX_BYTES + 1;
    assert_eq!(to(Over::Udp, too_large, None), ErrorKind::InvalidInput);
    assert_eq!(to(Over::Tcp, 64, Some("nosuch")), ErrorKind::NotFound);
}
