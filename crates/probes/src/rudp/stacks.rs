//! What carries the messages of a transfer: one file for each stack.

mod calls;
#[cfg(feature = "quic")]
mod quic;
mod rudp;
mod study;
mod tcp;

use super::axes::{Stack, control, over, size, stack, window};
use super::datagrams::{self, only};
use super::incoming::Incoming;
use super::outgoing::Outgoing;
use crate::net::congestion_control;
use costof_model::point::Point;
use costof_model::protocol::Offers;
use costof_os::meeting::{self, Address, DATAGRAM_MOST_BYTES, Listener, Over};
use costof_os::socket;
use std::io;
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
    Plain,
    #[cfg(feature = "quic")]
    Quic(quic::Identity),
}

/// Makes that, and what the other end needs to know of it.
///
/// # Errors
/// Why it cannot be made.
pub(super) fn ready(point: &Point) -> io::Result<(Ready, Offers)> {
    match stack(point) {
        #[cfg(feature = "quic")]
        Stack::Quic => {
            let (identity, offers) = quic::Identity::new()?;
            Ok((Ready::Quic(identity), offers))
        }
        _ => Ok((Ready::Plain, Offers::new())),
    }
}

/// The receiving end of what calls this listener.
///
/// # Errors
/// Those of [`datagrams::accept`].
pub(super) fn accept(
    point: &Point,
    listener: &Listener,
    ready: Ready,
    stop: &AtomicBool,
) -> io::Result<Box<dyn Receives>> {
    if let Stack::Calls(stack) = stack(point) {
        let met = only(listener.accept(stop)?);
        return Ok(Box::new(calls::Receiver::new(
            stack,
            met,
            listener.token(),
        )?));
    }
    if over(point) == Over::Tcp {
        let met = only(listener.accept(stop)?);
        return Ok(Box::new(tcp::Receiver::new(met, listener.token())?));
    }
    let socket = datagrams::accept(listener, stop)?;
    Ok(match ready {
        #[cfg(feature = "quic")]
        Ready::Quic(identity) => Box::new(quic::Receiver::new(socket, identity)?),
        Ready::Plain if stack(point) == Stack::Rudp => Box::new(rudp::Receiver::new(socket)?),
        Ready::Plain => Box::new(study::Receiver::new(socket, size(point))?),
    })
}

/// The sending end of a connection to a listener at this address, and a round trip to there.
///
/// # Errors
/// Those of [`meeting::call_by`]; why the stack cannot connect.
pub(super) fn call(
    point: &Point,
    address: &Address,
    offers: &Offers,
    token: &[u8],
) -> io::Result<Called> {
    #[cfg(not(feature = "quic"))]
    let _ = offers;
    let by = congestion_control::control(point);
    if let Stack::Calls(stack) = stack(point) {
        let met = only(meeting::call_by(over(point), address, 1, by, token)?);
        let round_trip = met.round_trip();
        let sender = calls::Sender::new(stack, met)?;
        return Ok(Called {
            mtu: sender.mtu_bytes()?,
            sender: Box::new(sender),
            round_trip,
        });
    }
    if over(point) == Over::Tcp {
        let met = only(meeting::call_by(Over::Tcp, address, 1, by, token)?);
        let round_trip = met.round_trip();
        let sender = tcp::Sender::new(met)?;
        return Ok(Called {
            mtu: sender.mtu_bytes()?,
            sender: Box::new(sender),
            round_trip,
        });
    }
    let (socket, round_trip) = datagrams::call(address, token)?;
    let mtu = socket::mtu_bytes(&socket)?;
    let headers = match socket.peer_addr()? {
        std::net::SocketAddr::V4(_) => 28,
        std::net::SocketAddr::V6(_) => 48,
    };
    let datagram = (mtu.saturating_sub(headers) as usize).min(DATAGRAM_MOST_BYTES);
    let sender: Box<dyn Sends> = match stack(point) {
        Stack::Rudp => Box::new(rudp::Sender::connect(socket, control(point), datagram)?),
        #[cfg(feature = "quic")]
        Stack::Quic => Box::new(quic::Sender::connect(socket, offers, by, datagram)?),
        _ => Box::new(study::Sender::new(socket, window(point))?),
    };
    Ok(Called {
        sender,
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
