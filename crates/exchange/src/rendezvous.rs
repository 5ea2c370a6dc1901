//! How two ends that exchange bytes over sockets connect.
//!
//! One end listens, and the controller passes its [`Listener::address`] on to the other. Both know
//! a token of their launch, which each sends first. A stranger who sends nothing or something else
//! is disconnected before any of those bytes are used, and delays nobody. The result is a socket
//! for each flow; this module does not know what is sent through it.
//!
//! Source: tcp(7), udp(7), unix(7) on abstract names and on autobind (Linux 2.1.15), poll(2).

mod address;
pub mod datagrams;
mod pending;
mod token;

pub use address::Address;
pub(crate) use pending::refuse;
pub(crate) use token::Token;

use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr, TcpListener, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr as UnixAddress, UnixStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrAny, SocketAddrUnix, SocketFlags, SocketType,
    addr::SocketAddrArg, bind, getsockname, ipproto, listen, recv, recvfrom, send, sendto,
    socket_with, sockopt,
};

use pending::Pending;

use costof_os::memory::pattern::checksum;
use costof_os::net::poll::{readable, wait};
use costof_os::net::random_loss;
use costof_os::net::segments::SEGMENT_BYTES;
use costof_os::net::socket::{self, has_gone, is_passing};

/// How long the ends may take to connect.
pub const TIMEOUT: Duration = Duration::from_secs(10);
/// How long an end waits before it checks whether it should stop, and retransmits a datagram.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// How many connections the kernel queues until they are accepted (at most `net.core.somaxconn`): enough
/// for those that strangers make while this process waits for its CPU.
pub(crate) const BACKLOG: i32 = 4096;
/// How many connections a client makes again in all, if the listener drops them because strangers
/// crowd it.
const MAX_RECONNECTIONS: u32 = 20;

/// What carries a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Over {
    /// A TCP connection, without Nagle's delay.
    Tcp,
    /// UDP.
    Udp,
    /// UDP: each message is sent at once as several datagrams of [`SEGMENT_BYTES`], and several are
    /// received at once (Linux 5.0).
    UdpGso,
    /// A Unix stream socket, for two ends on one machine and in one network namespace.
    Unix,
}

impl Over {
    /// Whether messages are sent as datagrams, some of which may be lost.
    #[inline]
    pub fn is_datagrams(self) -> bool {
        matches!(self, Self::Udp | Self::UdpGso)
    }

    /// How many datagrams a message of `size` bytes takes; 1 in a stream.
    pub fn datagrams_per_message(self, size: usize) -> usize {
        let datagram = self.datagram_bytes(size);
        datagram.map_or(1, |bytes| size.div_ceil(bytes))
    }

    /// The longest datagram for messages of `size` bytes, in bytes; `None` for a stream.
    pub(crate) fn datagram_bytes(self, size: usize) -> Option<usize> {
        match self {
            Self::Udp => Some(size),
            Self::UdpGso => Some(SEGMENT_BYTES),
            Self::Tcp | Self::Unix => None,
        }
    }
}

/// The end that listens, for some flows.
#[derive(Debug)]
pub struct Listener {
    over: Over,
    flows: usize,
    token: Vec<u8>,
    /// One for all connections, or one for each flow of datagrams.
    sockets: Vec<OwnedFd>,
}

/// The socket of a flow whose other end has sent the token.
#[derive(Debug)]
pub struct Flow {
    pub(crate) socket: OwnedFd,
    pub(crate) over: Over,
    /// The peer of datagrams, whose socket is not connected.
    pub(crate) peer: Option<SocketAddr>,
    /// A round-trip time, if the client knows one.
    pub round_trip: Duration,
    pub(crate) token: Token,
}

