//! Measured: sending messages of one size through sockets, from one end to another: as fast as possible, each
//! with an answer, or on request.
//!
//! A flow is one connection, or the datagrams between two sockets, with a thread at each end. The
//! receiver reads the data and compares a part of each piece. Messages have several fields, are sent in a chosen
//! way, and their contents follow from their number; or they are blocks, sent from one buffer, that begin with
//! their number. From time to time both ends record their progress and their CPU time so far; reading
//! that clock is the only system call besides those of the messages.
//!
//! With a sink, there is only the sender's half.
//!
//! Source: tcp(7), udp(7), unix(7); `CLOCK_THREAD_CPUTIME_ID`; getrusage(2) on `RUSAGE_THREAD`.

mod block;
mod echo;
mod incoming;
mod receiver;
mod sender;
#[cfg(test)]
mod tests;
mod usage;
mod writer;

pub use crate::content::fields::Shape;
pub use block::Block;
pub use costof_os::net::field_sender::Counts;
pub use incoming::Content;
pub use receiver::Receiver;
pub use sender::Sender;
pub use usage::ThreadUsage;
pub use writer::Writer;

use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddrV4, UdpSocket};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use crate::progress::POLL_INTERVAL;
use crate::rendezvous::{self, Address, Listener, Over, Token};
use costof_os::memory::fields::{self, Messages};
use costof_os::net::field_sender::{FieldSender, Primitive};
use costof_os::net::segments;
use costof_os::net::sink::{self, Acknowledger};
use costof_os::net::socket::{DATAGRAM_MAX_BYTES, receive_within};

/// The smallest message: a word of eight bytes for each of eight fields. Datagrams with the token are shorter.
pub const MESSAGE_MIN_BYTES: usize = 64;
/// The largest message.
pub const MESSAGE_MAX_BYTES: usize = 64 << 20;

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
/// datagrams of [`Over::UdpGso`].
pub fn accept(
    listener: &Listener,
    over: Over,
    content: Content,
    stop: &AtomicBool,
) -> io::Result<Vec<Receiver>> {
    let flows = listener.accept(stop)?.into_iter();
    let open = Arc::default();
    let receivers = flows
        .map(|flow| {
            let (socket, token) = flow.into_parts()?;
            Receiver::new(configured(over, socket)?, over, content, token, &open)
        })
        .collect::<io::Result<Vec<_>>>()?;
    // All receivers are ready before the sender learns that it may begin.
    receivers.iter().try_for_each(Receiver::answer_token)?;
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
    over: Over,
    address: &Address,
    control: Option<&str>,
    token: &[u8],
    primitive: Primitive,
    messages: Vec<Messages>,
) -> io::Result<Vec<Sender>> {
    let flows = rendezvous::connect_by(over, address, messages.len(), control, token)?
        .into_iter()
        .zip(messages);
    flows
        .map(|(flow, messages)| {
            let round_trip = flow.round_trip;
            let (socket, token) = flow.into_parts()?;
            sender(socket, over, primitive, messages, Some((token, round_trip)))
        })
        .collect()
}

/// As [`call`], with so many flows of blocks of this size.
///
/// # Errors
///
/// `InvalidInput` for an unsuitable size, `NotFound` for an unknown congestion control; those of
/// [`rendezvous::connect`].
pub fn call_with_blocks(
    over: Over,
    address: &Address,
    (flows, size): (usize, usize),
    control: Option<&str>,
    token: &[u8],
) -> io::Result<Vec<Sender<Block>>> {
    let most = if over.is_datagrams() { DATAGRAM_MAX_BYTES } else { MESSAGE_MAX_BYTES };
    if !(MESSAGE_MIN_BYTES..=most).contains(&size) {
        let reason = format!("a block has {MESSAGE_MIN_BYTES} to {most} bytes, not {size}");
        return Err(io::Error::new(ErrorKind::InvalidInput, reason));
    }
    let flows = rendezvous::connect_by(over, address, flows, control, token)?;
    flows
        .into_iter()
        .map(|flow| {
            let round_trip = flow.round_trip;
            let (socket, token) = flow.into_parts()?;
            let block = Block::new(configured(over, socket)?, size)?;
            Ok(Sender::new(block, over, Some((token, round_trip))))
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
    let to = SocketAddrV4::new(to, DISCARD);
    let connect = || -> io::Result<OwnedFd> {
        match (over, acknowledger) {
            (Over::Tcp, Some(acknowledger)) => {
                Ok(acknowledger.connect(from, to, SINK_RECEIVER, control)?.into())
            }
            (Over::Udp | Over::UdpGso, _) => {
                let socket = UdpSocket::bind((from, 0))?;
                socket.connect(to)?;
                Ok(socket.into())
            }
            _ => Err(ErrorKind::InvalidInput.into()),
        }
    };
    let senders = messages.into_iter();
    senders.map(|messages| sender(connect()?, over, primitive, messages, None)).collect()
}

/// A connected socket as both peers use it: receives return after [`POLL_INTERVAL`].
fn configured(over: Over, socket: OwnedFd) -> io::Result<OwnedFd> {
    receive_within(&socket, POLL_INTERVAL)?;
    if over == Over::UdpGso {
        segments::enable(&socket)?;
    }
    Ok(socket)
}

/// The window that a receiver at the end of an Ethernet link would advertise.
const SINK_RECEIVER: sink::Receiver = sink::Receiver { mss: 1460, window: 4 << 20 };

fn sender(
    socket: OwnedFd,
    over: Over,
    primitive: Primitive,
    messages: Messages,
    peer: Option<(Token, Duration)>,
) -> io::Result<Sender> {
    let socket = configured(over, socket)?;
    let fields = FieldSender::new(socket, primitive, messages)?;
    Ok(Sender::new(fields, over, peer))
}
