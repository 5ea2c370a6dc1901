//! What carries the messages of a transfer: one file for each transport.

mod calls;
#[cfg(feature = "quic")]
mod quic;
mod rudp;
mod study;
mod tcp;

use super::axes::{Carrier, Transfer};
use costof_exchange::datagrams;
use costof_exchange::rendezvous::{Address, Listener, Over};
use costof_exchange::stream::{MessageReceiver, MessageSender};
use costof_model::protocol::Offers;
use costof_os::net::socket::{DATAGRAM_MOST_BYTES, mtu_bytes};
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// How long an end waits until it checks whether it is to stop, or whether the time is over.
const POLL_INTERVAL: Duration = Duration::from_millis(10);
/// How much of messages is held that have arrived or are to be sent, in bytes, by a transport with a
/// limit of its own: twice what a rate of 1 Gb/s has in flight in 100 ms.
const WINDOW_BYTES: u32 = 32 << 20;
/// How much of a stream of bytes is read at once, at most.
const READ_BYTES: usize = 128 << 10;

/// How the two ends of a transfer are made.
pub(super) trait Transport: Send {
    /// By what the ends find each other.
    fn over(&self) -> Over {
        Over::Udp
    }

    /// Makes what the receiver needs before it can accept, and what the sender needs to know of it.
    ///
    /// # Errors
    /// Why it cannot be made.
    fn prepare(&mut self) -> io::Result<Offers> {
        Ok(Offers::new())
    }

    /// The receiving end of what connects to this listener.
    ///
    /// # Errors
    /// Those of [`datagrams::accept`].
    fn accept(self: Box<Self>, listener: &Listener, stop: &AtomicBool) -> Accepted;

    /// The sending end of a connection to a receiver.
    ///
    /// # Errors
    /// Those of [`datagrams::connect`]; why the transport cannot connect.
    fn connect(&self, receiver: &Endpoint<'_>) -> io::Result<Connected>;
}

/// The transport of a transfer.
///
/// # Errors
/// `Unsupported` where this build does not have it.
pub(super) fn transport(point: &Transfer) -> io::Result<Box<dyn Transport>> {
    Ok(match point.carrier {
        Carrier::Rudp => Box::new(rudp::Rudp(point.control_of_rudp())),
        Carrier::Study => Box::new(study::Study::new(point.size, point.in_flight())),
        #[cfg(feature = "quic")]
        Carrier::Quic => Box::new(quic::Quic::new(point.congestion_control)),
        #[cfg(not(feature = "quic"))]
        Carrier::Quic => return Err(io::ErrorKind::Unsupported.into()),
        Carrier::Tcp => Box::new(tcp::Tcp(point.congestion_control)),
        Carrier::Calls(stack) => Box::new(calls::Calls(stack)),
    })
}

/// A receiver that has accepted its sender.
type Accepted = io::Result<Box<dyn MessageReceiver>>;

/// Where a receiver waits, and what the sender needs to know of it.
pub(super) struct Endpoint<'a> {
    pub(super) address: &'a Address,
    // Only QUIC has something to offer.
    #[cfg_attr(not(feature = "quic"), expect(dead_code))]
    pub(super) offers: &'a Offers,
    pub(super) token: &'a [u8],
}

/// A sender that has connected.
pub(super) struct Connected {
    pub(super) sender: Box<dyn MessageSender>,
    /// The largest packet of its path, in bytes.
    pub(super) mtu: u32,
    pub(super) round_trip: Duration,
}

/// A sender of datagrams: `sender` makes it of a socket and of the longest datagram that its path
/// carries without fragments.
fn connect_datagrams<S: MessageSender + 'static>(
    receiver: &Endpoint<'_>,
    sender: impl FnOnce(UdpSocket, usize) -> io::Result<S>,
) -> io::Result<Connected> {
    let (socket, round_trip) = datagrams::connect(receiver.address, receiver.token)?;
    let mtu = mtu_bytes(&socket)?;
    let headers = match socket.peer_addr()? {
        SocketAddr::V4(_) => 28,
        SocketAddr::V6(_) => 48,
    };
    let datagram = (mtu.saturating_sub(headers) as usize).min(DATAGRAM_MOST_BYTES);
    Ok(Connected {
        sender: Box::new(sender(socket, datagram)?),
        mtu,
        round_trip,
    })
}
