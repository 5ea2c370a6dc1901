//! One end of a link, as the kernel has it set up while a launch runs.

use crate::{Few, Text};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What decides, beside the link itself, what packets cost at one end. What the
/// kernel does not report is absent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkEnd {
    /// The network device that has the end's address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// The device's driver, as ethtool(8) names it: `veth`, `tun`, `virtio_net`;
    /// loopback has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub driver: Option<String>,
    /// The congestion control of TCP sockets that ask for none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub congestion_control: Option<String>,
    /// Bytes of a TCP socket's buffers, `tcp_rmem` to receive and `tcp_wmem` to
    /// send: at least, at first, and at most. Source: tcp(7).
    #[serde(default, skip_serializing_if = "Few::is_empty", with = "crate::few")]
    pub socket_buffer_bytes: Few<Text, Vec<u64>>,
    /// The largest packet that the device takes, IP header included, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mtu_bytes: Option<u32>,
    /// The kinds of queue disciplines that hold packets before the device, the
    /// root first, each once.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub queue_disciplines: Vec<String>,
    /// Which work of the protocols the device does, or the kernel beside it: `sg`
    /// (takes packets that lie in several pieces), `tso`, `gso` and `gro`, as
    /// ethtool(8) names them.
    #[serde(default, skip_serializing_if = "Few::is_empty", with = "crate::few")]
    pub offloads: Few<Text, bool>,
    /// How many sockets are given copies of the device's packets (AF_PACKET,
    /// tcpdump): the more of the launch's beginning and end. While one is, the
    /// kernel copies what was to be sent without a copy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sniffers: Option<u32>,
    /// What is not known, by its name, and why.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub absent: BTreeMap<Text, String>,
}
