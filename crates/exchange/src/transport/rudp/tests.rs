use super::*;
use crate::pattern::ping_pong::{Client, Server};
use crate::rendezvous::Over;
use crate::transport::testing::{TOKEN, ip, listen, serve};
use std::net::{Ipv4Addr, SocketAddr};

fn messages(wait: Wait) -> Messages {
    Messages { over: Over::Udp, size: 1024, wait, long_datagrams: false }
}

fn accept(listener: &Listener, wait: Wait) -> Rudp {
    Rudp::accept(listener, &messages(wait), &AtomicBool::new(false)).unwrap()
}

#[test]
fn messages_are_exchanged_and_the_server_is_told_of_the_end() {
    for wait in [Wait::Block, Wait::Spin] {
        for size in [0, 1, 1000] {
            let (listener, address) = listen(Over::Udp);
            let server = std::thread::spawn(move || {
                let mut server = Server::new(accept(&listener, wait), size);
                loop {
                    if let Err(error) = server.answer() {
                        return error.kind();
                    }
                }
            });
            let transport = Rudp::connect(&address, TOKEN, &messages(wait)).unwrap();
            let mut client = Client::new(transport, size);
            for _ in 0..3 {
                client.exchange().unwrap();
                client.verify().unwrap();
            }
            let mut transport = client.into_transport();
            let too_long = transport.send(&mut vec![7; 2000]);
            assert!(too_long.is_err(), "longer than was agreed");
            drop(transport);
            assert_eq!(server.join().unwrap(), ErrorKind::UnexpectedEof);
        }
    }
}

#[test]
fn the_right_client_gets_in_behind_strangers() {
    let (listener, address) = listen(Over::Udp);
    let to = ip(address.clone());
    let server = std::thread::spawn(move || serve(accept(&listener, Wait::Block), 5));
    // Clients that connect without the token, and one that sends something else.
    let any = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
    let mut strangers = Socket::bind(any, [7; 16], None).unwrap();
    for _ in 0..3 {
        strangers.connect(to, config(1024, false)).unwrap();
        assert_eq!(strangers.poll(Some(POLL_INTERVAL)).unwrap(), None);
    }
    let other = UdpSocket::bind(any).unwrap();
    other.send_to(b"fedcba9876543210", to).unwrap();
    let transport = Rudp::connect(&address, TOKEN, &messages(Wait::Block)).unwrap();
    let mut client = Client::new(transport, 5);
    client.exchange().unwrap();
    client.verify().unwrap();
    drop(client);
    server.join().unwrap();
}

#[test]
fn a_server_that_is_stopped_waits_for_nobody() {
    let (listener, _) = listen(Over::Udp);
    let accepted = Rudp::accept(&listener, &messages(Wait::Spin), &AtomicBool::new(true));
    let error = accepted.err().expect("it is stopped");
    assert_eq!(error.kind(), ErrorKind::Interrupted);
}