impl Listener {
    /// Listens at `address` for this many flows of a client with this token, on ports in this
    /// range, or on any if they are 0. The search starts at a port that depends on the token, and
    /// at a different one each time. Other runs then most likely use other ports, and connections
    /// of the last minute keep theirs. The address has no port of its own; a link-local one of IPv6
    /// has its interface. A Unix socket has neither address nor port; the kernel names it.
    ///
    /// # Errors
    ///
    /// That of bind(2) for the last port that was tried.
    pub fn open(
        over: Over,
        address: impl Into<SocketAddr>,
        ports: (u16, u16),
        flows: usize,
        token: &[u8],
    ) -> io::Result<Self> {
        let address = address.into();
        static OPENED: AtomicU64 = AtomicU64::new(0);
        let sockets = match over {
            Over::Tcp => 1,
            Over::Udp | Over::UdpGso => flows,
            Over::Unix => 0,
        };
        let mut sockets = (0..sockets)
            .map(|_| {
                let opened = OPENED.fetch_add(1, Ordering::Relaxed);
                bind_one_of(over, address, ports, checksum(token).wrapping_add(opened))
            })
            .collect::<io::Result<Vec<_>>>()?;
        if over == Over::Unix {
            let socket = open(AddressFamily::UNIX, SocketType::STREAM, None)?;
            // The kernel finds a name that is unused in this network namespace.
            bind(&socket, &SocketAddrUnix::new_unnamed())?;
            rustix::io::ioctl_fionbio(&socket, true)?;
            listen(&socket, BACKLOG)?;
            sockets.push(socket);
        }
        Ok(Self { over, flows, token: token.to_vec(), sockets })
    }

    /// Lets the queues of datagram sockets hold this many bytes, as far as `net.core.rmem_max` allows
    /// (`SO_RCVBUF`; the kernel doubles it for its own overhead, socket(7)).
    ///
    /// # Errors
    ///
    /// Those of setsockopt(2).
    pub fn set_receive_buffer(&self, bytes: usize) -> io::Result<()> {
        let mut sockets = self.sockets.iter();
        Ok(sockets.try_for_each(|socket| sockopt::set_socket_recv_buffer_size(socket, bytes))?)
    }

    /// The address at which a client connects.
    ///
    /// # Errors
    ///
    /// Those of getsockname(2).
    pub fn address(&self) -> io::Result<Address> {
        let names = self.sockets.iter().map(getsockname);
        let names: Vec<SocketAddrAny> = names.collect::<Result<_, _>>()?;
        match (self.over, &names[..]) {
            (Over::Unix, [name]) => {
                let name = SocketAddrUnix::try_from(name.clone())?;
                let name = name.abstract_name().unwrap_or_default();
                Ok(Address::Unix(String::from_utf8_lossy(name).into_owned()))
            }
            (_, names) => {
                let addresses = names.iter().map(|name| SocketAddr::try_from(name.clone()));
                Ok(Address::Ip(addresses.collect::<Result<_, _>>()?))
            }
        }
    }

    /// Limits the segments that later connections send to this many bytes of payload, including
    /// TCP's options (`TCP_MAXSEG`).
    ///
    /// # Errors
    ///
    /// Those of [`socket::limit_segments`].
    pub fn limit_segments(&self, bytes: u32) -> io::Result<()> {
        self.sockets.iter().try_for_each(|socket| socket::limit_segments(socket, bytes))
    }

    /// Makes later connections start with this congestion control at this end too (an accepted
    /// socket inherits the listener's).
    ///
    /// # Errors
    ///
    /// Those of [`socket::set_congestion_control`].
    pub fn set_congestion_control(&self, name: &str) -> io::Result<()> {
        self.sockets.iter().try_for_each(|socket| socket::set_congestion_control(socket, name))
    }

    /// Has its datagram sockets lose this share of what comes to them, at random.
    ///
    /// # Errors
    ///
    /// Those of [`random_loss::lose`].
    pub fn lose(&self, share: f64) -> io::Result<()> {
        self.sockets.iter().try_for_each(|socket| random_loss::lose(socket, share))
    }

    /// Accepts the flows of the client that sends the token. All of them wait until the token is
    /// sent back.
    ///
    /// # Errors
    ///
    /// `TimedOut` if not all arrive within ten seconds, `Interrupted` if `stop` is set.
    pub fn accept(&self, stop: &AtomicBool) -> io::Result<Vec<Flow>> {
        let until = Instant::now() + TIMEOUT;
        let check = || check_wanted(stop, until);
        match self.over {
            Over::Udp | Over::UdpGso => self.accept_datagrams(check),
            Over::Tcp | Over::Unix => self.accept_streams(check),
        }
    }

