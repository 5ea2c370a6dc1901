//! Measured: bytes that go from one end to another as fast as they can, through sockets.
//!
//! A flow is one connection, or two sockets that exchange datagrams, with a thread at each end.
//! The sender writes blocks of one size, always from the same buffer; each begins with its number,
//! and the rest is no run of zeroes. The receiver reads what comes and looks at the number of the
//! first block that begins in each piece, or at the last bytes of each datagram. Both note now and
//! then how far they are, and how much processor time they have had until then: reading that clock
//! is the one system call beside the transfer's own.
//!
//! Both ends are told a token of their launch: what does not begin with it is dropped before a
//! byte of it is used.
//!
//! Source: tcp(7), udp(7), unix(7), socket(7) on `SO_RCVTIMEO`; `CLOCK_THREAD_CPUTIME_ID`.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr as UnixAddress, UnixListener, UnixStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::allocator::allocations;
use crate::clock::{ClockId, now_ns};
use crate::socket::{self, TcpInfo};

/// How long a receive waits before it looks whether it is still wanted.
const LOOK: Duration = Duration::from_millis(50);
/// How long the ends have to find each other.
const GREETING: Duration = Duration::from_secs(10);
/// How long a connection has to say the token.
const TOKEN: Duration = Duration::from_secs(3);
/// How long nothing may go on before sending is given up.
const STALLED: Duration = Duration::from_secs(10);
/// How long what was sent may take to arrive when all is done, before the rest is thrown away.
const DRAIN: Duration = Duration::from_millis(500);

/// The largest payload of a datagram over IPv4: 65,535 bytes less 20 and 8 of headers.
pub const DATAGRAM_MOST_BYTES: usize = 65_507;
/// The smallest block. What is said before and after the transfer is shorter, to be told from
/// datagrams.
pub const BLOCK_LEAST_BYTES: usize = 64;
/// The largest block.
pub const BLOCK_MOST_BYTES: usize = 64 << 20;
/// How much is received at once, at most.
pub const RECEIVE_BYTES: usize = 128 << 10;

/// A block's number.
const NUMBER_BYTES: usize = 8;
/// After so many bytes or calls the time is looked at.
const LOOK_BYTES: u64 = 32 << 10;
const LOOK_CALLS: u32 = 16;

/// What bytes go through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Over {
    /// A TCP connection, without Nagle's delay.
    Tcp,
    /// UDP: a block is a datagram.
    Udp,
    /// A Unix stream socket, within one network namespace.
    Unix,
}

/// How far an end was at a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mark {
    /// `CLOCK_MONOTONIC_RAW`, in nanoseconds.
    pub at_ns: u64,
    /// Processor time of the thread, in nanoseconds.
    pub cpu_ns: u64,
    /// Payload until then, in bytes.
    pub bytes: u64,
}

/// Marks, in the order of time, a quarter of a millisecond apart or more. Where they become too
/// many, every second one goes.
#[derive(Debug)]
struct Marks {
    marks: Vec<Mark>,
    every_ns: u64,
    next_ns: u64,
}

/// The most marks.
const MARKS: usize = 1024;
/// How far they are apart at first.
const MARK_EVERY_NS: u64 = 250_000;

/// The receiving end before it was called.
#[derive(Debug)]
pub struct Listener(Listening);

#[derive(Debug)]
enum Listening {
    Tcp(TcpListener, usize),
    Unix(UnixListener, usize),
    /// One for each flow.
    Udp(Vec<UdpSocket>),
}

/// The sending end of a flow.
#[derive(Debug)]
pub struct Sender {
    channel: Channel,
    token: Vec<u8>,
    block: Vec<u8>,
    sent: Sent,
    marks: Marks,
    allocations: u64,
    round_trip: Duration,
}

/// What a sender has sent.
#[derive(Clone, Copy, Debug, Default)]
struct Sent {
    blocks: u64,
    bytes: u64,
}

/// The receiving end of a flow.
#[derive(Debug)]
pub struct Receiver {
    channel: Channel,
    token: Vec<u8>,
    buffer: Vec<u8>,
    block: Vec<u8>,
    /// Bytes that came.
    bytes: u64,
    /// Blocks that the sender says it has sent, where they are datagrams.
    announced: u64,
    /// Datagrams that came.
    datagrams: u64,
    /// Where the last piece began, and how long it was.
    last: (u64, usize),
    ended: bool,
    marks: Marks,
    allocations: u64,
}

