//! Sending whole frames through a network device, by a socket that receives none: its protocol is
//! 0, so the kernel hands it no packets, and nobody else's are copied for it.
//!
//! Source: packet(7), netdevice(7). Linux 2.2, CONFIG_PACKET.

use crate::network_device;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// Sends frames through one device.
#[derive(Debug)]
pub(crate) struct FrameSender {
    socket: OwnedFd,
    to: libc::sockaddr_ll,
}

impl FrameSender {
    /// Through the device of this name in the calling thread's network namespace.
    ///
    /// # Errors
    ///
    /// `PermissionDenied` (EPERM) without `CAP_NET_RAW` over the network namespace; ENODEV where
    /// there is no such device.
    pub(crate) fn open(device: &str) -> io::Result<Self> {
        // SAFETY: takes numbers; the descriptor is made here and the value is its only owner.
        let socket = unsafe {
            let socket = libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0);
            if socket < 0 {
                return Err(io::Error::last_os_error());
            }
            OwnedFd::from_raw_fd(socket)
        };
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
    /// What send(2) says: ENOBUFS where the device takes no more, ENETDOWN where it is down.
    pub(crate) fn send(&self, frame: &[u8]) -> io::Result<()> {
        // SAFETY: the frame and the address are valid to read for their lengths.
        let sent = unsafe {
            libc::sendto(
                self.socket.as_raw_fd(),
                frame.as_ptr().cast(),
                frame.len(),
                0,
                (&raw const self.to).cast(),
                size_of_val(&self.to) as libc::socklen_t,
            )
        };
        match sent {
            0.. => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}