    /// The socket for connections; `None` for datagrams.
    pub(crate) fn into_socket(mut self) -> Option<OwnedFd> {
        self.sockets.pop().filter(|_| !self.over.is_datagrams())
    }

    /// Every connection has the same time to send the token, in parallel.
    fn accept_streams(&self, check: impl Fn() -> io::Result<()>) -> io::Result<Vec<Flow>> {
        let mut pending = Pending::default();
        let mut accepted = Vec::with_capacity(self.flows);
        while accepted.len() < self.flows {
            check()?;
            let with_token = pending.poll(&self.sockets[0], &self.token, POLL_INTERVAL)?;
            for socket in with_token {
                accepted.push(self.flow(socket, None)?);
            }
        }
        accepted.truncate(self.flows);
        Ok(accepted)
    }

    fn accept_datagrams(&self, check: impl Fn() -> io::Result<()>) -> io::Result<Vec<Flow>> {
        // A longer datagram is truncated, and then as long as this.
        let mut received = vec![0; self.token.len() + 1];
        let mut accept = |socket: &OwnedFd| loop {
            check()?;
            match recvfrom(socket, &mut received[..], RecvFlags::DONTWAIT) {
                Ok((_, length, Some(from))) if received[..length] == *self.token => {
                    let from = SocketAddr::try_from(from)?;
                    return self.flow(socket.try_clone()?, Some(from));
                }
                // From a stranger. More may have arrived.
                Ok(_) => {}
                Err(_) => drop(wait(&mut [readable(socket)], POLL_INTERVAL)?),
            }
        };
        self.sockets.iter().map(&mut accept).collect()
    }

    fn flow(&self, socket: OwnedFd, peer: Option<SocketAddr>) -> io::Result<Flow> {
        Flow::new(socket, self.over, peer, Token::new(&self.token, true))
    }
}

/// Connects to a listener, with as many flows as it listens for. Sends its token, which it sends
/// back.
///
/// # Errors
///
/// `InvalidInput` for an address that does not fit; those of connect(2); `TimedOut` if no answer
/// arrives within ten seconds, `InvalidData` if the answer is wrong.
pub fn connect(over: Over, address: &Address, flows: usize, token: &[u8]) -> io::Result<Vec<Flow>> {
    connect_by(over, address, flows, None, token)
}

/// As [`connect`], with this congestion control for TCP connections from the start. If another one
/// were used first, it would leave its mark: once BBR has started, TCP paces everything that it
/// sends (`sk_pacing_status`, tcp_bbr.c).
///
/// # Errors
///
/// Also those of [`socket::set_congestion_control`].
pub fn connect_by(
    over: Over,
    address: &Address,
    flows: usize,
    control: Option<&str>,
    token: &[u8],
) -> io::Result<Vec<Flow>> {
    let until = Instant::now() + TIMEOUT;
    let began = Instant::now();
    let reach = |flow| reach(over, address, (flow, flows), control, token);
    let mut connected = (0..flows).map(reach).collect::<io::Result<Vec<_>>>()?;
    let mut reconnections = 0..MAX_RECONNECTIONS;
    for flow in 0..flows {
        while let Err(error) = receive_token(&connected[flow..], until) {
            let may = !over.is_datagrams() && is_end(&error) && reconnections.next().is_some();
            // If the listener is gone, the first error says more.
            connected[flow] = may.then(|| reach(flow).ok()).flatten().ok_or(error)?;
        }
        let flow = &mut connected[flow];
        flow.round_trip = match over {
            Over::Tcp => Duration::from_nanos(socket::tcp_info(&flow.socket)?.round_trip_ns),
            Over::Udp | Over::UdpGso | Over::Unix => began.elapsed(),
        };
    }
    Ok(connected)
}

