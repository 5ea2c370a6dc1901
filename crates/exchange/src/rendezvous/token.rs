//! The token of two ends, from their rendezvous until they part.
//!
//! A datagram with the server's answer may be lost. The client then repeats the token, and may do so while the
//! server already receives messages. So a server of datagrams answers the token at any time, and a client drops
//! an answer that comes again.

use std::io;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use rustix::net::{RecvFlags, SendFlags, recv, send};

use costof_os::net::socket::is_passing;

/// What a client of datagrams appends to the token when it has sent everything.
const END: &[u8] = b" done";

/// The token, at one of the two ends.
#[derive(Clone, Debug)]
pub(crate) struct Token {
    pub(crate) bytes: Vec<u8>,
    /// Whether this end answers the token.
    pub(crate) is_server: bool,
}

impl Token {
    pub(crate) fn new(bytes: &[u8], is_server: bool) -> Token {
        Token { bytes: bytes.to_vec(), is_server }
    }

    /// Ends a client's flow of datagrams: waits until the server, which has read all before it, sends the end back,
    /// but for no longer than this. Either may be lost, and is then sent again.
    ///
    /// # Errors
    ///
    /// Those of send(2) and recv(2).
    pub(crate) fn part(&self, socket: impl AsFd, time: Duration) -> io::Result<()> {
        let until = Instant::now() + time;
        let end = [&self.bytes[..], END].concat();
        let mut answer = vec![0; end.len()];
        send_to_peer(&socket, &end)?;
        while Instant::now() < until {
            match recv(&socket, &mut answer[..], RecvFlags::empty()) {
                Ok((_, length)) if answer[..length.min(end.len())] == end => return Ok(()),
                // The token, once more.
                Ok(_) => {}
                Err(error) if is_passing(&error.into()) => send_to_peer(&socket, &end)?,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Whether a datagram of this length, which begins with the bytes `shown`, is the token.
    #[inline]
    pub(crate) fn is(&self, shown: &[u8], length: usize) -> bool {
        length == self.bytes.len() && self.bytes.starts_with(shown)
    }

    /// Whether a datagram is the token or its end, and so no message. The server sends it back; if that is lost
    /// too, the client repeats it.
    #[inline]
    pub(crate) fn takes(&self, datagram: &[u8], socket: impl AsFd) -> bool {
        let is_taken = matches!(datagram.strip_prefix(&self.bytes[..]), Some([] | END));
        if is_taken && self.is_server {
            let _ = send_to_peer(socket, datagram);
        }
        is_taken
    }

    /// Sends the token to the peer of a connected socket.
    ///
    /// # Errors
    ///
    /// Those of send(2).
    pub(crate) fn send(&self, socket: impl AsFd) -> io::Result<()> {
        send_to_peer(socket, &self.bytes)
    }
}

fn send_to_peer(socket: impl AsFd, bytes: &[u8]) -> io::Result<()> {
    send(socket, bytes, SendFlags::NOSIGNAL)?;
    Ok(())
}
