//! The library `rudp`: messages over one of its connections, driven by its own socket.
//!
//! [`Rudp`] sends and receives messages, [`connect`] and [`accepting`] are for ends that drive the
//! library's socket in their own way, and [`stamped`] drives its protocol over stamped datagrams.

pub mod stamped;
pub mod stream;

use std::io::{self, ErrorKind};
use std::net::UdpSocket;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use rudp::socket::Socket;
use rudp::{Accept, Config, Connection, ConnectionId, Event, Reason};

use super::{Channel, Channels, IDLE_TIMEOUT, Messages, Wait};
use crate::progress::POLL_INTERVAL;
use crate::rendezvous::{Address, Listener, TIMEOUT, check_wanted, datagrams};
use costof_os::net::socket::DATAGRAM_MAX_BYTES;
use costof_os::random;

/// How many polls a spinning receive makes instead of waiting for one [`POLL_INTERVAL`].
const SPINS_PER_POLL: u32 = 10_000;
/// How many unread events may be left at the end.
const MAX_EVENTS_LEFT: u32 = 1 << 16;

/// One end of a connection of the library.
pub struct Rudp {
    socket: Socket,
    id: ConnectionId,
    wait: Wait,
    is_client: bool,
}

impl Channels for Rudp {
    type Client = Rudp;
    type Server = Rudp;

    fn connect(address: &Address, token: &[u8], messages: &Messages) -> io::Result<Rudp> {
        let config = config(messages.size, messages.long_datagrams);
        let is_single = is_single(&config);
        let (socket, _) = datagrams::connect(address, token)?;
        let (mut socket, id) = connect(socket, config)?;
        set_up(&mut socket, is_single)?;
        Ok(Self { socket, id, wait: messages.wait, is_client: true })
    }

    fn accept(listener: &Listener, messages: &Messages, stop: &AtomicBool) -> io::Result<Rudp> {
        let config = config(messages.size, messages.long_datagrams);
        let is_single = is_single(&config);
        let socket = datagrams::accept(listener, stop)?;
        let mut socket = accepting(socket, config)?;
        set_up(&mut socket, is_single)?;
        let until = Instant::now() + TIMEOUT;
        loop {
            check_wanted(stop, until)?;
            if let Some((id, Event::Connected)) = socket.poll(Some(POLL_INTERVAL))? {
                return Ok(Self { socket, id, wait: messages.wait, is_client: false });
            }
        }
    }
}

/// The configuration for messages up to this size, one at a time, in datagrams as long as UDP allows, or else
/// as long as Ethernet carries.
pub fn config(message_bytes: usize, long_datagrams: bool) -> Config {
    /// Messages in flight to an end that rudp buffers, besides a minimum in bytes: messages are
    /// small and many.
    const WINDOW_MESSAGES: u64 = 2;
    const MIN_WINDOW_BYTES: u64 = 1 << 20;
    let defaults = Config::default();
    Config {
        datagram_bytes: match long_datagrams {
            true => DATAGRAM_MAX_BYTES,
            false => defaults.datagram_bytes,
        },
        message_bytes,
        window_bytes: MIN_WINDOW_BYTES.max(WINDOW_MESSAGES * message_bytes as u64),
        idle_timeout: IDLE_TIMEOUT,
        ..defaults
    }
}

impl Rudp {
    /// The next event of the connection. `None` if nothing has happened for a while.
    #[inline]
    fn next(&mut self) -> io::Result<Option<Event>> {
        let (time, polls) = match self.wait {
            Wait::Block => (POLL_INTERVAL, 1),
            Wait::Spin => (Duration::ZERO, SPINS_PER_POLL),
        };
        for _ in 0..polls {
            match self.socket.poll(Some(time))? {
                Some((_, Event::Closed(reason))) => return Err(closed(reason)),
                Some((_, event)) => return Ok(Some(event)),
                None => {}
            }
        }
        Ok(None)
    }
}

impl Channel for Rudp {
    /// Takes a message; the next [`Channel::receive`] sends it.
    #[inline]
    fn send(&mut self, message: &mut Vec<u8>) -> io::Result<()> {
        let connection = self.socket.connection(self.id);
        send_by(connection, message)
    }

