//! The sender's half of a TCP connection without a peer: a socket that is put into ESTABLISHED
//! without a handshake, as if a receiver with a window had answered.
//!
//! Source: `TCP_REPAIR` (Linux 3.5), `TCP_REPAIR_WINDOW` (Linux 4.8), include/uapi/linux/tcp.h and
//! net/ipv4/tcp.c of the kernel; criu.org/TCP_connection. `SIOCOUTQNSD` is Linux 2.6.38.

use std::io;
use std::net::{SocketAddr, SocketAddrV4, TcpStream};
use std::os::fd::AsRawFd;

use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, connect, socket_with};

use crate::net::socket;
use crate::net::socket_option::{fetch_number, set};
use crate::system_call::{check, invalid};

const REPAIR: (libc::c_int, libc::c_int) = (libc::IPPROTO_TCP, libc::TCP_REPAIR);
const QUEUE: (libc::c_int, libc::c_int) = (libc::IPPROTO_TCP, libc::TCP_REPAIR_QUEUE);
const SEQUENCE: (libc::c_int, libc::c_int) = (libc::IPPROTO_TCP, libc::TCP_QUEUE_SEQ);
const MSS: (libc::c_int, libc::c_int) = (libc::IPPROTO_TCP, libc::TCP_MAXSEG);
const OPTIONS: (libc::c_int, libc::c_int) = (libc::IPPROTO_TCP, libc::TCP_REPAIR_OPTIONS);
const WINDOW: (libc::c_int, libc::c_int) = (libc::IPPROTO_TCP, libc::TCP_REPAIR_WINDOW);
const LINGER: (libc::c_int, libc::c_int) = (libc::SOL_SOCKET, libc::SO_LINGER);

/// enum of include/uapi/linux/tcp.h.
const RECEIVE_QUEUE: u32 = 1;
const SEND_QUEUE: u32 = 2;

/// The handshake option that scales windows (RFC 7323). Timestamps and selective acknowledgements are other
/// options, which stay off if they are not set.
const OPTION_WINDOW_SCALE: u32 = 3;
const SCALE_MAX: u32 = 14;

/// The receiver that the sender believes to be at the other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Receiver {
    /// The payload of a segment that it accepts, in bytes: 88 to 32,767.
    pub mss: u16,
    /// How much it accepts before it acknowledges, in bytes: below 1 GiB.
    pub window: u32,
}

impl Receiver {
    /// By how many bits its windows are shifted: the least for which they fit 16 bits.
    pub(crate) fn window_scale(&self) -> u32 {
        (u32::BITS - self.window.leading_zeros()).saturating_sub(16)
    }
}

/// Where the sequence numbers of a connection begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sequence {
    pub(crate) sender: u32,
    pub(crate) receiver: u32,
}

/// A connection from `from`, whose port may be 0, to nobody at `to`, with a congestion control if one is
/// named. No packet is sent. It has neither timestamps nor selective acknowledgements. Closing it sends a
/// reset and forgets what was not acknowledged, so that nothing of it outlives its process.
///
/// # Errors
///
/// `PermissionDenied` (EPERM) without `CAP_NET_ADMIN` over the network namespace; `InvalidInput` for an
/// impossible window or segment size; those of connect(2) about the route.
pub(crate) fn establish(
    from: SocketAddrV4,
    to: SocketAddrV4,
    receiver: Receiver,
    sequence: Sequence,
    control: Option<&str>,
) -> io::Result<TcpStream> {
    let scale = receiver.window_scale();
    if scale > SCALE_MAX {
        return Err(invalid("a TCP window is below 1 GiB"));
    }
    let flags = SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::INET, SocketType::STREAM, flags, None)?;
    if let Some(control) = control {
        socket::set_congestion_control(&socket, control)?;
    }
    set(&socket, REPAIR, &[1_u32])?;
    set(&socket, QUEUE, &[RECEIVE_QUEUE])?;
    set(&socket, SEQUENCE, &[sequence.receiver])?;
    // The queue that is chosen last is the one whose sequence number `sent` fetches.
    set(&socket, QUEUE, &[SEND_QUEUE])?;
    set(&socket, SEQUENCE, &[sequence.sender])?;
    // As a handshake option it would come too late.
    set(&socket, MSS, &[u32::from(receiver.mss)])?;
    bind(&socket, &from)?;
    connect(&socket, &to)?;
    set(&socket, OPTIONS, &[OPTION_WINDOW_SCALE, scale])?;
    let window = receiver.window >> scale << scale;
    let own_window = 1 << 16;
    set(&socket, WINDOW, &[sequence.receiver, window, window, own_window, sequence.receiver])?;
    // Sends a probe of the window, which nobody answers.
    set(&socket, REPAIR, &[0_u32])?;
    set(&socket, LINGER, &[1_u32, 0])?;
    let stream = TcpStream::from(socket);
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// The sequence number up to which a connection of [`establish`] has sent, at least: what is sent during this
/// call may be missing. Neither system call takes the socket's lock, so the sender does not wait.
#[inline]
pub(crate) fn sent(stream: &TcpStream) -> io::Result<u32> {
    // What was written is fetched first: more may be sent until the second call, never less.
    let written = fetch_number(stream, SEQUENCE)?;
    Ok(written.wrapping_sub(queued(stream, UNSENT)?))
}

/// How many bytes a connection has sent that are not acknowledged, excluding those that it has not sent yet.
///
/// # Errors
///
/// Those of ioctl(2).
pub fn in_flight(stream: &TcpStream) -> io::Result<u32> {
    // In this order, data that is sent or acknowledged between the two calls can only lower the result, never
    // raise it.
    let unsent = queued(stream, UNSENT)?;
    Ok(queued(stream, libc::TIOCOUTQ)?.saturating_sub(unsent))
}

/// The bytes that have not been sent. The C libraries differ in the types of requests.
const UNSENT: libc::Ioctl = libc::SIOCOUTQNSD as libc::Ioctl;

#[inline]
fn queued(stream: &TcpStream, request: libc::Ioctl) -> io::Result<u32> {
    let mut bytes: libc::c_int = 0;
    // SAFETY: the kernel writes one number to the place it is given.
    check(unsafe { libc::ioctl(stream.as_raw_fd(), request, &raw mut bytes) })?;
    Ok(bytes.cast_unsigned())
}

/// The local and the remote IPv4 address of a connection.
///
/// # Errors
///
/// Those of getsockname(2); `InvalidInput` if they are not IPv4.
pub(crate) fn addresses(stream: &TcpStream) -> io::Result<(SocketAddrV4, SocketAddrV4)> {
    match (stream.local_addr()?, stream.peer_addr()?) {
        (SocketAddr::V4(own), SocketAddr::V4(other)) => Ok((own, other)),
        _ => Err(io::ErrorKind::InvalidInput.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_is_scaled_to_fit_sixteen_bits() {
        for (window, scale) in [(0, 0), (1, 0), (65_535, 0), (65_536, 1), (1 << 30, 15)] {
            let receiver = Receiver { mss: 1460, window };
            assert_eq!(receiver.window_scale(), scale, "{window}");
            assert!(window >> scale <= 65_535);
        }
    }
}
