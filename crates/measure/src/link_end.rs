//! Asks the kernel how one end of a link is configured: apart from the link itself, this determines
//! what packets cost there.

use costof_model::{LinkEnd, Text};
use costof_os::net::addresses;
use costof_os::net::network_device::{self, Offload};
use costof_os::net::sniffers;
use std::fs;
use std::io;
use std::net::IpAddr;

const CONGESTION_CONTROL: &str = "/proc/sys/net/ipv4/tcp_congestion_control";

const SOCKET_BUFFERS: [&str; 2] = ["tcp_rmem", "tcp_wmem"];

const OFFLOADS: [(&str, Offload); 4] = [
    ("sg", Offload::ScatterGather),
    ("tso", Offload::TcpSegmentation),
    ("gso", Offload::Segmentation),
    ("gro", Offload::Receive),
];

/// The end with this address, in the network namespace of the calling thread.
pub fn at(address: IpAddr) -> LinkEnd {
    let mut end = LinkEnd::default();
    let control = fs::read_to_string(CONGESTION_CONTROL);
    let control = end.or_absent("congestion_control", control);
    end.congestion_control = control.map(|text| text.trim().to_owned());
    for name in SOCKET_BUFFERS {
        let bytes = fs::read_to_string(format!("/proc/sys/net/ipv4/{name}"));
        if let Some(bytes) = end.or_absent(name, bytes) {
            let bytes = bytes.split_whitespace().flat_map(str::parse).collect();
            end.socket_buffer_bytes.insert(name.into(), bytes);
        }
    }
    let device = addresses::device_of(address).and_then(|device| {
        device.ok_or_else(|| {
            io::Error::other(format!(
                "no device here has the address {address}: the link has none at this end, or the \
                 address is translated on the way"
            ))
        })
    });
    if let Some(device) = end.or_absent("device", device) {
        describe(&device, &mut end);
        end.device = Some(device);
    }
    end
}

/// Adds what is known of the device.
fn describe(device: &str, end: &mut LinkEnd) {
    let driver = end.or_absent("driver", network_device::driver(device));
    end.driver = driver.flatten();
    end.mtu_bytes = end.or_absent("mtu_bytes", network_device::mtu_bytes(device));
    for (name, offload) in OFFLOADS {
        if let Some(is_on) = end.or_absent(name, network_device::is_on(device, offload)) {
            end.offloads.insert(name.into(), is_on);
        }
    }
    if let Some(index) = end.or_absent("index", network_device::index(device)) {
        end.sniffers = end.or_absent("sniffers", sniffers::on(index));
    }
}

/// The end as it is now, with the sniffers of both times: one that started or stopped in between
/// has seen packets.
pub fn since(before: &LinkEnd, mut now: LinkEnd) -> LinkEnd {
    now.sniffers = now.sniffers.max(before.sniffers);
    now
}

/// Fills a description field by field.
trait Fill {
    /// The value, or a note of why it is absent.
    fn or_absent<T>(&mut self, field: &'static str, answer: io::Result<T>) -> Option<T>;
}

impl Fill for LinkEnd {
    fn or_absent<T>(&mut self, field: &'static str, answer: io::Result<T>) -> Option<T> {
        let note = |error: io::Error| self.absent.insert(Text::Borrowed(field), error.to_string());
        answer.map_err(note).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    #[test]
    fn loopback_is_known_completely() {
        let end = at(Ipv4Addr::LOCALHOST.into());
        assert_eq!(end.absent, [].into());
        assert_eq!(end.device.as_deref(), Some("lo"));
        assert!(end.mtu_bytes >= Some(1280));
        assert!(end.congestion_control.is_some_and(|name| !name.is_empty()));
        assert_eq!(end.offloads.len(), OFFLOADS.len());
        assert_eq!(end.socket_buffer_bytes.len(), SOCKET_BUFFERS.len());
        assert!(
            end.socket_buffer_bytes.values().all(|sizes| sizes.len() == 3 && sizes.is_sorted())
        );
        assert!(end.sniffers.is_some());
    }

    #[test]
    fn an_address_that_no_device_has_is_noted_as_absent() {
        // From a range that is for documents alone (RFC 5737).
        let end = at(Ipv4Addr::new(192, 0, 2, 77).into());
        assert_eq!((end.device, end.mtu_bytes, end.sniffers), (None, None, None));
        assert!(end.absent["device"].contains("192.0.2.77"));
        assert!(end.congestion_control.is_some());
    }

    #[test]
    fn a_sniffer_that_came_or_went_has_been_there() {
        let with = |sniffers| LinkEnd { sniffers, ..LinkEnd::default() };
        assert_eq!(since(&with(Some(2)), with(Some(0))).sniffers, Some(2));
        assert_eq!(since(&with(Some(0)), with(Some(1))).sniffers, Some(1));
        assert_eq!(since(&with(None), with(Some(1))).sniffers, Some(1));
    }
}