    #[inline]
    fn receive(&mut self, message: &mut Vec<u8>) -> io::Result<bool> {
        receive_among(|| self.next(), message)
    }

    /// The connection notices an end that has gone.
    fn answer_timeout(&self) -> Duration {
        Duration::MAX
    }

    fn retransmissions(&mut self) -> u64 {
        self.socket.connection(self.id).map_or(0, |connection| {
            let stats = connection.stats();
            stats.packets_lost + stats.probe_timeouts
        })
    }
}

impl Drop for Rudp {
    fn drop(&mut self) {
        if !self.is_client {
            return;
        }
        let now = self.socket.now();
        if let Some(connection) = self.socket.connection(self.id) {
            // If it is lost, the server is stopped all the same.
            connection.abort(now, 0);
            // It leaves before the last event is reported.
            for _ in 0..MAX_EVENTS_LEFT {
                match self.socket.poll(Some(Duration::ZERO)) {
                    Ok(Some((_, Event::Closed(_)))) => break,
                    Ok(Some(_)) => {}
                    _ => break,
                }
            }
        }
    }
}

/// The library's end of a socket whose peer connects.
///
/// # Errors
///
/// The system's error about the socket.
pub fn accepting(socket: UdpSocket, config: Config) -> io::Result<Socket> {
    Socket::over(socket, random::bytes()?, Some(accept_one(config))).map_err(io::Error::other)
}

/// Connects a socket to its peer, which accepts.
///
/// # Errors
///
/// `TimedOut` if the peer does not answer in time; the system's errors.
pub fn connect(socket: UdpSocket, config: Config) -> io::Result<(Socket, ConnectionId)> {
    let to = socket.peer_addr()?;
    let mut socket = Socket::over(socket, random::bytes()?, None).map_err(io::Error::other)?;
    let id = socket.connect(to, config).map_err(io::Error::other)?;
    let until = Instant::now() + TIMEOUT;
    while Instant::now() < until {
        match socket.poll(Some(POLL_INTERVAL))? {
            Some((_, Event::Connected)) => return Ok((socket, id)),
            Some((_, Event::Closed(reason))) => return Err(closed(reason)),
            _ => {}
        }
    }
    Err(ErrorKind::TimedOut.into())
}

/// How a connection has ended: `TimedOut` if the peer was silent for too long, otherwise `UnexpectedEof`.
pub fn closed(reason: Reason) -> io::Error {
    let (kind, why) = match reason {
        Reason::TimedOut => (ErrorKind::TimedOut, "the other end was silent for too long"),
        Reason::Finished => (ErrorKind::UnexpectedEof, "the other end closed it"),
        Reason::Aborted => (ErrorKind::UnexpectedEof, "this end aborted it"),
        Reason::AbortedByPeer { .. } => (ErrorKind::UnexpectedEof, "the other end aborted it"),
    };
    io::Error::new(kind, format!("the connection has ended: {why}"))
}

fn accept_one(config: Config) -> Accept {
    Accept { config, connections: 1, connections_per_address: 1 }
}

#[inline]
fn send_by(connection: Option<&mut Connection>, message: &mut Vec<u8>) -> io::Result<()> {
    let connection = connection.ok_or(ErrorKind::UnexpectedEof)?;
    let sent = connection.send(std::mem::take(message));
    sent.map(drop).map_err(io::Error::other)
}

/// Receives the next message among a connection's events, some of which report acknowledgements.
#[inline]
fn receive_among(
    mut next: impl FnMut() -> io::Result<Option<Event>>,
    message: &mut Vec<u8>,
) -> io::Result<bool> {
    loop {
        match next()? {
            Some(Event::Message(received)) => {
                *message = received;
                return Ok(true);
            }
            Some(_) => {}
            None => return Ok(false),
        }
    }
}

/// Whether a datagram holds even the longest message, so that none arrives in a batch.
fn is_single(config: &Config) -> bool {
    /// More than the headers around a message take.
    const AROUND: usize = 128;
    config.message_bytes + AROUND <= config.datagram_bytes
}

fn set_up(socket: &mut Socket, is_single: bool) -> io::Result<()> {
    if is_single {
        socket.favour_latency()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
