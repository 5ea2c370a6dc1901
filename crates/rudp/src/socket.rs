//! An [`Endpoint`] over a UDP socket of this machine, driven by the thread that
//! calls it.
//!
//! The clock is read once for each batch of datagrams. Batches leave and arrive in one
//! system call where the kernel can do that (`UDP_SEGMENT` since Linux 4.18, `UDP_GRO`
//! since 5.0). Waiting happens within the call that receives, so that a message and its
//! answer cost each end one call to send and one to receive. Packets are marked ECT(0), and
//! the marks of queues that fill are read (ECN). Where round trips matter more than batches and
//! marks, [`Socket::favour_latency`] does without. It never starts a thread.
//!
//! ```
//! use rudp::socket::Socket;
//! use rudp::{Accept, Config, Event};
//! use std::time::Duration;
//!
//! let mut server = Socket::bind("127.0.0.1:0".parse()?, [1; 16], Some(Accept::default()))?;
//! let to = server.local_addr()?;
//! let echo = std::thread::spawn(move || {
//!     while let Ok(Some((id, event))) = server.poll(Some(Duration::from_secs(5))) {
//!         match (event, server.connection(id)) {
//!             (Event::Message(message), Some(connection)) => {
//!                 connection.send(message).expect("there is room for one");
//!             }
//!             (Event::Closed(_), _) => return,
//!             _ => {}
//!         }
//!     }
//! });
//! let mut client = Socket::bind("127.0.0.1:0".parse()?, [2; 16], None)?;
//! client.connect(to, Config::default())?;
//! let mut received = None;
//! while let Some((id, event)) = client.poll(Some(Duration::from_secs(5)))? {
//!     let now = client.now();
//!     match (event, client.connection(id)) {
//!         (Event::Connected, Some(connection)) => {
//!             connection.send(b"hello".to_vec())?;
//!         }
//!         (Event::Message(message), Some(connection)) => {
//!             received = Some(message);
//!             connection.close(now);
//!         }
//!         (Event::Closed(_), _) => break,
//!         _ => {}
//!     }
//! }
//! assert_eq!(received.as_deref(), Some(&b"hello"[..]));
//! echo.join().expect("it does not panic");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod options;
mod receive;

use crate::admission::Accept;
use crate::config::{Config, ConfigError};
use crate::connection::{Connection, Transmit};
use crate::ecn::Ecn;
use crate::endpoint::{ConnectionId, Endpoint};
use crate::event::Event;
use crate::time::{Time, earliest};
use nix::cmsg_space;
use quinn_udp::{EcnCodepoint, UdpSockRef, UdpSocketState};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};
use thiserror::Error;

/// An endpoint and the socket that it uses.
#[derive(Debug)]
pub struct Socket {
    endpoint: Endpoint,
    socket: UdpSocket,
    state: UdpSocketState,
    began: Instant,
    /// The address that it is connected to, if any.
    peer: Option<SocketAddr>,
    /// The ECN codepoint of datagrams that leave alone.
    ecn: Option<Ecn>,
    outgoing: Vec<u8>,
    /// What is in `outgoing`, while the socket's buffer is full.
    unsent: Option<Transmit>,
    incoming: Vec<u8>,
    /// For what the kernel reports of a batch.
    control: Vec<u8>,
    favours_latency: bool,
    /// Events delivered since datagrams were received.
    events: u32,
    refused: u64,
    dropped_datagrams: u32,
}

/// Why there is no socket.
#[derive(Debug, Error)]
pub enum BindError {
    /// The configuration for accepted connections is not sound.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The system refused.
    #[error("cannot open a UDP socket at {address}: {source}")]
    Io {
        /// Where it was to be.
        address: SocketAddr,
        /// Why not.
        source: io::Error,
    },
}