/// The `flow`th of so many flows, connected to the listener, which has been sent the token.
fn reach(
    over: Over,
    address: &Address,
    (flow, flows): (usize, usize),
    control: Option<&str>,
    token: &[u8],
) -> io::Result<Flow> {
    let (socket, peer) = match (over, address) {
        (Over::Tcp, Address::Ip(at)) if at.len() == 1 => (connect_tcp(&at[0], control)?, None),
        (Over::Unix, Address::Unix(name)) => {
            let name = UnixAddress::from_abstract_name(name)?;
            (UnixStream::connect_addr(&name)?.into(), None)
        }
        (Over::Udp | Over::UdpGso, Address::Ip(at)) if at.len() == flows => {
            let family = family(at[flow].ip());
            let socket = open(family, SocketType::DGRAM, Some(ipproto::UDP))?;
            // The kernel drops what others send to it.
            rustix::net::connect(&socket, &at[flow])?;
            (socket, Some(at[flow]))
        }
        _ => return Err(ErrorKind::InvalidInput.into()),
    };
    let flow = Flow::new(socket, over, peer, Token::new(token, false))?;
    match flow.send_token() {
        // The client will find that out when it receives.
        Err(error) if has_gone(&error) => {}
        sent => sent?,
    }
    Ok(flow)
}

/// The flow of a listener with one flow.
///
/// # Panics
///
/// If the number of flows is not one.
pub fn only(flows: Vec<Flow>) -> Flow {
    let [flow] = <[Flow; 1]>::try_from(flows).expect("one flow was asked for");
    flow
}

impl Flow {
    /// The socket: a connection, or a datagram socket that receives only from its peer.
    ///
    /// # Errors
    ///
    /// Those of connect(2).
    pub fn into_socket(mut self) -> io::Result<OwnedFd> {
        self.connect()?;
        Ok(self.socket)
    }

    /// The socket, as [`Flow::into_socket`], and the token that it still has to know.
    pub(crate) fn into_parts(mut self) -> io::Result<(OwnedFd, Token)> {
        self.connect()?;
        Ok((self.socket, self.token))
    }

    /// Sends the token: to the server first, and then back to the client, which begins.
    ///
    /// # Errors
    ///
    /// Those of send(2).
    pub fn send_token(&self) -> io::Result<()> {
        self.send(&self.token.bytes)
    }

    fn new(
        socket: OwnedFd,
        over: Over,
        peer: Option<SocketAddr>,
        token: Token,
    ) -> io::Result<Self> {
        if over == Over::Tcp {
            sockopt::set_tcp_nodelay(&socket, true)?;
        }
        Ok(Self { socket, over, peer, round_trip: Duration::ZERO, token })
    }

    /// Connects a datagram socket to its peer, as [`connect_only_to`] does.
    ///
    /// # Errors
    ///
    /// Those of connect(2).
    pub(crate) fn connect(&mut self) -> io::Result<()> {
        self.peer.take().map_or(Ok(()), |peer| connect_only_to(&self.socket, &peer))
    }

    /// Sends the token, which is short enough for any socket to accept at once.
    fn send(&self, token: &[u8]) -> io::Result<()> {
        match &self.peer {
            Some(peer) => sendto(&self.socket, token, SendFlags::NOSIGNAL, peer)?,
            None => send(&self.socket, token, SendFlags::NOSIGNAL)?,
        };
        Ok(())
    }
}

