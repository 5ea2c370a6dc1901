//! Sockets: connected ones, and one that listens.

use crate::RpcError;
use std::io::{self, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::time::Duration;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// A connected stream socket, TCP or Unix. The kernel's calls are the same for both, so the
/// standard library's TCP type holds either.
#[derive(Debug)]
pub struct Socket(pub(crate) TcpStream);

impl<S: Into<OwnedFd>> From<S> for Socket {
    fn from(socket: S) -> Self {
        Self(socket.into().into())
    }
}

impl Socket {
    /// # Errors
    /// [`RpcError::Connect`].
    pub(crate) fn connect(address: SocketAddr) -> Result<Self, RpcError> {
        let connected = TcpStream::connect_timeout(&address, CONNECT_TIMEOUT)
            .and_then(|stream| stream.set_nodelay(true).map(|()| stream));
        connected.map(Self).map_err(|source| RpcError::Connect { address, source })
    }

    /// Switches off Nagle's algorithm, which a Unix socket does not have.
    pub(crate) fn set_nodelay(&self) -> io::Result<()> {
        match self.0.set_nodelay(true) {
            Err(error) if error.kind() == io::ErrorKind::Unsupported => Ok(()),
            done => done,
        }
    }

    pub(crate) fn shutdown(&self, how: Shutdown) {
        // Fails if the other end has closed the connection already.
        let _ = self.0.shutdown(how);
    }
}

impl Write for &Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        (&self.0).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[derive(Debug)]
pub(crate) struct Listener {
    /// With the actual port.
    pub(crate) address: SocketAddr,
    socket: TcpListener,
}

impl Listener {
    /// # Errors
    /// The system's, for the socket.
    pub(crate) fn bind(address: SocketAddr) -> io::Result<Self> {
        let socket = TcpListener::bind(address)?;
        let address = socket.local_addr()?;
        Ok(Self { address, socket })
    }

    /// Accepts the next connection.
    ///
    /// # Errors
    /// `InvalidInput` after [`Listener::close`]; the other errors of accept(2).
    pub(crate) fn accept(&self) -> io::Result<Socket> {
        let (stream, _) = self.socket.accept()?;
        Ok(Socket(stream))
    }

    /// Ends [`Listener::accept`], in whichever thread it waits.
    pub(crate) fn close(&self) {
        // Cannot fail for a listening socket.
        let _ = rustix::net::shutdown(&self.socket, rustix::net::Shutdown::Both);
    }
}
