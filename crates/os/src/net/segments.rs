//! Messages that go through a UDP socket as several datagrams at once: the kernel, or a device,
//! splits them (UDP_SEGMENT), and the receiver gets those that arrived together in one call
//! (UDP_GRO).
//!
//! Source: udp(7), linux/udp.h; W. de Bruijn, E. Dumazet, Optimizing UDP for content delivery: GSO,
//! pacing and zerocopy, Linux Plumbers Conference 2018. `UDP_SEGMENT` is Linux 4.18, `UDP_GRO` 5.0.

use std::io;
use std::os::fd::AsFd;

use crate::net::control_message::messages;
use crate::net::socket;
use crate::net::socket_option;
use crate::net::unsupported;

/// The payload of each datagram but the last, in bytes: what a packet of 1,500 bytes, the MTU of
/// Ethernet, carries over IPv6 (40 and 8 of headers), and over IPv4 too.
pub const SEGMENT_BYTES: usize = 1452;
/// Headers of IPv6 and UDP.
const HEADER_BYTES: u32 = 48;

/// Makes a connected socket send and receive messages as datagrams of [`SEGMENT_BYTES`].
///
/// # Errors
///
/// `Unsupported`, with the reason, if the packets of its path hold less, or the kernel has no such option.
pub fn enable(socket: &impl AsFd) -> io::Result<()> {
    let mtu = socket::mtu_bytes(socket)?;
    if mtu < SEGMENT_BYTES as u32 + HEADER_BYTES {
        return Err(unsupported(format!(
            "datagrams of {SEGMENT_BYTES} B do not fit into packets of {mtu} B (--set over=udp)"
        )));
    }
    for (option, name, value) in [
        (libc::UDP_SEGMENT, "UDP_SEGMENT (Linux 4.18)", SEGMENT_BYTES),
        (libc::UDP_GRO, "UDP_GRO (Linux 5.0)", 1),
    ] {
        socket_option::set(socket, (libc::SOL_UDP, option), &[value as u32])
            .map_err(|error| unsupported(format!("{name}: {error}")))?;
    }
    Ok(())
}

/// How many datagrams a message of this many bytes takes.
pub fn count(bytes: usize) -> usize {
    bytes.div_ceil(SEGMENT_BYTES).max(1)
}

/// The length in bytes of each datagram, except the last, of those that arrived together; `None` if only one
/// arrived.
#[inline]
pub fn length_of_each(control: &[u8]) -> Option<usize> {
    let is_it =
        |(level, kind, _): &(i32, i32, &[u8])| (*level, *kind) == (libc::SOL_UDP, libc::UDP_GRO);
    let (_, _, data) = messages(control).find(is_it)?;
    usize::try_from(i32::from_ne_bytes(*data.first_chunk()?)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::control_message::receive;
    use std::net::UdpSocket;

    #[test]
    fn a_message_goes_as_datagrams_and_comes_as_one_or_several() {
        let [from, to] = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
        from.connect(to.local_addr().unwrap()).unwrap();
        to.connect(from.local_addr().unwrap()).unwrap();
        if let Err(error) = enable(&from).and_then(|()| enable(&to)) {
            return eprintln!("skipped: {error}");
        }
        let sent: Vec<u8> = (0..4000).map(|at| (at % 251) as u8).collect();
        assert_eq!(from.send(&sent).unwrap(), sent.len());
        let (mut received, mut datagrams) = (Vec::new(), 0);
        while received.len() < sent.len() {
            let (mut bytes, mut control) = ([0; 8192], [0; 8]);
            let (length, control) = receive(&to, &mut bytes, &mut control, 0).unwrap();
            let each = length_of_each(control).unwrap_or(length);
            assert!(each == SEGMENT_BYTES || length == 4000 % SEGMENT_BYTES, "{each} {length}");
            datagrams += length.div_ceil(each);
            received.extend_from_slice(&bytes[..length]);
        }
        assert_eq!((received, datagrams), (sent, count(4000)));
    }
}
