//! A connection of either kind, as the runtime knows it.

use crate::Socket;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::OwnedSemaphorePermit;
use tonic::transport::server::Connected;

/// A connection.
#[derive(Debug)]
pub(super) struct Stream {
    io: Io,
    /// Its place among those that a server has at once.
    place: Option<OwnedSemaphorePermit>,
}

#[derive(Debug)]
enum Io {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl From<TcpStream> for Stream {
    fn from(stream: TcpStream) -> Self {
        let io = Io::Tcp(stream);
        Self { io, place: None }
    }
}

impl From<UnixStream> for Stream {
    fn from(stream: UnixStream) -> Self {
        let io = Io::Unix(stream);
        Self { io, place: None }
    }
}

impl Stream {
    /// Within the runtime that it is to be of.
    ///
    /// # Errors
    /// What the system says of the socket.
    pub(super) fn new(socket: Socket) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        Ok(match socket {
            Socket::Tcp(stream) => TcpStream::from_std(stream)?.into(),
            Socket::Unix(stream) => UnixStream::from_std(stream)?.into(),
        })
    }

    /// It holds this place for as long as it lasts.
    pub(super) fn in_place(mut self, place: OwnedSemaphorePermit) -> Self {
        self.place = Some(place);
        self
    }
}

impl Connected for Stream {
    type ConnectInfo = ();

    fn connect_info(&self) -> Self::ConnectInfo {}
}

/// Calls the same method of what is inside.
macro_rules! inner {
    ($self:ident, $stream:ident => $call:expr) => {
        match &mut $self.get_mut().io {
            Io::Tcp($stream) => $call,
            Io::Unix($stream) => $call,
        }
    };
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        inner!(self, stream => Pin::new(stream).poll_read(cx, buffer))
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        inner!(self, stream => Pin::new(stream).poll_write(cx, bytes))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        inner!(self, stream => Pin::new(stream).poll_write_vectored(cx, parts))
    }

    fn is_write_vectored(&self) -> bool {
        // HTTP/2's frames have a head and a body: without it each would be two calls.
        true
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        inner!(self, stream => Pin::new(stream).poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        inner!(self, stream => Pin::new(stream).poll_shutdown(cx))
    }
}
