//! One end of a link, as the kernel has configured it during a launch.

use crate::{Few, Text};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What determines, apart from the link itself, the cost of packets at one end. What the kernel
/// does not report is absent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkEnd {
    /// The network device that has the end's address.
    pub device: Option<String>,
    /// The device's driver, as ethtool(8) names it: `veth`, `tun`, `virtio_net`;
    /// loopback has none.
    pub driver: Option<String>,
    /// The default congestion control of TCP sockets.
    pub congestion_control: Option<String>,
    /// Bytes of a TCP socket's buffers, `tcp_rmem` to receive and `tcp_wmem` to send: minimum,
    /// default, and maximum. Source: tcp(7).
    #[serde(default, skip_serializing_if = "Few::is_empty", with = "crate::few")]
    pub socket_buffer_bytes: Few<Text, Vec<u64>>,
    /// The largest packet that the device takes, IP header included, in bytes.
    pub mtu_bytes: Option<u32>,
    /// Which protocol work the device does, or the kernel on its behalf: `sg` (takes packets that
    /// lie in several pieces), `tso`, `gso` and `gro`, named as in ethtool(8).
    #[serde(default, skip_serializing_if = "Few::is_empty", with = "crate::few")]
    pub offloads: Few<Text, bool>,
    /// How many sockets receive copies of the device's packets (AF_PACKET, tcpdump): the greater of
    /// the numbers at the start and at the end of the launch. While there is one, the kernel copies
    /// data that would otherwise be sent without a copy.
    pub sniffers: Option<u32>,
    /// What is unknown, by name, and why.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub absent: BTreeMap<Text, String>,
}
