//! Ends that use rudp.

use super::{MESSAGE_BYTES, RoleResult, Rudp, WARM_UP, print_address};
use crate::rudp::tally::Tally;
use rudp::socket::Socket;
use rudp::{Accept, Config, ConnectionId, Event};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

/// After so long a silence there is no other end.
const SILENCE: Option<Duration> = Some(Duration::from_secs(60));

/// A stream, in order.
fn ordered(options: &Rudp) -> Config {
    Config { control: options.control, datagram_bytes: options.datagram_bytes, ..Config::default() }
}

/// Echoes, which are answered as they come.
fn unordered(options: &Rudp) -> Config {
    Config { is_ordered: false, ..ordered(options) }
}

fn listen(at: SocketAddr, config: Config) -> RoleResult<Socket> {
    let accept = Accept { config, ..Accept::default() };
    let socket = Socket::bind(at, secret(), Some(accept))?;
    print_address(socket.local_addr()?, "");
    Ok(socket)
}

fn connect(to: SocketAddr, config: Config) -> RoleResult<(Socket, ConnectionId)> {
    let any = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);
    // It receives from nobody else, like the raw UDP socket that it is compared with.
    let socket = UdpSocket::bind(any)?;
    socket.connect(to)?;
    let mut socket = Socket::over(socket, secret(), None)?;
    let id = socket.connect(to, config)?;
    Ok((socket, id))
}

fn secret() -> [u8; 16] {
    std::array::from_fn(|_| fastrand::u8(..))
}

pub(super) fn receive(at: SocketAddr, options: &Rudp, lasts: Duration) -> RoleResult<Tally> {
    let mut socket = listen(at, ordered(options))?;
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
pub(super) fn send(to: SocketAddr, options: &Rudp) -> RoleResult<()> {
    let (mut socket, id) = connect(to, ordered(options))?;
    loop {
        let event = socket.poll(SILENCE)?;
        if let Some((_, Event::Closed(reason))) = event {
            return Err(format!("closed: {reason:?}").into());
        }
        let Some(connection) = socket.connection(id) else {
            continue;
        };
        while connection.stats().queued_bytes < options.ahead_bytes {
            if connection.send(vec![7; MESSAGE_BYTES]).is_err() {
                break;
            }
        }
    }
}

/// The next event: waited for in the kernel, or by polling.
fn next(socket: &mut Socket, spins: bool) -> RoleResult<(ConnectionId, Event)> {
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
pub(super) fn echo(at: SocketAddr, options: &Rudp) -> RoleResult<()> {
    answer(listen(at, unordered(options))?, false)
}

/// The same, where one message is in flight at a time.
pub(super) fn echo_one(at: SocketAddr, options: &Rudp, spins: bool) -> RoleResult<()> {
    let mut socket = listen(at, unordered(options))?;
    socket.favour_latency()?;
    answer(socket, spins)
}

fn answer(mut socket: Socket, spins: bool) -> RoleResult<()> {
    loop {
        if let (id, Event::Message(message)) = next(&mut socket, spins)?
            && let Some(connection) = socket.connection(id)
        {
            connection.send(message)?;
        }
    }
}

/// How long each round trip takes, one after the other.
pub(super) fn ping(
    to: SocketAddr,
    options: &Rudp,
    bytes: usize,
    count: usize,
    spins: bool,
) -> RoleResult<Vec<Duration>> {
    let (mut socket, id) = connect(to, unordered(options))?;
    socket.favour_latency()?;
    let mut took = Vec::with_capacity(WARM_UP + count);
    let mut sent = Instant::now();
    while took.len() < WARM_UP + count {
        let (_, event) = next(&mut socket, spins)?;
        match event {
            Event::Message(reply) if reply.len() == bytes => took.push(sent.elapsed()),
            Event::Message(reply) => return Err(format!("{} bytes came", reply.len()).into()),
            Event::Closed(reason) => return Err(format!("closed: {reason:?}").into()),
            Event::Connected => {}
            // Of the request: its reply is what counts.
            Event::Acknowledged(_) | Event::Undeliverable(_) => continue,
        }
        if let Some(connection) = socket.connection(id) {
            sent = Instant::now();
            connection.send(vec![7; bytes])?;
        }
    }
    Ok(took)
}

/// How long each of `count` round trips takes, of which so many are in flight.
pub(super) fn ping_many(
    to: SocketAddr,
    options: &Rudp,
    bytes: usize,
    in_flight: usize,
    count: usize,
) -> RoleResult<Vec<Duration>> {
    let (mut socket, id) = connect(to, unordered(options))?;
    let (mut sent, mut took) = (Vec::with_capacity(count), Vec::with_capacity(count));
    while took.len() < count {
        let (_, event) = socket.poll(SILENCE)?.ok_or("nobody answers")?;
        let more = match event {
            Event::Connected => in_flight,
            Event::Message(reply) => {
                let which = reply.first_chunk().map(|which| u32::from_be_bytes(*which));
                let then: &Instant = which
                    .and_then(|which| sent.get(which as usize))
                    .ok_or("a reply to nothing came")?;
                took.push(then.elapsed());
                1
            }
            Event::Closed(reason) => return Err(format!("closed: {reason:?}").into()),
            Event::Acknowledged(_) | Event::Undeliverable(_) => 0,
        };
        let connection = socket.connection(id).ok_or("it is gone")?;
        for _ in 0..more.min(count - sent.len()) {
            let mut message = vec![7; bytes];
            message[..4].copy_from_slice(&(sent.len() as u32).to_be_bytes());
            sent.push(Instant::now());
            connection.send(message)?;
        }
    }
    Ok(took)
}
