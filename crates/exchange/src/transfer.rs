//! Measured: sending bytes from one end to another as fast as possible, through sockets.
//!
//! A flow is one connection, or two sockets that exchange datagrams, with a thread at each end. The
//! sender writes blocks of one size, always from the same buffer; each begins with its number, and
//! the rest is not all zeroes. The receiver reads what arrives and checks the number of the first
//! block that begins in each piece, or the first and last bytes of each datagram. Both record their
//! [`Checkpoints`](crate::stream::Checkpoints); reading the clocks for that is the only system call
//! besides those of the transfer.
//!
//! Source: tcp(7), udp(7), unix(7), socket(7) on `SO_RCVTIMEO`; `CLOCK_THREAD_CPUTIME_ID`.

mod channel;
mod receiver;
mod sender;
#[cfg(test)]
mod tests;

pub use receiver::Receiver;
pub use sender::Sender;

use crate::rendezvous::{self, Address, Listener, Over};
use channel::Channel;
use costof_os::net::socket::DATAGRAM_MOST_BYTES;
use std::io::{self, ErrorKind};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// How long a receive waits before it checks whether it should stop.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// How long the receiver may accept nothing before sending fails.
const STALL_TIMEOUT: Duration = Duration::from_secs(10);

/// The smallest block. Control messages before and after the transfer are shorter, so that they
/// differ from datagrams.
pub const BLOCK_LEAST_BYTES: usize = 64;
/// The largest block.
pub const BLOCK_MOST_BYTES: usize = 64 << 20;

/// What the sender appends to the token after its last datagram.
const END: &[u8] = b" done";

/// Waits for the sender that connects to a listener with its token: the receiving ends of its flows.
///
/// # Errors
///
/// Those of [`Listener::accept`].
pub fn accept(listener: &Listener, stop: &AtomicBool) -> io::Result<Vec<Receiver>> {
    let mut flows = listener.accept(stop)?;
    for flow in &mut flows {
        flow.connect()?;
    }
    let receivers = flows.into_iter().map(|flow| {
        let channel = Channel::new(flow)?;
        Receiver::new(channel, listener.token())
    });
    let receivers: Vec<Receiver> = receivers.collect::<io::Result<_>>()?;
    // All receivers are ready before the sender learns that it may begin.
    for receiver in &receivers {
        receiver.channel.send_all(listener.token())?;
    }
    Ok(receivers)
}

/// Connects to a listener, with as many flows as it listens for, and with a congestion control if
/// one is given. Blocks will have `size` bytes.
///
/// # Errors
///
/// `InvalidInput` for an unsuitable size, `NotFound` for an unknown congestion control; those of
/// [`rendezvous::connect`].
pub fn call(
    over: Over,
    address: &Address,
    (flows, size): (usize, usize),
    control: Option<&str>,
    token: &[u8],
) -> io::Result<Vec<Sender>> {
    let most = match over {
        Over::Udp => DATAGRAM_MOST_BYTES,
        Over::Tcp | Over::Unix => BLOCK_MOST_BYTES,
    };
    if !(BLOCK_LEAST_BYTES..=most).contains(&size) {
        return Err(io::Error::new(
            ErrorKind::InvalidInput,
            format!("a block has {BLOCK_LEAST_BYTES} to {most} bytes, not {size}"),
        ));
    }
    let flows = rendezvous::connect_by(over, address, flows, control, token)?;
    let senders = flows.into_iter().map(|mut flow| {
        flow.connect()?;
        let round_trip = flow.round_trip;
        Sender::new(Channel::new(flow)?, size, token, round_trip)
    });
    senders.collect()
}
