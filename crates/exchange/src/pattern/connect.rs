//! Measured: setting up and tearing down TCP connections.
//!
//! Both ends tear a connection down: each sends a FIN. The end that sends it first keeps the
//! connection's two addresses and ports for a minute (TIME-WAIT). No new connection may use them
//! during that time, so there can be only as many connections per minute as ports. A reset
//! (`SO_LINGER` of 0) would avoid this, but it is not what is measured; neither is reuse of these
//! ports (net.ipv4.tcp_tw_reuse). So a measurement makes few connections to one listening port, and
//! listens on another one the next time.
//!
//! A measured connection carries no token. The port that it comes from identifies it: the client holds
//! ports that nobody else can use, and announces them over a first connection, which has the token. The
//! server refuses whoever has connected before, acknowledges the ports, and compares them with the
//! addresses that accept(2) returns; it refuses all other connections. None of this is timed.
//!
//! Source: tcp(7), accept(2), shutdown(2), socket(7) on `SO_LINGER`; RFC 9293, section 3.6.

mod ports;

use std::io::{self, ErrorKind};
use std::iter;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::io::{Errno, ioctl_fionbio};
use rustix::net::{RecvFlags, Shutdown, getsockname, recv, shutdown, sockopt};

use crate::rendezvous::{BACKLOG, Listener, is_end, refuse};
use crate::transport::Channel;
use crate::transport::socket::Socket;
use costof_os::net::poll::{readable, wait};
use costof_os::net::socket::{is_passing, receive_within};
use ports::{HELD, Ports};

/// How long the peer may be silent.
pub const SILENCE_TIMEOUT: Duration = Duration::from_secs(5);
/// How long an [`Acceptor`] waits before its caller checks whether it should stop.
const POLL_INTERVAL: Duration = Duration::from_millis(10);
/// The length of an announcement: the port of the first connection, and those of the next ones, the last
/// of them first, each as two bytes in network order. Zeros fill it where fewer ports are free.
const ANNOUNCEMENT_BYTES: usize = 2 * (1 + HELD);

/// A socket that is not connected, and the address that it will connect to.
#[derive(Debug)]
pub struct Unconnected(OwnedFd, SocketAddr);

/// One end of a connection.
#[derive(Debug)]
pub struct Connection(OwnedFd);

/// Makes connections to one server, which knows the port that each will come from.
#[derive(Debug)]
pub struct Connector {
    /// The first connection, which has the token.
    first: Socket,
    to: SocketAddr,
    ports: Ports,
}

impl Connector {
    /// Makes further connections to the peer of this first one.
    ///
    /// # Errors
    ///
    /// `InvalidInput` if it is not a TCP connection.
    pub fn new(first: Socket) -> io::Result<Self> {
        let to = first.peer()?.ok_or(ErrorKind::InvalidInput)?;
        let ports = Ports::new(&to)?;
        Ok(Self { first, to, ports })
    }

    /// A socket for the next connection, bound to a port that the server expects.
    ///
    /// # Errors
    ///
    /// Those of socket(2) and bind(2); `AddrNotAvailable` if no port is free.
    pub fn open(&mut self) -> io::Result<Unconnected> {
        if self.ports.is_empty() {
            self.announce()?;
        }
        let socket = self.ports.socket()?;
        receive_within(&socket, SILENCE_TIMEOUT)?;
        sockopt::set_socket_timeout(&socket, sockopt::Timeout::Send, Some(SILENCE_TIMEOUT))?;
        Ok(Unconnected(socket, self.to))
    }

    fn announce(&mut self) -> io::Result<()> {
        let own = SocketAddr::try_from(getsockname(&self.first)?)?.port();
        let ports =
            [own].into_iter().chain(self.ports.hold()?).chain(iter::repeat(0)).take(1 + HELD);
        let mut announcement = ports.flat_map(u16::to_be_bytes).collect();
        self.first.send(&mut announcement)?;
        // The server has refused whoever connected from these ports before.
        let since = Instant::now();
        while !self.first.receive(&mut announcement)? {
            if since.elapsed() > SILENCE_TIMEOUT {
                return Err(ErrorKind::TimedOut.into());
            }
        }
        Ok(())
    }
}

impl Unconnected {
    /// Measured: connect(2), until the other end's kernel has accepted the connection. One system
    /// call.
    ///
    /// # Errors
    ///
    /// Those of connect(2): EADDRNOTAVAIL if the port is in TIME-WAIT; EINPROGRESS after five seconds
    /// without an answer.
    #[inline]
    pub fn connect(self) -> io::Result<Connection> {
        rustix::net::connect(&self.0, &self.1)?;
        Ok(Connection(self.0))
    }
}

impl Connection {
    /// Measured: close(2), which sends a FIN and does not wait for the peer's. One system call.
    #[inline]
    pub fn close(self) {
        drop(self.0);
    }

    /// The socket. At the client it has the time-outs of [`Connector::open`], at the server a short one.
    pub fn into_socket(self) -> OwnedFd {
        self.0
    }

