//! The sockets of two ends that have met by the launch's token, as whatever goes through sockets does,
//! and go on by datagrams, each connected to the other: a stranger's come to neither.

use costof_exchange::rendezvous::{self, Address, Listener, Met, Over};
use std::io::{self, ErrorKind};
use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How long the ends have to find each other.
pub(super) const MEETS: Duration = Duration::from_secs(10);
/// How long an end waits until it looks whether it is still wanted.
const LOOK: Duration = Duration::from_millis(10);

/// Waits for the one that calls this listener of one flow, and for the first that it says beside the
/// token, which is left in the socket.
///
/// # Errors
/// Those of [`Listener::accept`]; `TimedOut` where it does not begin.
pub(super) fn accept(listener: &Listener, stop: &AtomicBool) -> io::Result<UdpSocket> {
    let socket = UdpSocket::from(only(listener.accept(stop)?).into_socket()?);
    answer(&socket, listener.token(), stop)?;
    Ok(socket)
}

/// Calls a listener at this address: the socket, and a round trip to there.
///
/// # Errors
/// Those of [`rendezvous::call`].
pub(super) fn call(address: &Address, token: &[u8]) -> io::Result<(UdpSocket, Duration)> {
    let met = only(rendezvous::call(Over::Udp, address, 1, token)?);
    let round_trip = met.round_trip();
    Ok((met.into_socket()?.into(), round_trip))
}

/// The one flow that was asked for.
pub(super) fn only(mut met: Vec<Met>) -> Met {
    met.pop().expect("one flow was asked for")
}

/// Says the token back until the one who calls goes on: either may be lost.
fn answer(socket: &UdpSocket, token: &[u8], stop: &AtomicBool) -> io::Result<()> {
    let until = Instant::now() + MEETS;
    socket.set_read_timeout(Some(LOOK))?;
    send(socket, token)?;
    let mut said = vec![0; token.len() + 1];
    loop {
        match socket.peek(&mut said) {
            Ok(length) if said[..length] == *token => {
                socket.recv(&mut said)?;
                send(socket, token)?;
            }
            Ok(_) => return Ok(()),
            Err(error) if is_passing(&error) => {}
            Err(error) => return Err(error),
        }
        if stop.load(Ordering::Acquire) {
            return Err(io::Error::new(
                ErrorKind::Interrupted,
                "the other end has given up",
            ));
        }
        if Instant::now() > until {
            return Err(io::Error::new(
                ErrorKind::TimedOut,
                "the other end does not begin",
            ));
        }
    }
}

/// Sends a datagram, which may be lost here as well as anywhere.
pub(super) fn send(socket: &UdpSocket, datagram: &[u8]) -> io::Result<()> {
    match socket.send(datagram) {
        Ok(_) => Ok(()),
        Err(error) if is_passing(&error) || is_lost(&error) => Ok(()),
        Err(error) => Err(error),
    }
}

/// A device's queue is full.
fn is_lost(error: &io::Error) -> bool {
    const ENOBUFS: i32 = 105;
    error.raw_os_error() == Some(ENOBUFS)
}

/// Nothing came, or the other end has gone, who is not needed any more.
pub(super) fn is_passing(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::WouldBlock
            | ErrorKind::TimedOut
            | ErrorKind::Interrupted
            | ErrorKind::ConnectionRefused
    )
}
