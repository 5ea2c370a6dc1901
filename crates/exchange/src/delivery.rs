//! Measured: messages of several fields that go from one end to another, by a way of sending that
//! is chosen: as fast as they can, each answered by one, or as they are asked for.
//!
//! A flow is one connection, or the datagrams between two sockets, with a thread at each end. The
//! receiver reads what comes and looks at a word of each piece: what a message holds follows from
//! its number. Both ends note now and then how far they are and how much processor time they have
//! had until then: reading that clock is the one system call beside the messages' own.
//!
//! To a sink there is the sender's half alone.
//!
//! Source: tcp(7), udp(7), unix(7); `CLOCK_THREAD_CPUTIME_ID`; getrusage(2) on `RUSAGE_THREAD`.

mod counted;
mod echo;
mod intake;
mod receiver;
mod sender;
#[cfg(test)]
mod tests;

pub use counted::Counted;
pub use receiver::Receiver;
pub use sender::Sender;

use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddrV4, UdpSocket};
use std::os::fd::OwnedFd;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use rustix::net::{SendFlags, send};

use crate::rendezvous::{self, Address, Listener, Over};
use costof_os::memory::fields::{self, Messages};
pub use costof_os::net::field_sender::Counts;
use costof_os::net::field_sender::{FieldSender, Primitive};
use costof_os::net::segments;
use costof_os::net::sink::{self, Acknowledger};
use costof_os::net::socket::receive_within;

/// How long a receive waits before it looks whether it is still wanted.
const LOOK: Duration = Duration::from_millis(50);
/// How long nothing may go on before a flow is given up.
const STALLED: Duration = Duration::from_secs(10);

/// What arrives: messages of so many bytes, of which so many are different.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Bytes of a message, [`MESSAGE_LEAST_BYTES`] or more.
    pub size: usize,
    /// How many there are, each with other bytes; then they begin again.
    pub count: usize,
}

/// The smallest message: a word of eight bytes for each of eight fields.
pub const MESSAGE_LEAST_BYTES: usize = 64;
/// The largest.
pub const MESSAGE_MOST_BYTES: usize = 64 << 20;

/// How long a request for messages is.
pub const REQUEST_BYTES: usize = 64;

/// What it says: no message has these bytes.
fn request() -> [u8; REQUEST_BYTES] {
    let mut request = [0; REQUEST_BYTES];
    fields::write_contents(u32::MAX as usize, 0, &mut request);
    request
}

/// Waits for the one that calls a listener and says its token: the receiving ends of its flows.
///
/// # Errors
///
/// Those of [`Listener::accept`].
pub fn accept(listener: &Listener, shape: Shape, stop: &AtomicBool) -> io::Result<Vec<Receiver>> {
    accept_by(listener, shape, false, stop)
}

/// As [`accept`], of senders that [`Sender::segment`] their messages.
///
/// # Errors
///
/// Those of [`accept`]; `Unsupported` where the kernel or the way has no such datagrams.
pub fn accept_segmented(
    listener: &Listener,
    shape: Shape,
    stop: &AtomicBool,
) -> io::Result<Vec<Receiver>> {
    accept_by(listener, shape, true, stop)
}

fn accept_by(
    listener: &Listener,
    shape: Shape,
    is_segmented: bool,
    stop: &AtomicBool,
) -> io::Result<Vec<Receiver>> {
    let mut flows = listener.accept(stop)?;
    let mut receivers = Vec::with_capacity(flows.len());
    for mut flow in flows.drain(..) {
        flow.connect()?;
        receive_within(&flow.socket, LOOK)?;
        if is_segmented {
            segments::enable(&flow.socket)?;
        }
        let mut receiver = Receiver::of(flow.socket, flow.over, shape, is_segmented)?;
        receiver.met_by(listener.token());
        receivers.push(receiver);
    }
    // All are ready when the other end learns that it may begin.
    for receiver in &receivers {
        send(receiver.socket(), listener.token(), SendFlags::NOSIGNAL)?;
    }
    Ok(receivers)
}

/// Calls a listener, for a flow of each of these messages, by a congestion control where one is
/// named.
///
/// # Errors
///
/// `NotFound` for a congestion control that is not there; those of [`rendezvous::connect`] and
/// [`FieldSender::new`].
pub fn call(
    over: Over,
    address: &Address,
    control: Option<&str>,
    token: &[u8],
    primitive: Primitive,
    messages: Vec<Messages>,
) -> io::Result<Vec<Sender>> {
    let flows = rendezvous::connect_by(over, address, messages.len(), control, token)?;
    let flows = flows.into_iter().zip(messages);
    flows
        .map(|(mut flow, messages)| {
            flow.connect()?;
            let round_trip = flow.round_trip;
            sender(flow.socket, over, primitive, messages, round_trip)
        })
        .collect()
}

/// Sends to an address at which nobody is, over a link that discards what comes. TCP's connections
/// last as long as the acknowledger does.
///
/// # Errors
///
/// `InvalidInput` for what is no IPv4 or a Unix socket; those of [`Acknowledger::connect`] and
/// [`FieldSender::new`].
pub fn into_sink(
    over: Over,
    (from, to): (IpAddr, IpAddr),
    acknowledger: Option<&Acknowledger>,
    control: Option<&str>,
    primitive: Primitive,
    messages: Vec<Messages>,
) -> io::Result<Vec<Sender>> {
    /// The port of the discard service, RFC 863.
    const DISCARD: u16 = 9;
    let (IpAddr::V4(from), IpAddr::V4(to)) = (from, to) else {
        return Err(ErrorKind::InvalidInput.into());
    };
    let connect = || -> io::Result<OwnedFd> {
        match (over, acknowledger) {
            (Over::Tcp, Some(acknowledger)) => {
                let to = SocketAddrV4::new(to, DISCARD);
                let stream = acknowledger.connect_by(from, to, SINK_RECEIVER, control)?;
                Ok(stream.into())
            }
            (Over::Udp, _) => {
                let socket = UdpSocket::bind((from, 0))?;
                socket.connect((to, DISCARD))?;
                Ok(socket.into())
            }
            _ => Err(ErrorKind::InvalidInput.into()),
        }
    };
    messages
        .into_iter()
        .map(|messages| {
            let socket = connect()?;
            sender(socket, over, primitive, messages, Duration::ZERO)
        })
        .collect()
}

/// What a receiver at the end of an Ethernet would say of itself.
const SINK_RECEIVER: sink::Receiver = sink::Receiver {
    mss: 1460,
    window: 4 << 20,
};

fn sender(
    socket: OwnedFd,
    over: Over,
    primitive: Primitive,
    messages: Messages,
    round_trip: Duration,
) -> io::Result<Sender> {
    receive_within(&socket, LOOK)?;
    let fields = FieldSender::new(socket, primitive, messages)?;
    Ok(Sender::of(fields, over, round_trip))
}

fn other_bytes() -> io::Error {
    io::Error::new(ErrorKind::InvalidData, "other bytes arrived than were sent")
}

fn nothing_comes() -> io::Error {
    io::Error::new(ErrorKind::TimedOut, "the other end answers no more")
}
