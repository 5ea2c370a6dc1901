//! Ends that use the kernel's TCP.

use super::{MESSAGE_BYTES, RoleResult, print_address};
use crate::rudp::tally::Tally;
use costof_os::net::socket;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

pub(super) fn receive(at: SocketAddr, lasts: Duration) -> RoleResult<Tally> {
    let listener = TcpListener::bind(at)?;
    print_address(listener.local_addr()?, "");
    let mut tally = Tally::new();
    let (mut stream, _) = listener.accept()?;
    let mut buffer = vec![0; 4 * MESSAGE_BYTES];
    while let Some(left) = tally.left(lasts) {
        stream.set_read_timeout(Some(left))?;
        match stream.read(&mut buffer) {
            Ok(0) => return Err("the sender ended first".into()),
            Ok(bytes) => tally.add(bytes),
            Err(error) if is_too_late(&error) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(tally)
}

fn has_enough(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionReset};
    matches!(error.kind(), BrokenPipe | ConnectionReset)
}

fn is_too_late(error: &io::Error) -> bool {
    use io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    matches!(error.kind(), Interrupted | TimedOut | WouldBlock)
}

/// As much as goes, until it is ended, or the receiver has enough.
pub(super) fn send(to: SocketAddr, control: &str) -> RoleResult<()> {
    let mut stream = TcpStream::connect(to)?;
    socket::set_congestion_control(&stream, control)?;
    let bytes = vec![7; MESSAGE_BYTES];
    loop {
        match stream.write_all(&bytes) {
            Ok(()) => {}
            Err(error) if has_enough(&error) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
    }
}
