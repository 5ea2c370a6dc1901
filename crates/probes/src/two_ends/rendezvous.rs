//! How the two ends of a network probe find each other.

use crate::prelude::*;
use costof_exchange::rendezvous::{Listener, Over};
use std::fmt::Display;
use std::net::{IpAddr, SocketAddr, SocketAddrV6};

const ADDRESS: &str = "address";

/// Where the roles of this launch find each other, for a probe whose remote end must receive or
/// answer.
///
/// # Errors
/// `Unsupported` on a sink. A launch of two roles without a rendezvous is a bug of the controller.
pub(crate) fn with_receiver(launch: &Launch) -> Result<Rendezvous> {
    let rendezvous = from_launch(launch)?;
    match rendezvous.sink {
        Some(_) => Err(Failure::unsupported(
            "the link sink has no receiver, which this probe needs: nothing \
             arrives and nothing comes back (--link loopback or veth)",
        )),
        None => Ok(rendezvous),
    }
}

/// Where the roles of this launch find each other, for a probe that can also measure the sender's
/// half alone.
///
/// # Errors
/// A launch of two roles without a rendezvous is a bug of the controller.
pub(crate) fn from_launch(launch: &Launch) -> Result<Rendezvous> {
    let rendezvous = launch.rendezvous.clone();
    rendezvous
        .ok_or_else(|| Failure::error("the launch does not say how its roles find each other"))
}

/// Refuses a point whose ends share a CPU, if they are on two machines.
pub(crate) fn can_share(rendezvous: &Rendezvous, share: bool) -> Result {
    if share && rendezvous.apart {
        unsupported!("the ends are on two machines, which share no CPU (--set cpus=cross)");
    }
    Ok(())
}

/// Listens at this end of a link for `flows` connections, and offers the other end the address.
pub(crate) fn listen(
    link: &str,
    rendezvous: &Rendezvous,
    over: Over,
    flows: usize,
) -> Result<(Listener, Offers)> {
    if over == Over::Unix {
        reaches_a_unix_socket(link)?;
    }
    let token = rendezvous.token.as_bytes();
    let at = scoped(rendezvous.address, rendezvous.scope);
    let opened = Listener::open(over, at, rendezvous.ports, flows, token)
        .and_then(|listener| {
            if let Some(bytes) = rendezvous.receive_buffer.filter(|_| over.is_datagrams()) {
                listener.set_receive_buffer(bytes as usize)?;
            }
            Ok(listener)
        })
        .and_then(|listener| Ok((listener.address()?, listener)));
    let (address, listener) = opened.map_err(|error| cannot_listen(&rendezvous.address, &error))?;
    Ok((listener, offer(&address.to_string())))
}

/// An address with the interface that a link-local one belongs to, and any port.
pub(crate) fn scoped(address: IpAddr, scope: u32) -> SocketAddr {
    match address {
        IpAddr::V4(_) => SocketAddr::new(address, 0),
        IpAddr::V6(address) => SocketAddrV6::new(address, 0, 0, scope).into(),
    }
}

/// Refuses a Unix socket unless both ends are in one network namespace.
fn reaches_a_unix_socket(link: &str) -> Result {
    if link == "loopback" {
        return Ok(());
    }
    Err(Failure::unsupported(
        "a Unix socket does not leave its machine or its network namespace (--set over=tcp, \
         or --link loopback)",
    ))
}

pub(crate) fn offer(address: &str) -> Offers {
    Offers::from([(ADDRESS.into(), address.to_owned())])
}

pub(crate) fn offered<A: std::str::FromStr>(offers: &Offers) -> Result<A> {
    offers
        .get(ADDRESS)
        .and_then(|address| address.parse().ok())
        .ok_or_else(|| Failure::error("the other end offered no address"))
}

/// What was accepted; `None` if the launch has already ended, because the other end has failed and
/// reports why.
pub(crate) fn unless_stopped<T>(accepted: io::Result<T>) -> Result<Option<T>> {
    match accepted {
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(None),
        accepted => accepted.map(Some).map_err(broken),
    }
}

pub(crate) fn cannot_listen(address: &dyn Display, error: &io::Error) -> Failure {
    not_met(
        error,
        format!(
            "cannot listen at {address}: {error} (--peer-address and --peer-port choose where; \
             --data-port of `costof send`)"
        ),
    )
}

pub(crate) fn cannot_reach(address: &dyn Display, error: &io::Error) -> Failure {
    not_met(
        error,
        format!(
            "cannot reach the other end at {address}: {error} (a firewall may forbid it; \
             --peer-address and --peer-port choose where; --data-port of `costof send`)"
        ),
    )
}

/// A point is unsupported only if the next launch would fail in the same way. Failures that a busy
/// machine or lost packets cause are tried again.
fn not_met(error: &io::Error, reason: String) -> Failure {
    use io::ErrorKind as Kind;
    match error.kind() {
        Kind::ConnectionRefused
        | Kind::HostUnreachable
        | Kind::NetworkUnreachable
        | Kind::NetworkDown
        | Kind::AddrNotAvailable
        | Kind::PermissionDenied => Failure::unsupported(reason),
        _ => Failure::error(reason),
    }
}

/// A failure to make one of many connections.
pub(crate) fn cannot_connect(error: io::Error) -> Failure {
    match error.kind() {
        io::ErrorKind::AddrNotAvailable => Failure::unsupported(
            "no local port is free: connections of the last minute are in \
             TIME-WAIT (net.ipv4.ip_local_port_range says how many there are)",
        ),
        _ => broken(error),
    }
}

pub(crate) fn broken(error: impl Display) -> Failure {
    Failure::error(format!("communication with the other end failed: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use costof_model::failure::FailureKind;
    use io::ErrorKind;

    #[test]
    fn only_what_the_next_launch_would_find_too_is_unsupported() {
        let kind = |error: io::Error| {
            let failure = cannot_reach(&"192.0.2.1:7", &error);
            assert!(failure.reason.contains(&error.to_string()), "{failure}");
            failure.kind
        };
        for lasting in [
            ErrorKind::ConnectionRefused,
            ErrorKind::HostUnreachable,
            ErrorKind::AddrNotAvailable,
            ErrorKind::PermissionDenied,
        ] {
            assert_eq!(kind(lasting.into()), FailureKind::Unsupported, "{lasting}");
        }
        for passing in [ErrorKind::TimedOut, ErrorKind::InvalidData] {
            assert_eq!(kind(passing.into()), FailureKind::Error, "{passing}");
        }
        // EMFILE: too many open files.
        assert_eq!(kind(io::Error::from_raw_os_error(24)), FailureKind::Error);
    }

    #[test]
    fn where_nobody_can_listen_it_is_not_to_be_had() {
        let listen_at = |address: &str| {
            let rendezvous = Rendezvous {
                address: address.parse().expect("it is an address"),
                scope: 0,
                receive_buffer: None,
                ports: (0, 0),
                token: "token".into(),
                apart: false,
                sink: None,
            };
            listen("loopback", &rendezvous, Over::Tcp, 1).map_err(|failure| failure.kind)
        };
        assert!(listen_at("127.0.0.1").is_ok());
        // RFC 5737 reserves it for documentation.
        let nowhere = listen_at("192.0.2.1").map(drop);
        assert_eq!(nowhere, Err(FailureKind::Unsupported));
    }
}
