//! Messages over a socket: TCP, UDP, or a Unix stream.
//!
//! Datagrams are sent to an address, as servers send them: the kernel looks up the route of each. Both
//! sockets are connected nevertheless, so that the kernel drops what strangers send.
//!
//! Source: tcp(7), udp(7), unix(7), socket(7) on `SO_RCVTIMEO` and `SO_SNDTIMEO`, recv(2) on
//! `MSG_DONTWAIT` and `MSG_TRUNC`.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use rustix::net::{RecvFlags, SendFlags, SocketAddrAny, recv, recvfrom, send, sendto, sockopt};

use super::{Channel, Channels, Messages, RTO_ROUND_TRIPS, TryReceive, Wait};
use crate::progress::{POLL_INTERVAL, STALLED, no_answer};
use crate::rendezvous::{self, Address, Flow, Listener, Over, Token, only};
use costof_os::net::socket::{is_passing, receive_within};

/// How many polls a spinning receive makes instead of waiting for one [`POLL_INTERVAL`].
pub(super) const SPINS_PER_POLL: u32 = 100_000;
/// How many poll intervals the rest of a message may take once it has begun to arrive.
const MAX_POLLS: u32 = 200;
/// The minimum retransmission timeout, as Linux has it for TCP.
const MIN_RTO: Duration = Duration::from_millis(200);

/// One end of a connection, or of datagrams between two ends that know each other.
#[derive(Debug)]
pub struct Socket {
    socket: OwnedFd,
    pub(super) over: Over,
    /// Where datagrams go to, and come from.
    peer: Option<SocketAddrAny>,
    pub(super) wait: Wait,
    token: Token,
    /// The round-trip time of the rendezvous.
    round_trip: Duration,
    /// How much of a message [`Socket::try_send`] has sent, and a non-blocking receive has received.
    sent: usize,
    received: usize,
}

impl Socket {
    /// Waits for the client of a listener of one flow, which sends the token, and sends it back.
    ///
    /// # Errors
    ///
    /// Those of [`Listener::accept`].
    pub fn accept(listener: &Listener, wait: Wait, stop: &AtomicBool) -> io::Result<Self> {
        let flow = only(listener.accept(stop)?);
        let socket = Self::new(flow, wait)?;
        socket.token.send(&socket.socket)?;
        Ok(socket)
    }

    /// Connects to a listener: sends the token, and waits until it comes back.
    ///
    /// # Errors
    ///
    /// Those of [`rendezvous::connect`].
    pub fn connect(over: Over, address: &Address, wait: Wait, token: &[u8]) -> io::Result<Self> {
        let flow = only(rendezvous::connect(over, address, 1, token)?);
        Self::new(flow, wait)
    }

    /// A server and its client, both in this process.
    ///
    /// # Errors
    ///
    /// Those of [`Listener::open`], [`Socket::connect`] and [`Socket::accept`].
    pub fn pair(over: Over, address: IpAddr, wait: Wait, token: &[u8]) -> io::Result<(Self, Self)> {
        let listener = Listener::open(over, (address, 0), (0, 0), 1, token)?;
        let address = listener.address()?;
        let stop = AtomicBool::new(false);
        let (server, client) = thread::scope(|scope| {
            let server = scope.spawn(|| Self::accept(&listener, wait, &stop));
            let client = Self::connect(over, &address, wait, token);
            // Without a client, nobody else connects.
            stop.store(client.is_err(), Ordering::Relaxed);
            (server.join().expect("it does not panic"), client)
        });
        Ok((server?, client?))
    }

    fn new(flow: Flow, wait: Wait) -> io::Result<Self> {
        if let Some(peer) = &flow.peer {
            rendezvous::connect_only_to(&flow.socket, peer)?;
        }
        receive_within(&flow.socket, POLL_INTERVAL)?;
        sockopt::set_socket_timeout(&flow.socket, sockopt::Timeout::Send, Some(STALLED))?;
        Ok(Self {
            round_trip: flow.round_trip,
            over: flow.over,
            peer: flow.peer.map(SocketAddrAny::from),
            socket: flow.socket,
            wait,
            token: flow.token,
            sent: 0,
            received: 0,
        })
    }

    /// The peer's address; `None` for a Unix socket.
    ///
    /// # Errors
    ///
    /// The errors of getpeername(2).
    pub fn peer(&self) -> io::Result<Option<SocketAddr>> {
        let address = match &self.peer {
            Some(address) => Some(address.clone()),
            None => rustix::net::getpeername(&self.socket)?,
        };
        Ok(address.and_then(|address| SocketAddr::try_from(address).ok()))
    }

    /// Sends as much of a message as possible without waiting; true when all of it is sent.
    ///
    /// # Errors
    ///
    /// The errors of send(2).
    #[inline]
    pub fn try_send(&mut self, message: &[u8]) -> io::Result<bool> {
        match self.send_part(&message[self.sent..], SendFlags::DONTWAIT) {
            Ok(more) => self.sent += more,
            Err(error) if is_passing(&error) => {}
            Err(error) => return Err(error),
        }
        let all = self.sent >= message.len();
        if all {
            self.sent = 0;
        }
        Ok(all)
    }

    /// Sends all of these bytes.
    #[inline]
    pub(super) fn send_all(&self, message: &[u8]) -> io::Result<()> {
        let mut sent = 0;
        loop {
            match self.send_part(&message[sent..], SendFlags::empty()) {
                Ok(more) => sent += more,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if is_passing(&error) => return Err(no_answer()),
                Err(error) => return Err(error),
            }
            if sent >= message.len() {
                return Ok(());
            }
        }
    }

