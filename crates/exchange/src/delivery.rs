//! Measured: sending messages of several fields from one end to another in a chosen way: as fast as
//! possible, each with an answer, or on request.
//!
//! A flow is one connection, or the datagrams between two sockets, with a thread at each end. The
//! receiver reads the data and compares a word of each piece: the contents of a message follow from
//! its number. From time to time both ends record their progress and their CPU time so far; reading
//! that clock is the only system call besides those of the messages.
//!
//! With a sink, there is only the sender's half.
//!
//! Source: tcp(7), udp(7), unix(7); `CLOCK_THREAD_CPUTIME_ID`; getrusage(2) on `RUSAGE_THREAD`.

mod echo;
mod incoming;
mod receiver;
mod sender;
#[cfg(test)]
mod tests;
mod transport;
mod usage;

pub use costof_os::net::field_sender::Counts;
pub use receiver::Receiver;
pub use sender::{Ending, Sender};
pub use transport::Transport;
pub use usage::ThreadUsage;

use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddrV4, UdpSocket};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use rustix::net::{SendFlags, send};

use crate::rendezvous::{self, Address, Listener};
use costof_os::memory::fields::{self, Messages};
use costof_os::net::field_sender::{FieldSender, Primitive};
use costof_os::net::sink::{self, Acknowledger};

/// How long a receive waits before it checks whether to go on.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// A flow without progress for this time is given up.
const STALLED: Duration = Duration::from_secs(10);

/// The incoming messages: their size, and how many different ones there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Bytes of a message, [`MESSAGE_LEAST_BYTES`] or more.
    pub size: usize,
    /// How many different messages there are; after the last, the first is sent again.
    pub count: usize,
}

/// The smallest message: a word of eight bytes for each of eight fields.
pub const MESSAGE_LEAST_BYTES: usize = 64;
/// The largest message.
pub const MESSAGE_MOST_BYTES: usize = 64 << 20;

/// The length of a request for messages.
pub const REQUEST_BYTES: usize = 64;

/// The contents of a request: no message has these bytes.
fn request() -> [u8; REQUEST_BYTES] {
    let mut request = [0; REQUEST_BYTES];
    fields::write_contents(u32::MAX as usize, 0, &mut request);
    request
}

/// Waits for the client with the listener's token. Returns the receivers of its flows.
///
/// # Errors
///
/// Those of [`Listener::accept`]; `Unsupported` if the kernel or the path does not support the
/// datagrams of [`Transport::UdpGso`].
pub fn accept(
    listener: &Listener,
    transport: Transport,
    shape: Shape,
    stop: &AtomicBool,
) -> io::Result<Vec<Receiver>> {
    let flows = listener.accept(stop)?.into_iter();
    let open = Arc::default();
    let receivers = flows.map(|flow| {
        let socket = transport.configured(flow.into_socket()?)?;
        Receiver::new(socket, transport, shape, listener.token(), &open)
    });
    let receivers = receivers.collect::<io::Result<Vec<_>>>()?;
    // All receivers are ready before the sender learns that it may begin.
    for receiver in &receivers {
        send(receiver.socket(), listener.token(), SendFlags::NOSIGNAL)?;
    }
    Ok(receivers)
}

/// Connects to a listener: one flow for each of these messages, with a congestion control if one is
/// given.
///
/// # Errors
///
/// `NotFound` if the kernel does not have the congestion control; those of [`rendezvous::connect`] and
/// [`FieldSender::new`]; `Unsupported` as [`accept`].
pub fn call(
    transport: Transport,
    address: &Address,
    control: Option<&str>,
    token: &[u8],
    primitive: Primitive,
    messages: Vec<Messages>,
) -> io::Result<Vec<Sender>> {
    let flows = rendezvous::connect_by(transport.over(), address, messages.len(), control, token)?;
    let flows = flows.into_iter().zip(messages);
    flows
        .map(|(flow, messages)| {
            let round_trip = Some(flow.round_trip);
            sender(flow.into_socket()?, transport, primitive, messages, round_trip)
        })
        .collect()
}

/// Sends to an address without a receiver, over a link that discards everything. TCP connections
/// last as long as the acknowledger.
///
/// # Errors
///
/// `InvalidInput` for an IPv6 address or a Unix socket; those of [`Acknowledger::connect`] and
/// [`FieldSender::new`].
pub fn into_sink(
    transport: Transport,
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
    let to = SocketAddrV4::new(to, DISCARD);
    let connect = || -> io::Result<OwnedFd> {
        match (transport, acknowledger) {
            (Transport::Tcp, Some(acknowledger)) => {
                Ok(acknowledger.connect(from, to, SINK_RECEIVER, control)?.into())
            }
            (Transport::Udp | Transport::UdpGso, _) => {
                let socket = UdpSocket::bind((from, 0))?;
                socket.connect(to)?;
                Ok(socket.into())
            }
            (Transport::Tcp | Transport::Unix, _) => Err(ErrorKind::InvalidInput.into()),
        }
    };
    let senders = messages.into_iter();
    senders.map(|messages| sender(connect()?, transport, primitive, messages, None)).collect()
}

/// The window that a receiver at the end of an Ethernet link would advertise.
const SINK_RECEIVER: sink::Receiver = sink::Receiver { mss: 1460, window: 4 << 20 };

fn sender(
    socket: OwnedFd,
    transport: Transport,
    primitive: Primitive,
    messages: Messages,
    round_trip: Option<Duration>,
) -> io::Result<Sender> {
    let socket = transport.configured(socket)?;
    let fields = FieldSender::new(socket, primitive, messages)?;
    Ok(Sender::new(fields, transport, round_trip))
}

fn other_bytes() -> io::Error {
    io::Error::new(ErrorKind::InvalidData, "the received bytes differ from those sent")
}

fn no_answer() -> io::Error {
    io::Error::new(ErrorKind::TimedOut, "the other end no longer answers")
}
