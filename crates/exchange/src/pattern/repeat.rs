//! Messages that are sent as fast as possible to a receiver that reads them from a stream in a
//! chosen way ([`costof_os::net::receive`]): how both ends connect, and the sender.

mod sender;
#[cfg(test)]
mod tests;

pub use sender::{Sender, SentBy, Work};

use crate::rendezvous::{self, Address, Over, only};
use costof_os::net::receive::{How, Receiver, Shape};
use std::io::{self, ErrorKind};
use std::time::Duration;

/// Connects to a sender that listens at this address, and lets it begin. Returns the receiver and a
/// round-trip time.
///
/// # Errors
///
/// Those of [`Receiver::new`] and [`rendezvous::connect`]; `InvalidInput` for datagrams.
pub fn call(
    how: How,
    over: Over,
    address: &Address,
    shape: Shape,
    token: &[u8],
) -> io::Result<(Receiver, Duration)> {
    if over.is_datagrams() {
        return Err(ErrorKind::InvalidInput.into());
    }
    let flow = only(rendezvous::connect(over, address, 1, token)?);
    let round_trip = flow.round_trip;
    Ok((Receiver::new(how, flow.socket, shape)?, round_trip))
}
