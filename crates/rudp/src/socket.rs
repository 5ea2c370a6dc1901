//! An [`Endpoint`] over a UDP socket of this machine, driven by the thread that
//! calls it.
//!
//! The clock is read once for each batch of datagrams. Batches leave and arrive in one
//! system call where the kernel can do that (`UDP_SEGMENT` since Linux 4.18, `UDP_GRO`
//! since 5.0). It never starts a thread.
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
//! let mut came = None;
//! while let Some((id, event)) = client.poll(Some(Duration::from_secs(5)))? {
//!     let now = client.now();
//!     match (event, client.connection(id)) {
//!         (Event::Connected, Some(connection)) => {
//!             connection.send(b"hello".to_vec())?;
//!         }
//!         (Event::Message(message), Some(connection)) => {
//!             came = Some(message);
//!             connection.close(now);
//!         }
//!         (Event::Closed(_), _) => break,
//!         _ => {}
//!     }
//! }
//! assert_eq!(came.as_deref(), Some(&b"hello"[..]));
//! echo.join().expect("it does not panic");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use crate::config::{Config, ConfigError};
use crate::connection::Connection;
use crate::endpoint::{Accept, ConnectionId, Endpoint, Transmit};
use crate::event::Event;
use crate::time::{Time, earliest};
use quinn_udp::{RecvMeta, UdpSockRef, UdpSocketState};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::{self, IoSliceMut};
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};
use thiserror::Error;

/// An endpoint and the socket that it uses.
#[derive(Debug)]
pub struct Socket {
    endpoint: Endpoint,
    socket: UdpSocket,
    state: UdpSocketState,
    began: Instant,
    outgoing: Vec<u8>,
    /// What is in `outgoing`, while the socket's buffer is full.
    unsent: Option<Transmit>,
    incoming: Vec<u8>,
    /// Events handed out since datagrams were looked at.
    events: u32,
    refused: u64,
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

/// What a receive buffer takes: the largest batch that the kernel joins.
const BUFFER: usize = 1 << 16;
/// How many such batches one system call fetches at most.
const BATCHES: usize = 8;
/// The longest batch to be sent; its headers and it are less than 64 KiB together.
const BATCH_BYTES: usize = 65_000;
/// What the socket's own buffers should hold; the system may give less.
const SOCKET_BUFFER: usize = 8 << 20;
/// After so many events datagrams have their turn.
const EVENTS_MAX: u32 = 64;

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
    /// that it is to hear.
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
        let set_up = || {
            let state = UdpSocketState::new(UdpSockRef::from(&socket))?;
            state.set_send_buffer_size(UdpSockRef::from(&socket), SOCKET_BUFFER)?;
            state.set_recv_buffer_size(UdpSockRef::from(&socket), SOCKET_BUFFER)?;
            Ok(state)
        };
        let state = set_up().map_err(|source| {
            let nowhere = SocketAddr::from(([0; 4], 0));
            BindError::Io {
                address: socket.local_addr().unwrap_or(nowhere),
                source,
            }
        })?;
        Ok(Socket {
            endpoint,
            socket,
            state,
            began: Instant::now(),
            outgoing: Vec::with_capacity(BUFFER),
            unsent: None,
            incoming: vec![0; BUFFER * BATCHES],
            events: 0,
            refused: 0,
        })
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

    /// The connection, if it has not ended and been reported as closed. What it is told to
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

    /// Sends and receives until something happens, at most so long (`None`: until then).
    /// `None` says that the time is over.
    ///
    /// # Errors
    ///
    /// What the system says of the socket itself. What it says of a datagram is taken for
    /// its loss.
    pub fn poll(&mut self, wait: Option<Duration>) -> io::Result<Option<(ConnectionId, Event)>> {
        let mut now = self.now();
        let until = wait.map(|wait| now + wait);
        loop {
            if self.events < EVENTS_MAX
                && let Some(event) = self.endpoint.poll_event()
            {
                self.events += 1;
                return Ok(Some(event));
            }
            self.events = 0;
            self.transmit(now)?;
            // Sending took its time: an answer must not seem to have come before it.
            now = self.now();
            let has_received = self.receive(now)?;
            if has_received {
                // Before the caller hears of it, who may go away then, the other end does.
                self.transmit(now)?;
            }
            if self.endpoint.poll_timeout().is_some_and(|at| at <= now) {
                self.endpoint.handle_timeout(now);
            } else if !has_received {
                // What came first comes first: an event, then the end of the time, then waiting.
                if let Some(event) = self.endpoint.poll_event() {
                    return Ok(Some(event));
                }
                if until.is_some_and(|until| until <= now) {
                    return Ok(None);
                }
                self.wait(now, until)?;
            }
            now = self.now();
        }
    }

    fn transmit(&mut self, now: Time) -> io::Result<()> {
        let segments = self.state.max_gso_segments();
        loop {
            let transmit = match self.unsent.take() {
                Some(transmit) => transmit,
                None => {
                    let next =
                        self.endpoint
                            .poll_transmit(now, segments, BATCH_BYTES, &mut self.outgoing);
                    match next {
                        Some(transmit) => transmit,
                        None => return Ok(()),
                    }
                }
            };
            let batch = quinn_udp::Transmit {
                destination: transmit.to,
                ecn: None,
                contents: &self.outgoing,
                segment_size: Some(transmit.datagram_bytes),
                src_ip: None,
            };
            match self.state.try_send(UdpSockRef::from(&self.socket), &batch) {
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

    /// Takes in one batch. Whether there was one.
    fn receive(&mut self, now: Time) -> io::Result<bool> {
        let mut metas = [RecvMeta::default(); BATCHES];
        let mut buffers = self.incoming.chunks_exact_mut(BUFFER).map(IoSliceMut::new);
        let mut slices: [IoSliceMut<'_>; BATCHES] =
            std::array::from_fn(|_| buffers.next().expect("there is one for each batch"));
        let came = self
            .state
            .recv(UdpSockRef::from(&self.socket), &mut slices, &mut metas);
        let count = match came {
            Ok(count) => count,
            Err(error) => {
                return match error.kind() {
                    io::ErrorKind::WouldBlock
                    | io::ErrorKind::Interrupted
                    | io::ErrorKind::ConnectionRefused => Ok(false),
                    _ => Err(error),
                };
            }
        };
        for (meta, buffer) in metas[..count]
            .iter()
            .zip(self.incoming.chunks_exact(BUFFER))
        {
            for datagram in buffer[..meta.len].chunks(meta.stride.max(1)) {
                self.endpoint.handle_datagram(now, meta.addr, datagram);
            }
        }
        Ok(count > 0)
    }

    fn wait(&self, now: Time, until: Option<Time>) -> io::Result<()> {
        let next = earliest([until, self.endpoint.poll_timeout()]);
        let timeout = next.map(|at| Timespec {
            tv_sec: i64::try_from(at.since(now).as_secs()).unwrap_or(i64::MAX),
            tv_nsec: at.since(now).subsec_nanos().into(),
        });
        let mut what = PollFlags::IN;
        if self.unsent.is_some() {
            what |= PollFlags::OUT;
        }
        match poll(&mut [PollFd::new(&self.socket, what)], timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}
