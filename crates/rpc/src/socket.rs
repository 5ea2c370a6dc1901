//! Connected sockets.

use std::io;
use std::net::TcpStream;
use std::os::fd::OwnedFd;

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
    /// Switches off Nagle's algorithm, which a Unix socket does not have.
    pub(crate) fn set_nodelay(&self) -> io::Result<()> {
        match self.0.set_nodelay(true) {
            Err(error) if error.kind() == io::ErrorKind::Unsupported => Ok(()),
            done => done,
        }
    }
}
