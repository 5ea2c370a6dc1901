//! What the kernel says of a network device of the calling thread's network namespace.
//!
//! Source: netdevice(7), linux/ethtool.h (`ETHTOOL_GTSO`, `ETHTOOL_GGSO`, `ETHTOOL_GGRO`).

use std::io;
use std::net::UdpSocket;
use std::os::fd::AsRawFd;

/// Ask for one offload of a device. Linux 2.4, 2.6.18 and 2.6.29.
const ETHTOOL_GTSO: u32 = 0x1e;
const ETHTOOL_GGSO: u32 = 0x23;
const ETHTOOL_GGRO: u32 = 0x2b;

/// Work on several packets at once that a device, or the kernel just before and after it, does in
/// the place of the protocols.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offload {
    /// The device cuts what TCP sends into packets.
    TcpSegmentation,
    /// The kernel does so after the queue discipline.
    Segmentation,
    /// The kernel joins received packets before the protocols see them.
    Receive,
}

/// `struct ethtool_value`: which question, and the answer.
#[repr(C)]
struct EthtoolValue {
    command: u32,
    data: u32,
}

/// The largest packet that the device takes, IP header included, in bytes.
///
/// # Errors
///
/// ENODEV where there is no such device.
pub fn mtu_bytes(device: &str) -> io::Result<u32> {
    let answer = ask(question(device)?, libc::SIOCGIFMTU)?;
    // SAFETY: the kernel has just written this part of the union.
    let bytes = unsafe { answer.ifr_ifru.ifru_mtu };
    u32::try_from(bytes).map_err(io::Error::other)
}

/// Whether an offload is switched on.
///
/// # Errors
///
/// ENODEV where there is no such device, EOPNOTSUPP where it knows no such offload.
pub fn is_on(device: &str, offload: Offload) -> io::Result<bool> {
    let mut value = EthtoolValue {
        command: match offload {
            Offload::TcpSegmentation => ETHTOOL_GTSO,
            Offload::Segmentation => ETHTOOL_GGSO,
            Offload::Receive => ETHTOOL_GGRO,
        },
        data: 0,
    };
    let mut question = question(device)?;
    question.ifr_ifru.ifru_data = (&raw mut value).cast();
    ask(question, libc::SIOCETHTOOL)?;
    Ok(value.data != 0)
}

/// The number by which the kernel knows the device.
///
/// # Errors
///
/// ENODEV where there is no such device.
pub fn index(device: &str) -> io::Result<u32> {
    let answer = ask(question(device)?, libc::SIOCGIFINDEX)?;
    // SAFETY: the kernel has just written this part of the union.
    let index = unsafe { answer.ifr_ifru.ifru_ifindex };
    u32::try_from(index).map_err(io::Error::other)
}

/// The Ethernet address of a device.
///
/// # Errors
///
/// ENODEV where there is no such device.
pub(crate) fn ethernet_address(device: &str) -> io::Result<[u8; 6]> {
    let answer = ask(question(device)?, libc::SIOCGIFHWADDR)?;
    // SAFETY: the kernel has just written this part of the union.
    let address = unsafe { answer.ifr_ifru.ifru_hwaddr };
    let mut bytes = [0; 6];
    for (byte, of) in bytes.iter_mut().zip(address.sa_data) {
        *byte = of as u8;
    }
    Ok(bytes)
}

/// A question about a device, which is named in it.
fn question(device: &str) -> io::Result<libc::ifreq> {
    // SAFETY: all zeros is a valid value of this plain structure of C.
    let mut question: libc::ifreq = unsafe { std::mem::zeroed() };
    if device.len() >= question.ifr_name.len() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    for (place, byte) in question.ifr_name.iter_mut().zip(device.bytes()) {
        *place = byte as libc::c_char;
    }
    Ok(question)
}

/// Asks the kernel. Of `SIOCETHTOOL`, the question points to a value that is alive.
fn ask(mut question: libc::ifreq, request: libc::Ioctl) -> io::Result<libc::ifreq> {
    // Any socket does: it says which namespace is meant.
    let socket = UdpSocket::bind("0.0.0.0:0")?;
    // SAFETY: the requests of this file read the name and write within the structure, and
    // `SIOCETHTOOL` within the value to which it points, which is the caller's and alive.
    match unsafe { libc::ioctl(socket.as_raw_fd(), request, &raw mut question) } {
        0 => Ok(question),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_told_of() {
        assert_eq!(index("lo").unwrap(), 1);
        // The largest packet of IPv4 and more fits through.
        assert!(mtu_bytes("lo").unwrap() >= 1280);
        let offloads = [
            Offload::TcpSegmentation,
            Offload::Segmentation,
            Offload::Receive,
        ];
        for offload in offloads {
            is_on("lo", offload).unwrap();
        }
    }

    #[test]
    fn no_device_is_an_error() {
        for name in ["nosuchdevice", "a_name_that_is_longer_than_any"] {
            assert!(mtu_bytes(name).is_err(), "{name}");
            assert!(is_on(name, Offload::Receive).is_err(), "{name}");
        }
    }
}
