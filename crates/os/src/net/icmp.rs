//! Measured: ICMP echo, as ping(8) does it. The kernel of the other end answers.
//!
//! Two kinds of socket can send it. A datagram socket of ICMP needs no privilege if the process's
//! group is in net.ipv4.ping_group_range (Linux 3.0, for IPv6 3.11). A raw socket needs
//! `CAP_NET_RAW`.
//!
//! Source: RFC 792 and RFC 4443 on echo; icmp(7), raw(7), ipv6(7).

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

use rustix::net::{
    AddressFamily, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType, ipproto, recv, send,
};

use crate::net::control_message::{ExtendedError, next_error};
use crate::net::packet;
use crate::net::socket::{is_passing, receive_within};
use crate::net::socket_option;

/// Bytes of an echo's header.
const HEADER: usize = 8;
/// The longest header of IPv4, which a raw socket receives too.
const IP_HEADER: usize = 60;
/// How long a blocking receive waits before it checks whether a reply can still come.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// How many polls a spinning receive makes before that check.
const SPINS_PER_CHECK: u32 = 100_000;

/// Sends echo requests to one address.
#[derive(Debug)]
pub struct Pinger {
    socket: OwnedFd,
    kind: Kind,
    spins: bool,
    /// Types of the request and of the reply.
    types: (u8, u8),
    identifier: u16,
    sequence: u16,
    request: Vec<u8>,
    reply: Vec<u8>,
}

/// The kind of socket that sends echo requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A datagram socket: the kernel fills in identifier and checksum, and delivers only replies to its own
    /// identifier.
    Datagram,
    /// A raw socket.
    Raw,
}

impl Pinger {
    /// A pinger of `address` with this many bytes after the header, which spins or blocks until an
    /// answer comes.
    ///
    /// # Errors
    ///
    /// EACCES or EPERM if neither kind of socket is permitted; those of connect(2).
    pub fn open(address: IpAddr, bytes: usize, spins: bool) -> io::Result<Self> {
        match Self::with(Kind::Datagram, address, bytes, spins) {
            Err(error) if is_not_permitted(&error) => Self::with(Kind::Raw, address, bytes, spins),
            opened => opened,
        }
    }

    fn with(kind: Kind, address: IpAddr, bytes: usize, spins: bool) -> io::Result<Self> {
        let (family, protocol, types) = match address {
            IpAddr::V4(_) => (AddressFamily::INET, ipproto::ICMP, (8, 0)),
            IpAddr::V6(_) => (AddressFamily::INET6, ipproto::ICMPV6, (128, 129)),
        };
        let socket_type = match kind {
            Kind::Datagram => SocketType::DGRAM,
            Kind::Raw => SocketType::RAW,
        };
        let protocol: Option<Protocol> = Some(protocol);
        let socket = rustix::net::socket_with(family, socket_type, SocketFlags::CLOEXEC, protocol)?;
        receive_within(&socket, POLL_INTERVAL)?;
        // Calls fail where a router answers that the address cannot be reached, or drops a packet.
        let errors = match address {
            IpAddr::V4(_) => (libc::SOL_IP, libc::IP_RECVERR),
            IpAddr::V6(_) => (libc::SOL_IPV6, libc::IPV6_RECVERR),
        };
        socket_option::set(&socket, errors, &[1_u32])?;
        let pinger = Self {
            socket,
            kind,
            spins,
            types,
            identifier: identifier(),
            sequence: 0,
            request: (0..HEADER + bytes).map(|byte| (byte % 251) as u8).collect(),
            reply: vec![0; IP_HEADER + HEADER + bytes],
        };
        if kind == Kind::Raw {
            pinger.filter_replies()?;
        }
        rustix::net::connect(&pinger.socket, &SocketAddr::new(address, 0))?;
        Ok(pinger)
    }

    /// Which kind of socket it has.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Sends an echo request and receives its reply, with the same bytes. False if none has arrived within
    /// `time`, which it checks every 50 ms.
    ///
    /// # Errors
    ///
    /// Those of send(2) and recv(2), such as EHOSTUNREACH, or ENOBUFS if there is no room for the request
    /// within `time`.
    #[inline]
    pub fn echo(&mut self, time: Duration) -> io::Result<bool> {
        self.sequence = self.sequence.wrapping_add(1);
        self.fill_in_header();
        until_sent(|| self.send(), time)?;
        let mut since: Option<Instant> = None;
        let mut polls = 0;
        loop {
            match self.receive() {
                // Otherwise, it is a late reply to an earlier request, or another pinger's.
                Ok(length) => {
                    if self.reply_in(length) == Some(&self.request[HEADER..]) {
                        return Ok(true);
                    }
                }
                Err(error) if is_passing(&error) || self.has_only_lost() => {
                    polls += 1;
                    if self.spins && polls < SPINS_PER_CHECK {
                        continue;
                    }
                    polls = 0;
                    if since.get_or_insert_with(Instant::now).elapsed() >= time {
                        return Ok(false);
                    }
                }
                Err(error) => return Err(error),
            }
        }
    }

