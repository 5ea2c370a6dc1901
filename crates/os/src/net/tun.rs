//! TUN devices: network devices whose other side is a program, which reads the IP packets that the
//! kernel sends and writes those that it receives.
//!
//! Source: Documentation/networking/tuntap.rst of the kernel, netdevice(7). A device belongs to the
//! network namespace of the thread that opened it, wherever that thread goes afterwards, and ends
//! with its descriptor.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;

use crate::net::network_device::about;
use crate::system_call::check;

/// A TUN device without offloads: every packet has at most the device's MTU, has its checksum, and begins
/// with the IP header.
#[derive(Debug)]
pub struct Tun(File);

impl Tun {
    /// A new device of this name (at most 15 bytes) in the calling thread's network namespace. It
    /// is down and has no address.
    ///
    /// # Errors
    ///
    /// `NotFound` without the TUN driver; `PermissionDenied` if /dev/net/tun is for root only or without
    /// `CAP_NET_ADMIN` over the namespace; EBUSY if there is a device of that name.
    pub fn new(name: &str) -> io::Result<Self> {
        if name.is_empty() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let mut request = about(name)?;
        request.ifr_ifru.ifru_flags = (libc::IFF_TUN | libc::IFF_NO_PI) as libc::c_short;
        let device = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(libc::O_NONBLOCK)
            .open("/dev/net/tun")?;
        // SAFETY: TUNSETIFF reads and writes one ifreq, which this is.
        check(unsafe { libc::ioctl(device.as_raw_fd(), libc::TUNSETIFF, &mut request) })?;
        Ok(Self(device))
    }

    /// Reads the next packet that the kernel sends through the device into `packet`, and returns its length
    /// in bytes. What does not fit is cut off.
    ///
    /// # Errors
    ///
    /// `WouldBlock` while there is none.
    #[inline]
    pub fn receive(&self, packet: &mut [u8]) -> io::Result<usize> {
        (&self.0).read(packet)
    }

    /// Passes a packet to the kernel as if the device had received it. The protocols process it during the
    /// call.
    ///
    /// # Errors
    ///
    /// EIO while the device is down, EINVAL for something else than an IP packet.
    #[inline]
    pub fn send(&self, packet: &[u8]) -> io::Result<()> {
        (&self.0).write(packet).map(drop)
    }
}

impl AsFd for Tun {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::namespace::Namespace;
    use std::net::UdpSocket;
    use std::process::Command;

    #[test]
    fn packets_are_read_and_written_in_the_namespace_of_their_device() {
        // In a thread of its own, since it moves to another namespace.
        let test = || {
            let made = Namespace::new_for_this_thread().and_then(|_| Tun::new("costof-test"));
            let tun = match made {
                Ok(tun) => tun,
                Err(error) => {
                    eprintln!("skipped: a TUN device needs root and /dev/net/tun: {error}");
                    return;
                }
            };
            for words in [
                "link set costof-test multicast off addrgenmode none",
                "link set costof-test up",
                "address add 10.9.0.2/24 dev costof-test",
            ] {
                let status = Command::new("ip").args(words.split(' ')).status().unwrap();
                assert!(status.success(), "ip {words}");
            }
            let socket = UdpSocket::bind("10.9.0.2:1000").unwrap();
            socket.send_to(b"there", "10.9.0.1:2000").unwrap();
            let mut packet = [0; 1500];
            let bytes = tun.receive(&mut packet).unwrap();
            assert_eq!(bytes, 20 + 8 + 5);
            assert_eq!(&packet[28..bytes], b"there");
            let nothing = tun.receive(&mut [0; 1500]).unwrap_err();
            assert_eq!(nothing.kind(), io::ErrorKind::WouldBlock);
            // Sent back with addresses and ports swapped, so the checksums stay valid.
            packet[12..20].rotate_left(4);
            packet[20..24].rotate_left(2);
            tun.send(&packet[..bytes]).unwrap();
            let mut back = [0; 100];
            let (bytes, from) = socket.recv_from(&mut back).unwrap();
            assert_eq!((&back[..bytes], from.port()), (&b"there"[..], 2000));
            assert!(tun.send(b"\0 is not a version of IP").is_err());
        };
        std::thread::spawn(test).join().unwrap();
    }

    #[test]
    fn a_name_that_no_device_can_have_is_refused() {
        for name in ["", "sixteen-letters!"] {
            let error = Tun::new(name).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        }
    }
}
