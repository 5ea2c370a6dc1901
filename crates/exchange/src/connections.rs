//! Measured: setting up and tearing down TCP connections.
//!
//! Both ends tear a connection down: each sends a FIN. The end that sends it first keeps the
//! connection's two addresses and ports for a minute (TIME-WAIT). No new connection may use them
//! during that time, so there can be only as many connections per minute as ports. A reset
//! (`SO_LINGER` of 0) would avoid this, but it is not what is measured; neither is reuse of these
//! ports (net.ipv4.tcp_tw_reuse). So a measurement makes few connections to one listening port, and
//! listens on another one the next time.
//!
//! Source: tcp(7), accept(2), shutdown(2), socket(7) on `SO_LINGER`; RFC 9293, section 3.6.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::net::{
    AddressFamily, RecvFlags, Shutdown, SocketFlags, SocketType, ipproto, recv, shutdown,
    socket_with, sockopt,
};

use crate::rendezvous::Listener;
use costof_os::net::poll::{readable, wait};
use costof_os::net::socket::receive_within;

/// How long the peer may be silent.
const SILENCE_TIMEOUT: Duration = Duration::from_secs(5);
/// How long [`Acceptor::wait`] waits before its caller checks whether it should stop.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// A socket that is not connected.
#[derive(Debug)]
pub struct Unconnected(OwnedFd);

/// One end of a connection.
#[derive(Debug)]
pub struct Connection(OwnedFd);

impl Unconnected {
    /// A socket for connections to this address.
    ///
    /// # Errors
    ///
    /// Those of socket(2).
    pub fn open(to: &SocketAddr) -> io::Result<Self> {
        let family = match to {
            SocketAddr::V4(_) => AddressFamily::INET,
            SocketAddr::V6(_) => AddressFamily::INET6,
        };
        let socket = socket_with(
            family,
            SocketType::STREAM,
            SocketFlags::CLOEXEC,
            Some(ipproto::TCP),
        )?;
        receive_within(&socket, SILENCE_TIMEOUT)?;
        sockopt::set_socket_timeout(&socket, sockopt::Timeout::Send, Some(SILENCE_TIMEOUT))?;
        Ok(Self(socket))
    }

    /// Measured: connect(2), until the other end's kernel has accepted the connection. One system
    /// call.
    ///
    /// # Errors
    ///
    /// Those of connect(2): EADDRNOTAVAIL if all ports are in use; EINPROGRESS after five seconds
    /// without an answer.
    #[inline]
    pub fn connect(self, to: &SocketAddr) -> io::Result<Connection> {
        rustix::net::connect(&self.0, to)?;
        Ok(Connection(self.0))
    }
}

impl Connection {
    /// Measured: close(2), which sends a FIN and does not wait for the peer's. One system call.
    #[inline]
    pub fn close(self) {
        drop(self.0);
    }

    /// The socket. It has the time-outs of [`Unconnected::open`].
    pub fn into_socket(self) -> OwnedFd {
        self.0
    }

    /// Measured: sends a FIN, waits for the peer's, and closes. Three system calls if there is no
    /// unread data.
    ///
    /// # Errors
    ///
    /// Those of shutdown(2) and recv(2); `WouldBlock` if the peer is silent for five seconds.
    #[inline]
    pub fn tear_down(self) -> io::Result<()> {
        shutdown(&self.0, Shutdown::Write)?;
        self.wait_for_fin()
    }

    /// Reads until the peer's FIN, and discards the data before it.
    ///
    /// # Errors
    ///
    /// As for [`Self::tear_down`].
    #[inline]
    pub fn wait_for_fin(&self) -> io::Result<()> {
        let mut dropped = [0; 64];
        while recv(&self.0, &mut dropped, RecvFlags::empty())?.1 > 0 {}
        Ok(())
    }
}

/// Accepts connections from one address.
#[derive(Debug)]
pub struct Acceptor {
    listener: TcpListener,
    from: IpAddr,
}

impl Acceptor {
    /// Accepts the connections from this address on a non-blocking listener.
    ///
    /// # Errors
    ///
    /// Those of setsockopt(2); `InvalidInput` if it listens for datagrams.
    pub fn new(listener: Listener, from: IpAddr) -> io::Result<Self> {
        let listener = listener.into_socket().ok_or(io::ErrorKind::InvalidInput)?;
        // Accepted sockets inherit it.
        receive_within(&listener, SILENCE_TIMEOUT)?;
        Ok(Self {
            listener: listener.into(),
            from,
        })
    }

    /// Waits for a connection; false if none arrives within 10 ms.
    ///
    /// # Errors
    ///
    /// Those of poll(2).
    pub fn wait(&self) -> io::Result<bool> {
        wait(&mut [readable(&self.listener)], POLL_INTERVAL)
    }

    /// Measured: accept4(2), after [`Self::wait`] has found a connection. One system
    /// call.
    ///
    /// # Errors
    ///
    /// Those of accept(2).
    #[inline]
    pub fn accept(&self) -> io::Result<(OwnedFd, SocketAddr)> {
        let (stream, from) = self.listener.accept()?;
        Ok((stream.into(), from))
    }

    /// The accepted connection; closes it if it comes from another address.
    pub fn from_client(&self, (socket, from): (OwnedFd, SocketAddr)) -> Option<Connection> {
        (from.ip() == self.from).then_some(Connection(socket))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rendezvous::{Address, Over};
    use std::net::Ipv4Addr;

    #[test]
    fn both_ends_say_that_they_are_done_and_strangers_are_closed() {
        let here = Ipv4Addr::LOCALHOST.into();
        let listener = Listener::open(Over::Tcp, here, (0, 0), 1, b"").unwrap();
        let Address::Ip(to) = listener.address().unwrap() else {
            panic!("TCP has addresses");
        };
        let to = to[0];
        let acceptor = Acceptor::new(listener, Ipv4Addr::LOCALHOST.into()).unwrap();
        let connect = || Unconnected::open(&to).unwrap().connect(&to).unwrap();
        let next = |acceptor: &Acceptor| {
            while !acceptor.wait().unwrap() {}
            acceptor.from_client(acceptor.accept().unwrap())
        };

        assert!(!acceptor.wait().unwrap());
        let client = connect();
        let server = next(&acceptor).unwrap();
        let tearing = std::thread::spawn(move || client.tear_down().unwrap());
        server.wait_for_fin().unwrap();
        server.close();
        tearing.join().unwrap();

        let client = connect();
        let server = next(&acceptor).unwrap();
        client.close();
        server.wait_for_fin().unwrap();

        let strict = Acceptor {
            from: Ipv4Addr::new(192, 0, 2, 1).into(),
            ..acceptor
        };
        let client = connect();
        assert!(next(&strict).is_none());
        client.wait_for_fin().unwrap();
    }

    #[test]
    fn nobody_to_connect_to_is_an_error() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let to = listener.local_addr().unwrap();
        drop(listener);
        let refused = Unconnected::open(&to).unwrap().connect(&to).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
    }
}
