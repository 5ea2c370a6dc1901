//! The transports of a stream, one file each: how to create the two ends.

pub mod calls;
#[cfg(feature = "quic")]
pub mod quic;
pub mod rudp;
pub mod study;
pub mod tcp;

use super::{MessageReceiver, MessageSender};
use crate::rendezvous::{Address, Listener, Over, datagrams};
use costof_os::net::socket::{DATAGRAM_MOST_BYTES, mtu_bytes};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// How long an end waits before it checks whether it should stop, or whether the time is over.
const POLL_INTERVAL: Duration = Duration::from_millis(10);
/// A transport with a limit of its own holds at most this many bytes of messages that have arrived or are to
/// be sent: twice what a rate of 1 Gb/s has in flight in 100 ms.
const WINDOW_BYTES: u32 = 32 << 20;
/// The most bytes of a stream to read at once.
const READ_BYTES: usize = 128 << 10;

/// What a sender needs to know of the receiver besides its address: values by name.
pub type Parameters = BTreeMap<Cow<'static, str>, String>;

/// A receiver whose sender has connected, or why there is none.
pub type Accepted = io::Result<Box<dyn MessageReceiver>>;

/// How the two ends of a stream are made.
pub trait Transport: Send {
    /// The kind of sockets by which the ends find each other.
    fn over(&self) -> Over {
        Over::Udp
    }

    /// Makes what the receiver needs before it can accept, and what the sender needs to know of it.
    ///
    /// # Errors
    /// Why it cannot be made.
    fn prepare(&mut self) -> io::Result<Parameters> {
        Ok(Parameters::new())
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

/// Where a receiver waits, and what the sender needs to know of it.
#[derive(Clone, Copy, Debug)]
pub struct Endpoint<'a> {
    /// Its sockets.
    pub address: &'a Address,
    /// What [`Transport::prepare`] returned there.
    pub parameters: &'a Parameters,
    /// The token by which it recognises its sender.
    pub token: &'a [u8],
}

/// A sender that has connected.
pub struct Connected {
    /// What sends the messages.
    pub sender: Box<dyn MessageSender>,
    /// The largest packet of its path, in bytes.
    pub mtu: u32,
    /// The round-trip time of the rendezvous.
    pub round_trip: Duration,
}

/// A sender of datagrams: `sender` creates it from a socket and from the longest datagram that the path
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
    Ok(Connected { sender: Box::new(sender(socket, datagram)?), mtu, round_trip })
}
