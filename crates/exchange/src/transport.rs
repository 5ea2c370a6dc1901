//! The transports of messages between two ends, one file each. [`Transport`] says how the ends of a
//! stream are made. A transport whose ends also exchange messages one at a time has a [`Channel`]: these are dispatched
//! statically, so that a timed exchange makes the system calls of its transport and no indirect call.

pub mod calls;
pub mod one_thread;
#[cfg(feature = "quic")]
pub mod quic;
pub mod rudp;
pub mod socket;
pub mod stamped;
pub mod study;
pub mod tcp;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use crate::progress::STALLED;
use crate::rendezvous::{Address, Listener, Over, datagrams};
use crate::stream::{MessageReceiver, MessageSender};
use costof_os::net::socket::{DATAGRAM_MAX_BYTES, mtu_bytes};

/// How long an end waits before it checks whether it should stop, or whether the time is over.
const STREAM_POLL_INTERVAL: Duration = Duration::from_millis(10);
/// A transport with a limit of its own holds at most this many bytes of messages that have arrived or are to
/// be sent: twice what a rate of 1 Gb/s has in flight in 100 ms.
const WINDOW_BYTES: u32 = 32 << 20;
/// The most bytes of a stream to read at once.
const READ_BYTES: usize = 128 << 10;

/// What a sender needs to know of the receiver besides its address: values by name.
pub type Parameters = BTreeMap<Cow<'static, str>, String>;

/// The name by which a receiver offers its public key, in hexadecimal digits.
pub const KEY: &str = "key";

/// A receiver whose sender has connected, or why there is none.
pub type Accepted = io::Result<Box<dyn MessageReceiver>>;

/// How the two ends of a stream are made.
pub trait Transport: Send {
    /// Makes what the receiver needs before it can accept, and what the sender needs to know of it.
    ///
    /// # Errors
    /// Why it cannot be made.
    fn prepare(&mut self) -> io::Result<Parameters> {
        Ok(Parameters::new())
    }

    /// The receiving end of what connects to this listener.
    ///
    /// # Errors
    /// Those of [`datagrams::accept`].
    fn accept(self: Box<Self>, listener: &Listener, stop: &AtomicBool) -> Accepted;

    /// The sending end of a connection to a receiver.
    ///
    /// # Errors
    /// Those of [`datagrams::connect`]; why the transport cannot connect.
    fn connect(&self, receiver: &Endpoint<'_>) -> io::Result<Connected>;
}

/// Where a receiver waits, and what the sender needs to know of it.
#[derive(Clone, Copy, Debug)]
pub struct Endpoint<'a> {
    /// Its sockets.
    pub address: &'a Address,
    /// What [`Transport::prepare`] returned there.
    pub parameters: &'a Parameters,
    /// The token by which it recognises its sender.
    pub token: &'a [u8],
}

/// A sender that has connected.
pub struct Connected {
    /// What sends the messages.
    pub sender: Box<dyn MessageSender>,
    /// The largest packet of its path, in bytes.
    pub mtu: u32,
    /// The round-trip time of the rendezvous.
    pub round_trip: Duration,
}

/// A sender of datagrams: `sender` creates it from a socket and from the longest datagram that the path
/// carries without fragments.
fn connect_datagrams<S: MessageSender + 'static>(
    receiver: &Endpoint<'_>,
    sender: impl FnOnce(UdpSocket, usize) -> io::Result<S>,
) -> io::Result<Connected> {
    let (socket, round_trip) = datagrams::connect(receiver.address, receiver.token)?;
    let mtu = mtu_bytes(&socket)?;
    let headers = match socket.peer_addr()? {
        SocketAddr::V4(_) => 28,
        SocketAddr::V6(_) => 48,
    };
    let datagram = (mtu.saturating_sub(headers) as usize).min(DATAGRAM_MAX_BYTES);
    Ok(Connected { sender: Box::new(sender(socket, datagram)?), mtu, round_trip })
}

/// A retransmission timeout in round trips.
pub(crate) const RTO_ROUND_TRIPS: u32 = 3;
/// A peer that is silent for this long is gone; a worker that takes longer counts as hung.
pub const IDLE_TIMEOUT: Duration = Duration::from_secs(15);

/// How an end waits for a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// In the kernel.
    Block,
    /// By polling without a pause.
    Spin,
}

/// One end of a connection that carries messages of one size, one at a time.
pub trait Channel {
    /// Whether an answer has the bytes of its message. Otherwise it only acknowledges the message.
    const ECHOES: bool = true;

