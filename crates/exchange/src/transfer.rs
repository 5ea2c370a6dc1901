//! Measured: bytes that go from one end to another as fast as they can, through sockets.
//!
//! A flow is one connection, or two sockets that exchange datagrams, with a thread at each end.
//! The sender writes blocks of one size, always from the same buffer; each begins with its number,
//! and the rest is no run of zeroes. The receiver reads what comes and looks at the number of the
//! first block that begins in each piece, or at the last bytes of each datagram. Both note now and
//! then how far they are, and how much processor time they have had until then: reading that clock
//! is the one system call beside the transfer's own.
//!
//! Source: tcp(7), udp(7), unix(7), socket(7) on `SO_RCVTIMEO`; `CLOCK_THREAD_CPUTIME_ID`.

mod channel;
pub(crate) mod marks;
mod receiver;
mod sender;
#[cfg(test)]
mod tests;

pub use marks::{Mark, Marks};
pub use receiver::{Datagrams, Receiver};
pub use sender::Sender;

use crate::rendezvous::{self, Address, Listener, Over};
use channel::Channel;
use costof_os::net::socket::DATAGRAM_MOST_BYTES;
use std::io::{self, ErrorKind};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// How long a receive waits before it looks whether it is still wanted.
const LOOK: Duration = Duration::from_millis(50);
/// How long nothing may go on before sending is given up.
const STALLED: Duration = Duration::from_secs(10);

/// The smallest block. What is said before and after the transfer is shorter, to be told from
/// datagrams.
pub const BLOCK_LEAST_BYTES: usize = 64;
/// The largest block.
pub const BLOCK_MOST_BYTES: usize = 64 << 20;

/// What the sender says behind the token when it has sent its last datagram.
const FAREWELL: &[u8] = b" done";
/// A block's number.
const NUMBER_BYTES: usize = 8;

/// Waits for the one that calls a listener and says its token: the receiving ends of its flows.
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
        let channel = Channel::of(flow)?;
        Receiver::of(channel, listener.token())
    });
    let receivers: Vec<Receiver> = receivers.collect::<io::Result<_>>()?;
    // All are ready when the other end learns that it may begin.
    for receiver in &receivers {
        receiver.channel.send_all(listener.token())?;
    }
    Ok(receivers)
}

/// Calls a listener, for as many flows as it listens for, by a congestion control where one is
/// named. Blocks will have `size` bytes.
///
/// # Errors
///
/// `InvalidInput` for a size that does not fit, `NotFound` for a congestion control that is not
/// there; those of [`rendezvous::connect`].
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
        Sender::of(Channel::of(flow)?, size, token, round_trip)
    });
    senders.collect()
}

fn other_bytes() -> io::Error {
    io::Error::new(ErrorKind::InvalidData, "other bytes arrived than were sent")
}
