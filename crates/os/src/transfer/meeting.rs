//! How the two ends of a transfer find each other.

use super::channel::{Channel, datagrams_to};
use super::{
    BLOCK_LEAST_BYTES, BLOCK_MOST_BYTES, DATAGRAM_MOST_BYTES, GREETING, LOOK, Over, Receiver,
    Sender, in_time, is_passing,
};
use crate::socket;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr as UnixAddress, UnixListener, UnixStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How long a connection has to say the token.
const TOKEN: Duration = Duration::from_secs(3);

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

impl Listener {
    /// Listens at `address` for so many flows, on ports between these, or any where they are 0. A
    /// Unix socket has a name of its own instead.
    ///
    /// # Errors
    ///
    /// What bind(2) says of the last port that was tried.
    pub fn open(over: Over, address: IpAddr, ports: (u16, u16), flows: usize) -> io::Result<Self> {
        let listening = match over {
            Over::Tcp => Listening::Tcp(bind(address, ports, TcpListener::bind)?, flows),
            Over::Udp => {
                let sockets = (0..flows).map(|_| bind(address, ports, UdpSocket::bind));
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