/// The size of the receive buffer: the largest batch that the kernel joins.
const BUFFER_BYTES: usize = 1 << 16;
/// Timers that are nearer are waited for exactly.
const EXACT_BELOW: Duration = Duration::from_millis(5);
/// The longest batch to be sent; its headers and it are less than 64 KiB together.
const MAX_SEND_BYTES: usize = 65_000;
/// After so many events it is the datagrams' turn.
const MAX_EVENTS: u32 = 64;
/// Stands for the address of a socket that does not report its own.
const UNKNOWN_ADDRESS: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);

impl Socket {
    /// A socket at this address (port 0: any that is free), and an endpoint as
    /// [`Endpoint::new`] makes it.
    ///
    /// # Errors
    ///
    /// [`BindError`]: what is wrong with the configuration or the address.
    pub fn bind(
        address: SocketAddr,
        secret: [u8; 16],
        accept: Option<Accept>,
    ) -> Result<Socket, BindError> {
        let socket =
            UdpSocket::bind(address).map_err(|source| BindError::Io { address, source })?;
        Socket::over(socket, secret, accept)
    }

    /// The same over a socket that is open: one that is bound, or connected to the one other end
    /// that it receives from. What a connected one received counts as that end's, even from before it was
    /// connected.
    ///
    /// # Errors
    ///
    /// [`BindError`]: what is wrong with the configuration or the socket.
    pub fn over(
        socket: UdpSocket,
        secret: [u8; 16],
        accept: Option<Accept>,
    ) -> Result<Socket, BindError> {
        let endpoint = Endpoint::new(secret, accept)?;
        let state = options::set_up(&socket).map_err(|source| BindError::Io {
            address: socket.local_addr().unwrap_or(UNKNOWN_ADDRESS),
            source,
        })?;
        Ok(Socket {
            endpoint,
            peer: socket.peer_addr().ok(),
            socket,
            state,
            ecn: None,
            began: Instant::now(),
            outgoing: Vec::with_capacity(BUFFER_BYTES),
            unsent: None,
            incoming: vec![0; BUFFER_BYTES],
            control: cmsg_space!(i32, i32, i32, u32),
            favours_latency: false,
            events: 0,
            refused: 0,
            dropped_datagrams: 0,
        })
    }