    fn fill_in_header(&mut self) {
        let header = [self.types.0, 0, 0, 0];
        self.request[..4].copy_from_slice(&header);
        self.request[4..6].copy_from_slice(&self.identifier.to_be_bytes());
        self.request[6..8].copy_from_slice(&self.sequence.to_be_bytes());
        // For ICMPv6 and for a datagram socket, the kernel computes the checksum.
        if self.kind == Kind::Raw && self.types.0 == 8 {
            let sum = packet::checksum(packet::sum(&self.request));
            self.request[2..4].copy_from_slice(&sum.to_be_bytes());
        }
    }

    /// The payload of the reply to the last request, if the `length` received bytes are that reply.
    fn reply_in(&self, length: usize) -> Option<&[u8]> {
        let mut packet = self.reply.get(..length)?;
        if self.kind == Kind::Raw && self.types.0 == 8 {
            // IHL, in words of four bytes.
            let header = usize::from(packet.first()? & 0x0f) * 4;
            packet = packet.get(header..)?;
        }
        let (header, data) = packet.split_at_checked(HEADER)?;
        let number = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
        let is_own = self.kind == Kind::Datagram || number(4) == self.identifier;
        (header[0] == self.types.1 && is_own && number(6) == self.sequence).then_some(data)
    }

    #[inline]
    fn send(&self) -> io::Result<()> {
        match send(&self.socket, &self.request, SendFlags::empty()) {
            Ok(_) => Ok(()),
            // It is of an earlier request: this one has not left.
            Err(error) if !is_passing(&error.into()) && self.has_only_lost() => {
                Err(io::ErrorKind::Interrupted.into())
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Takes the reports of routers after an error. Whether each is of one packet, and others may arrive.
    #[cold]
    fn has_only_lost(&self) -> bool {
        let reports = std::iter::from_fn(|| next_error(&self.socket).ok().flatten());
        let (lost, others): (Vec<_>, Vec<_>) = reports.partition(is_of_one_packet);
        !lost.is_empty() && others.is_empty()
    }

    #[inline]
    fn receive(&mut self) -> io::Result<usize> {
        let flags = if self.spins { RecvFlags::DONTWAIT } else { RecvFlags::empty() };
        let (_, length) = recv(&self.socket, &mut self.reply[..], flags)?;
        Ok(length)
    }

    /// Without the filter, a raw socket receives every ICMP packet of the namespace, including its
    /// own requests.
    fn filter_replies(&self) -> io::Result<()> {
        const ICMP_FILTER: i32 = 1;
        const ICMP6_FILTER: i32 = 1;
        // A bit for each type, set for those that are filtered out.
        let mut blocked = [u32::MAX; 8];
        let reply = usize::from(self.types.1);
        blocked[reply / 32] &= !(1 << (reply % 32));
        match self.types.0 {
            8 => socket_option::set(&self.socket, (libc::SOL_RAW, ICMP_FILTER), &blocked[..1]),
            _ => {
                let option = (libc::IPPROTO_ICMPV6, ICMP6_FILTER);
                socket_option::set(&self.socket, option, &blocked)
            }
        }
    }
}

/// Whether a router reports that it dropped this packet or sent it another way, not that an address cannot be
/// reached: it was longer than a link takes, on its way for too long, or a fragment of it was lost (half a
/// minute ago, so that another request learns of it).
fn is_of_one_packet(report: &ExtendedError) -> bool {
    const ORIGIN_ICMP: u8 = 2;
    const ORIGIN_ICMP6: u8 = 3;
    match (report.origin, report.kind, report.errno as i32) {
        (ORIGIN_ICMP | ORIGIN_ICMP6, _, libc::EMSGSIZE) => true,
        (ORIGIN_ICMP | ORIGIN_ICMP6, _, libc::EPROTO) => false,
        // Destination unreachable.
        (ORIGIN_ICMP, 3, _) | (ORIGIN_ICMP6, 1, _) => false,
        (ORIGIN_ICMP | ORIGIN_ICMP6, _, _) => true,
        _ => false,
    }
}

/// Whether the kind of socket is not for this process, or this kernel; the address may be reached by another.
fn is_not_permitted(error: &io::Error) -> bool {
    let errors = [libc::EACCES, libc::EPERM, libc::EPROTONOSUPPORT];
    error.raw_os_error().is_some_and(|error| errors.contains(&error))
}

/// Sends until it succeeds. Retries after full queues and signals, but not forever.
#[inline]
fn until_sent(mut send: impl FnMut() -> io::Result<()>, time: Duration) -> io::Result<()> {
    let mut since: Option<Instant> = None;
    loop {
        match send() {
            // ENOBUFS: no room is left for now.
            Err(error) if is_passing(&error) || error.raw_os_error() == Some(libc::ENOBUFS) => {
                if since.get_or_insert_with(Instant::now).elapsed() >= time {
                    return Err(error);
                }
            }
            sent => return sent,
        }
    }
}

/// A different number for each pinger of this process, and most likely for each process, also where those of several
/// containers have one number and one network.
fn identifier() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    static OF_PROCESS: OnceLock<u16> = OnceLock::new();
    let of_process = OF_PROCESS.get_or_init(|| match crate::random::bytes() {
        Ok([one, other, ..]) => u16::from_ne_bytes([one, other]),
        Err(_) => std::process::id() as u16,
    });
    of_process.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, Ipv6Addr};

    const TIME: Duration = Duration::from_secs(5);

    #[test]
    fn a_request_that_is_refused_passes_or_is_an_error_in_the_end() {
        let refused = || io::Error::from_raw_os_error(libc::ENOBUFS);
        let mut tries = 0;
        let third = || {
            tries += 1;
            if tries < 3 { Err(refused()) } else { Ok(()) }
        };
        until_sent(third, TIME).unwrap();
        let never = until_sent(|| Err(refused()), Duration::from_millis(1)).unwrap_err();
        assert_eq!(never.raw_os_error(), Some(libc::ENOBUFS));
        let unreachable = || Err(io::ErrorKind::HostUnreachable.into());
        let error = until_sent(unreachable, TIME).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::HostUnreachable);
    }

