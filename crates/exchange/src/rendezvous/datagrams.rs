//! UDP sockets of two ends that connected with the launch's token. Each is connected to the other,
//! so datagrams from strangers reach neither.

use std::io::{self, ErrorKind};
use std::net::UdpSocket;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use super::{Address, Listener, Over, TIMEOUT, Token, check_wanted, only};

/// How long an end waits before it checks whether it should stop.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Waits for the client of this listener, with one flow, and for its first datagram after the
/// token, which stays in the socket.
///
/// # Errors
///
/// Those of [`Listener::accept`]; `TimedOut` if the client does not begin.
pub fn accept(listener: &Listener, stop: &AtomicBool) -> io::Result<UdpSocket> {
    let mut flow = only(listener.accept(stop)?);
    flow.connect()?;
    let socket = UdpSocket::from(flow.socket);
    answer(&socket, &flow.token, stop)?;
    Ok(socket)
}

/// Connects to a listener at this address. Returns the socket and a round-trip time.
///
/// # Errors
///
/// Those of [`super::connect`].
pub fn connect(address: &Address, token: &[u8]) -> io::Result<(UdpSocket, Duration)> {
    let flow = only(super::connect(Over::Udp, address, 1, token)?);
    let round_trip = flow.round_trip;
    Ok((flow.into_socket()?.into(), round_trip))
}

/// Sends the token back until the client continues: either datagram may be lost.
fn answer(socket: &UdpSocket, token: &Token, stop: &AtomicBool) -> io::Result<()> {
    let until = Instant::now() + TIMEOUT;
    socket.set_read_timeout(Some(POLL_INTERVAL))?;
    send(socket, &token.bytes)?;
    let mut received = vec![0; token.bytes.len() + 1];
    loop {
        match socket.peek(&mut received) {
            Ok(length) if token.takes(&received[..length], socket) => {
                socket.recv(&mut received)?;
            }
            Ok(_) => return Ok(()),
            Err(error) if is_passing(&error) => {}
            Err(error) => return Err(error),
        }
        check_wanted(stop, until)?;
    }
}

/// Sends a datagram. It may be lost here as well as anywhere else.
///
/// # Errors
///
/// The system's, unless they mean that this datagram is lost.
pub fn send(socket: &UdpSocket, datagram: &[u8]) -> io::Result<()> {
    match socket.send(datagram) {
        Ok(_) => Ok(()),
        Err(error) if is_passing(&error) => Ok(()),
        // A device's queue is full.
        Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Whether the error only means that nothing arrived, or that the peer is gone: both can be ignored.
pub fn is_passing(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::WouldBlock
            | ErrorKind::TimedOut
            | ErrorKind::Interrupted
            | ErrorKind::ConnectionRefused
    )
}