    /// Sends a message. Some transports take ownership of its bytes, and leave the buffer empty.
    ///
    /// # Errors
    ///
    /// The system's; `TimedOut` if the peer accepts nothing; `UnexpectedEof` if it has closed.
    fn send(&mut self, message: &mut Vec<u8>) -> io::Result<()>;

    /// Receives a message: into the buffer, which has its size, or in place of it. False if none
    /// arrived within [`POLL_INTERVAL`](crate::progress::POLL_INTERVAL) or a number of polls, or if something else arrived.
    ///
    /// # Errors
    ///
    /// The system's; `UnexpectedEof` if the peer has closed; `TimedOut` if the rest of a message
    /// does not arrive.
    fn receive(&mut self, message: &mut Vec<u8>) -> io::Result<bool>;

    /// The initial time after which a message without an answer counts as lost. `None` if the
    /// transport retransmits by itself, or loses nothing.
    fn initial_rto(&self) -> Option<Duration> {
        None
    }

    /// How long an answer may take if nothing is lost.
    fn answer_timeout(&self) -> Duration {
        STALLED
    }

    /// How often the transport itself has retransmitted so far.
    fn retransmissions(&mut self) -> u64 {
        0
    }
}

/// What both ends of messages that are answered one at a time agree on.
#[derive(Clone, Copy, Debug)]
pub struct Messages {
    /// The kind of sockets.
    pub over: Over,
    /// Bytes of a message.
    pub size: usize,
    /// How both ends wait.
    pub wait: Wait,
    /// Whether the path carries datagrams as long as UDP allows. If not, it is assumed to be Ethernet.
    pub long_datagrams: bool,
}

/// How the two ends of messages that are answered one at a time are made.
pub trait Channels {
    /// The end that sends messages.
    type Client: Channel;
    /// The end that answers them.
    type Server: Channel;

    /// Connects to a listener.
    ///
    /// # Errors
    /// Why it cannot be reached.
    fn connect(address: &Address, token: &[u8], messages: &Messages) -> io::Result<Self::Client>;

    /// Accepts the client.
    ///
    /// # Errors
    /// Why nobody has connected; `Interrupted` if `stop` is set.
    fn accept(
        listener: &Listener,
        messages: &Messages,
        stop: &AtomicBool,
    ) -> io::Result<Self::Server>;
}

/// A channel that can check for a message without waiting.
pub trait TryReceive: Channel {
    /// Receives a message that has already arrived, as [`Channel::receive`].
    ///
    /// # Errors
    ///
    /// Those of [`Channel::receive`].
    fn try_receive(&mut self, message: &mut Vec<u8>) -> io::Result<bool>;
}

/// A message of this size, which the ends of the study compare: other bytes need another method.
pub fn message(size: usize) -> Vec<u8> {
    (0..size).map(|byte| (byte % 251) as u8).collect()
}

#[cfg(test)]
pub(crate) mod testing {
    use super::socket::Socket;
    use super::{Channel, Wait};
    use crate::pattern::ping_pong::Server;
    use crate::rendezvous::{Address, Listener, Over, is_end};
    use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
    use std::sync::atomic::AtomicBool;

    pub(crate) const TOKEN: &[u8] = b"0123456789abcdef";
    const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    pub(crate) fn listen(over: Over) -> (Listener, Address) {
        let listener = Listener::open(over, (HERE, 0), (0, 0), 1, TOKEN).unwrap();
        let address = listener.address().unwrap();
        (listener, address)
    }

    pub(crate) fn accept(listener: &Listener, wait: Wait) -> Socket {
        Socket::accept(listener, wait, &AtomicBool::new(false)).unwrap()
    }

    /// The server's socket and the client's.
    pub(crate) fn pair(over: Over, wait: Wait) -> (Socket, Socket) {
        Socket::pair(over, HERE, wait, TOKEN).unwrap()
    }

    /// Answers until the client has gone.
    pub(crate) fn serve(transport: impl Channel, size: usize) {
        let mut server = Server::new(transport, size);
        loop {
            if let Err(error) = server.answer() {
                return assert!(is_end(&error), "{error}");
            }
        }
    }

    /// A socket to play a server by hand, and its address.
    pub(crate) fn datagrams() -> (UdpSocket, Address) {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = Address::Ip(vec![socket.local_addr().unwrap()]);
        (socket, address)
    }

    pub(crate) fn ip(address: Address) -> SocketAddr {
        match address {
            Address::Ip(addresses) => addresses[0],
            Address::Unix(name) => panic!("{name} is not an address"),
        }
    }
}
