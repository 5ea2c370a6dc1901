//! Asks the kernel how an end of a link is set up: what decides, beside the link itself, what
//! packets cost there.

use costof_model::Text;
use costof_model::link_end::LinkEnd;
use costof_os::net::addresses;
use costof_os::net::network_device::{self, Offload};
use costof_os::net::queue_disciplines;
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

/// The end that has this address, in the network namespace of this thread.
pub fn at(address: IpAddr) -> LinkEnd {
    let mut end = LinkEnd::default();
    let control = fs::read_to_string(CONGESTION_CONTROL);
    end.congestion_control = end
        .told("congestion_control", control)
        .map(|text| text.trim().to_owned());
    for name in SOCKET_BUFFERS {
        let bytes = end.told(
            name,
            fs::read_to_string(format!("/proc/sys/net/ipv4/{name}")),
        );
        let bytes = bytes.map(|text| text.split_whitespace().flat_map(str::parse).collect());
        end.socket_buffer_bytes
            .extend(bytes.map(|bytes| (name.into(), bytes)));
    }
    match addresses::device_of(address) {
        Ok(Some(device)) => about(&device, &mut end),
        Ok(None) => end.is_absent(
            "device",
            format!("no device here has the address {address}: it may be translated on the way"),
        ),
        Err(error) => end.is_absent("device", error),
    }
    end
}

/// What is known of the device.
fn about(device: &str, end: &mut LinkEnd) {
    end.device = Some(device.to_owned());
    end.driver = end.told("driver", network_device::driver(device)).flatten();
    end.mtu_bytes = end.told("mtu_bytes", network_device::mtu_bytes(device));
    for (name, offload) in OFFLOADS {
        let is_on = end.told(name, network_device::is_on(device, offload));
        end.offloads.extend(is_on.map(|is_on| (name.into(), is_on)));
    }
    if let Some(index) = end.told("index", network_device::index(device)) {
        let queues = end.told("queue_disciplines", queue_disciplines::kinds(index));
        end.queue_disciplines = queues.unwrap_or_default();
        end.sniffers = end.told("sniffers", sniffers::on(index));
    }
}

/// The end as it is now, with the sniffers of either time: one that came or went has seen packets.
pub fn since(before: &LinkEnd, mut now: LinkEnd) -> LinkEnd {
    now.sniffers = now.sniffers.max(before.sniffers);
    now
}

/// What fills a description field by field.
trait Fill {
    /// The value, or a note of why there is none.
    fn told<T>(&mut self, field: &'static str, answer: io::Result<T>) -> Option<T>;
    fn is_absent(&mut self, field: &'static str, why: impl ToString);
}

impl Fill for LinkEnd {
    fn told<T>(&mut self, field: &'static str, answer: io::Result<T>) -> Option<T> {
        answer.map_err(|error| self.is_absent(field, error)).ok()
    }

    fn is_absent(&mut self, field: &'static str, why: impl ToString) {
        self.absent.insert(Text::Borrowed(field), why.to_string());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    #[test]
    fn of_loopback_everything_is_told() {
        let end = at(Ipv4Addr::LOCALHOST.into());
        assert_eq!(end.absent, [].into());
        assert_eq!(end.device.as_deref(), Some("lo"));
        assert!(end.mtu_bytes >= Some(1280));
        assert!(end.congestion_control.is_some_and(|name| !name.is_empty()));
        assert_eq!(end.offloads.len(), OFFLOADS.len());
        assert_eq!(end.socket_buffer_bytes.len(), SOCKET_BUFFERS.len());
        assert!(
            end.socket_buffer_bytes
                .values()
                .all(|sizes| sizes.len() == 3 && sizes.is_sorted())
        );
        assert!(end.sniffers.is_some());
    }

    #[test]
    fn an_address_that_no_device_has_is_told_as_absent() {
        // From a range that is for documents alone (RFC 5737).
        let end = at(Ipv4Addr::new(192, 0, 2, 77).into());
        assert_eq!(
            (end.device, end.mtu_bytes, end.sniffers),
            (None, None, None)
        );
        assert!(end.absent["device"].contains("192.0.2.77"));
        assert!(end.congestion_control.is_some());
    }

    #[test]
    fn a_sniffer_that_came_or_went_has_been_there() {
        let with = |sniffers| LinkEnd {
            sniffers,
            ..LinkEnd::default()
        };
        assert_eq!(since(&with(Some(2)), with(Some(0))).sniffers, Some(2));
        assert_eq!(since(&with(Some(0)), with(Some(1))).sniffers, Some(1));
        assert_eq!(since(&with(None), with(Some(1))).sniffers, Some(1));
    }
}
