//! Ports from which nobody else can connect, because they are bound here.
//!
//! A socket holds each port until the one that connects is bound to it. `SO_REUSEPORT` lets only sockets
//! of this user share a port. The kernel never chooses a bound port for another program's connect(2).
//!
//! Ports that earlier connections left in TIME-WAIT come last, when no others are free: `SO_REUSEPORT` also
//! shares them, and connect(2) can use them unless the earlier connection was to the same address and port.
//!
//! Source: socket(7) on `SO_REUSEPORT`, ip(7) on `ip_local_port_range` and `ip_local_reserved_ports`.

use std::fs;
use std::io::{self, ErrorKind};
use std::iter::Cycle;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::vec::IntoIter;

use rustix::net::{SocketType, bind, ipproto, sockopt};

use crate::rendezvous::{family, open};
use costof_os::random;

/// How many ports are held at a time.
pub(super) const HELD: usize = 128;

/// Ports held for connections to one address.
#[derive(Debug)]
pub(super) struct Ports {
    any: IpAddr,
    /// Those that the kernel may choose for clients, from a random one on.
    candidates: Cycle<IntoIter<u16>>,
    candidate_count: usize,
    /// Whether ports in TIME-WAIT are held too.
    is_sharing: bool,
    /// The next one is the last.
    held: Vec<(u16, OwnedFd)>,
}

impl Ports {
    /// Holds none yet.
    ///
    /// # Errors
    ///
    /// Those of [`random::bytes`].
    pub(super) fn new(to: &SocketAddr) -> io::Result<Self> {
        let sysctl = |name| fs::read_to_string(format!("/proc/sys/net/ipv4/{name}"));
        let range = sysctl("ip_local_port_range").unwrap_or_default();
        let reserved = sysctl("ip_local_reserved_ports").unwrap_or_default();
        let mut candidates = candidates(&range, &reserved);
        let [low, high, ..] = random::bytes()?;
        let start = usize::from(u16::from_ne_bytes([low, high])) % candidates.len().max(1);
        candidates.rotate_left(start);
        Ok(Self {
            any: match to {
                SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
                SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
            },
            candidate_count: candidates.len(),
            candidates: candidates.into_iter().cycle(),
            is_sharing: false,
            held: Vec::new(),
        })
    }

    /// Holds the next free ports, at most [`HELD`], and returns them.
    ///
    /// # Errors
    ///
    /// `AddrNotAvailable` if none is free; those of socket(2) and bind(2).
    pub(super) fn hold(&mut self) -> io::Result<impl Iterator<Item = u16>> {
        for is_sharing in [self.is_sharing, true] {
            self.is_sharing = is_sharing;
            self.held.clear();
            for port in self.candidates.by_ref().take(self.candidate_count) {
                match bind_to(SocketAddr::new(self.any, port), is_sharing) {
                    Ok(socket) => self.held.push((port, socket)),
                    Err(error) if error.kind() == ErrorKind::AddrInUse => {}
                    Err(error) => return Err(error),
                }
                if self.held.len() == HELD {
                    break;
                }
            }
            if self.held.len() == HELD {
                break;
            }
        }
        if self.held.is_empty() {
            return Err(ErrorKind::AddrNotAvailable.into());
        }
        Ok(self.held.iter().map(|(port, _)| *port))
    }

    /// Whether no port is held.
    pub(super) fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// A socket bound to the next port, which is no longer held.
    ///
    /// # Errors
    ///
    /// `AddrNotAvailable` if no port is held; those of socket(2) and bind(2).
    pub(super) fn socket(&mut self) -> io::Result<OwnedFd> {
        let (port, _holder) = self.held.pop().ok_or(ErrorKind::AddrNotAvailable)?;
        bind_to(SocketAddr::new(self.any, port), true)
    }
}

/// A socket that shares its port with later ones of this user, and with earlier ones too if `is_sharing`.
fn bind_to(at: SocketAddr, is_sharing: bool) -> io::Result<OwnedFd> {
    let socket = open(family(at.ip()), SocketType::STREAM, Some(ipproto::TCP))?;
    sockopt::set_socket_reuseport(&socket, is_sharing)?;
    bind(&socket, &at)?;
    sockopt::set_socket_reuseport(&socket, true)?;
    Ok(socket)
}

/// The ports of a range such as `32768 60999`, without a list such as `8080,9000-9010`.
fn candidates(range: &str, reserved: &str) -> Vec<u16> {
    let bounds = |text: &str| {
        let text = text.trim();
        let is_between = |c: char| !c.is_ascii_digit();
        let (first, last) = text.split_once(is_between).unwrap_or((text, text));
        Some((first.parse().ok()?, last.parse().ok()?))
    };
    let (first, last) = bounds(range).unwrap_or((32_768, 60_999));
    let reserved: Vec<(u16, u16)> = reserved.split(',').filter_map(bounds).collect();
    let is_free = |port: &u16| !reserved.iter().any(|(from, to)| (from..=to).contains(&port));
    (first..=last).filter(is_free).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn nobody_else_can_bind_a_held_port() {
        let mut ports = Ports::new(&SocketAddr::from(([127, 0, 0, 1], 1))).unwrap();
        let held: Vec<u16> = ports.hold().unwrap().collect();
        for port in &held {
            // With SO_REUSEADDR, as std sets it.
            let other = TcpListener::bind(("127.0.0.1", *port)).unwrap_err();
            assert_eq!(other.kind(), ErrorKind::AddrInUse);
        }
        for port in held.into_iter().rev() {
            let socket = ports.socket().unwrap();
            let own = SocketAddr::try_from(rustix::net::getsockname(&socket).unwrap()).unwrap();
            assert_eq!(own.port(), port);
        }
        assert!(ports.is_empty());
    }

    #[test]
    fn a_port_in_time_wait_comes_last() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut ports = Ports::new(&listener.local_addr().unwrap()).unwrap();
        let free: Vec<u16> = ports.hold().unwrap().collect();
        let used = *free.last().unwrap();
        let socket = ports.socket().unwrap();
        rustix::net::connect(&socket, &listener.local_addr().unwrap()).unwrap();
        let accepted = listener.accept().unwrap();
        drop(socket);
        drop(accepted);
        let mut hold = |candidates: Vec<u16>| {
            ports.candidate_count = candidates.len();
            ports.candidates = candidates.into_iter().cycle();
            ports.hold().unwrap().any(|port| port == used)
        };
        let others = candidates("", "");
        assert!(!hold([&[used][..], &others].concat()));
        assert!(hold(free));
        // Fewer than are held at a time are enough.
        assert!(hold(vec![used]));
    }

    #[test]
    fn ranges_are_read_as_the_kernel_writes_them() {
        assert_eq!(candidates("7\t9\n", "\n"), [7, 8, 9]);
        assert_eq!(candidates("7\t14\n", "8,10-12\n"), [7, 9, 13, 14]);
        assert_eq!(candidates("", "").len(), 60_999 - 32_767);
    }
}
