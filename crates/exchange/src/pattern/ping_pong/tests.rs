use super::*;
use crate::rendezvous::Over;
use crate::transport::Wait;
use crate::transport::socket::Socket;
use crate::transport::testing::{TOKEN, datagrams, pair, serve};

fn client(address: &crate::rendezvous::Address, size: usize) -> Client<Socket> {
    Client::new(Socket::connect(Over::Udp, address, Wait::Block, TOKEN).unwrap(), size)
}

#[test]
fn messages_are_exchanged() {
    for over in [Over::Tcp, Over::Udp, Over::Unix] {
        for wait in [Wait::Block, Wait::Spin] {
            let (server, socket) = pair(over, wait);
            let server = std::thread::spawn(move || serve(server, 100));
            let mut client = Client::new(socket, 100);
            for number in 1..=3 {
                client.exchange().unwrap();
                assert_eq!(client.answer, client.message);
                assert_eq!(client.answer[..8], u64::to_le_bytes(number));
                client.verify().unwrap();
            }
            drop(client);
            server.join().unwrap();
        }
    }
}

/// A server loses, delays, duplicates, truncates and repeats datagrams.
#[test]
fn a_lost_datagram_is_retransmitted_and_a_late_answer_is_not_the_next_ones() {
    let (socket, address) = datagrams();
    let server = std::thread::spawn(move || {
        let mut bytes = [0; 200];
        let mut next = || {
            let (length, from) = socket.recv_from(&mut bytes).unwrap();
            (bytes[..length].to_vec(), from)
        };
        let (token, from) = next();
        // A client without an answer repeats its message.
        let mut next_after = |last: &[u8]| {
            loop {
                let (message, _) = next();
                if message != last {
                    return message;
                }
            }
        };
        socket.send_to(&token, from).unwrap();
        socket.send_to(&token, from).unwrap();
        let one = next_after(&token);
        socket.send_to(&[1; 200], from).unwrap();
        socket.send_to(&one, from).unwrap();
        let lost = next_after(&one);
        let two = next_after(&[]);
        assert_eq!(two, lost);
        socket.send_to(&one, from).unwrap();
        socket.send_to(&two, from).unwrap();
        let three = next_after(&two);
        socket.send_to(&two, from).unwrap();
        socket.send_to(&three, from).unwrap();
        assert!(next_after(&three).is_empty());
    });
    // As long as the token, so that the length does not distinguish them.
    let mut client = client(&address, TOKEN.len());
    for _ in 0..3 {
        client.exchange().unwrap();
        client.verify().unwrap();
    }
    assert!(client.retransmissions() >= 1);
    drop(client);
    server.join().unwrap();
}

#[test]
fn a_round_trip_of_more_than_a_second_is_no_loss() {
    const ROUND_TRIP: Duration = Duration::from_millis(1100);
    let (socket, address) = datagrams();
    let server = std::thread::spawn(move || {
        let (mut bytes, mut last) = ([0; 200], Vec::new());
        loop {
            let (length, from) = socket.recv_from(&mut bytes).unwrap();
            if length == 0 {
                break;
            }
            // The token is repeated.
            if bytes[..length] != last {
                last = bytes[..length].to_vec();
                std::thread::sleep(ROUND_TRIP);
                socket.send_to(&last, from).unwrap();
            }
        }
    });
    let mut client = client(&address, 100);
    for _ in 0..2 {
        client.exchange().unwrap();
    }
    assert_eq!(client.retransmissions(), 0);
    client.set_min_rto(Duration::from_secs(3));
    assert!(client.rto > Some(Duration::from_secs(3)));
    drop(client);
    server.join().unwrap();
}

#[test]
fn the_loss_of_the_first_message_does_not_make_the_others_wait_longer() {
    let (socket, address) = datagrams();
    let server = std::thread::spawn(move || {
        let mut bytes = [0; 100];
        let (length, from) = socket.recv_from(&mut bytes).unwrap();
        socket.send_to(&bytes[..length], from).unwrap();
        let mut messages = 0;
        while messages < 2 {
            let (length, from) = socket.recv_from(&mut bytes).unwrap();
            messages += u32::from(length == bytes.len());
            if messages == 2 {
                socket.send_to(&bytes, from).unwrap();
            }
        }
    });
    let mut client = client(&address, 100);
    let before = client.rto;
    client.exchange().unwrap();
    assert_eq!((client.rto, client.retransmissions()), (before, 1));
    server.join().unwrap();
}