/// Waits until the token comes back on the first of the flows. A datagram may be lost, so all of
/// them retransmit it: the server answers none before it has received every one.
fn receive_token(flows: &[Flow], until: Instant) -> io::Result<()> {
    let first = &flows[0];
    let token = &first.token.bytes;
    // Data after the token stays in the stream; a longer datagram is truncated, and then as long as
    // this.
    let longer = usize::from(first.over.is_datagrams());
    let mut bytes = vec![0; token.len() + longer];
    let mut received = 0;
    loop {
        check_deadline(until)?;
        if !wait(&mut [readable(&first.socket)], POLL_INTERVAL)? && first.over.is_datagrams() {
            flows.iter().try_for_each(Flow::send_token)?;
        }
        let rest = &mut bytes[received..];
        let (_, length, from) = match recvfrom(&first.socket, rest, RecvFlags::DONTWAIT) {
            Err(error) if is_passing(&error.into()) => continue,
            came => came?,
        };
        match first.peer {
            Some(peer) => {
                let from = from.and_then(|from| SocketAddr::try_from(from).ok());
                if from == Some(peer) && bytes[..length] == *token {
                    return Ok(());
                }
            }
            None if length == 0 => return Err(ErrorKind::UnexpectedEof.into()),
            None => received += length,
        }
        if received >= token.len() {
            if bytes[..received] == *token {
                return Ok(());
            }
            let reason = "the other end has another token";
            return Err(io::Error::new(ErrorKind::InvalidData, reason));
        }
    }
}

/// A connection with this congestion control, if one is given.
fn connect_tcp(at: &SocketAddr, control: Option<&str>) -> io::Result<OwnedFd> {
    let socket = open(family(at.ip()), SocketType::STREAM, Some(ipproto::TCP))?;
    if let Some(control) = control {
        socket::set_congestion_control(&socket, control)?;
    }
    // This also limits how long connect(2) waits (socket(7)).
    sockopt::set_socket_timeout(&socket, sockopt::Timeout::Send, Some(TIMEOUT))?;
    loop {
        match rustix::net::connect(&socket, at) {
            Ok(()) => break,
            Err(rustix::io::Errno::INTR) => {}
            // The time is over: in the first call, or in one repeated after a signal.
            Err(rustix::io::Errno::INPROGRESS | rustix::io::Errno::ALREADY) => {
                return Err(ErrorKind::TimedOut.into());
            }
            Err(error) => return Err(error.into()),
        }
    }
    sockopt::set_socket_timeout(&socket, sockopt::Timeout::Send, None)?;
    Ok(socket)
}

/// Connects a datagram socket to its peer, so that no other datagrams arrive, and drops those that
/// have arrived: the peer must not have begun yet.
///
/// # Errors
///
/// Those of connect(2).
pub(crate) fn connect_only_to(socket: impl AsFd, peer: &impl SocketAddrArg) -> io::Result<()> {
    let socket = socket.as_fd();
    rustix::net::connect(socket, peer)?;
    // From strangers, or the token again.
    while recv(socket, &mut [0], RecvFlags::DONTWAIT).is_ok() {}
    Ok(())
}

/// Binds to the first free port of a range, starting at its `start`th.
fn bind_one_of(
    over: Over,
    mut address: SocketAddr,
    (first, last): (u16, u16),
    start: u64,
) -> io::Result<OwnedFd> {
    let ports = u64::from(last.saturating_sub(first)) + 1;
    let mut error = io::Error::from(ErrorKind::AddrInUse);
    for next in 0..ports {
        let port = first + ((start % ports + next) % ports) as u16;
        address.set_port(port);
        match bind_at(over, address) {
            Ok(socket) => return Ok(socket),
            Err(refused) => error = refused,
        }
    }
    Err(error)
}

/// A datagram socket or a listening socket, even if connections used its port in the last minute
/// (`SO_REUSEADDR`, as std sets it).
fn bind_at(over: Over, at: SocketAddr) -> io::Result<OwnedFd> {
    if over.is_datagrams() {
        return Ok(UdpSocket::bind(at)?.into());
    }
    let listener = TcpListener::bind(at)?;
    listen(&listener, BACKLOG)?;
    listener.set_nonblocking(true)?;
    Ok(listener.into())
}

/// Whether the peer is gone, which it may be when it has what it wants.
pub fn is_end(error: &io::Error) -> bool {
    use ErrorKind::{BrokenPipe, ConnectionRefused, ConnectionReset, UnexpectedEof};
    matches!(error.kind(), UnexpectedEof | BrokenPipe | ConnectionReset | ConnectionRefused)
}

pub(crate) fn family(address: IpAddr) -> AddressFamily {
    match address {
        IpAddr::V4(_) => AddressFamily::INET,
        IpAddr::V6(_) => AddressFamily::INET6,
    }
}

