//! The library `rudp` over its own driver.

use super::{LOOK, Received, Receives, Sends, Sent, WINDOW_BYTES};
use crate::rudp::ends::{self, closed};
use crate::rudp::incoming::Incoming;
use crate::rudp::outgoing::Outgoing;
use ::rudp::socket::Socket;
use ::rudp::{Config, ConnectionId, Control, Event, Stats};
use costof_os::net::socket::DATAGRAM_MOST_BYTES;
use costof_os::net::socket::dropped_datagrams;
use std::io::{self, ErrorKind};
use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// As many bytes wait to be sent at least, so that a batch can be made of them.
const QUEUED_LEAST: u64 = 4 << 20;

/// The longest message.
const MESSAGE_MOST: usize = 4 << 20;
/// More messages than those bytes can be.
const MESSAGES: u32 = 1 << 20;
/// As many are under way or wait at most: those of 64 B are then as many bytes as are to wait.
const UNDER_WAY_MOST: u64 = QUEUED_LEAST / 64;
/// After so many bytes the receiver looks at what the connection has counted: what comes later is
/// in no count, since the connection has ended when the transfer has.
const COUNT_BYTES: usize = 16 << 10;
/// As which the shortest message counts there.
const COUNT_LEAST: usize = COUNT_BYTES / 64;

pub(super) struct Sender {
    socket: Socket,
    id: ConnectionId,
    stats: Stats,
}

fn config(control: Control, datagram_bytes: usize) -> Config {
    let window = u64::from(WINDOW_BYTES);
    Config {
        control,
        datagram_bytes,
        message_bytes: MESSAGE_MOST,
        window_bytes: window,
        queue_bytes: window,
        window_messages: MESSAGES,
        queue_messages: MESSAGES,
        ..Config::default()
    }
}

impl Sender {
    /// # Errors
    /// Those of [`ends::connect`].
    pub(super) fn connect(
        socket: UdpSocket,
        control: Control,
        datagram_bytes: usize,
    ) -> io::Result<Sender> {
        let (socket, id) = ends::connect(socket, config(control, datagram_bytes))?;
        Ok(Sender {
            socket,
            id,
            stats: Stats::default(),
        })
    }

    /// Hands over as much as fits, where so many messages are acknowledged.
    fn fill(&mut self, outgoing: &mut Outgoing, acknowledged: u64) -> io::Result<()> {
        let connection = self
            .socket
            .connection(self.id)
            .ok_or(ErrorKind::UnexpectedEof)?;
        let stats = connection.stats();
        let mut room = QUEUED_LEAST
            .max(2 * stats.bytes_in_flight)
            .min(WINDOW_BYTES.into())
            .saturating_sub(stats.queued_bytes);
        let size = outgoing.size() as u64;
        // Of short ones, the number is what is limited.
        let most = acknowledged + UNDER_WAY_MOST;
        while room >= size
            && outgoing.given() < most
            && let Some(message) = outgoing.next()
        {
            connection
                .send(message.to_vec())
                .map_err(io::Error::other)?;
            room -= size;
        }
        Ok(())
    }
}

impl Sends for Sender {
    fn send(&mut self, outgoing: &mut Outgoing) -> io::Result<()> {
        let mut acknowledged = 0_u64;
        while !outgoing.is_over() {
            self.fill(outgoing, acknowledged)?;
            match self.socket.poll(Some(LOOK))? {
                Some((_, Event::Acknowledged(number))) => {
                    acknowledged += 1;
                    outgoing.arrived(number);
                    outgoing.note(acknowledged * outgoing.size() as u64);
                }
                Some((_, Event::Closed(reason))) => return Err(closed(reason)),
                Some(_) => {}
                None => outgoing.look(acknowledged * outgoing.size() as u64),
            }
        }
        let now = self.socket.now();
        if let Some(connection) = self.socket.connection(self.id) {
            self.stats = connection.stats();
            connection.abort(now, 0);
        }
        self.socket.poll(Some(Duration::ZERO)).map(drop)
    }

    fn counted(&self) -> io::Result<Sent> {
        let sent = self.stats.packets_sent;
        Ok(Sent {
            again: self.stats.packets_lost as f64 / sent.max(1) as f64,
            datagrams: Some(sent),
        })
    }
}

pub(super) struct Receiver {
    socket: Socket,
    /// The same socket, to ask what it dropped.
    asked: UdpSocket,
    stats: Stats,
}

impl Receiver {
    pub(super) fn new(socket: UdpSocket) -> io::Result<Receiver> {
        let asked = socket.try_clone()?;
        let config = config(Control::default(), DATAGRAM_MOST_BYTES);
        Ok(Receiver {
            socket: ends::accepting(socket, config)?,
            asked,
            stats: Stats::default(),
        })
    }
}

impl Receives for Receiver {
    fn receive(&mut self, incoming: &mut Incoming, stop: &AtomicBool) -> io::Result<()> {
        let (mut id, mut until_counted) = (None, 0_usize);
        while !stop.load(Ordering::Acquire) {
            match self.socket.poll(Some(LOOK))? {
                Some((_, Event::Message(message))) => {
                    incoming.take(&message, true)?;
                    until_counted = until_counted.saturating_sub(message.len().max(COUNT_LEAST));
                }
                Some((from, Event::Connected)) => id = Some(from),
                Some(_) => {}
                None => {
                    incoming.look();
                    until_counted = 0;
                }
            }
            // The connection will have ended when the receiver is stopped.
            if until_counted == 0
                && let Some(connection) = id.and_then(|id| self.socket.connection(id))
            {
                self.stats = connection.stats();
                until_counted = COUNT_BYTES;
            }
        }
        Ok(())
    }

    fn counted(&self) -> io::Result<Option<Received>> {
        Ok(Some(Received {
            datagrams: self.stats.packets_received + self.stats.packets_duplicate,
            dropped: dropped_datagrams(&self.asked)?.into(),
        }))
    }
}
