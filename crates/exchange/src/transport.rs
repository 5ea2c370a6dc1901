//! The transports of messages between two ends, one file each. All are dispatched statically, so
//! that a timed exchange makes the system calls of its transport and no indirect call.

pub mod one_thread;
pub mod rudp;
pub mod socket;
pub mod stamped;
pub mod study;

use std::io;
use std::time::Duration;

use crate::progress::STALLED;

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

/// One end of a connection that carries messages of one size.
pub trait Transport {
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

/// A transport that can check for a message without waiting.
pub trait TryReceive: Transport {
    /// Receives a message that has already arrived, as [`Transport::receive`].
    ///
    /// # Errors
    ///
    /// Those of [`Transport::receive`].
    fn try_receive(&mut self, message: &mut Vec<u8>) -> io::Result<bool>;
}

/// A message of this size, in which no two neighbours are alike.
pub fn message(size: usize) -> Vec<u8> {
    (0..size).map(|byte| (byte % 251) as u8).collect()
}

/// Whether the peer is gone, which it may be when it has what it wants.
pub fn is_end(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionRefused, ConnectionReset, UnexpectedEof};
    matches!(error.kind(), UnexpectedEof | BrokenPipe | ConnectionReset | ConnectionRefused)
}

#[cfg(test)]
pub(crate) mod testing {
    use super::socket::Socket;
    use super::{Transport, Wait, is_end};
    use crate::ping_pong::Server;
    use crate::rendezvous::{Address, Listener, Over};
    use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
    use std::sync::atomic::AtomicBool;

    pub(crate) const TOKEN: &[u8] = b"0123456789abcdef";
    const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    pub(crate) fn listen(over: Over) -> (Listener, Address) {
        let listener = Listener::open(over, HERE, (0, 0), 1, TOKEN).unwrap();
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
    pub(crate) fn serve(transport: impl Transport, size: usize) {
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
