//! An [`Endpoint`] over a UDP socket of this machine, driven by the thread that
//! calls it.
//!
//! The clock is read once for each batch of datagrams. Batches leave and arrive in one system call
//! if the kernel supports that (`UDP_SEGMENT` since Linux 4.18, `UDP_GRO` since 5.0). The call that
//! receives also waits, so a message and its answer cost each end one call to send and one to
//! receive. If round trips matter more than batches, [`Socket::favour_latency`] does without these.
//! This module never starts a thread.
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
use crate::endpoint::{ConnectionId, Endpoint};
use crate::event::Event;
use crate::time::{Time, earliest};
use nix::cmsg_space;
use quinn_udp::{UdpSockRef, UdpSocketState};
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
    outgoing: Vec<u8>,
    /// What is in `outgoing`, while the socket's send buffer is full.
    unsent: Option<Transmit>,
    incoming: Vec<u8>,
    /// For the control messages of a batch.
    control: Vec<u8>,
    favours_latency: bool,
    /// Events delivered since the last datagrams were received.
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
    /// The system refused it.
    #[error("cannot open a UDP socket at {address}: {source}")]
    Io {
        /// The address to bind to.
        address: SocketAddr,
        /// The error.
        source: io::Error,
    },
}

/// The size of the receive buffer: the largest batch that the kernel joins.
const BUFFER_BYTES: usize = 1 << 16;
/// Shorter waits are timed exactly.
const EXACT_BELOW: Duration = Duration::from_millis(5);
/// The longest batch to send: together with its headers it is shorter than 64 KiB.
const MAX_SEND_BYTES: usize = 65_000;
/// After this many events, datagrams are received again.
const MAX_EVENTS: u32 = 64;
/// The address of a socket that does not report its own.
const UNKNOWN_ADDRESS: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);

impl Socket {
    /// Binds a socket to this address (port 0: any free port), with an endpoint as
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

    /// The same with an existing socket: bound, or connected to the only other end that it receives
    /// from. Everything that a connected socket received counts as that end's, even what came
    /// before it was connected.
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
            began: Instant::now(),
            outgoing: Vec::with_capacity(BUFFER_BYTES),
            unsent: None,
            incoming: vec![0; BUFFER_BYTES],
            control: cmsg_space!(i32, u32),
            favours_latency: false,
            events: 0,
            refused: 0,
            dropped_datagrams: 0,
        })
    }

    /// For requests and replies with few in flight: receives each datagram singly and without
    /// control messages, which saves up to a microsecond per round trip. The kernel then no longer
    /// joins datagrams for this end, so each datagram costs more. [`Socket::dropped`] no longer
    /// increases. Call this before messages arrive: a batch that is already joined is lost.
    ///
    /// # Errors
    ///
    /// The system's error.
    pub fn favour_latency(&mut self) -> io::Result<()> {
        options::disable_reports(&self.socket)?;
        self.favours_latency = true;
        Ok(())
    }

    /// The local address.
    ///
    /// # Errors
    ///
    /// The system's error.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Starts to connect, as [`Endpoint::connect`] does.
    ///
    /// # Errors
    ///
    /// [`ConfigError`]: what is wrong with the configuration.
    pub fn connect(&mut self, to: SocketAddr, config: Config) -> Result<ConnectionId, ConfigError> {
        let now = self.now();
        self.endpoint.connect(now, to, config)
    }

    /// The connection, unless it has ended and was reported as closed. What the caller queues on it
    /// is sent in the next [`Socket::poll`].
    pub fn connection(&mut self, id: ConnectionId) -> Option<&mut Connection> {
        self.endpoint.connection(id)
    }

    /// The current time on the clock of the connections.
    pub fn now(&self) -> Time {
        Time::default() + self.began.elapsed()
    }

    /// How many batches of datagrams the system refused to send; to the other end they are lost.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// How many datagrams the system dropped because this socket's receive buffer was full, as
    /// reported with a later datagram (`SO_RXQ_OVFL`, Linux 2.6.33). The other end considers them
    /// lost, but no link lost them. The counter restarts at 0 after 2^32.
    pub fn dropped(&self) -> u32 {
        self.dropped_datagrams
    }

    /// Sends and receives until there is an event, or for at most `wait` (`None`: without limit).
    /// Returns `None` if the time is over. Replies, acknowledgements included, are sent in the next
    /// call, together with what the caller queues until then.
    ///
    /// # Errors
    ///
    /// The system's error about the socket itself. An error about a single datagram counts as the
    /// loss of that datagram.
    pub fn poll(&mut self, wait: Option<Duration>) -> io::Result<Option<(ConnectionId, Event)>> {
        let mut until = None;
        let mut has_received = false;
        // Reading the clock takes a tenth of the time of a datagram, so the last reading is used as
        // long as nothing took time.
        let mut known = None;
        loop {
            let may_deliver = self.events < MAX_EVENTS;
            if may_deliver && let Some(event) = self.endpoint.poll_ready_event() {
                return self.deliver(event).map(Some);
            }
            // Before anything else is processed, so that a reply does not wait for it.
            if self.unsent.is_some() || self.endpoint.has_transmits() {
                self.transmit(self.now())?;
                // A reply must not seem to arrive before the request was sent.
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
            // Even while datagrams arrive that cause no event.
            if has_received && may_deliver && is_over {
                return Ok(None);
            }
            let mut next = self.endpoint.poll_timeout();
            if !is_over && next.is_some_and(|at| at.since(now) < EXACT_BELOW) {
                next = self.endpoint.poll_timeout_exact();
            }
            // In the order in which they happened: an event, a datagram, then the timeout.
            let idle_until = if may_deliver { earliest([until, next]) } else { Some(now) };
            let later = self.receive(now, idle_until)?;
            has_received = true;
            if next.is_some_and(|at| at <= later) {
                self.endpoint.handle_timeout(later);
            }
            // If the time is over, nothing else is timed with it.
            known = (later > now || is_over).then_some(later);
        }
    }

    fn deliver(&mut self, event: (ConnectionId, Event)) -> io::Result<(ConnectionId, Event)> {
        self.events += 1;
        if let (_, Event::Closed(_)) = event {
            // The caller may stop polling then, and the other end must learn of it too.
            self.transmit(self.now())?;
        }
        Ok(event)
    }

    fn transmit(&mut self, now: Time) -> io::Result<()> {
        let segments = self.state.max_gso_segments();
        loop {
            let unsent = self.unsent.take().or_else(|| {
                self.endpoint.poll_transmit(now, segments, MAX_SEND_BYTES, &mut self.outgoing)
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
                // A full queue, no route, or a datagram too long for the path: the datagram is
                // lost.
                Err(_) => self.refused += 1,
            }
        }
    }

    fn send(&mut self, transmit: &Transmit) -> io::Result<()> {
        if self.outgoing.len() > transmit.datagram_bytes {
            let batch = quinn_udp::Transmit {
                destination: transmit.to,
                ecn: None,
                contents: &self.outgoing,
                segment_size: Some(transmit.datagram_bytes),
                src_ip: None,
            };
            return self.state.try_send(UdpSockRef::from(&self.socket), &batch);
        }
        // A single datagram costs a tenth less without the control messages of a batch.
        match self.peer {
            Some(peer) if peer == transmit.to => self.socket.send(&self.outgoing),
            _ => self.socket.send_to(&self.outgoing, transmit.to),
        }
        .map(drop)
    }
}
