//! Two real sockets on loopback: much arrives whole, and one end hears of the other's
//! end.

#![expect(clippy::unwrap_used, reason = "a test fails where it cannot go on")]
#![expect(clippy::print_stdout, reason = "a test says what it measured")]

use rudp::socket::Socket;
use rudp::{Accept, Config, Control, Event, Reason, SendError};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

const ANY: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
const WAIT: Option<Duration> = Some(Duration::from_secs(20));

/// Sends this many messages of this length and closes; checks what arrives.
fn transfer(control: Control, datagram_bytes: usize, messages: u32, bytes: usize) {
    let config = Config { control, datagram_bytes, ..Config::default() };
    let accept = Accept::from(config.clone());
    let mut server = Socket::bind(ANY, [1; 16], Some(accept)).unwrap();
    let to = server.local_addr().unwrap();
    let receiver = std::thread::spawn(move || {
        let mut received = 0;
        while let Some((_, event)) = server.poll(WAIT).unwrap() {
            match event {
                Event::Message(message) => {
                    assert_eq!(message.len(), bytes);
                    assert_eq!(message[..4], u32::to_be_bytes(received));
                    assert!(message[4..].iter().all(|byte| *byte == received as u8));
                    received += 1;
                }
                Event::Closed(reason) => {
                    assert_eq!(reason, Reason::Finished);
                    return received;
                }
                _ => {}
            }
        }
        panic!("nothing more arrived after {received} messages");
    });
    let mut client = Socket::bind(ANY, [2; 16], None).unwrap();
    let id = client.connect(to, config).unwrap();
    let (mut sent, mut next, mut began) = (0, None, Instant::now());
    let reason = loop {
        let (_, event) = client.poll(WAIT).unwrap().expect("something happens");
        let now = client.now();
        match event {
            Event::Connected => began = Instant::now(),
            Event::Closed(reason) => break reason,
            _ => {}
        }
        let Some(connection) = client.connection(id) else {
            continue;
        };
        while sent < messages {
            let message = next.take().unwrap_or_else(|| {
                let mut message = vec![sent as u8; bytes];
                message[..4].copy_from_slice(&sent.to_be_bytes());
                message
            });
            match connection.send(message.clone()) {
                Ok(_) => sent += 1,
                Err(SendError::Full) => {
                    next = Some(message);
                    break;
                }
                Err(error) => panic!("{error}"),
            }
        }
        if sent == messages {
            connection.close(now);
        }
    };
    let seconds = began.elapsed().as_secs_f64();
    assert_eq!(reason, Reason::Finished);
    assert_eq!(receiver.join().unwrap(), messages);
    let gigabits = f64::from(messages) * bytes as f64 * 8e-9 / seconds;
    println!("{control:?}, datagrams of {datagram_bytes}: {gigabits:.2} Gb/s");
}

#[test]
fn what_is_sent_over_loopback_arrives() {
    for control in [Control::Cubic, Control::Rate, Control::Fixed { messages: 32 }] {
        for datagram_bytes in [1452, 65_507] {
            transfer(control, datagram_bytes, 1000, 65_000);
        }
    }
}

/// A message there and back over sockets of this address, again and again. The end that answers
/// favours latency, and the other one where it is said.
fn exchange(at: SocketAddr, both: bool) {
    let mut server = Socket::bind(at, [1; 16], Some(Accept::default())).unwrap();
    server.favour_latency().unwrap();
    let to = server.local_addr().unwrap();
    let echo = std::thread::spawn(move || {
        while let Some((id, event)) = server.poll(WAIT).unwrap() {
            match event {
                Event::Message(message) => {
                    server.connection(id).unwrap().send(message).unwrap();
                }
                Event::Closed(reason) => return reason,
                _ => {}
            }
        }
        panic!("nothing arrived any more");
    });
    let socket = UdpSocket::bind(at).unwrap();
    socket.connect(to).unwrap();
    let mut client = Socket::over(socket, [2; 16], None).unwrap();
    if both {
        client.favour_latency().unwrap();
    }
    let id = client.connect(to, Config::default()).unwrap();
    // The last one is many datagrams.
    let mut sizes = [64, 1400].repeat(50);
    sizes.push(1 << 20);
    let mut sizes = sizes.into_iter().zip(0..);
    let (mut expected, mut received) = (Vec::new(), 0);
    let reason = loop {
        // Both ways to wait.
        let wait = if received % 2 == 0 { WAIT } else { Some(Duration::ZERO) };
        let Some((_, event)) = client.poll(wait).unwrap() else {
            assert!(wait != WAIT, "something happens");
            continue;
        };
        match event {
            Event::Message(answer) => {
                assert!(answer == expected, "{} bytes received", answer.len());
                received += 1;
            }
            Event::Connected => {}
            Event::Closed(reason) => break reason,
            _ => continue,
        }
        let now = client.now();
        let connection = client.connection(id).unwrap();
        match sizes.next() {
            Some((size, number)) => {
                expected = vec![number; size];
                connection.send(expected.clone()).unwrap();
            }
            None => connection.close(now),
        }
    };
    assert_eq!((received, reason), (101, Reason::Finished));
    assert_eq!(echo.join().unwrap(), Reason::Finished);
}

#[test]
fn ends_that_favour_latency_exchange_what_others_do() {
    exchange(ANY, true);
    exchange(ANY, false);
    // Where there is IPv6.
    let six = SocketAddr::from((std::net::Ipv6Addr::LOCALHOST, 0));
    match UdpSocket::bind(six) {
        Ok(_) => exchange(six, true),
        Err(error) => println!("not over IPv6: {error}"),
    }
}

/// What a socket counts as dropped after more arrived than any buffer holds.
fn overfilled(mut server: Socket) -> u32 {
    let to = server.local_addr().unwrap();
    let stranger = UdpSocket::bind(ANY).unwrap();
    let rubbish = vec![0; 60_000];
    // More than any buffer that the system gives.
    for _ in 0..1000 {
        stranger.send_to(&rubbish, to).unwrap();
    }
    for _ in 0..2000 {
        assert_eq!(server.poll(Some(Duration::ZERO)).unwrap(), None);
    }
    // What was dropped says nothing; what comes after it does.
    stranger.send_to(&rubbish, to).unwrap();
    assert_eq!(server.poll(Some(Duration::from_millis(10))).unwrap(), None);
    server.dropped()
}

#[test]
fn what_the_system_drops_because_the_buffer_is_full_is_counted() {
    let socket = || Socket::bind(ANY, [1; 16], Some(Accept::default())).unwrap();
    assert!(overfilled(socket()) > 0);
    let mut other = socket();
    other.favour_latency().unwrap();
    assert_eq!(overfilled(other), 0, "where it is asked for");
}

#[test]
fn what_the_system_refuses_to_send_is_lost_and_counted() {
    let mut client = Socket::bind(ANY, [2; 16], None).unwrap();
    // Nobody sends from loopback to elsewhere, nor to everybody without having asked to.
    let everybody = SocketAddr::from((Ipv4Addr::BROADCAST, 7));
    client.connect(everybody, Config::default()).unwrap();
    assert_eq!(client.poll(Some(Duration::ZERO)).unwrap(), None);
    assert!(client.refused() > 0);
}

#[test]
fn an_address_that_is_not_here_is_an_error_that_names_it() {
    let elsewhere = SocketAddr::from(([192, 0, 2, 1], 7));
    let error = Socket::bind(elsewhere, [1; 16], None).unwrap_err();
    assert!(error.to_string().contains("192.0.2.1:7"), "{error}");
}
