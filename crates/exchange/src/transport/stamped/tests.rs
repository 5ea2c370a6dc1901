use super::*;
use crate::rendezvous::Over;
use crate::transport::testing::{TOKEN, pair};
use costof_os::net::timestamps::{SwitchedOn, now_ns};
use std::net::UdpSocket;

fn stamped_pair(wait: Wait) -> (Stamped, Stamped) {
    let (server, client) = pair(Over::Udp, wait);
    (Stamped::new(server).unwrap(), Stamped::new(client).unwrap())
}

fn next(end: &mut Stamped, buffer: &mut [u8]) -> usize {
    loop {
        end.wait_readable(Duration::from_secs(10)).unwrap();
        if let Some(length) = end.try_receive_datagram(buffer).unwrap() {
            return length;
        }
    }
}

#[test]
fn datagrams_are_stamped_as_they_leave_and_as_they_come() {
    let _on = SwitchedOn::within(Duration::from_secs(60)).unwrap();
    for wait in [Wait::Block, Wait::Spin] {
        let (mut server, mut client) = stamped_pair(wait);
        let mut buffer = vec![0; 1 << 16];
        let mut complete = 0;
        for _ in 0..100 {
            client.begin();
            let sent = now_ns();
            client.send_bytes(&[7; 1400]).unwrap();
            assert_eq!(next(&mut server, &mut buffer), 1400);
            assert_eq!(buffer[1399], 7);
            let (left, received) = (client.left_ns().unwrap(), server.received_ns);
            let stamps = left.zip(received).map(|(left, received)| [left, received]);
            let is_sound =
                |[left, received]: [u64; 2]| [sent, left, received, now_ns()].is_sorted();
            complete += u32::from(stamps.is_some_and(is_sound));
            assert_eq!(client.left_ns().unwrap(), left);
        }
        assert_eq!(client.next_key, 100);
        assert!(complete > 50, "{wait:?}: {complete} of 100");
    }
}

#[test]
fn a_token_that_is_repeated_is_answered_and_is_no_datagram_and_neither_is_a_strangers() {
    let (mut server, mut client) = stamped_pair(Wait::Block);
    let mut buffer = vec![0; 1 << 16];
    let stranger = UdpSocket::bind("127.0.0.1:0").unwrap();
    let own = rustix::net::getsockname(&client.socket).unwrap();
    let own = SocketAddr::try_from(own).unwrap();
    stranger.send_to(b"stranger", own).unwrap();
    client.send_bytes(TOKEN).unwrap();
    server.wait_readable(Duration::from_secs(10)).unwrap();
    assert_eq!(server.try_receive_datagram(&mut buffer).unwrap(), None);
    let length = next(&mut client, &mut buffer);
    assert_eq!(&buffer[..length], TOKEN);
    assert!(server.next_key > 0);
    drop(client);
    let ended = loop {
        match server.receive_datagram(&mut buffer) {
            Ok(_) => {}
            Err(error) => break error,
        }
    };
    assert_eq!(ended.kind(), ErrorKind::UnexpectedEof);
}
