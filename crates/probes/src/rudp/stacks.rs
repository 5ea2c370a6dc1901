//! What carries the messages of a transfer: one file for each stack.

mod calls;
#[cfg(feature = "quic")]
mod quic;
mod rudp;
mod study;
mod tcp;

use super::axes::{Carrier, Transfer};
use super::datagrams::{self, only};
use super::incoming::Incoming;
use super::outgoing::Outgoing;
use costof_exchange::rendezvous::{self, Address, Listener, Over};
use costof_model::protocol::Offers;
use costof_os::net::socket;
use costof_os::net::socket::DATAGRAM_MOST_BYTES;
use std::io;
use std::net::UdpSocket;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// How long an end waits until it looks whether it is still wanted, or whether the time is over.
const LOOK: Duration = Duration::from_millis(10);
/// How much of messages that have come or are to go is held, in bytes, by what has a limit of its
/// own: twice what a rate of 1 Gb/s has under way in 100 ms.
const WINDOW_BYTES: u32 = 32 << 20;

/// The end that sends.
pub(super) trait Sends: Send {
    /// Sends until the transfer is over.
    ///
    /// # Errors
    /// What the system says, or how the connection ended.
    fn send(&mut self, outgoing: &mut Outgoing) -> io::Result<()>;

    /// What it counted.
    ///
    /// # Errors
    /// What the system says.
    fn counted(&self) -> io::Result<Sent>;
}

/// The end that receives.
pub(super) trait Receives: Send {
    /// Receives until `stop` is set: what is lost on a link never comes.
    ///
    /// # Errors
    /// What the system says; `InvalidData` where something came that was not sent.
    fn receive(&mut self, incoming: &mut Incoming, stop: &AtomicBool) -> io::Result<()>;

    /// What it counted; nothing of what is no datagram.
    ///
    /// # Errors
    /// What the system says.
    fn counted(&self) -> io::Result<Option<Received>>;

    /// What threads other than the caller's have used so far, where they receive, in nanoseconds.
    fn cpu_ns(&self) -> Option<f64> {
        None
    }
}

/// What the sender counted.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Sent {
    /// The share of what was sent that was sent again, or taken for lost.
    pub(super) again: f64,
    /// Datagrams; none of what is no datagram.
    pub(super) datagrams: Option<u64>,
}

/// What the receiver counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Received {
    pub(super) datagrams: u64,
    /// That its socket had no room for.
    pub(super) dropped: u64,
}

/// What the receiver must have before it can be called.
pub(super) enum Ready {
    Rudp,
    /// And the size of a message.
    Study(usize),
    #[cfg(feature = "quic")]
    Quic(quic::Identity),
    Tcp,
    Calls(costof_rpc::Stack),
}

/// Makes that, and what the other end needs to know of it.
///
/// # Errors
/// Why it cannot be made.
pub(super) fn ready(point: &Transfer) -> io::Result<(Ready, Offers)> {
    let ready = match point.carrier {
        Carrier::Rudp => Ready::Rudp,
        Carrier::Study => Ready::Study(point.size),
        #[cfg(feature = "quic")]
        Carrier::Quic => {
            let (identity, offers) = quic::Identity::new()?;
            return Ok((Ready::Quic(identity), offers));
        }
        #[cfg(not(feature = "quic"))]
        Carrier::Quic => return Err(io::ErrorKind::Unsupported.into()),
        Carrier::Tcp => Ready::Tcp,
        Carrier::Calls(stack) => Ready::Calls(stack),
    };
    Ok((ready, Offers::new()))
}

/// The receiving end of what calls this listener.
///
/// # Errors
/// Those of [`datagrams::accept`].
pub(super) fn accept(
    listener: &Listener,
    ready: Ready,
    stop: &AtomicBool,
) -> io::Result<Box<dyn Receives>> {
    let met = || io::Result::Ok(only(listener.accept(stop)?));
    let socket = || datagrams::accept(listener, stop);
    let token = listener.token();
    Ok(match ready {
        Ready::Rudp => Box::new(rudp::Receiver::new(socket()?)?),
        Ready::Study(size) => Box::new(study::Receiver::new(socket()?, size)?),
        #[cfg(feature = "quic")]
        Ready::Quic(identity) => Box::new(quic::Receiver::new(socket()?, identity)?),
        Ready::Tcp => Box::new(tcp::Receiver::new(met()?, token)?),
        Ready::Calls(stack) => Box::new(calls::Receiver::new(stack, met()?, token)?),
    })
}

/// The sending end of a connection to a listener at this address, and a round trip to there.
///
/// # Errors
/// Those of [`rendezvous::connect_by`]; why the stack cannot connect.
pub(super) fn call(
    point: &Transfer,
    address: &Address,
    offers: &Offers,
    token: &[u8],
) -> io::Result<Called> {
    #[cfg(not(feature = "quic"))]
    let _ = offers;
    let by = point.congestion_control.name();
    let met = || {
        io::Result::Ok(only(rendezvous::connect_by(
            Over::Tcp,
            address,
            1,
            by,
            token,
        )?))
    };
    match point.carrier {
        Carrier::Rudp => by_datagrams(address, token, |socket, datagram| {
            rudp::Sender::connect(socket, point.control_of_rudp(), datagram)
        }),
        Carrier::Study => by_datagrams(address, token, |socket, _| {
            study::Sender::new(socket, point.under_way())
        }),
        #[cfg(feature = "quic")]
        Carrier::Quic => by_datagrams(address, token, |socket, datagram| {
            quic::Sender::connect(socket, offers, by, datagram)
        }),
        #[cfg(not(feature = "quic"))]
        Carrier::Quic => Err(io::ErrorKind::Unsupported.into()),
        Carrier::Tcp => {
            let met = met()?;
            let round_trip = met.round_trip();
            let sender = tcp::Sender::new(met)?;
            Ok(Called {
                mtu: sender.mtu_bytes()?,
                sender: Box::new(sender),
                round_trip,
            })
        }
        Carrier::Calls(stack) => {
            let met = met()?;
            let round_trip = met.round_trip();
            let sender = calls::Sender::new(stack, met)?;
            Ok(Called {
                mtu: sender.mtu_bytes()?,
                sender: Box::new(sender),
                round_trip,
            })
        }
    }
}

/// One that sends by datagrams: `sender` makes it of a socket and the longest datagram that its way
/// carries whole.
fn by_datagrams<S: Sends + 'static>(
    address: &Address,
    token: &[u8],
    sender: impl FnOnce(UdpSocket, usize) -> io::Result<S>,
) -> io::Result<Called> {
    let (socket, round_trip) = datagrams::call(address, token)?;
    let mtu = socket::mtu_bytes(&socket)?;
    let headers = match socket.peer_addr()? {
        std::net::SocketAddr::V4(_) => 28,
        std::net::SocketAddr::V6(_) => 48,
    };
    let datagram = (mtu.saturating_sub(headers) as usize).min(DATAGRAM_MOST_BYTES);
    Ok(Called {
        sender: Box::new(sender(socket, datagram)?),
        mtu,
        round_trip,
    })
}

/// A sender that has called.
pub(super) struct Called {
    pub(super) sender: Box<dyn Sends>,
    /// The largest packet of its way, in bytes.
    pub(super) mtu: u32,
    pub(super) round_trip: Duration,
}
