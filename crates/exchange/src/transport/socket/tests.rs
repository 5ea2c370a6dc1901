use super::*;
use crate::transport::testing::{TOKEN, accept, ip, listen, pair, serve};
use std::net::UdpSocket;

#[test]
fn datagrams_that_are_no_messages_do_not_keep_one_who_receives() {
    for wait in [Wait::Block, Wait::Spin] {
        let (listener, address) = listen(Over::Udp);
        let server = std::thread::spawn(move || accept(&listener, wait));
        let client = Socket::connect(Over::Udp, &address, wait, TOKEN).unwrap();
        let (mut server, to) = (server.join().unwrap(), ip(address));
        let enough = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let stranger = UdpSocket::bind("127.0.0.1:0").unwrap();
                while !enough.load(Ordering::Relaxed) {
                    stranger.send_to(&[1; 100], to).unwrap();
                    client.send_part(&[1; 99], SendFlags::empty()).unwrap();
                }
            });
            let received = server.receive(&mut vec![0; 100]);
            enough.store(true, Ordering::Relaxed);
            assert!(!received.unwrap());
        });
    }
}

#[test]
fn a_peer_that_takes_nothing_is_not_waited_for_without_end() {
    let (silent, mut client) = pair(Over::Tcp, Wait::Block);
    let limit = sockopt::socket_timeout(&client, sockopt::Timeout::Send);
    assert_eq!(limit.unwrap(), Some(STALLED));
    sockopt::set_socket_timeout(&client, sockopt::Timeout::Send, Some(POLL_INTERVAL)).unwrap();
    let error = client.send(&mut vec![7; 64 << 20]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TimedOut);
    drop(silent);
}

/// The server's answer to the token was late.
#[test]
fn a_token_that_is_repeated_is_answered_again_and_is_no_message() {
    for size in [1, TOKEN.len(), 100] {
        let (listener, address) = listen(Over::Udp);
        let server = std::thread::spawn(move || serve(accept(&listener, Wait::Block), size));
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.connect(ip(address)).unwrap();
        let mut bytes = [0; 200];
        for _ in 0..3 {
            socket.send(TOKEN).unwrap();
            let length = socket.recv(&mut bytes).unwrap();
            assert_eq!(&bytes[..length], TOKEN);
        }
        socket.send(&vec![9; size]).unwrap();
        let length = socket.recv(&mut bytes).unwrap();
        assert_eq!(bytes[..length], vec![9; size]);
        socket.send(&[]).unwrap();
        server.join().unwrap();
    }
}

#[test]
fn what_does_not_wait_sends_and_receives_in_parts() {
    const SIZE: usize = 8 << 20;
    let (server, mut client) = pair(Over::Tcp, Wait::Spin);
    let message = costof_os::memory::pattern::pattern(SIZE);
    // Nobody reads yet, and not all of it fits.
    assert!(!client.try_send(&message).unwrap());
    let server = std::thread::spawn(move || serve(server, SIZE));
    let mut answer = vec![0; SIZE];
    while !client.try_send(&message).unwrap() {}
    while !client.try_receive(&mut answer).unwrap() {}
    assert!(answer == message);
    drop(client);
    server.join().unwrap();
}
