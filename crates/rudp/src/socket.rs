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

use crate::admission::Accept;
use crate::config::{Config, ConfigError};
use crate::connection::{Connection, Transmit};
use crate::ecn::Ecn;
use crate::endpoint::{ConnectionId, Endpoint};
use crate::event::Event;
use crate::time::{Time, earliest};
use nix::cmsg_space;
use nix::sys::socket::{
    ControlMessageOwned, MsgFlags, SockaddrStorage, recvmsg, setsockopt, sockopt,
};
use quinn_udp::{EcnCodepoint, UdpSockRef, UdpSocketState};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{RecvFlags, recv, recvfrom};
use std::io::{self, IoSliceMut};
use std::net::{SocketAddr, SocketAddrV4, SocketAddrV6, UdpSocket};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};
use thiserror::Error;

/// An endpoint and the socket that it uses.
#[derive(Debug)]
pub struct Socket {
    endpoint: Endpoint,
    socket: UdpSocket,
    state: UdpSocketState,
    began: Instant,
    /// Whom it is connected to, if to anybody.
    peer: Option<SocketAddr>,
    /// How what leaves is marked, where nothing else is said of it.
    marks: Option<Ecn>,
    outgoing: Vec<u8>,
    /// What is in `outgoing`, while the socket's buffer is full.
    unsent: Option<Transmit>,
    incoming: Vec<u8>,
    /// For what the kernel says of a batch.
    control: Vec<u8>,
    favours_latency: bool,
    /// Events handed out since datagrams were looked at.
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

/// What a receive buffer takes: the largest batch that the kernel joins.
const BUFFER: usize = 1 << 16;
/// How many such batches are taken in before anything is sent.
const BATCHES: usize = 8;
/// After a batch of so many bytes another one is looked for at once.
const MUCH: usize = 1 << 14;
/// How long a call that receives or sends waits: the kernel rounds it up to a tick of 1 to 10 ms.
const TICK: Duration = Duration::from_millis(1);
/// Timers that are nearer are waited for exactly.
const WAIT_LEAST: Duration = Duration::from_millis(5);
/// The longest batch to be sent; its headers and it are less than 64 KiB together.
const BATCH_BYTES: usize = 65_000;
/// What the socket's own buffers should hold; the system may give less.
const SOCKET_BUFFER: usize = 8 << 20;
/// After so many events datagrams have their turn.
const MAX_EVENTS: u32 = 64;

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
    /// that it is to hear. What came to a connected one counts as that end's, before it was connected too.
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
        let io_error = |source| {
            let nowhere = SocketAddr::from(([0; 4], 0));
            BindError::Io {
                address: socket.local_addr().unwrap_or(nowhere),
                source,
            }
        };
        let state = set_up(&socket).map_err(io_error)?;
        mark(&socket, None).map_err(io_error)?;
        Ok(Socket {
            endpoint,
            peer: socket.peer_addr().ok(),
            socket,
            state,
            marks: None,
            began: Instant::now(),
            outgoing: Vec::with_capacity(BUFFER),
            unsent: None,
            incoming: vec![0; BUFFER],
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
        // The kernel would look at what another processor wrote of each datagram, for either. What it
        // does not know it does not do.
        setsockopt(&self.socket, sockopt::UdpGroSegment, &false).ok();
        setsockopt(&self.socket, sockopt::RxqOvfl, &0)?;
        setsockopt(&self.socket, sockopt::IpRecvTos, &false)?;
        if self.local_addr()?.is_ipv6() {
            setsockopt(&self.socket, sockopt::Ipv6RecvTClass, &false)?;
        }
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

    /// How many datagrams the system dropped because this socket's buffer was full, as far as
    /// a datagram that came later said so (`SO_RXQ_OVFL`, Linux 2.6.33). The other end takes
    /// them for lost, but no link lost them. It begins again at 0 after 2^32.
    pub fn dropped(&self) -> u32 {
        self.dropped_datagrams
    }

    /// Sends and receives until something happens, at most so long (`None`: until then).
    /// `None` says that the time is over. What is to be said in answer, acknowledgements among it,
    /// leaves in the next call, so that it travels with what the caller sends then.
    ///
    /// # Errors
    ///
    /// What the system says of the socket itself. What it says of a datagram is taken for
    /// its loss.
    pub fn poll(&mut self, wait: Option<Duration>) -> io::Result<Option<(ConnectionId, Event)>> {
        let mut until = None;
        let mut has_looked = false;
        // Reading the clock takes a tenth of what a datagram does: known while nothing took any time.
        let mut known = None;
        loop {
            let may_tell = self.events < MAX_EVENTS;
            if may_tell && let Some(told) = self.endpoint.poll_ready_event() {
                return self.tell(told).map(Some);
            }
            // Before what else happened is worked out, so that an answer waits for none of it.
            if self.unsent.is_some() || self.endpoint.has_transmits() {
                self.transmit(self.now())?;
                // An answer must not seem to have come before it was sent.
                known = None;
            }
            if may_tell && let Some(told) = self.endpoint.poll_event() {
                return self.tell(told).map(Some);
            }
            self.events = 0;
            let now = known.unwrap_or_else(|| self.now());
            if until.is_none() {
                until = Some(wait.map(|wait| now + wait));
            }
            let until = until.flatten();
            let is_over = until.is_some_and(|until| until <= now);
            // Also while something comes that is no event.
            if has_looked && may_tell && is_over {
                return Ok(None);
            }
            let mut next = self.endpoint.poll_timeout();
            if !is_over && next.is_some_and(|at| at.since(now) < WAIT_LEAST) {
                next = self.endpoint.poll_timeout_exact();
            }
            // What came first comes first: an event, a datagram, then the end of the time.
            let idle_until = if may_tell {
                earliest([until, next])
            } else {
                Some(now)
            };
            let later = self.receive(now, idle_until)?;
            has_looked = true;
            if next.is_some_and(|at| at <= later) {
                self.endpoint.handle_timeout(later);
            }
            // Where the time is over, nothing more is timed by it.
            known = (later > now || is_over).then_some(later);
        }
    }

    fn tell(&mut self, told: (ConnectionId, Event)) -> io::Result<(ConnectionId, Event)> {
        self.events += 1;
        if let (_, Event::Closed(_)) = told {
            // Who hears of it may go away then; the other end is to hear of it too.
            self.transmit(self.now())?;
        }
        Ok(told)
    }

    fn transmit(&mut self, now: Time) -> io::Result<()> {
        let segments = self.state.max_gso_segments();
        loop {
            let unsent = self.unsent.take().or_else(|| {
                self.endpoint
                    .poll_transmit(now, segments, BATCH_BYTES, &mut self.outgoing)
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
        if self.marks != transmit.ecn {
            mark(&self.socket, transmit.ecn)?;
            self.marks = transmit.ecn;
        }
        match self.peer {
            Some(peer) if peer == transmit.to => self.socket.send(&self.outgoing),
            _ => self.socket.send_to(&self.outgoing, transmit.to),
        }
        .map(drop)
    }

    /// Takes in what came; if that is nothing, waits for it until then (`None`: as long as it
    /// takes). What time it is then, by what was read last: `now` where nothing was waited for.
    fn receive(&mut self, now: Time, until: Option<Time>) -> io::Result<Time> {
        // Waiting within the call that receives costs one system call, waiting before it three;
        // but the end of that wait is a tick of the kernel's clock, which is too coarse for some
        // timers and too often for others.
        let is_far = until.is_none_or(|at| at.since(now) >= WAIT_LEAST);
        let is_long = is_far && self.unsent.is_none();
        let mut came = if is_long {
            self.receive_batch(RecvFlags::empty(), None)?
        } else {
            // The clock was read just before; to read it again would delay the answer.
            let at = self.favours_latency.then_some(now);
            self.receive_batch(RecvFlags::DONTWAIT, at)?
        };
        if came.is_none() {
            if until.is_some_and(|at| at <= now) {
                return Ok(now);
            }
            let now = if is_long { self.now() } else { now };
            self.wait(until.map(|at| at.since(now)))?;
            came = self.receive_batch(RecvFlags::DONTWAIT, None)?;
        }
        let mut last = None;
        // Where much comes, more is there already, and can be acknowledged together.
        for _ in 1..BATCHES {
            let Some((bytes, at)) = came else {
                break;
            };
            last = Some(at);
            if bytes < MUCH {
                break;
            }
            came = self.receive_batch(RecvFlags::DONTWAIT, None)?;
        }
        Ok(last.unwrap_or_else(|| self.now()))
    }

    /// Takes in the datagrams that the kernel joined, which came at this time (`None`: now). How many
    /// bytes they have, and when they came.
    fn receive_batch(
        &mut self,
        flags: RecvFlags,
        at: Option<Time>,
    ) -> io::Result<Option<(usize, Time)>> {
        let came = if self.favours_latency {
            self.receive_one(flags)
        } else {
            self.receive_joined(flags)
        };
        let came = match came {
            Ok(came) => came,
            Err(error) if is_transient(&error) => return Ok(None),
            Err(error) => return Err(error),
        };
        let now = at.unwrap_or_else(|| self.now());
        if let Some(from) = came.from {
            for datagram in self.incoming[..came.bytes].chunks(came.stride) {
                self.endpoint
                    .handle_marked_datagram(now, from, came.ecn, datagram);
            }
        }
        Ok(Some((came.bytes, now)))
    }

    /// A datagram, and nothing but whom it is from.
    fn receive_one(&mut self, flags: RecvFlags) -> io::Result<Batch> {
        let (bytes, from) = match self.peer {
            Some(peer) => (recv(&self.socket, &mut self.incoming, flags)?.1, Some(peer)),
            None => {
                let (_, bytes, from) = recvfrom(&self.socket, &mut self.incoming, flags)?;
                (bytes, from.and_then(|from| from.try_into().ok()))
            }
        };
        Ok(Batch {
            bytes,
            from,
            stride: bytes.max(1),
            ecn: None,
        })
    }

    /// Datagrams of one sender that the kernel joined, and what it says of them.
    fn receive_joined(&mut self, flags: RecvFlags) -> io::Result<Batch> {
        let mut buffers = [IoSliceMut::new(&mut self.incoming)];
        let control = Some(&mut self.control[..]);
        let flags = MsgFlags::from_bits_retain(flags.bits() as i32);
        let message =
            recvmsg::<SockaddrStorage>(self.socket.as_raw_fd(), &mut buffers, control, flags)?;
        let mut came = Batch {
            bytes: message.bytes,
            from: message.address.as_ref().and_then(address),
            stride: message.bytes.max(1),
            ecn: None,
        };
        for said in message.cmsgs().into_iter().flatten() {
            match said {
                ControlMessageOwned::UdpGroSegments(segment) => {
                    came.stride = usize::try_from(segment).unwrap_or(0).max(1);
                }
                ControlMessageOwned::Ipv4Tos(bits) => came.ecn = Ecn::from_bits(bits),
                ControlMessageOwned::Ipv6TClass(bits) => came.ecn = Ecn::from_bits(bits as u8),
                ControlMessageOwned::RxqOvfl(dropped_datagrams) => {
                    self.dropped_datagrams = dropped_datagrams
                }
                _ => {}
            }
        }
        Ok(came)
    }

    fn wait(&self, idle: Option<Duration>) -> io::Result<()> {
        // Longer than a timespec holds is without end.
        let timeout = idle.and_then(|idle| Timespec::try_from(idle).ok());
        let mut events = PollFlags::IN;
        events.set(PollFlags::OUT, self.unsent.is_some());
        match poll(&mut [PollFd::new(&self.socket, events)], timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

/// What a call to receive gave.
struct Batch {
    bytes: usize,
    from: Option<SocketAddr>,
    /// The size of each datagram; the last may be shorter.
    stride: usize,
    ecn: Option<Ecn>,
}

/// Whether nothing came, or what came is the news that a datagram was not taken: then it is lost.
fn is_transient(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionRefused, Interrupted, WouldBlock};
    matches!(error.kind(), WouldBlock | Interrupted | ConnectionRefused)
}

fn address(storage: &SockaddrStorage) -> Option<SocketAddr> {
    let v4 = storage.as_sockaddr_in();
    let v6 = || storage.as_sockaddr_in6();
    v4.map(|v4| SocketAddrV4::from(*v4).into())
        .or_else(|| v6().map(|v6| SocketAddrV6::from(*v6).into()))
}

/// Marks what leaves, of whatever version of IP.
fn mark(socket: &UdpSocket, ecn: Option<Ecn>) -> io::Result<()> {
    let bits = ecn.map_or(0, Ecn::bits).into();
    setsockopt(socket, sockopt::Ipv4Tos, &bits)?;
    if socket.local_addr()?.is_ipv6() {
        setsockopt(socket, sockopt::Ipv6TClass, &bits)?;
    }
    Ok(())
}

/// Sets the socket's options. What sends through it.
fn set_up(socket: &UdpSocket) -> io::Result<UdpSocketState> {
    // Path MTU discovery, UDP_GRO and the rest as quinn-udp wants them.
    let state = UdpSocketState::new(UdpSockRef::from(socket))?;
    state.set_send_buffer_size(UdpSockRef::from(socket), SOCKET_BUFFER)?;
    state.set_recv_buffer_size(UdpSockRef::from(socket), SOCKET_BUFFER)?;
    socket.set_nonblocking(false)?;
    socket.set_read_timeout(Some(TICK))?;
    socket.set_write_timeout(Some(TICK))?;
    // What quinn-udp asks for and nobody reads here costs time with each datagram.
    setsockopt(socket, sockopt::ReceiveTimestampns, &false)?;
    if socket.local_addr()?.is_ipv4() {
        setsockopt(socket, sockopt::Ipv4PacketInfo, &false)?;
    } else {
        setsockopt(socket, sockopt::Ipv6RecvPacketInfo, &false)?;
    }
    setsockopt(socket, sockopt::RxqOvfl, &1)?;
    Ok(state)
}