/// Datagrams of a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Datagrams {
    /// That the sender has sent.
    pub sent: u64,
    /// That have arrived, a duplicate counted again.
    pub arrived: u64,
    /// That the receiver's queue had no room for.
    pub dropped: u64,
}

#[derive(Debug)]
enum Channel {
    Tcp(TcpStream),
    Udp(UdpSocket),
    Unix(UnixStream),
}

impl Marks {
    fn new() -> Self {
        Self {
            marks: Vec::with_capacity(MARKS),
            every_ns: MARK_EVERY_NS,
            next_ns: 0,
        }
    }

    /// Notes how far it is if it is time to, and returns the time.
    #[inline]
    fn note(&mut self, bytes: u64) -> u64 {
        let at_ns = now_ns(ClockId::MonotonicRaw);
        if at_ns >= self.next_ns {
            self.add(Mark {
                at_ns,
                cpu_ns: now_ns(ClockId::ThreadCpu),
                bytes,
            });
        }
        at_ns
    }

    fn add(&mut self, mark: Mark) {
        if self.marks.len() == MARKS {
            for kept in 0..MARKS / 2 {
                self.marks[kept] = self.marks[2 * kept];
            }
            self.marks.truncate(MARKS / 2);
            self.every_ns *= 2;
        }
        self.marks.push(mark);
        self.next_ns = mark.at_ns + self.every_ns;
    }
}

impl Listener {
    /// Listens at `address` for so many flows, on ports between these, or any where they are 0. A
    /// Unix socket has a name of its own instead.
    ///
    /// # Errors
    ///
    /// What bind(2) says of the last port that was tried.
    pub fn open(over: Over, address: IpAddr, ports: (u16, u16), flows: usize) -> io::Result<Self> {
        let listening = match over {
            Over::Tcp => Listening::Tcp(bind(address, ports, |at| TcpListener::bind(at))?, flows),
            Over::Udp => {
                let sockets = (0..flows).map(|_| bind(address, ports, |at| UdpSocket::bind(at)));
                Listening::Udp(sockets.collect::<io::Result<_>>()?)
            }
            Over::Unix => {
                static COUNT: AtomicU64 = AtomicU64::new(0);
                let count = COUNT.fetch_add(1, Ordering::Relaxed);
                let name = format!("costof-{}-{count}", std::process::id());
                let at = UnixAddress::from_abstract_name(&name)?;
                Listening::Unix(UnixListener::bind_addr(&at)?, flows)
            }
        };
        Ok(Self(listening))
    }

    /// Where the other end finds it, for [`call`].
    ///
    /// # Errors
    ///
    /// What getsockname(2) says.
    pub fn address(&self) -> io::Result<String> {
        match &self.0 {
            Listening::Tcp(listener, _) => Ok(listener.local_addr()?.to_string()),
            Listening::Unix(listener, _) => {
                let address = listener.local_addr()?;
                let name = address.as_abstract_name().unwrap_or_default();
                Ok(String::from_utf8_lossy(name).into_owned())
            }
            Listening::Udp(sockets) => {
                let addresses = sockets
                    .iter()
                    .map(|socket| Ok(socket.local_addr()?.to_string()));
                Ok(addresses.collect::<io::Result<Vec<_>>>()?.join(" "))
            }
        }
    }

    /// The flows of who says the token, in their order. Others are dropped.
    ///
    /// # Errors
    ///
    /// `TimedOut` if they do not all come within ten seconds, `Interrupted` where `stop` is set.
    pub fn accept(self, token: &[u8], stop: &AtomicBool) -> io::Result<Vec<Receiver>> {
        let until = Instant::now() + GREETING;
        match self.0 {
            Listening::Tcp(listener, flows) => {
                listener.set_nonblocking(true)?;
                let accept = || Ok(Channel::Tcp(listener.accept()?.0));
                accept_streams(accept, flows, token, until, stop)
            }
            Listening::Unix(listener, flows) => {
                listener.set_nonblocking(true)?;
                let accept = || Ok(Channel::Unix(listener.accept()?.0));
                accept_streams(accept, flows, token, until, stop)
            }
            Listening::Udp(sockets) => sockets
                .into_iter()
                .map(|socket| accept_datagrams(socket, token, until, stop))
                .collect(),
        }
    }
}

