//! Where a server is, and connections that are there already.

use crate::{Options, RpcError};
use std::fmt;
use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::str::FromStr;

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

/// What accepts connections. Dropping it removes the path of a Unix socket.
#[derive(Debug)]
pub(crate) struct Listener {
    pub(crate) address: Address,
    pub(crate) socket: ListenerSocket,
}

#[derive(Debug)]
pub(crate) enum ListenerSocket {
    Tcp(TcpListener),
    Unix(UnixListener),
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
    /// Connects, and sends the token.
    ///
    /// # Errors
    /// [`RpcError::Connect`].
    pub(crate) fn connect(&self, options: &Options) -> Result<Socket, RpcError> {
        let connect = || {
            let mut socket: Socket = match self {
                Self::Tcp(to) => TcpStream::connect_timeout(to, options.connects)?.into(),
                Self::Unix(path) => UnixStream::connect(path)?.into(),
            };
            socket.set_nodelay()?;
            socket.0.write_all(&options.token)?;
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
    /// [`RpcError::Listen`].
    pub(crate) fn listen(&self) -> Result<Listener, RpcError> {
        let listen = || {
            let socket = match self {
                Self::Tcp(address) => ListenerSocket::Tcp(TcpListener::bind(address)?),
                Self::Unix(path) => ListenerSocket::Unix(UnixListener::bind(path)?),
            };
            let address = match &socket {
                ListenerSocket::Tcp(listener) => Self::Tcp(listener.local_addr()?),
                ListenerSocket::Unix(_) => self.clone(),
            };
            io::Result::Ok(Listener { address, socket })
        };
        listen().map_err(|source| RpcError::Listen {
            address: self.clone(),
            source,
        })
    }

    /// The address to connect to from here: loopback where the server listens at every address.
    pub(crate) fn loopback(&self) -> Self {
        match self {
            Self::Tcp(address) if address.ip().is_unspecified() => {
                let ip: IpAddr = match address.ip() {
                    IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
                    IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
                };
                Self::Tcp(SocketAddr::new(ip, address.port()))
            }
            address => address.clone(),
        }
    }
}

impl Listener {
    pub(crate) fn accept(&self) -> io::Result<Socket> {
        match &self.socket {
            ListenerSocket::Tcp(listener) => listener.accept().map(|(stream, _)| stream.into()),
            ListenerSocket::Unix(listener) => listener.accept().map(|(stream, _)| stream.into()),
        }
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
