//! The socket of a flow, at either end.

use super::{LOOK, STALLED, in_time, is_passing};
use crate::socket;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

#[derive(Debug)]
pub(super) enum Channel {
    Tcp(TcpStream),
    Udp(UdpSocket),
    Unix(UnixStream),
}

impl Channel {
    /// No delay, and no call that takes forever.
    pub(super) fn set_up(&self, receive: Duration) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => {
                stream.set_nonblocking(false)?;
                stream.set_nodelay(true)?;
                stream.set_read_timeout(Some(receive))?;
                stream.set_write_timeout(Some(STALLED))
            }
            Self::Unix(stream) => {
                stream.set_nonblocking(false)?;
                stream.set_read_timeout(Some(receive))?;
                stream.set_write_timeout(Some(STALLED))
            }
            Self::Udp(socket) => {
                // What is lost is said again.
                socket.set_read_timeout(Some(receive.min(LOOK)))?;
                socket.set_write_timeout(Some(STALLED))
            }
        }
    }

    #[inline]
    pub(super) fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => (&mut &*stream).write(bytes),
            Self::Unix(stream) => (&mut &*stream).write(bytes),
            Self::Udp(socket) => socket.send(bytes),
        }
    }

    #[inline]
    pub(super) fn receive(&self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => (&mut &*stream).read(buffer),
            Self::Unix(stream) => (&mut &*stream).read(buffer),
            Self::Udp(socket) => socket.recv(buffer),
        }
    }

    /// Sends all of it.
    #[inline]
    pub(super) fn send_all(&self, bytes: &[u8]) -> io::Result<()> {
        let mut sent = 0;
        while sent < bytes.len() {
            match self.send(&bytes[sent..]) {
                Ok(more) => sent += more,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    return Err(io::Error::new(
                        ErrorKind::TimedOut,
                        "the other end takes nothing any more",
                    ));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    pub(super) fn receive_all(&self, buffer: &mut [u8]) -> io::Result<()> {
        let mut received = 0;
        while received < buffer.len() {
            match self.receive(&mut buffer[received..])? {
                0 => return Err(ErrorKind::UnexpectedEof.into()),
                more => received += more,
            }
        }
        Ok(())
    }

    /// Waits until the token comes back, saying it again where it may be lost. How long a round
    /// trip took, as far as it is known.
    pub(super) fn await_token(&self, token: &[u8], until: Instant) -> io::Result<Duration> {
        let began = Instant::now();
        let mut said = vec![0; token.len()];
        loop {
            match (self, self.receive_all(&mut said)) {
                (_, Ok(())) => break,
                (Self::Udp(_), Err(error)) if is_passing(&error) => self.send_all(token)?,
                (_, Err(error)) if is_passing(&error) => {}
                (_, Err(error)) => return Err(error),
            }
            in_time(until)?;
        }
        if said != token {
            return Err(io::Error::new(
                ErrorKind::InvalidData,
                "the other end has another token",
            ));
        }
        match self {
            Self::Tcp(stream) => {
                let info = socket::tcp_info(stream)?;
                Ok(Duration::from_nanos(info.round_trip_ns))
            }
            Self::Unix(_) | Self::Udp(_) => Ok(began.elapsed()),
        }
    }

    pub(super) fn is_stream(&self) -> bool {
        !matches!(self, Self::Udp(_))
    }

    pub(super) fn buffer_bytes(&self) -> io::Result<(u32, u32)> {
        match self {
            Self::Tcp(stream) => socket::buffer_bytes(stream),
            Self::Udp(socket) => socket::buffer_bytes(socket),
            Self::Unix(stream) => socket::buffer_bytes(stream),
        }
    }
}

/// A socket for datagrams to this address.
pub(super) fn datagrams_to(address: SocketAddr) -> io::Result<UdpSocket> {
    let any = match address {
        SocketAddr::V4(_) => "0.0.0.0:0",
        SocketAddr::V6(_) => "[::]:0",
    };
    let socket = UdpSocket::bind(any)?;
    socket.connect(address)?;
    Ok(socket)
}
