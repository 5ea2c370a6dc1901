//! Where a server is, and connections that are there already.

use std::fmt;
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
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