pub(crate) fn open(
    family: AddressFamily,
    kind: SocketType,
    protocol: Option<rustix::net::Protocol>,
) -> io::Result<OwnedFd> {
    Ok(socket_with(family, kind, SocketFlags::CLOEXEC, protocol)?)
}

/// Whether an end should continue to wait for the other one.
///
/// # Errors
///
/// `Interrupted` if `stop` is set, `TimedOut` after `until`.
pub(crate) fn check_wanted(stop: &AtomicBool, until: Instant) -> io::Result<()> {
    if stop.load(Ordering::Acquire) {
        let reason = "the other end has given up";
        return Err(io::Error::new(ErrorKind::Interrupted, reason));
    }
    check_deadline(until)
}

fn check_deadline(until: Instant) -> io::Result<()> {
    if Instant::now() > until {
        return Err(io::Error::new(ErrorKind::TimedOut, "the other end has not connected in time"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::pending::MAX_PENDING;
    use super::*;
    use std::io::Write;
    use std::net::{Ipv4Addr, TcpStream};
    use std::thread;

    const TOKEN: &[u8] = b"0123456789abcdef";
    const OTHER: &[u8] = b"fedcba9876543210";
    const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    fn listen(over: Over, flows: usize) -> (Listener, Address) {
        let listener = Listener::open(over, (HERE, 0), (0, 0), flows, TOKEN).unwrap();
        let address: Address = listener.address().unwrap().to_string().parse().unwrap();
        (listener, address)
    }

    fn connect_and_send(address: &Address, sent: &[u8]) -> Box<dyn Write> {
        let mut stranger: Box<dyn Write> = match address {
            Address::Ip(at) => Box::new(TcpStream::connect(at[0]).unwrap()),
            Address::Unix(name) => {
                let name = UnixAddress::from_abstract_name(name).unwrap();
                Box::new(UnixStream::connect_addr(&name).unwrap())
            }
        };
        stranger.write_all(sent).unwrap();
        stranger
    }

    /// Accepts and answers in a thread; strangers arrive before the right client.
    fn rendezvous(
        over: Over,
        flows: usize,
        strangers: impl Fn(&Address),
    ) -> (Vec<Flow>, Vec<Flow>) {
        let (listener, address) = listen(over, flows);
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            let accepted = scope.spawn(|| {
                let flows = listener.accept(&stop)?;
                flows.iter().try_for_each(Flow::send_token)?;
                io::Result::Ok(flows)
            });
            strangers(&address);
            let called = connect(over, &address, flows, TOKEN).unwrap();
            (accepted.join().unwrap().unwrap(), called)
        })
    }

    fn check_flows(accepted: &[Flow], called: &[Flow]) {
        for (number, flow) in called.iter().enumerate() {
            flow.send(&[number as u8; 3]).unwrap();
        }
        let mut received: Vec<u8> = Vec::new();
        for flow in accepted {
            let mut sent = [0; 3];
            while recv(&flow.socket, &mut sent, RecvFlags::empty()).unwrap().1 != 3 {}
            received.push(sent[0]);
        }
        received.sort_unstable();
        assert!(received.into_iter().eq(0..called.len() as u8));
    }

    #[test]
    fn the_right_client_gets_in_behind_strangers_of_every_kind() {
        for over in [Over::Tcp, Over::Unix] {
            for (flows, silent) in [(1, 20), (3, MAX_PENDING + 20)] {
                let (accepted, called) = rendezvous(over, flows, |address| {
                    let mut stay: Vec<_> =
                        (0..silent).map(|_| connect_and_send(address, &[])).collect();
                    stay.push(connect_and_send(address, &TOKEN[..5]));
                    stay.push(connect_and_send(address, OTHER));
                    drop(connect_and_send(address, &TOKEN[..15]));
                    drop(connect_and_send(address, &[]));
                    // They stay until the test ends.
                    std::mem::forget(stay);
                });
                assert_eq!((accepted.len(), called.len()), (flows, flows));
                check_flows(&accepted, &called);
            }
        }
    }

    #[test]
    fn datagrams_of_strangers_are_nobody() {
        let stranger = UdpSocket::bind("127.0.0.1:0").unwrap();
        let (accepted, called) = rendezvous(Over::Udp, 2, |address| {
            let Address::Ip(at) = address else {
                panic!("UDP has addresses");
            };
            for sent in [&[][..], &TOKEN[..15], OTHER, &[TOKEN, &[0]].concat()] {
                stranger.send_to(sent, at[1]).unwrap();
            }
        });
        let own = |flow: &Flow| SocketAddr::try_from(getsockname(&flow.socket).unwrap()).unwrap();
        for (mut accepted, mut called) in accepted.into_iter().zip(called) {
            assert_eq!(accepted.peer.unwrap().port(), own(&called).port());
            // The client's socket is connected before it sends anything.
            stranger.send_to(b"abc", own(&called)).unwrap();
            recv(&called.socket, &mut [0; 3], RecvFlags::DONTWAIT).unwrap_err();
            // The datagrams of a stranger are discarded when the socket is connected.
            stranger.send_to(b"abc", own(&accepted)).unwrap();
            called.connect().unwrap();
            accepted.connect().unwrap();
            stranger.send_to(b"abc", own(&accepted)).unwrap();
            called.send(b"xyz").unwrap();
            let mut sent = [0; 3];
            recv(&accepted.socket, &mut sent, RecvFlags::empty()).unwrap();
            assert_eq!(sent, *b"xyz");
        }
    }

    #[test]
    fn a_datagram_with_the_token_that_is_lost_is_retransmitted() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(TIMEOUT)).unwrap();
        let address = Address::Ip(vec![socket.local_addr().unwrap()]);
        thread::scope(|scope| {
            let called = scope.spawn(|| connect(Over::Udp, &address, 1, TOKEN));
            let mut sent = [0; 100];
            for answers in [&b"no"[..], OTHER, TOKEN] {
                let (length, from) = socket.recv_from(&mut sent).unwrap();
                assert_eq!(&sent[..length], TOKEN);
                socket.send_to(answers, from).unwrap();
            }
            called.join().unwrap().unwrap();
        });
    }

    #[test]
    fn a_token_of_any_flow_that_is_lost_is_retransmitted() {
        let sockets = [(); 3].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
        for socket in &sockets {
            socket.set_read_timeout(Some(TIMEOUT)).unwrap();
        }
        let at = sockets.iter().map(|socket| socket.local_addr().unwrap());
        let address = Address::Ip(at.collect());
        thread::scope(|scope| {
            let called = scope.spawn(|| connect(Over::Udp, &address, 3, TOKEN));
            let mut sent = [0; 100];
            // The second flow's first datagram is lost. A listener answers none before it has
            // received all.
            sockets[1].recv_from(&mut sent).unwrap();
            let pending = sockets.each_ref().map(|socket| {
                let (length, from) = socket.recv_from(&mut sent).unwrap();
                assert_eq!(&sent[..length], TOKEN);
                from
            });
            for (socket, client) in sockets.iter().zip(pending) {
                socket.send_to(TOKEN, client).unwrap();
            }
            called.join().unwrap().unwrap();
        });
    }

    #[test]
    fn a_congestion_control_is_there_before_the_connection() {
        // A socket that has the port, and does not listen.
        let silent = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
        bind(&silent, &SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
        let address = SocketAddr::try_from(getsockname(&silent).unwrap()).unwrap();
        let address = Address::Ip(vec![address]);
        let to = |control| connect_by(Over::Tcp, &address, 1, control, TOKEN);
        let refused = to(Some("reno")).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
        let missing = to(Some("nosuch")).unwrap_err();
        assert_eq!(missing.kind(), ErrorKind::NotFound);

        let (listener, address) = listen(Over::Tcp, 2);
        thread::scope(|scope| {
            let accepted = scope.spawn(|| {
                let flows = listener.accept(&AtomicBool::new(false)).unwrap();
                flows.iter().try_for_each(Flow::send_token).unwrap();
            });
            for flow in connect_by(Over::Tcp, &address, 2, Some("reno"), TOKEN).unwrap() {
                let control = socket::congestion_control(&flow.socket).unwrap();
                assert_eq!(control, "reno");
            }
            accepted.join().unwrap();
        });
    }

    #[test]
    fn a_connection_that_was_dropped_in_a_crowd_is_made_again() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = Address::Ip(vec![listener.local_addr().unwrap()]);
        thread::scope(|scope| {
            let called = scope.spawn(|| connect(Over::Tcp, &address, 2, TOKEN));
            let [mut first, dropped] = [(); 2].map(|()| listener.accept().unwrap().0);
            drop(dropped);
            first.write_all(TOKEN).unwrap();
            let (mut second, _) = listener.accept().unwrap();
            second.write_all(TOKEN).unwrap();
            called.join().unwrap().unwrap();
        });
    }

    #[test]
    fn what_answers_with_another_token_is_an_error() {
        let (listener, address) = listen(Over::Tcp, 1);
        thread::scope(|scope| {
            let called = scope.spawn(|| connect(Over::Tcp, &address, 1, TOKEN));
            let flows = listener.accept(&AtomicBool::new(false)).unwrap();
            flows[0].send(OTHER).unwrap();
            let error = called.join().unwrap().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidData);
        });
        for (over, flows) in [(Over::Udp, 2), (Over::Unix, 1)] {
            let error = connect(over, &address, flows, TOKEN).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput);
        }
    }

    #[test]
    fn one_that_is_stopped_waits_for_nobody() {
        for over in [Over::Tcp, Over::Udp, Over::Unix] {
            let (listener, _) = listen(over, 1);
            let error = listener.accept(&AtomicBool::new(true)).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Interrupted);
        }
    }

    #[test]
    fn no_two_unix_sockets_have_one_name() {
        let listeners: Vec<_> = (0..3).map(|_| listen(Over::Unix, 1)).collect();
        let names: std::collections::BTreeSet<String> =
            listeners.iter().map(|(_, address)| address.to_string()).collect();
        assert_eq!(names.len(), 3, "{names:?}");
        assert!(names.iter().all(|name| name.len() > "unix:@".len()), "{names:?}");
    }

    /// A loopback address that no other process that runs these tests uses.
    fn own_address(of_test: u8) -> SocketAddr {
        let [.., high, low] = std::process::id().to_be_bytes();
        SocketAddr::from(([127, of_test, high, low], 0))
    }

    #[test]
    fn a_range_of_ports_is_begun_at_a_place_of_the_tokens_own() {
        // Below the ports that the kernel assigns; all loopback addresses are this host.
        let (address, ports) = (own_address(83), (21_000, 21_099));
        let port = |token: &[u8]| {
            let listener = Listener::open(Over::Tcp, address, ports, 1, token).unwrap();
            match listener.address().unwrap() {
                Address::Ip(at) => at[0].port(),
                Address::Unix(name) => panic!("{name} is not a port"),
            }
        };
        let found: Vec<u16> = (0..20_u8).map(|token| port(&[token; 16])).collect();
        assert!(found.iter().all(|port| (ports.0..=ports.1).contains(port)));
        // Consecutive ports differ.
        let jumps = found.windows(2).filter(|two| two[0].abs_diff(two[1]) > 10);
        assert!(jumps.count() > 5, "{found:?}");
        // The next call uses another port, so that connections of the last minute do not matter.
        assert_ne!(port(TOKEN), port(TOKEN));
    }

    #[test]
    fn a_range_of_ports_is_used_up_before_it_is_an_error() {
        let (address, ports) = (own_address(84), (21_000, 21_003));
        for over in [Over::Tcp, Over::Udp] {
            let open = || Listener::open(over, address, ports, 1, TOKEN);
            let listeners: Vec<_> = (0..4).map(|_| open().unwrap()).collect();
            assert_eq!(open().unwrap_err().kind(), ErrorKind::AddrInUse);
            drop(listeners);
        }
    }
}
