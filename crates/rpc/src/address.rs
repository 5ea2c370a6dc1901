//! Where a server listens, and sockets.

use crate::RpcError;
use std::fmt;
use std::io::{self, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use rustix::net::{SocketFlags, accept_with, shutdown};

/// How long connecting may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Where a server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// An address of IP and a port; 0 is one that is free.
    Tcp(SocketAddr),
    /// A Unix socket, which is made when a server begins and goes when it stops.
    Unix(PathBuf),
}

/// A connected stream socket, TCP or Unix. Once it is connected the kernel takes the same calls for
/// either, so the standard library's type for TCP holds both.
#[derive(Debug)]
pub struct Socket(pub(crate) TcpStream);

/// A listening socket, TCP or Unix. Dropping it removes the path of a Unix socket.
#[derive(Debug)]
pub(crate) struct Listener {
    pub(crate) address: Address,
    socket: OwnedFd,
}

/// What stands before the path of a Unix socket.
const UNIX: &str = "unix:";

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "{UNIX}{}", path.display()),
        }
    }
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(path) = text.strip_prefix(UNIX) {
            return Ok(Self::Unix(path.into()));
        }
        let address = text.parse().map(Self::Tcp);
        address.map_err(|_| format!("`{text}` is no address (192.0.2.1:7000, or unix:/path)"))
    }
}

impl From<SocketAddr> for Address {
    fn from(address: SocketAddr) -> Self {
        Self::Tcp(address)
    }
}

impl<S: Into<OwnedFd>> From<S> for Socket {
    fn from(socket: S) -> Self {
        Self(socket.into().into())
    }
}

impl Address {
    /// # Errors
    /// [`RpcError::Connect`].
    pub(crate) fn connect(&self) -> Result<Socket, RpcError> {
        let connect = || {
            let socket: Socket = match self {
                Self::Tcp(to) => TcpStream::connect_timeout(to, CONNECT_TIMEOUT)?.into(),
                Self::Unix(path) => UnixStream::connect(path)?.into(),
            };
            socket.set_nodelay()?;
            io::Result::Ok(socket)
        };
        connect().map_err(|source| RpcError::Connect {
            address: self.clone(),
            source,
        })
    }

    /// Listens there, the port filled in.
    ///
    /// # Errors
    /// The system's, for the socket.
    pub(crate) fn listen(&self) -> io::Result<Listener> {
        let (address, socket) = match self {
            Self::Tcp(address) => {
                let listener = TcpListener::bind(address)?;
                (listener.local_addr()?.into(), listener.into())
            }
            Self::Unix(path) => (self.clone(), UnixListener::bind(path)?.into()),
        };
        Ok(Listener { address, socket })
    }
}

impl Listener {
    /// The next connection.
    ///
    /// # Errors
    /// `InvalidInput` after [`Listener::close`]; the other errors of accept(2).
    pub(crate) fn accept(&self) -> io::Result<Socket> {
        Ok(accept_with(&self.socket, SocketFlags::CLOEXEC)?.into())
    }

    /// Ends [`Listener::accept`], in whichever thread it waits.
    pub(crate) fn close(&self) {
        // It cannot fail for a socket that listens.
        let _ = shutdown(&self.socket, rustix::net::Shutdown::Both);
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Address::Unix(path) = &self.address {
            // Somebody may have removed it already.
            let _ = std::fs::remove_file(path);
        }
    }
}

impl Socket {
    /// Switches off Nagle's delay, which a Unix socket does not have.
    pub(crate) fn set_nodelay(&self) -> io::Result<()> {
        match self.0.set_nodelay(true) {
            Err(error) if error.kind() == io::ErrorKind::Unsupported => Ok(()),
            done => done,
        }
    }

    pub(crate) fn shutdown(&self, how: Shutdown) {
        // It fails where the other end has closed the connection already.
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
