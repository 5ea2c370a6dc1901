//! What the kernel reports about a network device of the calling thread's network namespace.
//!
//! Source: netdevice(7), linux/ethtool.h (`ETHTOOL_GSG`, `ETHTOOL_GTSO`, `ETHTOOL_GGSO`,
//! `ETHTOOL_GGRO`, `ETHTOOL_GDRVINFO`).

use std::io;
use std::net::UdpSocket;
use std::os::fd::AsRawFd;

use crate::system_call::check;
use rustix::net::netdevice::name_to_index;

/// Ask for one offload of a device. Linux 2.4 (the first two), 2.6.18 and 2.6.29.
const ETHTOOL_GSG: u32 = 0x18;
const ETHTOOL_GTSO: u32 = 0x1e;
const ETHTOOL_GGSO: u32 = 0x23;
const ETHTOOL_GGRO: u32 = 0x2b;
/// Ask which driver a device has. Linux 2.4.
const ETHTOOL_GDRVINFO: u32 = 0x3;

/// Work that a device, or the kernel just before and after it, does instead of the protocols.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offload {
    /// The device accepts packets whose parts are in several places; otherwise each packet is first copied
    /// into one piece.
    ScatterGather,
    /// The device splits what TCP sends into packets.
    TcpSegmentation,
    /// The kernel splits it after the queue discipline.
    Segmentation,
    /// The kernel joins received packets before the protocols see them.
    Receive,
}

/// `struct ethtool_value`: the request, and the answer.
#[repr(C)]
struct EthtoolValue {
    command: u32,
    data: u32,
}

/// The largest packet that the device accepts, IP header included, in bytes.
///
/// # Errors
///
/// ENODEV if there is no such device.
pub fn mtu_bytes(device: &str) -> io::Result<u32> {
    let answer = request(about(device)?, libc::SIOCGIFMTU)?;
    // SAFETY: the kernel has just written this part of the union.
    let bytes = unsafe { answer.ifr_ifru.ifru_mtu };
    u32::try_from(bytes).map_err(io::Error::other)
}

/// Whether an offload is switched on.
///
/// # Errors
///
/// ENODEV if there is no such device, EOPNOTSUPP if it knows no such offload.
pub fn is_on(device: &str, offload: Offload) -> io::Result<bool> {
    let mut value = EthtoolValue {
        command: match offload {
            Offload::ScatterGather => ETHTOOL_GSG,
            Offload::TcpSegmentation => ETHTOOL_GTSO,
            Offload::Segmentation => ETHTOOL_GGSO,
            Offload::Receive => ETHTOOL_GGRO,
        },
        data: 0,
    };
    let mut question = about(device)?;
    question.ifr_ifru.ifru_data = (&raw mut value).cast();
    request(question, libc::SIOCETHTOOL)?;
    Ok(value.data != 0)
}

/// `struct ethtool_drvinfo`.
#[repr(C)]
struct EthtoolDriver {
    command: u32,
    driver: [u8; 32],
    /// Versions, the bus, and numbers of other answers.
    rest: [u8; 160],
}

/// The name of the device's driver: `veth`, `tun` (tap devices too), `virtio_net`; `None` if it has none,
/// such as loopback.
///
/// # Errors
///
/// ENODEV if there is no such device.
pub fn driver(device: &str) -> io::Result<Option<String>> {
    let mut answer = EthtoolDriver { command: ETHTOOL_GDRVINFO, driver: [0; 32], rest: [0; 160] };
    let mut question = about(device)?;
    question.ifr_ifru.ifru_data = (&raw mut answer).cast();
    match request(question, libc::SIOCETHTOOL) {
        Ok(_) => {}
        Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => return Ok(None),
        Err(error) => return Err(error),
    }
    let name = answer.driver.split(|byte| *byte == 0).next();
    let name = String::from_utf8_lossy(name.unwrap_or_default()).into_owned();
    Ok(Some(name).filter(|name| !name.is_empty()))
}

/// The kernel's number for the device.
///
/// # Errors
///
/// ENODEV if there is no such device.
pub fn index(device: &str) -> io::Result<u32> {
    Ok(name_to_index(any_socket()?, device)?)
}

/// The Ethernet address of a device.
pub(crate) fn ethernet_address(device: &str) -> io::Result<[u8; 6]> {
    let answer = request(about(device)?, libc::SIOCGIFHWADDR)?;
    // SAFETY: the kernel has just written this part of the union.
    let address = unsafe { answer.ifr_ifru.ifru_hwaddr };
    let mut bytes = [0; 6];
    for (byte, of) in bytes.iter_mut().zip(address.sa_data) {
        *byte = of as u8;
    }
    Ok(bytes)
}

/// An argument of ioctl(2) that names a device.
pub(super) fn about(device: &str) -> io::Result<libc::ifreq> {
    // SAFETY: all zeros is a valid value of this plain structure of C.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    if device.len() >= request.ifr_name.len() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    for (place, byte) in request.ifr_name.iter_mut().zip(device.bytes()) {
        *place = byte as libc::c_char;
    }
    Ok(request)
}

/// A socket that stands for its namespace.
fn any_socket() -> io::Result<UdpSocket> {
    UdpSocket::bind("0.0.0.0:0")
}

/// Calls ioctl(2). For `SIOCETHTOOL`, the argument points to a value that is alive.
fn request(mut about: libc::ifreq, what: libc::c_ulong) -> io::Result<libc::ifreq> {
    let socket = any_socket()?;
    // SAFETY: the requests of this file read the name and write within the structure, and
    // `SIOCETHTOOL` within the value to which it points, which is the caller's and alive.
    check(unsafe { libc::ioctl(socket.as_raw_fd(), what as libc::Ioctl, &raw mut about) })?;
    Ok(about)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_told_of() {
        assert_eq!(index("lo").unwrap(), 1);
        // The loopback MTU is at least the minimum of IPv6.
        assert!(mtu_bytes("lo").unwrap() >= 1280);
        let offloads = [
            Offload::ScatterGather,
            Offload::TcpSegmentation,
            Offload::Segmentation,
            Offload::Receive,
        ];
        for offload in offloads {
            is_on("lo", offload).unwrap();
        }
        assert!(is_on("lo", Offload::ScatterGather).unwrap());
        assert_eq!(size_of::<EthtoolDriver>(), 196);
        assert_eq!(driver("lo").unwrap(), None);
    }

    #[test]
    fn no_device_is_an_error() {
        for name in ["nosuchdevice", "a_name_that_is_longer_than_any"] {
            assert!(mtu_bytes(name).is_err(), "{name}");
            assert!(is_on(name, Offload::Receive).is_err(), "{name}");
            assert!(driver(name).is_err(), "{name}");
        }
    }
}