    /// How a datagram belongs to the rendezvous, if it does: an empty one is the client's end, which is an
    /// error; a token whose answer was lost is answered again.
    pub(super) fn of_rendezvous(&self, datagram: &[u8]) -> Option<io::Result<Vec<u8>>> {
        if !self.token.is_server || !self.over.is_datagrams() {
            None
        } else if datagram.is_empty() {
            Some(Err(ErrorKind::UnexpectedEof.into()))
        } else {
            self.token.is(datagram, datagram.len()).then(|| Ok(self.token.bytes.to_vec()))
        }
    }

    /// Sends more of a message, with one system call. Returns how many bytes.
    #[inline]
    fn send_part(&self, part: &[u8], flags: SendFlags) -> io::Result<usize> {
        // No signal if nobody receives.
        let flags = flags | SendFlags::NOSIGNAL;
        Ok(match &self.peer {
            Some(peer) => sendto(&self.socket, part, flags, peer)?,
            None => send(&self.socket, part, flags)?,
        })
    }

    /// Receives more of a message, from `received` on, with one system call. Returns how many bytes; 0 for a
    /// datagram that is not a message.
    #[inline]
    fn receive_part(
        &self,
        message: &mut [u8],
        received: usize,
        flags: RecvFlags,
    ) -> io::Result<usize> {
        let Some(peer) = &self.peer else {
            return match recv(&self.socket, &mut message[received..], flags)?.1 {
                0 => Err(ErrorKind::UnexpectedEof.into()),
                more => Ok(more),
            };
        };
        // The true length of a datagram that is too long.
        let flags = flags | RecvFlags::TRUNC;
        let (_, length, from) = recvfrom(&self.socket, &mut *message, flags)?;
        if from.as_ref() != Some(peer) {
            return Ok(0);
        }
        if !self.token.is_server {
            return Ok(if length == message.len() { length } else { 0 });
        }
        let shown = length.min(message.len());
        if self.token.is(&message[..shown], length) {
            // The client has not received the answer to its token.
            self.token.send(&self.socket)?;
            return Ok(0);
        }
        if length == message.len() {
            return Ok(length);
        }
        // This is how a client ends.
        if length == 0 { Err(ErrorKind::UnexpectedEof.into()) } else { Ok(0) }
    }
}

impl Channels for Socket {
    type Client = Socket;
    type Server = Socket;

    fn connect(address: &Address, token: &[u8], messages: &Messages) -> io::Result<Socket> {
        Socket::connect(messages.over, address, messages.wait, token)
    }

    fn accept(listener: &Listener, messages: &Messages, stop: &AtomicBool) -> io::Result<Socket> {
        Socket::accept(listener, messages.wait, stop)
    }
}

impl Channel for Socket {
    #[inline]
    fn send(&mut self, message: &mut Vec<u8>) -> io::Result<()> {
        self.send_all(message)
    }

    #[inline]
    fn receive(&mut self, message: &mut Vec<u8>) -> io::Result<bool> {
        let flags = match self.wait {
            Wait::Block => RecvFlags::empty(),
            Wait::Spin => RecvFlags::DONTWAIT,
        };
        receive_whole(message, self.wait, |message, received| {
            self.receive_part(message, received, flags)
        })
    }

    /// For datagrams; TCP retransmits by itself.
    fn initial_rto(&self) -> Option<Duration> {
        let rto = MIN_RTO.max(RTO_ROUND_TRIPS * self.round_trip);
        (self.over.is_datagrams()).then_some(rto)
    }
}

impl TryReceive for Socket {
    /// Receives what has arrived of a message; true when all of it has.
    #[inline]
    fn try_receive(&mut self, message: &mut Vec<u8>) -> io::Result<bool> {
        match self.receive_part(message, self.received, RecvFlags::DONTWAIT) {
            Ok(more) => self.received += more,
            Err(error) if is_passing(&error) => {}
            Err(error) => return Err(error),
        }
        let all = self.received == message.len();
        if all {
            self.received = 0;
        }
        Ok(all)
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        if !self.token.is_server && self.over.is_datagrams() {
            // If it is lost, the server is stopped all the same.
            let _ = self.send_part(&[], SendFlags::DONTWAIT);
        }
    }
}

/// Receives a message of the buffer's size, by calls that each receive a part of it and return 0 if what
/// arrived is not one. False if nothing has arrived for a while.
#[inline]
pub(super) fn receive_whole(
    message: &mut [u8],
    wait: Wait,
    mut receive_part: impl FnMut(&mut [u8], usize) -> io::Result<usize>,
) -> io::Result<bool> {
    let mut received = 0;
    let mut spins = 0;
    let mut polls = 0;
    loop {
        match receive_part(message, received) {
            Ok(more @ 1..) => received += more,
            Err(error) if !is_passing(&error) => return Err(error),
            // Nothing, or a datagram that is not a message, of which there may be many.
            _ => {
                spins += 1;
                if wait == Wait::Spin && spins < SPINS_PER_POLL {
                    continue;
                }
                if received == 0 {
                    return Ok(false);
                }
                // Waits for the rest of what has begun to arrive.
                spins = 0;
                polls += 1;
                if polls == MAX_POLLS {
                    return Err(ErrorKind::TimedOut.into());
                }
            }
        }
        if received == message.len() {
            return Ok(true);
        }
    }
}

#[cfg(test)]
mod tests;