    /// For questions and answers of which few are in flight: from now on takes each datagram by
    /// itself and without what the kernel says of it, which spares a round trip up to a microsecond.
    /// Batches are not joined for this end any more, which then costs more for each datagram; the marks
    /// of queues on the way to it are not read, so that the other end stops to mark; and
    /// [`Socket::dropped`] does not count on. To be called before messages come: a batch that is
    /// joined already is lost.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub fn favour_latency(&mut self) -> io::Result<()> {
        options::disable_reports(&self.socket)?;
        self.favours_latency = true;
        Ok(())
    }

    /// Where it is.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Begins to connect, as [`Endpoint::connect`] does.
    ///
    /// # Errors
    ///
    /// [`ConfigError`]: what is wrong with the configuration.
    pub fn connect(&mut self, to: SocketAddr, config: Config) -> Result<ConnectionId, ConfigError> {
        let now = self.now();
        self.endpoint.connect(now, to, config)
    }

    /// The connection, if it has not ended and been reported as closed. What it is given to
    /// send leaves in the next [`Socket::poll`].
    pub fn connection(&mut self, id: ConnectionId) -> Option<&mut Connection> {
        self.endpoint.connection(id)
    }

    /// The time, as connections count it.
    pub fn now(&self) -> Time {
        Time::default() + self.began.elapsed()
    }

    /// How many batches of datagrams the system refused to send; for the other end they are
    /// lost.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// How many datagrams the system dropped because this socket's buffer was full, as far as
    /// a datagram received later reported it (`SO_RXQ_OVFL`, Linux 2.6.33). The other end considers
    /// them lost, but no link lost them. It begins again at 0 after 2^32.
    pub fn dropped(&self) -> u32 {
        self.dropped_datagrams
    }

    /// Sends and receives until something happens, at most so long (`None`: until then).
    /// `None` says that the time is over. What is to be sent in reply, acknowledgements among it,
    /// leaves in the next call, together with what the caller sends then.
    ///
    /// # Errors
    ///
    /// What the system says of the socket itself. What it says of a datagram is taken for
    /// its loss.
    pub fn poll(&mut self, wait: Option<Duration>) -> io::Result<Option<(ConnectionId, Event)>> {
        let mut until = None;
        let mut has_received = false;
        // Reading the clock takes a tenth of what a datagram does: the time is known while nothing took any.
        let mut known = None;
        loop {
            let may_deliver = self.events < MAX_EVENTS;
            if may_deliver && let Some(event) = self.endpoint.poll_ready_event() {
                return self.deliver(event).map(Some);
            }
            // Before anything else is processed, so that an answer does not wait for it.
            if self.unsent.is_some() || self.endpoint.has_transmits() {
                self.transmit(self.now())?;
                // An answer must not seem to have come before it was sent.
                known = None;
            }
            if may_deliver && let Some(event) = self.endpoint.poll_event() {
                return self.deliver(event).map(Some);
            }
            self.events = 0;
            let now = known.unwrap_or_else(|| self.now());
            if until.is_none() {
                until = Some(wait.map(|wait| now + wait));
            }
            let until = until.flatten();
            let is_over = until.is_some_and(|until| until <= now);
            // Also while something comes that is no event.
            if has_received && may_deliver && is_over {
                return Ok(None);
            }
            let mut next = self.endpoint.poll_timeout();
            if !is_over && next.is_some_and(|at| at.since(now) < EXACT_BELOW) {
                next = self.endpoint.poll_timeout_exact();
            }
            // In the order in which they happened: an event, a datagram, then the end of the time.
            let idle_until = if may_deliver {
                earliest([until, next])
            } else {
                Some(now)
            };
            let later = self.receive(now, idle_until)?;
            has_received = true;
            if next.is_some_and(|at| at <= later) {
                self.endpoint.handle_timeout(later);
            }
            // Where the time is over, nothing more is timed by it.
            known = (later > now || is_over).then_some(later);
        }
    }

    fn deliver(&mut self, event: (ConnectionId, Event)) -> io::Result<(ConnectionId, Event)> {
        self.events += 1;
        if let (_, Event::Closed(_)) = event {
            // The caller may stop polling then, and the other end is to learn of it too.
            self.transmit(self.now())?;
        }
        Ok(event)
    }

    fn transmit(&mut self, now: Time) -> io::Result<()> {
        let segments = self.state.max_gso_segments();
        loop {
            let unsent = self.unsent.take().or_else(|| {
                self.endpoint
                    .poll_transmit(now, segments, MAX_SEND_BYTES, &mut self.outgoing)
            });
            let Some(transmit) = unsent else {
                return Ok(());
            };
            match self.send(&transmit) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.unsent = Some(transmit);
                    return Ok(());
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {
                    self.unsent = Some(transmit);
                }
                // A full queue, no route, a datagram too long for the path: a lost one.
                Err(_) => self.refused += 1,
            }
        }
    }

    fn send(&mut self, transmit: &Transmit) -> io::Result<()> {
        if self.outgoing.len() > transmit.datagram_bytes {
            let ecn = transmit
                .ecn
                .and_then(|ecn| EcnCodepoint::from_bits(ecn.bits()));
            let batch = quinn_udp::Transmit {
                destination: transmit.to,
                ecn,
                contents: &self.outgoing,
                segment_size: Some(transmit.datagram_bytes),
                src_ip: None,
            };
            return self.state.try_send(UdpSockRef::from(&self.socket), &batch);
        }
        // One by itself costs a tenth less without what a batch says of itself.
        if self.ecn != transmit.ecn {
            options::set_ecn(&self.socket, transmit.ecn)?;
            self.ecn = transmit.ecn;
        }
        match self.peer {
            Some(peer) if peer == transmit.to => self.socket.send(&self.outgoing),
            _ => self.socket.send_to(&self.outgoing, transmit.to),
        }
        .map(drop)
    }
}
