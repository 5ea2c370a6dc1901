//! Sockets, network devices, and the ways bytes get into and out of them.

pub mod addresses;
mod buffer_ring;
pub mod control_message;
pub mod field_sender;
pub mod forward;
pub mod handshake;
pub mod icmp;
pub mod network_device;
pub(crate) mod packet;
pub mod poll;
pub mod random_loss;
pub mod receive;
pub mod reserved_port;
pub(crate) mod ring;
pub mod segments;
pub mod sink;
pub mod sniffers;
pub mod socket;
pub(crate) mod socket_option;
pub(crate) mod tcp_repair;
pub mod timestamps;
pub mod tun;
pub mod zerocopy;

pub use crate::system_call::unsupported;
