use super::*;
use crate::rendezvous::{Over, is_end};
use crate::transport::Wait;
use crate::transport::rudp::stamped::StampedRudp;
use crate::transport::stamped::{Stamped, StampedChannels};
use crate::transport::study::StudyClient;
use crate::transport::testing::{pair, serve};
use costof_os::net::timestamps::SwitchedOn;
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

/// The messages of forty with all of their stamps, at the client and at the server.
fn both_ends<C: StampedChannels>(wait: Wait) -> [u32; 2] {
    const SIZE: usize = 1400;
    let (server, client) = pair(Over::Udp, wait);
    let server = Stamped::new(server).unwrap();
    let server = std::thread::spawn(move || served(C::server(server, SIZE).unwrap(), SIZE));
    let client = C::client(Stamped::new(client).unwrap(), SIZE).unwrap();
    let asked = complete(client, SIZE, 40);
    [asked, server.join().unwrap()]
}

#[test]
fn messages_over_stamped_datagrams_are_stamped_at_both_ends() {
    let _on = SwitchedOn::within(Duration::from_secs(60)).unwrap();
    for wait in [Wait::Block, Wait::Spin] {
        for (transport, stamped) in [
            ("rudp", both_ends::<StampedRudp>(wait)),
            ("study", both_ends::<StudyClient<Stamped>>(wait)),
            ("udp", both_ends::<Stamped>(wait)),
        ] {
            assert!(stamped.iter().all(|count| *count > 20), "{transport} {wait:?}: {stamped:?}");
        }
    }
}
