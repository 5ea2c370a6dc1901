//! A TCP handshake on its own: started, and queried later whether it is complete and how long it
//! took.
//!
//! The kernels at both ends exchange it without any process. So it measures the link's round trip
//! regardless of the server, and it waits in the same queues as the link's packets.
//!
//! Source: connect(2) on non-blocking sockets, tcp(7) on `TCP_INFO`; RFC 9293, section 3.5.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::event::PollFlags;
use rustix::io::{Errno, ioctl_fionbio};
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, ipproto, socket_with, sockopt};

use crate::net::poll::able;
use crate::net::socket::{reset_on_close, tcp_info};

/// A connection that may not be established yet.
#[derive(Debug)]
pub struct Handshake(OwnedFd);

impl Handshake {
    /// Sends the first packet. Does not wait.
    ///
    /// # Errors
    ///
    /// Those of socket(2) and connect(2).
    pub fn begin(to: &SocketAddr) -> io::Result<Self> {
        Self::begin_from(None, to)
    }

    /// The same from this port.
    ///
    /// # Errors
    ///
    /// `PermissionDenied` or `AddrInUse` for the port too.
    pub fn begin_from(port: Option<u16>, to: &SocketAddr) -> io::Result<Self> {
        let (family, any): (_, IpAddr) = match to {
            SocketAddr::V4(_) => (AddressFamily::INET, Ipv4Addr::UNSPECIFIED.into()),
            SocketAddr::V6(_) => (AddressFamily::INET6, Ipv6Addr::UNSPECIFIED.into()),
        };
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(family, SocketType::STREAM, flags, Some(ipproto::TCP))?;
        if let Some(port) = port {
            bind(&socket, &SocketAddr::new(any, port))?;
        }
        match rustix::net::connect(&socket, to) {
            Ok(()) | Err(Errno::INPROGRESS) => Ok(Self(socket)),
            Err(error) => Err(error.into()),
        }
    }

    /// Waits until it is over.
    ///
    /// # Errors
    ///
    /// `TimedOut` if it takes longer than this; `ConnectionRefused` and other answers of the other end or a
    /// router.
    pub fn wait(&self, limit: Duration) -> io::Result<()> {
        match able(&self.0, PollFlags::OUT, limit)? {
            None => Err(ErrorKind::TimedOut.into()),
            Some(_) => Ok(sockopt::socket_error(&self.0)??),
        }
    }

    /// How long it took in nanoseconds, as this end's kernel has timed it (in microseconds); `None` if it is
    /// not over. The other end knows the connection by then; nothing else was sent.
    ///
    /// # Errors
    ///
    /// Those of getsockopt(2).
    pub fn round_trip_ns(&self) -> io::Result<Option<u64>> {
        let round_trip_ns = tcp_info(&self.0)?.round_trip_ns;
        Ok((round_trip_ns > 0).then_some(round_trip_ns))
    }

    /// Makes it end with a reset, so that its port is not kept for a minute.
    ///
    /// # Errors
    ///
    /// Those of setsockopt(2).
    pub fn reset_on_close(&self) -> io::Result<()> {
        reset_on_close(&self.0)
    }

    /// The connection, as a blocking stream.
    ///
    /// # Errors
    ///
    /// Those of ioctl(2).
    pub fn into_stream(self) -> io::Result<TcpStream> {
        ioctl_fionbio(&self.0, false)?;
        Ok(self.0.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::TcpListener;

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn a_handshake_is_over_without_anybody_who_accepts() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let handshake = Handshake::begin(&listener.local_addr().unwrap()).unwrap();
        handshake.wait(LONG).unwrap();
        assert!(handshake.round_trip_ns().unwrap().is_some());
        let (mut far, _) = listener.accept().unwrap();
        let mut near = handshake.into_stream().unwrap();
        // It blocks, as a stream of std does.
        let late = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(20));
            far.write_all(b"late").unwrap();
        });
        let mut received = [0; 4];
        near.read_exact(&mut received).unwrap();
        assert_eq!(&received, b"late");
        late.join().unwrap();
    }

    /// A socket that has a port, and does not listen.
    fn bound() -> (OwnedFd, SocketAddr) {
        let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
        bind(&socket, &SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
        let address = rustix::net::getsockname(&socket).unwrap();
        (socket, SocketAddr::try_from(address).unwrap())
    }

    #[test]
    fn nobody_who_listens_is_told() {
        let (_bound, to) = bound();
        let refused = Handshake::begin(&to).and_then(|handshake| handshake.wait(LONG));
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::ConnectionRefused);
    }

    #[test]
    fn a_kernel_that_does_not_answer_is_not_waited_for() {
        // The queue of a listener that accepts nothing is full after a few connections.
        let (listener, to) = bound();
        rustix::net::listen(&listener, 0).unwrap();
        let mut kept = Vec::new();
        let late = loop {
            let handshake = Handshake::begin(&to).unwrap();
            match handshake.wait(Duration::from_millis(300)) {
                Ok(()) => kept.push(handshake),
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::TimedOut);
                    break handshake;
                }
            }
            assert!(kept.len() < 100, "the queue of connections is never full");
        };
        assert_eq!(late.round_trip_ns().unwrap(), None);
    }
}