    #[test]
    fn this_machine_answers_on_every_kind_of_socket_that_is_permitted() {
        for address in [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)] {
            for kind in [Kind::Datagram, Kind::Raw] {
                for (bytes, spins) in [(56, false), (0, true), (1, true), (60_000, false)] {
                    let mut pinger = match Pinger::with(kind, address, bytes, spins) {
                        Ok(pinger) => pinger,
                        Err(error) => {
                            eprintln!("skipped: {kind:?} socket to {address}: {error}");
                            continue;
                        }
                    };
                    for _ in 0..3 {
                        assert!(pinger.echo(TIME).unwrap(), "{address} {kind:?} {bytes}");
                    }
                }
            }
        }
    }

    /// Sends this machine what a router sends that drops a request of this identifier.
    fn report(kind: u8, code: u8, identifier: u16) -> io::Result<()> {
        let local = [127, 0, 0, 1];
        let mut bytes = vec![kind, code, 0, 0, 0, 0, 0, 0];
        // The request's header, of IPv4 and of ICMP.
        bytes.extend([0x45, 0, 0, 28, 0, 0, 0, 0, 64, 1, 0, 0]);
        bytes.extend([local, local].concat());
        bytes.extend([8, 0, 0, 0]);
        bytes.extend(identifier.to_be_bytes());
        bytes.extend([0, 1]);
        let sum = packet::checksum(packet::sum(&bytes));
        bytes[2..4].copy_from_slice(&sum.to_be_bytes());
        let flags = SocketFlags::CLOEXEC;
        let (family, raw) = (AddressFamily::INET, SocketType::RAW);
        let socket = rustix::net::socket_with(family, raw, flags, Some(ipproto::ICMP))?;
        rustix::net::connect(&socket, &SocketAddr::from((local, 0)))?;
        send(&socket, &bytes, SendFlags::empty())?;
        Ok(())
    }

    #[test]
    fn a_request_that_was_lost_is_no_failure_of_later_ones_but_an_unreachable_address_is() {
        let local = Ipv4Addr::LOCALHOST.into();
        for kind in [Kind::Datagram, Kind::Raw] {
            let Ok(mut pinger) = Pinger::with(kind, local, 56, false) else {
                eprintln!("skipped: no {kind:?} socket");
                continue;
            };
            let own = rustix::net::getsockname(&pinger.socket).unwrap();
            let own = SocketAddr::try_from(own).unwrap();
            // A fragment was lost, it lived too long, a queue was full.
            for (icmp, code) in [(11, 1), (11, 0), (4, 0)] {
                if let Err(error) = report(icmp, code, own.port()) {
                    eprintln!("skipped: raw sockets need CAP_NET_RAW: {error}");
                    return;
                }
                let answered = pinger.echo(TIME);
                assert!(answered.unwrap(), "{kind:?}: {icmp} {code}");
            }
            report(3, 1, own.port()).unwrap();
            let error = pinger.echo(TIME).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::HostUnreachable, "{kind:?}");
        }
    }

    #[test]
    fn two_pingers_do_not_take_each_others_replies() {
        let open = |bytes| Pinger::with(Kind::Raw, Ipv4Addr::LOCALHOST.into(), bytes, false);
        let (Ok(mut one), Ok(mut other)) = (open(56), open(56)) else {
            eprintln!("skipped: raw sockets need CAP_NET_RAW");
            return;
        };
        for _ in 0..3 {
            // Each receives the other's reply before its own.
            assert!(one.echo(TIME).unwrap() && other.echo(TIME).unwrap());
            assert_eq!(one.sequence, other.sequence);
            other.reply.clone_from(&one.reply);
            let length = one.reply.len() - IP_HEADER + 20;
            assert!(one.reply_in(length).is_some() && other.reply_in(length).is_none());
        }
    }
}
