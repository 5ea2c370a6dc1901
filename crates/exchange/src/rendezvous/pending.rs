//! Connections that have not sent the token yet, among which strangers may be.

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{RecvFlags, SocketFlags, accept_with, recv};

use costof_os::net::poll::{readable, wait};
use costof_os::net::socket::{is_passing, reset_on_close};

/// At most this many connections may wait without having sent the token; beyond that, the oldest are
/// dropped.
pub(super) const MAX_PENDING: usize = 256;
/// At most this many are accepted before the others are read again.
const MAX_ACCEPTED_AT_ONCE: usize = 64;

/// The connections, the oldest first.
#[derive(Default)]
pub(super) struct Pending(VecDeque<Connection>);

/// A connection, and what it has sent.
struct Connection {
    socket: OwnedFd,
    received: Vec<u8>,
}

impl Pending {
    /// Waits for at most `time`, reads what has arrived, and accepts further connections. Returns those
    /// that have sent the token.
    ///
    /// # Errors
    ///
    /// Those of poll(2) and accept(2).
    pub(super) fn poll(
        &mut self,
        listener: &OwnedFd,
        token: &[u8],
        time: Duration,
    ) -> io::Result<Vec<OwnedFd>> {
        let sockets = self.0.iter().map(|connection| &connection.socket);
        let mut polled: Vec<_> = sockets.chain([listener]).map(readable).collect();
        wait(&mut polled, time)?;
        let ready: Vec<bool> = polled.iter().map(|one| !one.revents().is_empty()).collect();
        let mut with_token = Vec::new();
        for (mut connection, ready) in std::mem::take(&mut self.0).into_iter().zip(ready) {
            match ready.then(|| connection.has_token(token)).flatten() {
                Some(true) => with_token.push(connection.socket),
                Some(false) => refuse(connection.socket),
                None => self.0.push_back(connection),
            }
        }
        self.accept(listener)?;
        Ok(with_token)
    }

    fn accept(&mut self, listener: &OwnedFd) -> io::Result<()> {
        for _ in 0..MAX_ACCEPTED_AT_ONCE {
            match accept_with(listener, SocketFlags::CLOEXEC) {
                Ok(socket) => self.0.push_back(Connection { socket, received: Vec::new() }),
                // It was closed before it was accepted.
                Err(Errno::CONNABORTED) => {}
                Err(error) if is_passing(&error.into()) => break,
                Err(error) => return Err(error.into()),
            }
        }
        let surplus = self.0.len().saturating_sub(MAX_PENDING);
        self.0.drain(..surplus).for_each(|one| refuse(one.socket));
        Ok(())
    }
}

impl Connection {
    /// Whether it has sent the token; `None` while that is shorter. Only the whole token is compared, so
    /// that nobody can guess it piece by piece.
    fn has_token(&mut self, token: &[u8]) -> Option<bool> {
        let have = self.received.len();
        self.received.resize(token.len(), 0);
        let rest = &mut self.received[have..];
        let more = match recv(&self.socket, rest, RecvFlags::DONTWAIT) {
            Ok((_, 0)) => return Some(false),
            Ok((_, more)) => more,
            Err(error) if is_passing(&error.into()) => 0,
            Err(_) => return Some(false),
        };
        self.received.truncate(have + more);
        (self.received.len() == token.len()).then(|| self.received == token)
    }
}

/// Closes a stranger's connection by a reset, so that it leaves nothing in TIME-WAIT.
pub(crate) fn refuse(socket: OwnedFd) {
    // Otherwise, it is closed by a FIN.
    let _ = reset_on_close(&socket);
}
