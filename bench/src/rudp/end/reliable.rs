//! Ends that use rudp.

use super::{Kind, MESSAGE_BYTES, Played, WARM_UP, print_address};
use crate::rudp::tally::Tally;
use rudp::socket::Socket;
use rudp::{Accept, Config, ConnectionId, Event};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

/// After so long a silence there is no other end.
const SILENCE: Option<Duration> = Some(Duration::from_secs(60));

fn config(kind: &Kind) -> Config {
    match kind {
        Kind::Rudp {
            control,
            datagram_bytes,
            ..
        } => Config {
            control: *control,
            datagram_bytes: *datagram_bytes,
            ..Config::default()
        },
        _ => Config::default(),
    }
}

/// Echoes are answered as they come; a stream is one in order.
fn unordered(kind: &Kind) -> Config {
    Config {
        is_ordered: false,
        ..config(kind)
    }
}

fn listen(at: SocketAddr, config: Config) -> Played<Socket> {
    let accept = Accept {
        config,
        ..Accept::default()
    };
    let socket = Socket::bind(at, secret(), Some(accept))?;
    print_address(socket.local_addr()?, "");
    Ok(socket)
}

fn connect(to: SocketAddr, config: Config) -> Played<(Socket, ConnectionId)> {
    let any = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);
    // It hears nobody else, as UDP's does that it is held against.
    let socket = UdpSocket::bind(any)?;
    socket.connect(to)?;
    let mut socket = Socket::over(socket, secret(), None)?;
    let id = socket.connect(to, config)?;
    Ok((socket, id))
}

fn secret() -> [u8; 16] {
    std::array::from_fn(|_| fastrand::u8(..))
}

pub(super) fn receive(at: SocketAddr, kind: &Kind, lasts: Duration) -> Played<Tally> {
    let mut socket = listen(at, config(kind))?;
    let mut tally = Tally::new();
    while let Some(left) = tally.left(lasts) {
        match socket.poll(Some(left))? {
            Some((_, Event::Message(message))) if message.len() == MESSAGE_BYTES => {
                tally.add(message.len());
            }
            Some((_, Event::Message(message))) => {
                return Err(format!("a message of {} bytes came", message.len()).into());
            }
            Some((_, Event::Closed(reason))) => return Err(format!("closed: {reason:?}").into()),
            _ => {}
        }
    }
    Ok(tally)
}

/// As much as goes, until it is ended.
pub(super) fn send(to: SocketAddr, kind: &Kind) -> Played<()> {
    let ahead = match kind {
        Kind::Rudp { ahead_bytes, .. } => *ahead_bytes,
        _ => 0,
    };
    let (mut socket, id) = connect(to, config(kind))?;
    loop {
        let event = socket.poll(SILENCE)?;
        if let Some((_, Event::Closed(reason))) = event {
            return Err(format!("closed: {reason:?}").into());
        }
        let Some(connection) = socket.connection(id) else {
            continue;
        };
        while connection.stats().queued_bytes < ahead {
            if connection.send(vec![7; MESSAGE_BYTES]).is_err() {
                break;
            }
        }
    }
}

/// What happens next: waited for in the kernel, or by asking again and again.
fn next(socket: &mut Socket, spins: bool) -> Played<(ConnectionId, Event)> {
    if !spins {
        return Ok(socket.poll(SILENCE)?.ok_or("nobody answers")?);
    }
    loop {
        if let Some(happened) = socket.poll(Some(Duration::ZERO))? {
            return Ok(happened);
        }
    }
}

/// Sends back whatever comes, until it is ended.
pub(super) fn echo(at: SocketAddr, kind: &Kind) -> Played<()> {
    answer(listen(at, unordered(kind))?, false)
}

/// The same, where one message is under way at a time.
pub(super) fn echo_one(at: SocketAddr, kind: &Kind, spins: bool) -> Played<()> {
    let mut socket = listen(at, unordered(kind))?;
    socket.favour_latency()?;
    answer(socket, spins)
}

fn answer(mut socket: Socket, spins: bool) -> Played<()> {
    loop {
        if let (id, Event::Message(message)) = next(&mut socket, spins)?
            && let Some(connection) = socket.connection(id)
        {
            connection.send(message)?;
        }
    }
}

/// How long each exchange takes, one after the other.
pub(super) fn ask(
    to: SocketAddr,
    kind: &Kind,
    bytes: usize,
    times: usize,
    spins: bool,
) -> Played<Vec<Duration>> {
    let (mut socket, id) = connect(to, unordered(kind))?;
    socket.favour_latency()?;
    let mut took = Vec::with_capacity(WARM_UP + times);
    let mut asked = Instant::now();
    while took.len() < WARM_UP + times {
        let (_, event) = next(&mut socket, spins)?;
        match event {
            Event::Message(answer) if answer.len() == bytes => took.push(asked.elapsed()),
            Event::Message(answer) => return Err(format!("{} bytes came", answer.len()).into()),
            Event::Closed(reason) => return Err(format!("closed: {reason:?}").into()),
            Event::Connected => {}
            // Of the question: its answer is what counts.
            Event::Acknowledged(_) | Event::Undeliverable(_) => continue,
        }
        if let Some(connection) = socket.connection(id) {
            asked = Instant::now();
            connection.send(vec![7; bytes])?;
        }
    }
    Ok(took)
}

/// How long each of `all` takes, of which so many are under way.
pub(super) fn ask_at_once(
    to: SocketAddr,
    kind: &Kind,
    bytes: usize,
    at_once: usize,
    all: usize,
) -> Played<Vec<Duration>> {
    let (mut socket, id) = connect(to, unordered(kind))?;
    let (mut asked, mut took) = (Vec::with_capacity(all), Vec::with_capacity(all));
    while took.len() < all {
        let (_, event) = socket.poll(SILENCE)?.ok_or("nobody answers")?;
        let more = match event {
            Event::Connected => at_once,
            Event::Message(answer) => {
                let which = answer.first_chunk().map(|which| u32::from_be_bytes(*which));
                let then: &Instant = which
                    .and_then(|which| asked.get(which as usize))
                    .ok_or("an answer to nothing came")?;
                took.push(then.elapsed());
                1
            }
            Event::Closed(reason) => return Err(format!("closed: {reason:?}").into()),
            Event::Acknowledged(_) | Event::Undeliverable(_) => 0,
        };
        let connection = socket.connection(id).ok_or("it is gone")?;
        for _ in 0..more.min(all - asked.len()) {
            let mut message = vec![7; bytes];
            message[..4].copy_from_slice(&(asked.len() as u32).to_be_bytes());
            asked.push(Instant::now());
            connection.send(message)?;
        }
    }
    Ok(took)
}
