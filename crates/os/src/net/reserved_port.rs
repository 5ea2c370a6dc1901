//! TCP connections from a reserved port, one below 1024. Many file servers require this of their
//! clients, because on the client's machine only root may use such a port.
//!
//! Source: ip(7) on `ip_unprivileged_port_start`, exports(5) on `secure`.

use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpStream};
use std::ops::RangeInclusive;
use std::time::Duration;

use crate::net::handshake::Handshake;

/// The ports that are tried: those that the kernel's own NFS client takes (`sunrpc.min_resvport`,
/// `max_resvport`).
const PORTS: RangeInclusive<u16> = 665..=1023;

/// A connection to `to`, from a reserved port if this process may use one and one is free, otherwise from any
/// port. It ends with a reset, which frees its port at once: data that waits to be sent is then discarded.
///
/// # Errors
///
/// `TimedOut` if the other end's kernel does not answer within `limit`; those of connect(2).
pub fn connect(to: &SocketAddr, limit: Duration) -> io::Result<TcpStream> {
    let count = PORTS.end() - PORTS.start() + 1;
    // If processes begin at different ports, they seldom try the same one.
    let first = (std::process::id() % u32::from(count)) as u16;
    for step in 0..count {
        let port = PORTS.start() + (first + step) % count;
        match connect_from(Some(port), to, limit) {
            Err(error) if is_taken(&error) => {}
            Err(error) if error.kind() == ErrorKind::PermissionDenied => break,
            connected => return connected,
        }
    }
    connect_from(None, to, limit)
}

/// Whether another has the port, or its connection to this very server has just ended.
fn is_taken(error: &io::Error) -> bool {
    use ErrorKind::{AddrInUse, AddrNotAvailable};
    matches!(error.kind(), AddrInUse | AddrNotAvailable)
}

fn connect_from(port: Option<u16>, to: &SocketAddr, limit: Duration) -> io::Result<TcpStream> {
    let handshake = Handshake::begin_from(port, to)?;
    // Otherwise, each port would be unavailable for a minute after its connection, and there are few.
    handshake.reset_on_close()?;
    handshake.wait(limit)?;
    handshake.into_stream()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn root_calls_from_a_reserved_port_and_others_from_any() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let to = listener.local_addr().unwrap();
        let connections = [(); 2].map(|()| {
            let near = connect(&to, Duration::from_secs(60)).unwrap();
            let (_, from) = listener.accept().unwrap();
            assert_eq!(PORTS.contains(&from.port()), may_have_one(), "{from}");
            near
        });
        drop(connections);
    }

    #[test]
    fn a_reserved_port_is_free_again_when_its_connection_is_closed() {
        if !may_have_one() {
            eprintln!("skipped: only root may have a reserved port");
            return;
        }
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let to = listener.local_addr().unwrap();
        // More often than there are ports.
        for _ in 0..400 {
            let near = connect(&to, Duration::from_secs(60)).unwrap();
            let (far, from) = listener.accept().unwrap();
            assert!(PORTS.contains(&from.port()), "{from}");
            drop(near);
            drop(far);
        }
    }

    fn may_have_one() -> bool {
        let mut bound = PORTS.map(|port| TcpListener::bind(("127.0.0.1", port)));
        let free = bound.find(|bound| !bound.as_ref().is_err_and(is_taken));
        free.is_some_and(|bound| bound.is_ok())
    }
}
