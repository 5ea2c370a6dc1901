//! Sends whole frames through a network device, with a socket that receives none: its protocol is
//! 0, so the kernel passes no packets to it, and copies no other packets for it.
//!
//! It also computes the checksum of Internet packets.
//!
//! Source: packet(7), netdevice(7), Linux 2.2, CONFIG_PACKET; RFC 1071 on the checksum.

use crate::net::network_device;
use crate::system_call::check;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

/// Sends frames through one device.
#[derive(Debug)]
pub(crate) struct FrameSender {
    socket: OwnedFd,
    to: libc::sockaddr_ll,
}

impl FrameSender {
    /// Opens the device of this name in the calling thread's network namespace.
    ///
    /// # Errors
    ///
    /// `PermissionDenied` (EPERM) without `CAP_NET_RAW` over the network namespace; ENODEV if there is no
    /// such device.
    pub(crate) fn open(device: &str) -> io::Result<Self> {
        let flags = SocketFlags::CLOEXEC;
        let socket = socket_with(AddressFamily::PACKET, SocketType::RAW, flags, None)?;
        let index = network_device::index(device)? as libc::c_int;
        // SAFETY: all zeros is a valid value of this plain structure of C.
        let mut to: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        to.sll_family = libc::AF_PACKET as libc::c_ushort;
        to.sll_protocol = (libc::ETH_P_IP as u16).to_be();
        to.sll_ifindex = index;
        Ok(Self { socket, to })
    }

    /// Sends a frame that begins with its Ethernet header.
    ///
    /// # Errors
    ///
    /// Those of send(2): ENOBUFS if the device accepts no more, ENETDOWN if it is down.
    pub(crate) fn send(&self, frame: &[u8]) -> io::Result<()> {
        // SAFETY: the frame and the address are valid to read for their lengths.
        check(unsafe {
            libc::sendto(
                self.socket.as_raw_fd(),
                frame.as_ptr().cast(),
                frame.len(),
                0,
                (&raw const self.to).cast(),
                size_of_val(&self.to) as libc::socklen_t,
            )
        })
        .map(drop)
    }
}

/// The sum of the two-byte words of up to 128 KiB; an odd last byte is the first half of a word.
#[inline]
pub(crate) fn sum(bytes: &[u8]) -> u32 {
    let words = bytes.chunks_exact(2);
    let odd = words.remainder().first().map_or(0, |odd| u32::from(*odd) << 8);
    words.map(|word| u32::from(u16::from_be_bytes([word[0], word[1]]))).sum::<u32>() + odd
}

/// The checksum for this sum: its ones' complement.
#[inline]
pub(crate) fn checksum(sum: u32) -> u16 {
    let once = (sum & 0xffff) + (sum >> 16);
    !((once & 0xffff) + (once >> 16)) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_with_its_checksum_sums_up_to_nothing() {
        // RFC 1071, section 3.
        let bytes = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(checksum(sum(&bytes)), !0xddf2);
        let check = checksum(sum(&[0x12, 0x34, 0x56])).to_be_bytes();
        let whole = [0x12, 0x34, 0x56, 0x00, check[0], check[1]];
        assert_eq!(checksum(sum(&whole)), 0);
        assert_eq!(checksum(u32::MAX), 0);
    }
}
