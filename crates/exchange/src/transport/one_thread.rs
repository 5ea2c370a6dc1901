//! Both ends in one thread: the thread that sends a message receives it at the other end and sends the
//! answer, before it looks for the answer. No thread waits, so there is no context switch, and no CPU is
//! woken.

use std::io;
use std::net::IpAddr;
use std::time::Duration;

use super::socket::{SPINS_PER_POLL, Socket};
use super::{Channel, TryReceive, Wait};
use crate::rendezvous::Over;

/// A client and its server.
#[derive(Debug)]
pub struct OneThread {
    client: Socket,
    server: Socket,
    message: Vec<u8>,
    /// Whether the message is to be answered.
    is_due: bool,
}

impl OneThread {
    /// For messages of this size in bytes, over sockets at this address.
    ///
    /// # Errors
    ///
    /// Why there is no socket, or the two do not connect.
    pub fn new(over: Over, address: IpAddr, size: usize, token: &[u8]) -> io::Result<Self> {
        let (server, client) = Socket::pair(over, address, Wait::Spin, token)?;
        Ok(Self { client, server, message: vec![0; size], is_due: false })
    }
}

/// The two ends take turns until a message has passed, since the sockets may hold less than one.
impl Channel for OneThread {
    #[inline]
    fn send(&mut self, message: &mut Vec<u8>) -> io::Result<()> {
        let mut is_sent = false;
        self.is_due = false;
        for _ in 0..SPINS_PER_POLL {
            is_sent = is_sent || self.client.try_send(message)?;
            if self.server.try_receive(&mut self.message)? {
                self.is_due = true;
                break;
            }
        }
        Ok(())
    }

    #[inline]
    fn receive(&mut self, answer: &mut Vec<u8>) -> io::Result<bool> {
        for _ in 0..SPINS_PER_POLL {
            if self.is_due && self.server.try_send(&self.message)? {
                self.is_due = false;
            }
            if self.client.try_receive(answer)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn initial_rto(&self) -> Option<Duration> {
        self.client.initial_rto()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pattern::ping_pong::Client;
    use crate::transport::testing::TOKEN;
    use std::net::Ipv4Addr;

    #[test]
    fn a_message_of_any_size_comes_back_in_one_thread() {
        for over in [Over::Tcp, Over::Udp, Over::Unix] {
            for size in [1, 56, 60_000, 4 << 20] {
                if over == Over::Udp && size > 65_507 {
                    continue;
                }
                let both = OneThread::new(over, Ipv4Addr::LOCALHOST.into(), size, TOKEN);
                let mut client = Client::new(both.unwrap(), size);
                for _ in 0..3 {
                    client.exchange().unwrap();
                    client.verify().unwrap();
                }
                assert_eq!(client.retransmissions(), 0, "{over:?}, {size} B");
            }
        }
    }
}