    /// Measured: sends a FIN, waits for the peer's, and closes. Three system calls if there is no
    /// unread data.
    ///
    /// # Errors
    ///
    /// Those of shutdown(2) and recv(2); `WouldBlock` if the peer is silent for five to ten seconds.
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
        let mut silent_since = None;
        loop {
            match recv(&self.0, &mut dropped, RecvFlags::empty()) {
                Ok((_, 0)) => return Ok(()),
                Ok(_) => silent_since = None,
                Err(Errno::AGAIN) if !is_long(silent_since.get_or_insert_with(Instant::now)) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// Whether the peer has been silent for too long, at a time-out.
#[cold]
fn is_long(silent_since: &Instant) -> bool {
    silent_since.elapsed() > SILENCE_TIMEOUT
}

/// Accepts the connections of one client, and refuses all others.
#[derive(Debug)]
pub struct Acceptor {
    listener: TcpListener,
    /// The client's first connection, which has the token.
    first: Socket,
    from: IpAddr,
    /// The announced ports from which the client has not connected yet; the next one is the last. `None` if
    /// something on the path (NAT) changes ports, so that only the address identifies the client.
    ports: Option<Vec<u16>>,
}

impl Acceptor {
    /// Accepts further connections of the client of this first one.
    ///
    /// # Errors
    ///
    /// Those of ioctl(2) and setsockopt(2); `InvalidInput` if it is not a TCP connection.
    pub fn new(listener: Listener, first: Socket) -> io::Result<Self> {
        let listener = listener.into_socket().ok_or(ErrorKind::InvalidInput)?;
        let peer = first.peer()?.ok_or(ErrorKind::InvalidInput)?;
        ioctl_fionbio(&listener, false)?;
        // Accepted sockets inherit it.
        receive_within(&listener, POLL_INTERVAL)?;
        Ok(Self { listener: listener.into(), first, from: peer.ip(), ports: Some(Vec::new()) })
    }

    /// Waits in accept(2) for a connection, as a plain server does. `None` if none of the client's arrives
    /// within 10 ms, or no port is announced for a while.
    ///
    /// # Errors
    ///
    /// Those of accept(2) and of the first connection.
    #[inline]
    pub fn accept_next(&mut self) -> io::Result<Option<Connection>> {
        if !self.knows_ports()? {
            return Ok(None);
        }
        let accepted = self.accept();
        self.from_client(accepted)
    }

    /// Waits in poll(2) for a connection; false if none arrives within 10 ms, or no port is announced for a
    /// while.
    ///
    /// # Errors
    ///
    /// Those of poll(2) and of the first connection.
    pub fn wait(&mut self) -> io::Result<bool> {
        Ok(self.knows_ports()? && wait(&mut [readable(&self.listener)], POLL_INTERVAL)?)
    }

    /// Receives the next ports if all are used up; false if none arrive for a while.
    #[inline]
    fn knows_ports(&mut self) -> io::Result<bool> {
        let is_used_up = self.ports.as_ref().is_some_and(Vec::is_empty);
        Ok(!is_used_up || self.receive_ports()?)
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

    /// Whether this is a connection of the client.
    fn is_clients(&self, accepted: &io::Result<(OwnedFd, SocketAddr)>) -> bool {
        accepted.as_ref().is_ok_and(|(_, from)| {
            let ports = self.ports.as_ref();
            from.ip() == self.from && ports.is_none_or(|ports| ports.contains(&from.port()))
        })
    }

    /// The accepted connection; refuses it unless it is the client's.
    ///
    /// # Errors
    ///
    /// Those of accept(2), except where the connection had already ended.
    pub fn from_client(
        &mut self,
        accepted: io::Result<(OwnedFd, SocketAddr)>,
    ) -> io::Result<Option<Connection>> {
        let is_clients = self.is_clients(&accepted);
        match accepted {
            Ok((socket, from)) if is_clients => {
                if let Some(ports) = &mut self.ports {
                    while ports.pop().is_some_and(|port| port != from.port()) {}
                }
                Ok(Some(Connection(socket)))
            }
            Ok((socket, _)) => {
                refuse(socket);
                Ok(None)
            }
            Err(error) if is_passing(&error) || error.kind() == ErrorKind::ConnectionAborted => {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Receives the next ports; false if none arrive for a while.
    fn receive_ports(&mut self) -> io::Result<bool> {
        let mut announcement = vec![0; ANNOUNCEMENT_BYTES];
        match self.first.receive(&mut announcement) {
            Ok(true) => {}
            // The client needs no more.
            Err(error) if is_end(&error) => {
                std::thread::sleep(POLL_INTERVAL);
                return Ok(false);
            }
            other => return other,
        }
        let pairs = announcement.chunks_exact(2);
        let mut ports = pairs.map(|pair| u16::from_be_bytes([pair[0], pair[1]]));
        let own = self.first.peer()?.map(|peer| peer.port());
        self.ports = (ports.next() == own).then(|| ports.filter(|port| *port != 0).collect());
        self.refuse_queued()?;
        self.first.send(&mut announcement)?;
        Ok(true)
    }

    /// Refuses whoever waits to be accepted: what connected from these ports before the client held them is a
    /// stranger. The client has no connection then.
    fn refuse_queued(&self) -> io::Result<()> {
        for _ in 0..=BACKLOG {
            if !wait(&mut [readable(&self.listener)], Duration::ZERO)? {
                break;
            }
            match self.accept() {
                Ok((socket, _)) => refuse(socket),
                Err(error)
                    if is_passing(&error) || error.kind() == ErrorKind::ConnectionAborted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rendezvous::Over;
    use crate::transport::Wait;
    use crate::transport::testing::{TOKEN, accept, listen};
    use std::io::Read;
    use std::net::{Ipv4Addr, TcpStream};

    #[test]
    fn both_ends_say_that_they_are_done_and_strangers_are_refused() {
        let (mut acceptor, mut connector) = pair();
        assert!(!acceptor.wait().unwrap());
        // It may have come from a port that the client holds by now.
        let mut early = TcpStream::connect(connector.to).unwrap();
        early.set_read_timeout(Some(SILENCE_TIMEOUT)).unwrap();
        // More than are announced at a time.
        for number in 0..2 * HELD {
            let client = opened(&mut acceptor, &mut connector);
            if number == 0 {
                let refused = early.read(&mut [0]).unwrap_err();
                assert_eq!(refused.kind(), ErrorKind::ConnectionReset);
            }
            let mut stranger = TcpStream::connect(connector.to).unwrap();
            let client = client.connect().unwrap();
            let plainly = number % 3 == 0;
            assert!(next(&mut acceptor, plainly).is_none());
            let server = next(&mut acceptor, plainly).unwrap();
            if number % 2 == 0 {
                let tearing = std::thread::spawn(move || client.tear_down().unwrap());
                server.wait_for_fin().unwrap();
                server.close();
                tearing.join().unwrap();
            } else {
                client.close();
                server.wait_for_fin().unwrap();
            }
            let refused = stranger.read(&mut [0]).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::ConnectionReset);
        }
        drop(connector);
        assert!(!acceptor.wait().unwrap());
        assert!(acceptor.accept_next().unwrap().is_none());
    }

    #[test]
    fn a_server_waits_for_a_client_that_is_slow_to_end() {
        let (mut acceptor, mut connector) = pair();
        let client = opened(&mut acceptor, &mut connector).connect().unwrap();
        let server = next(&mut acceptor, true).unwrap();
        let ending = std::thread::spawn(move || {
            std::thread::sleep(5 * POLL_INTERVAL);
            client.close();
        });
        server.wait_for_fin().unwrap();
        ending.join().unwrap();
    }

    #[test]
    fn where_ports_change_on_the_path_the_address_identifies_the_client() {
        let (mut acceptor, mut connector) = pair();
        let mut announcement = vec![0; ANNOUNCEMENT_BYTES];
        connector.first.send(&mut announcement).unwrap();
        while acceptor.ports.is_some() {
            acceptor.wait().unwrap();
        }
        let _client = TcpStream::connect(connector.to).unwrap();
        assert!(next(&mut acceptor, false).is_some());
        acceptor.from = Ipv4Addr::new(192, 0, 2, 1).into();
        let _stranger = TcpStream::connect(connector.to).unwrap();
        assert!(next(&mut acceptor, true).is_none());
    }

    /// The client's next socket; the server acknowledges ports meanwhile.
    fn opened(acceptor: &mut Acceptor, connector: &mut Connector) -> Unconnected {
        std::thread::scope(|scope| {
            let open = scope.spawn(|| connector.open().unwrap());
            while !open.is_finished() {
                acceptor.wait().unwrap();
            }
            open.join().unwrap()
        })
    }

    /// Accepts the next connection; `None` if it is a stranger's. Without poll, as a plain server does, if
    /// `plainly`.
    fn next(acceptor: &mut Acceptor, plainly: bool) -> Option<Connection> {
        if plainly {
            // A queued connection is returned at once, and a refused one as if none had arrived.
            return acceptor.accept_next().unwrap();
        }
        while !acceptor.wait().unwrap() {}
        let accepted = acceptor.accept();
        acceptor.from_client(accepted).unwrap()
    }

    fn pair() -> (Acceptor, Connector) {
        let (listener, address) = listen(Over::Tcp);
        let (server, client) = std::thread::scope(|scope| {
            let server = scope.spawn(|| accept(&listener, Wait::Block));
            let client = Socket::connect(Over::Tcp, &address, Wait::Block, TOKEN).unwrap();
            (server.join().unwrap(), client)
        });
        let connector = Connector::new(client).unwrap();
        (Acceptor::new(listener, server).unwrap(), connector)
    }

    #[test]
    fn nobody_to_connect_to_is_an_error() {
        let (mut acceptor, mut connector) = pair();
        let socket = opened(&mut acceptor, &mut connector);
        drop(acceptor);
        let refused = socket.connect().unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
    }
}
