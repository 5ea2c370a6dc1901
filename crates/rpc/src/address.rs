//! Where a server is, and connections that are there already.

use crate::{Options, RpcError};
use std::fmt;
use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
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

/// A connection that is there already, whoever made it.
#[derive(Debug)]
pub enum Socket {
    /// Of TCP. Nagle's delay is switched off by whoever is given it.
    Tcp(TcpStream),
    /// A Unix stream socket.
    Unix(UnixStream),
}

/// What accepts connections, and takes its path away when it goes.
#[derive(Debug)]
pub(crate) struct Listener {
    pub(crate) address: Address,
    pub(crate) listens: Listens,
}

/// By what.
#[derive(Debug)]
pub(crate) enum Listens {
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

impl From<TcpStream> for Socket {
    fn from(stream: TcpStream) -> Self {
        Self::Tcp(stream)
    }
}

impl From<UnixStream> for Socket {
    fn from(stream: UnixStream) -> Self {
        Self::Unix(stream)
    }
}

impl Address {
    /// Connects, and says the token.
    ///
    /// # Errors
    /// [`RpcError::Connect`].
    pub(crate) fn connect(&self, options: &Options) -> Result<Socket, RpcError> {
        let connected = || {
            let mut socket: Socket = match self {
                Self::Tcp(to) => TcpStream::connect_timeout(to, options.connects)?.into(),
                Self::Unix(path) => UnixStream::connect(path)?.into(),
            };
            socket.set_nodelay()?;
            socket.write_all(&options.token)?;
            io::Result::Ok(socket)
        };
        connected().map_err(|source| RpcError::Connect {
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
            io::Result::Ok(match self {
                Self::Tcp(address) => {
                    let listener = TcpListener::bind(address)?;
                    let address = Self::Tcp(listener.local_addr()?);
                    (address, Listens::Tcp(listener))
                }
                Self::Unix(path) => (self.clone(), Listens::Unix(UnixListener::bind(path)?)),
            })
        };
        let listening = listen().map_err(|source| RpcError::Listen {
            address: self.clone(),
            source,
        });
        listening.map(|(address, listens)| Listener { address, listens })
    }

    /// Where it is to be called from here: all addresses are none to connect to.
    pub(crate) fn as_called_from_here(&self) -> Self {
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

impl Drop for Listener {
    fn drop(&mut self) {
        if let Address::Unix(path) = &self.address {
            // Nothing is to be done where somebody has taken it away already.
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Calls the same method of what is inside.
macro_rules! inner {
    ($socket:expr, $stream:ident => $call:expr) => {
        match $socket {
            $crate::Socket::Tcp($stream) => $call,
            $crate::Socket::Unix($stream) => $call,
        }
    };
}
pub(crate) use inner;

impl Socket {
    /// Without Nagle's delay, which a Unix socket does not know.
    pub(crate) fn set_nodelay(&self) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.set_nodelay(true),
            Self::Unix(_) => Ok(()),
        }
    }

    pub(crate) fn set_nonblocking(&self, on: bool) -> io::Result<()> {
        inner!(self, stream => stream.set_nonblocking(on))
    }

    /// The same connection once more.
    pub(crate) fn try_clone(&self) -> io::Result<Socket> {
        Ok(match self {
            Self::Tcp(stream) => Self::Tcp(stream.try_clone()?),
            Self::Unix(stream) => Self::Unix(stream.try_clone()?),
        })
    }

    pub(crate) fn shutdown(&self, how: Shutdown) {
        // One that the other end has closed already cannot be.
        let _ = inner!(self, stream => stream.shutdown(how));
    }
}

impl io::Read for Socket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        inner!(self, stream => stream.read(buffer))
    }
}

impl Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        inner!(self, stream => stream.write(bytes))
    }

    fn write_vectored(&mut self, parts: &[io::IoSlice<'_>]) -> io::Result<usize> {
        inner!(self, stream => stream.write_vectored(parts))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