/// Binds at the first free port of some.
fn bind<T>(
    address: IpAddr,
    ports: (u16, u16),
    bind: impl Fn(SocketAddr) -> io::Result<T>,
) -> io::Result<T> {
    let mut last = io::Error::from(ErrorKind::AddrInUse);
    for port in ports.0..=ports.1 {
        match bind(SocketAddr::new(address, port)) {
            Ok(bound) => return Ok(bound),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn accept_streams(
    accept: impl Fn() -> io::Result<Channel>,
    flows: usize,
    token: &[u8],
    until: Instant,
    stop: &AtomicBool,
) -> io::Result<Vec<Receiver>> {
    let mut receivers: Vec<Receiver> = Vec::with_capacity(flows);
    while receivers.len() < flows {
        match accept() {
            Ok(channel) => {
                channel.set_up(TOKEN)?;
                let mut said = vec![0; token.len()];
                if channel.receive_all(&mut said).is_ok() && said == token {
                    receivers.push(Receiver::of(channel, token)?);
                }
            }
            Err(error) if is_passing(&error) => sleep(Duration::from_micros(200)),
            Err(error) => return Err(error),
        }
        go_on(until, stop)?;
    }
    for receiver in &receivers {
        receiver.channel.send_all(token)?;
    }
    Ok(receivers)
}

fn accept_datagrams(
    socket: UdpSocket,
    token: &[u8],
    until: Instant,
    stop: &AtomicBool,
) -> io::Result<Receiver> {
    let mut said = vec![0; token.len() + 1];
    socket.set_read_timeout(Some(LOOK))?;
    loop {
        go_on(until, stop)?;
        if let Ok((length, from)) = socket.recv_from(&mut said)
            && said[..length] == *token
        {
            socket.connect(from)?;
            socket.send(token)?;
            return Receiver::of(Channel::Udp(socket), token);
        }
    }
}

fn go_on(until: Instant, stop: &AtomicBool) -> io::Result<()> {
    if stop.load(Ordering::Acquire) {
        return Err(io::Error::new(
            ErrorKind::Interrupted,
            "the other end has given up",
        ));
    }
    in_time(until)
}

fn in_time(until: Instant) -> io::Result<()> {
    if Instant::now() > until {
        return Err(io::Error::new(
            ErrorKind::TimedOut,
            "the other end has not answered in time",
        ));
    }
    Ok(())
}

/// Calls a listener at what [`Listener::address`] said, for as many flows as it listens for, by a
/// congestion control where one is named. Blocks will have `size` bytes.
///
/// # Errors
///
/// `InvalidInput` for an address that is none or a size that does not fit, `NotFound` for a
/// congestion control that is not there; what connect(2) says; `TimedOut` where no answer comes,
/// `InvalidData` where another one does.
pub fn call(
    over: Over,
    address: &str,
    (flows, size): (usize, usize),
    control: Option<&str>,
    token: &[u8],
) -> io::Result<Vec<Sender>> {
    let most = match over {
        Over::Udp => DATAGRAM_MOST_BYTES,
        Over::Tcp | Over::Unix => BLOCK_MOST_BYTES,
    };
    if !(BLOCK_LEAST_BYTES..=most).contains(&size) {
        return Err(io::Error::new(
            ErrorKind::InvalidInput,
            format!("a block has {BLOCK_LEAST_BYTES} to {most} bytes, not {size}"),
        ));
    }
    let until = Instant::now() + GREETING;
    let ip = |text: &str| {
        let no_address = |_| io::Error::new(ErrorKind::InvalidInput, "this is no address");
        text.parse::<SocketAddr>().map_err(no_address)
    };
    let channels: Vec<Channel> = match over {
        Over::Tcp => {
            let at = ip(address)?;
            let connect = |_| TcpStream::connect_timeout(&at, GREETING).map(Channel::Tcp);
            (0..flows).map(connect).collect::<io::Result<_>>()?
        }
        Over::Unix => {
            let at = UnixAddress::from_abstract_name(address)?;
            let connect = |_| UnixStream::connect_addr(&at).map(Channel::Unix);
            (0..flows).map(connect).collect::<io::Result<_>>()?
        }
        Over::Udp => {
            let connect = |at: &str| datagrams_to(ip(at)?).map(Channel::Udp);
            address.split(' ').map(connect).collect::<io::Result<_>>()?
        }
    };
    for channel in &channels {
        channel.set_up(TOKEN)?;
        if let (Channel::Tcp(stream), Some(control)) = (channel, control) {
            socket::set_congestion_control(stream, control)?;
        }
        channel.send_all(token)?;
    }
    channels
        .into_iter()
        .map(|channel| {
            let round_trip = channel.await_token(token, until)?;
            Sender::of(channel, size, token, round_trip)
        })
        .collect()
}

/// A socket for datagrams to this address.
fn datagrams_to(address: SocketAddr) -> io::Result<UdpSocket> {
    let any = match address {
        SocketAddr::V4(_) => "0.0.0.0:0",
        SocketAddr::V6(_) => "[::]:0",
    };
    let socket = UdpSocket::bind(any)?;
    socket.connect(address)?;
    Ok(socket)
}

impl Channel {
    /// No delay, and no call that takes forever.
    fn set_up(&self, receive: Duration) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => {
                stream.set_nonblocking(false)?;
                stream.set_nodelay(true)?;
                stream.set_read_timeout(Some(receive))?;
                stream.set_write_timeout(Some(STALLED))
            }
            Self::Unix(stream) => {
                stream.set_nonblocking(false)?;
                stream.set_read_timeout(Some(receive))?;
                stream.set_write_timeout(Some(STALLED))
            }
            Self::Udp(socket) => {
                // What is lost is said again.
                socket.set_read_timeout(Some(receive.min(LOOK)))?;
                socket.set_write_timeout(Some(STALLED))
            }
        }
    }

    #[inline]
    fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => (&mut &*stream).write(bytes),
            Self::Unix(stream) => (&mut &*stream).write(bytes),
            Self::Udp(socket) => socket.send(bytes),
        }
    }

    #[inline]
    fn receive(&self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => (&mut &*stream).read(buffer),
            Self::Unix(stream) => (&mut &*stream).read(buffer),
            Self::Udp(socket) => socket.recv(buffer),
        }
    }

    /// Sends all of it.
    #[inline]
    fn send_all(&self, bytes: &[u8]) -> io::Result<()> {
        let mut sent = 0;
        while sent < bytes.len() {
            match self.send(&bytes[sent..]) {
                Ok(more) => sent += more,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    return Err(io::Error::new(
                        ErrorKind::TimedOut,
                        "the other end takes nothing any more",
                    ));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn receive_all(&self, buffer: &mut [u8]) -> io::Result<()> {
        let mut received = 0;
        while received < buffer.len() {
            match self.receive(&mut buffer[received..])? {
                0 => return Err(ErrorKind::UnexpectedEof.into()),
                more => received += more,
            }
        }
        Ok(())
    }

    /// Waits until the token comes back, saying it again where it may be lost. How long a round
    /// trip took, as far as it is known.
    fn await_token(&self, token: &[u8], until: Instant) -> io::Result<Duration> {
        let began = Instant::now();
        let mut said = vec![0; token.len()];
        loop {
            match (self, self.receive_all(&mut said)) {
                (_, Ok(())) => break,
                (Self::Udp(_), Err(error)) if is_passing(&error) => self.send_all(token)?,
                (_, Err(error)) if is_passing(&error) => {}
                (_, Err(error)) => return Err(error),
            }
            in_time(until)?;
        }
        if said != token {
            return Err(io::Error::new(
                ErrorKind::InvalidData,
                "the other end has another token",
            ));
        }
        match self {
            Self::Tcp(stream) => {
                let info = socket::tcp_info(stream)?;
                Ok(Duration::from_nanos(info.round_trip_ns))
            }
            Self::Unix(_) | Self::Udp(_) => Ok(began.elapsed()),
        }
    }

    fn is_stream(&self) -> bool {
        !matches!(self, Self::Udp(_))
    }
}

impl Sender {
    fn of(channel: Channel, size: usize, token: &[u8], round_trip: Duration) -> io::Result<Self> {
        channel.set_up(LOOK)?;
        Ok(Self {
            channel,
            token: token.to_vec(),
            block: contents(size),
            sent: Sent::default(),
            marks: Marks::new(),
            allocations: 0,
            round_trip,
        })
    }

    /// A round trip when the flow began, as far as it is known.
    pub fn round_trip(&self) -> Duration {
        self.round_trip
    }

    /// Sends blocks for so long.
    ///
    /// # Errors
    ///
    /// What send(2) says; `TimedOut` where the other end takes nothing for ten seconds.
    pub fn send(&mut self, duration: Duration) -> io::Result<()> {
        let allocated = allocations();
        let sent = self.send_blocks(duration.as_nanos() as u64);
        self.allocations += allocations() - allocated;
        sent
    }

    fn send_blocks(&mut self, duration_ns: u64) -> io::Result<()> {
        let size = self.block.len() as u64;
        let end_ns = self.marks.note(self.sent.bytes) + duration_ns;
        let (mut bytes, mut calls) = (0, 0);
        loop {
            self.block[..NUMBER_BYTES].copy_from_slice(&self.sent.blocks.to_le_bytes());
            match self.channel.send_all(&self.block) {
                // A device's queue is full: the datagram is lost before it is sent.
                Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => {}
                sent => sent?,
            }
            self.sent.blocks += 1;
            self.sent.bytes += size;
            bytes += size;
            calls += 1;
            if bytes >= LOOK_BYTES || calls >= LOOK_CALLS {
                (bytes, calls) = (0, 0);
                if self.marks.note(self.sent.bytes) >= end_ns {
                    return Ok(());
                }
            }
        }
    }

    /// Says that this was all, and waits until the receiver knows. What has not arrived half a
    /// second later is thrown away, unless it is datagrams, of which the receiver says when it has
    /// had the last.
    ///
    /// # Errors
    ///
    /// `TimedOut` where the receiver does not answer; what send(2) and recv(2) say.
    pub fn end(&mut self) -> io::Result<()> {
        let stream = match &self.channel {
            Channel::Udp(_) => return self.end_datagrams(),
            Channel::Tcp(stream) => {
                stream.shutdown(Shutdown::Write)?;
                Some(stream)
            }
            Channel::Unix(stream) => {
                stream.shutdown(Shutdown::Write)?;
                None
            }
        };
        let until = Instant::now() + DRAIN + 4 * self.round_trip;
        loop {
            match self.channel.receive(&mut [0]) {
                // The receiver closes when it has all.
                Ok(0) => return Ok(()),
                Ok(_) => {
                    return Err(io::Error::new(
                        ErrorKind::InvalidData,
                        "the receiver said what was not asked",
                    ));
                }
                Err(error) if is_passing(&error) => {}
                Err(error) => return Err(error),
            }
            if Instant::now() > until {
                return stream.map_or(Ok(()), socket::reset_on_close);
            }
        }
    }

    fn end_datagrams(&mut self) -> io::Result<()> {
        let until = Instant::now() + GREETING;
        let farewell = [&self.token[..], &self.sent.blocks.to_le_bytes()].concat();
        let mut said = vec![0; farewell.len()];
        self.channel.send_all(&farewell)?;
        loop {
            match self.channel.receive(&mut said) {
                Ok(length) if said[..length] == farewell => return Ok(()),
                // The token again, where it was said more than once.
                Ok(_) => {}
                Err(error) if is_passing(&error) => self.channel.send_all(&farewell)?,
                Err(error) => return Err(error),
            }
            in_time(until)?;
        }
    }

    /// How far it was, from time to time.
    pub fn marks(&self) -> &[Mark] {
        &self.marks.marks
    }

    /// What TCP says; none of other sockets.
    ///
    /// # Errors
    ///
    /// What getsockopt(2) says.
    pub fn tcp_info(&self) -> io::Result<Option<TcpInfo>> {
        match &self.channel {
            Channel::Tcp(stream) => socket::tcp_info(stream).map(Some),
            Channel::Udp(_) | Channel::Unix(_) => Ok(None),
        }
    }

    /// The MTU of its way, in bytes; none of a Unix socket.
    ///
    /// # Errors
    ///
    /// What getsockopt(2) says.
    pub fn mtu_bytes(&self) -> io::Result<Option<u32>> {
        match &self.channel {
            Channel::Tcp(stream) => socket::mtu_bytes(stream).map(Some),
            Channel::Udp(socket) => socket::mtu_bytes(socket).map(Some),
            Channel::Unix(_) => Ok(None),
        }
    }

    /// How much its socket lets wait to be sent, in bytes.
    ///
    /// # Errors
    ///
    /// What getsockopt(2) says.
    pub fn buffer_bytes(&self) -> io::Result<u32> {
        self.channel.buffer_bytes().map(|(send, _)| send)
    }

    /// Allocations while it sent.
    pub fn allocations(&self) -> u64 {
        self.allocations
    }
}

impl Channel {
    fn buffer_bytes(&self) -> io::Result<(u32, u32)> {
        match self {
            Self::Tcp(stream) => socket::buffer_bytes(stream),
            Self::Udp(socket) => socket::buffer_bytes(socket),
            Self::Unix(stream) => socket::buffer_bytes(stream),
        }
    }
}

impl Receiver {
    fn of(channel: Channel, token: &[u8]) -> io::Result<Self> {
        channel.set_up(LOOK)?;
        Ok(Self {
            channel,
            token: token.to_vec(),
            buffer: vec![0; RECEIVE_BYTES],
            block: Vec::new(),
            bytes: 0,
            announced: 0,
            datagrams: 0,
            last: (0, 0),
            ended: false,
            marks: Marks::new(),
            allocations: 0,
        })
    }

    /// Receives blocks of `size` bytes until `stop` is set. Returns whether the sender had said
    /// that it was done.
    ///
    /// # Errors
    ///
    /// What recv(2) says; `InvalidData` where something came that was not sent.
    pub fn receive(&mut self, size: usize, stop: &AtomicBool) -> io::Result<bool> {
        self.block = contents(size);
        let allocated = allocations();
        while !stop.load(Ordering::Acquire) {
            if self.ended && self.channel.is_stream() {
                sleep(Duration::from_millis(1));
            } else {
                self.receive_until_marked()?;
            }
        }
        self.allocations += allocations() - allocated;
        Ok(self.ended)
    }

    /// Receives until it has made a mark, nothing has come for a while, or the end has.
    fn receive_until_marked(&mut self) -> io::Result<()> {
        let (mut bytes, mut calls) = (0, 0);
        loop {
            let length = match self.channel.receive(&mut self.buffer) {
                Ok(0) if self.channel.is_stream() => return self.end(),
                Ok(length) => length,
                Err(error) if is_passing(&error) => return Ok(()),
                // The sender has thrown away what was still on its way.
                Err(error) if error.kind() == ErrorKind::ConnectionReset => return self.end(),
                Err(error) => return Err(error),
            };
            if !self.channel.is_stream() && length < BLOCK_LEAST_BYTES {
                return self.hear(length);
            }
            self.take(length)?;
            bytes += length as u64;
            calls += 1;
            if bytes >= LOOK_BYTES || calls >= LOOK_CALLS {
                let marks = self.marks.marks.len();
                self.marks.note(self.bytes);
                if self.marks.marks.len() != marks {
                    return Ok(());
                }
                (bytes, calls) = (0, 0);
            }
        }
    }

    /// Counts a piece, and looks at the first block that begins in it.
    #[inline]
    fn take(&mut self, length: usize) -> io::Result<()> {
        let size = self.block.len() as u64;
        let piece = &self.buffer[..length];
        if self.channel.is_stream() {
            let number = self.bytes.div_ceil(size);
            let at = (number * size - self.bytes) as usize;
            if let Some(found) = piece.get(at..at + NUMBER_BYTES)
                && *found != number.to_le_bytes()
            {
                return Err(other_bytes());
            }
        } else if length as u64 != size
            || piece[length - NUMBER_BYTES..] != self.block[length - NUMBER_BYTES..]
        {
            return Err(other_bytes());
        }
        self.last = (self.bytes, length);
        self.bytes += length as u64;
        self.datagrams += 1;
        Ok(())
    }

    /// What the sender says between datagrams: the token again, which it may not know to have
    /// arrived, or that it is done, and how many it has sent. Both are said back.
    fn hear(&mut self, length: usize) -> io::Result<()> {
        let said = &self.buffer[..length];
        match said.split_at_checked(self.token.len()) {
            Some((token, [])) if token == self.token => {}
            Some((token, count)) if token == self.token => {
                let count = count.try_into().map_err(|_| other_bytes())?;
                self.announced = u64::from_le_bytes(count);
                self.ended = true;
            }
            _ => return Err(other_bytes()),
        }
        self.channel.send_all(said)
    }

    /// The sender is done; it learns that all has arrived.
    fn end(&mut self) -> io::Result<()> {
        self.ended = true;
        // What the sender has reset is closed already.
        let _ = match &self.channel {
            Channel::Tcp(stream) => stream.shutdown(Shutdown::Both),
            Channel::Unix(stream) => stream.shutdown(Shutdown::Both),
            Channel::Udp(_) => Ok(()),
        };
        Ok(())
    }

    /// Whether every byte of the last piece is what was sent there.
    pub fn last_piece_is_right(&self) -> bool {
        let (from, length) = self.last;
        let size = self.block.len() as u64;
        if !self.channel.is_stream() {
            // What was said after it lies in its first bytes.
            let rest = BLOCK_LEAST_BYTES..length;
            return self.buffer.get(rest.clone()) == self.block.get(rest);
        }
        self.buffer[..length].iter().zip(from..).all(|(byte, at)| {
            let (number, within) = (at / size, (at % size) as usize);
            *byte
                == number
                    .to_le_bytes()
                    .get(within)
                    .copied()
                    .unwrap_or(self.block[within])
        })
    }

    /// How far it was, from time to time.
    pub fn marks(&self) -> &[Mark] {
        &self.marks.marks
    }

    /// What became of the datagrams; none of a stream.
    ///
    /// # Errors
    ///
    /// What getsockopt(2) says.
    pub fn datagrams(&self) -> io::Result<Option<Datagrams>> {
        match &self.channel {
            Channel::Udp(socket) => Ok(Some(Datagrams {
                sent: self.announced,
                arrived: self.datagrams,
                dropped: socket::dropped_datagrams(socket)?.into(),
            })),
            Channel::Tcp(_) | Channel::Unix(_) => Ok(None),
        }
    }

    /// How much its socket lets wait to be received, in bytes.
    ///
    /// # Errors
    ///
    /// What getsockopt(2) says.
    pub fn buffer_bytes(&self) -> io::Result<u32> {
        self.channel.buffer_bytes().map(|(_, receive)| receive)
    }

    /// Allocations while it received.
    pub fn allocations(&self) -> u64 {
        self.allocations
    }
}

/// What a block holds behind its number: the same at both ends, and no run of zeroes.
fn contents(size: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = || {
        // xorshift64
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    };
    (0..size).map(|_| next()).collect()
}

fn other_bytes() -> io::Error {
    io::Error::new(ErrorKind::InvalidData, "other bytes arrived than were sent")
}

/// Nothing has come yet, or a signal came between.
fn is_passing(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;
    use std::thread;

    const TOKEN: &[u8] = b"0123456789abcdef0123456789abcdef";
    const LOCAL: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    /// Sends for a moment; the receivers, whether each knew the end, and the senders.
    fn transfer(over: Over, flows: usize, size: usize) -> (Vec<Receiver>, Vec<Sender>) {
        let listener = Listener::open(over, LOCAL, (0, 0), flows).unwrap();
        let address = listener.address().unwrap();
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            let receivers = scope.spawn(|| {
                let mut receivers = listener.accept(TOKEN, &stop).unwrap();
                thread::scope(|scope| {
                    for receiver in &mut receivers {
                        scope.spawn(|| assert!(receiver.receive(size, &stop).unwrap()));
                    }
                });
                receivers
            });
            let mut senders = call(over, &address, (flows, size), None, TOKEN).unwrap();
            thread::scope(|scope| {
                for sender in &mut senders {
                    scope.spawn(|| {
                        sender.send(Duration::from_millis(20)).unwrap();
                        sender.end().unwrap();
                    });
                }
            });
            stop.store(true, Ordering::Release);
            (receivers.join().unwrap(), senders)
        })
    }

    #[test]
    fn every_byte_arrives_in_its_place() {
        for over in [Over::Tcp, Over::Unix] {
            for (flows, size) in [(1, 64), (2, 1000), (1, 128 << 10), (3, 1 << 20)] {
                let (receivers, senders) = transfer(over, flows, size);
                for (receiver, sender) in receivers.iter().zip(&senders) {
                    assert!(receiver.last_piece_is_right(), "{over:?} {size}");
                    assert_eq!(receiver.allocations(), 0);
                    assert_eq!(sender.allocations(), 0);
                    assert!(receiver.marks().is_sorted_by_key(|mark| mark.bytes));
                }
                let sent: u64 = senders.iter().map(|sender| sender.sent.bytes).sum();
                let came: u64 = receivers.iter().map(|receiver| receiver.bytes).sum();
                assert_eq!(sent, came, "{over:?} {size}");
            }
        }
    }

    #[test]
    fn datagrams_arrive_or_are_known_to_be_lost() {
        for (flows, size) in [(1, 64), (2, 1472), (1, DATAGRAM_MOST_BYTES)] {
            let (receivers, senders) = transfer(Over::Udp, flows, size);
            for (receiver, sender) in receivers.iter().zip(&senders) {
                assert!(receiver.last_piece_is_right());
                let datagrams = receiver.datagrams().unwrap().unwrap();
                assert_eq!(datagrams.sent, sender.sent.blocks);
                assert!(datagrams.arrived > 0);
                // Loopback loses nothing itself.
                assert!(
                    datagrams.arrived + datagrams.dropped >= datagrams.sent,
                    "{datagrams:?}"
                );
            }
        }
    }

    #[test]
    fn strangers_are_dropped() {
        for over in [Over::Tcp, Over::Udp] {
            let listener = Listener::open(over, LOCAL, (0, 0), 1).unwrap();
            let address = listener.address().unwrap();
            let stop = AtomicBool::new(false);
            thread::scope(|scope| {
                let receivers = scope.spawn(|| {
                    let mut receivers = listener.accept(TOKEN, &stop).unwrap();
                    receivers[0].receive(64, &stop).unwrap()
                });
                let stranger = [0; TOKEN.len()];
                match over {
                    Over::Udp => {
                        let socket = datagrams_to(address.parse().unwrap()).unwrap();
                        socket.send(&stranger).unwrap();
                    }
                    _ => {
                        let mut stream = TcpStream::connect(&address).unwrap();
                        stream.write_all(&stranger).unwrap();
                        assert!(matches!(stream.read(&mut [0]), Ok(0) | Err(_)));
                    }
                }
                let mut senders = call(over, &address, (1, 64), None, TOKEN).unwrap();
                senders[0].send(Duration::from_millis(1)).unwrap();
                senders[0].end().unwrap();
                stop.store(true, Ordering::Release);
                assert!(receivers.join().unwrap());
            });
        }
    }

    #[test]
    fn what_was_not_sent_is_an_error() {
        let listener = Listener::open(Over::Tcp, LOCAL, (0, 0), 1).unwrap();
        let mut stream = TcpStream::connect(listener.address().unwrap()).unwrap();
        stream.write_all(TOKEN).unwrap();
        stream.write_all(&[1; 4096]).unwrap();
        let stop = AtomicBool::new(false);
        let mut receivers = listener.accept(TOKEN, &stop).unwrap();
        let error = receivers[0].receive(4096, &stop).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidData);
    }

    #[test]
    fn one_that_is_stopped_before_the_end_says_so() {
        for over in [Over::Tcp, Over::Udp] {
            let listener = Listener::open(over, LOCAL, (0, 0), 1).unwrap();
            let address = listener.address().unwrap();
            let stop = AtomicBool::new(false);
            thread::scope(|scope| {
                let receivers = scope.spawn(|| {
                    let mut receivers = listener.accept(TOKEN, &stop).unwrap();
                    receivers[0].receive(64, &stop).unwrap()
                });
                let senders = call(over, &address, (1, 64), None, TOKEN).unwrap();
                stop.store(true, Ordering::Release);
                assert!(!receivers.join().unwrap());
                drop(senders);
            });
            let listener = Listener::open(over, LOCAL, (0, 0), 1).unwrap();
            let error = listener.accept(TOKEN, &stop).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Interrupted);
        }
    }

    #[test]
    fn what_does_not_fit_or_is_not_there_is_refused() {
        let to = |over, size, control: Option<&str>| {
            let listener = Listener::open(Over::Tcp, LOCAL, (0, 0), 1).unwrap();
            let address = listener.address().unwrap();
            call(over, &address, (1, size), control, TOKEN)
                .map(drop)
                .unwrap_err()
                .kind()
        };
        assert_eq!(to(Over::Tcp, 63, None), ErrorKind::InvalidInput);
        let too_large = DATAGRAM_MOST_BYTES + 1;
        assert_eq!(to(Over::Udp, too_large, None), ErrorKind::InvalidInput);
        assert_eq!(to(Over::Tcp, 64, Some("nosuch")), ErrorKind::NotFound);
    }

    #[test]
    fn marks_thin_out_where_they_become_many() {
        let mut marks = Marks::new();
        for at_ns in (0..5000).map(|number| number * MARK_EVERY_NS) {
            if at_ns >= marks.next_ns {
                marks.add(Mark {
                    at_ns,
                    ..Mark::default()
                });
            }
        }
        assert!((MARKS / 2..=MARKS).contains(&marks.marks.len()));
        assert!(marks.marks.is_sorted_by_key(|mark| mark.at_ns));
        assert_eq!(marks.marks[0].at_ns, 0);
        assert_eq!(marks.every_ns, 8 * MARK_EVERY_NS);
    }
}
