//! The same exchanges over a socket whose packets the kernel time-stamps: when a message was at
//! which stage, at either end.
//!
//! All time stamps of an end come from its own host's clock: the clocks of two hosts are never
//! subtracted.

use std::io;

use super::{Client, Server};
use crate::transport::Channel;
use crate::transport::stamped::Stamps;
use costof_os::net::timestamps::now_ns;

/// When a message passed each stage at the client, in nanoseconds of its `CLOCK_REALTIME`, ascending. The
/// first and the last two are T1, T3 and T4 of the reliable-datagrams study; `left` is its T2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientStages {
    /// Before it was sent.
    pub sent: u64,
    /// When its last packet entered the queue discipline; `None` if that is not stamped.
    pub queued: Option<u64>,
    /// When its last packet was given to the driver.
    pub left: u64,
    /// When the stack received the answer's last packet.
    pub received: u64,
    /// When the process had all of the answer.
    pub answered: u64,
}

impl ClientStages {
    /// The whole exchange, in nanoseconds.
    pub fn latency_ns(&self) -> u64 {
        self.answered - self.sent
    }
}

/// When a message passed each stage at the server: the study's S1 and S2, and one stage between them. In
/// nanoseconds of the server's `CLOCK_REALTIME`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerStages {
    /// When the stack received its datagram.
    pub received: u64,
    /// When the process had it, and began to answer.
    pub taken: u64,
    /// When the answer's datagram was given to the driver.
    pub left: u64,
}

impl<T: Channel + Stamps> Client<T> {
    /// Exchanges a message and its answer, as [`Client::exchange`] and [`Client::verify`] do, and returns
    /// when each stage was passed. `None` if a stamp is missing or a datagram was lost: nothing is
    /// retransmitted here.
    ///
    /// # Errors
    ///
    /// Those of [`Client::exchange`] and [`Client::verify`].
    pub fn exchange_stamped(&mut self) -> io::Result<Option<ClientStages>> {
        self.transport.stamped().begin();
        let sent = now_ns();
        self.send_next()?;
        let mut silent_since = None;
        while !self.receive_answer()? {
            if self.is_lost(&mut silent_since, self.first_rto())? {
                return Ok(None);
            }
        }
        let answered = now_ns();
        self.verify()?;
        let stamps = self.transport.stamped();
        let queued = stamps.queued_ns()?;
        let (Some(left), Some(received)) = (stamps.left_ns()?, stamps.received_ns) else {
            return Ok(None);
        };
        // If the clock was set in between, they are useless.
        let is_sound = [sent, queued.unwrap_or(sent), left, received, answered].is_sorted();
        Ok(is_sound.then_some(ClientStages { sent, queued, left, received, answered }))
    }
}

impl<T: Channel + Stamps> Server<T> {
    /// Answers a message, as [`Server::answer`] does, and returns when each stage was passed. `None` if none
    /// has arrived for a while, or a stamp is missing.
    ///
    /// # Errors
    ///
    /// Those of the transport.
    pub fn answer_stamped(&mut self) -> io::Result<Option<ServerStages>> {
        self.transport.stamped().begin();
        if !self.transport.receive(&mut self.message)? {
            return Ok(None);
        }
        let taken = now_ns();
        let received = self.transport.stamped().received_ns;
        self.transport.stamped().begin();
        self.transport.send(&mut self.message)?;
        let (Some(received), Some(left)) = (received, self.transport.stamped().left_ns()?) else {
            return Ok(None);
        };
        let is_sound = [received, taken, left].is_sorted();
        Ok(is_sound.then_some(ServerStages { received, taken, left }))
    }
}

#[cfg(test)]
mod tests;
