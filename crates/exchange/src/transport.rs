//! What carries messages between two ends, one file each. All of them are dispatched statically, so
//! that a timed exchange makes the system calls of its transport and no indirect call.

pub mod one_thread;
pub mod rudp;
pub mod socket;
pub mod stamped;
pub mod study;

use std::io;
use std::time::Duration;

/// How long a receive that blocks waits before it returns without a message, so that its caller sees
/// that it is stopped.
pub const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// How long a peer has to answer, and to take what is sent to it.
pub(crate) const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// A retransmission timeout in round trips.
pub(crate) const RTO_ROUND_TRIPS: u32 = 3;
/// A peer that says nothing for so long has gone; a worker that takes longer is taken for hung.
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
    /// Whether an answer has the bytes of its message. Otherwise it only acknowledges it.
    const ECHOES: bool = true;

    /// Sends a message. Some transports take its bytes, and leave the buffer empty.
    ///
    /// # Errors
    ///
    /// What the system says; `TimedOut` where the peer takes nothing; `UnexpectedEof` where it has
    /// closed.
    fn send(&mut self, message: &mut Vec<u8>) -> io::Result<()>;

    /// Receives a message: into the buffer, which has its size, or instead of it. False where none
    /// came within [`POLL_INTERVAL`] or so many polls, or something that is none.
    ///
    /// # Errors
    ///
    /// What the system says; `UnexpectedEof` where the peer has closed; `TimedOut` where the rest of
    /// a message does not come.
    fn receive(&mut self, message: &mut Vec<u8>) -> io::Result<bool>;

    /// After how long without an answer a message counts as lost, to begin with. `None` where the
    /// transport retransmits by itself, or loses nothing.
    fn initial_rto(&self) -> Option<Duration> {
        None
    }

    /// How long an answer may take where nothing is lost.
    fn answer_timeout(&self) -> Duration {
        ANSWER_TIMEOUT
    }

    /// How often the transport itself has retransmitted so far.
    fn retransmissions(&mut self) -> u64 {
        0
    }
}

/// A transport that can look for a message without waiting.
pub trait TryReceive: Transport {
    /// Receives a message that is there already, as [`Transport::receive`].
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

/// The peer takes nothing, or does not answer.
pub(crate) fn no_answer() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, "the other end does not answer")
}

/// Whether the peer has gone, which it may do when it has what it wants.
pub fn is_end(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionRefused, ConnectionReset, UnexpectedEof};
    matches!(
        error.kind(),
        UnexpectedEof | BrokenPipe | ConnectionReset | ConnectionRefused
    )
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
        let (listener, address) = listen(over);
        let server = std::thread::spawn(move || accept(&listener, wait));
        let client = Socket::connect(over, &address, wait, TOKEN).unwrap();
        (server.join().unwrap(), client)
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
            Address::Unix(name) => panic!("{name} is no address"),
        }
    }
}
