use super::*;
use crate::rendezvous::{Over, is_end};
use crate::transport::Wait;
use crate::transport::rudp::stamped::StampedRudp;
use crate::transport::stamped::Stamped;
use crate::transport::study::{StudyClient, StudyServer};
use crate::transport::testing::{pair, serve};
use costof_os::net::timestamps::SwitchedOn;
use rudp::Config;
use std::time::Duration;

/// The number of exchanges with all of their stamps.
fn complete<T: Stamps>(transport: T, size: usize, exchanges: u32) -> u32 {
    let mut client = Client::new(transport, size);
    (0..exchanges).map(|_| u32::from(client.exchange_stamped().unwrap().is_some())).sum()
}

#[test]
fn every_stage_of_a_message_is_stamped_on_loopback() {
    // Other tests also keep CPUs awake for a moment.
    let _on = SwitchedOn::within(Duration::from_secs(60)).unwrap();
    for over in [Over::Tcp, Over::Udp] {
        for (wait, size) in [(Wait::Block, 56), (Wait::Spin, 1), (Wait::Block, 60_000)] {
            let (server, socket) = pair(over, wait);
            let server = std::thread::spawn(move || serve(server, size));
            let mut client = Client::new(Stamped::with_queue(socket).unwrap(), size);
            let stages = (0..100).map(|_| client.exchange_stamped().unwrap());
            let complete = stages.flatten().filter(|stages| stages.queued.is_some()).count();
            assert!(complete > 50, "{over:?} {wait:?} {size}: {complete} of 100");
            drop(client);
            server.join().unwrap();
        }
    }
}

#[test]
fn an_answer_by_a_connection_may_take_more_than_a_second() {
    let (mut server, socket) = pair(Over::Tcp, Wait::Block);
    let server = std::thread::spawn(move || {
        let mut message = vec![0; 56];
        for _ in 0..2 {
            while !server.receive(&mut message).unwrap() {}
            std::thread::sleep(Duration::from_millis(1200));
            server.send(&mut message).unwrap();
        }
    });
    let mut client = Client::new(Stamped::new(socket).unwrap(), 56);
    for _ in 0..2 {
        client.exchange_stamped().unwrap();
    }
    server.join().unwrap();
}

/// The number of messages, of forty, with all of their stamps at the server.
fn served<T: Stamps>(transport: T, size: usize) -> u32 {
    let mut server = Server::new(transport, size);
    let mut complete = 0;
    loop {
        match server.answer_stamped() {
            Ok(stages) => complete += u32::from(stages.is_some()),
            Err(error) => {
                assert!(is_end(&error), "{error}");
                return complete;
            }
        }
    }
}

#[test]
fn messages_over_stamped_datagrams_are_stamped_at_both_ends() {
    const SIZE: usize = 1400;
    let _on = SwitchedOn::within(Duration::from_secs(60)).unwrap();
    for wait in [Wait::Block, Wait::Spin] {
        for transport in ["rudp", "study", "udp"] {
            let (server, client) = pair(Over::Udp, wait);
            let server = Stamped::new(server).unwrap();
            let server = std::thread::spawn(move || match transport {
                "rudp" => served(StampedRudp::accept(server, Config::default()).unwrap(), SIZE),
                "study" => served(StudyServer::new(server, SIZE), SIZE),
                _ => served(server, SIZE),
            });
            let client = Stamped::new(client).unwrap();
            let asked = match transport {
                "rudp" => {
                    let client = StampedRudp::connect(client, Config::default()).unwrap();
                    complete(client, SIZE, 40)
                }
                "study" => complete(StudyClient::new(client), SIZE, 40),
                _ => complete(client, SIZE, 40),
            };
            let answered = server.join().unwrap();
            assert!(asked > 20, "{transport} {wait:?}: {asked} of 40");
            assert!(answered > 20, "{transport} {wait:?}: {answered} of 40");
        }
    }
}
