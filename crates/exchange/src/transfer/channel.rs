//! The socket of a flow, at either end.

use super::{POLL_INTERVAL, STALL_TIMEOUT};
use crate::rendezvous::{Flow, Over};
use costof_os::net::socket::{self, receive_within};
use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;

use rustix::net::{RecvFlags, SendFlags, Shutdown, recv, send, shutdown, sockopt};

#[derive(Debug)]
pub(super) struct Channel {
    pub(super) socket: OwnedFd,
    pub(super) over: Over,
}

impl Channel {
    /// A connected socket. None of its calls waits forever.
    pub(super) fn new(met: Flow) -> io::Result<Self> {
        receive_within(&met.socket, POLL_INTERVAL)?;
        sockopt::set_socket_timeout(&met.socket, sockopt::Timeout::Send, Some(STALL_TIMEOUT))?;
        Ok(Self { socket: met.socket, over: met.over })
    }

    #[inline]
    pub(super) fn receive(&self, buffer: &mut [u8]) -> io::Result<usize> {
        Ok(recv(&self.socket, buffer, RecvFlags::empty())?.1)
    }

    #[inline]
    pub(super) fn send_all(&self, bytes: &[u8]) -> io::Result<()> {
        let mut sent = 0;
        while sent < bytes.len() {
            match send(&self.socket, &bytes[sent..], SendFlags::NOSIGNAL) {
                Ok(more) => sent += more,
                Err(error) => match error.kind() {
                    ErrorKind::Interrupted => {}
                    ErrorKind::WouldBlock => {
                        return Err(io::Error::new(
                            ErrorKind::TimedOut,
                            "the receiver no longer takes data",
                        ));
                    }
                    _ => return Err(error.into()),
                },
            }
        }
        Ok(())
    }

    /// Closes one direction of a stream, or both.
    pub(super) fn shut_down(&self, how: Shutdown) -> io::Result<()> {
        Ok(shutdown(&self.socket, how)?)
    }

    pub(super) fn is_stream(&self) -> bool {
        self.over != Over::Udp
    }

    pub(super) fn buffer_bytes(&self) -> io::Result<(u32, u32)> {
        socket::buffer_bytes(&self.socket)
    }
}
