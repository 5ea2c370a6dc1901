//! The options of whoever measures between two hosts.

use super::values::{address, ports};
use clap::Args;
use costof_lab::host::Host;
use std::net::IpAddr;

/// The other peer, where that has a host of its own; with `--link`, where it listens.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Peer {
    /// Where the server or receiver runs
    ///
    /// As --on; or tcp:HOST:PORT or unix:PATH, where `costof send --listen` runs (COSTOF_TOKEN has its token).
    #[arg(id = "peer", long = "peer", value_name = "HOST")]
    pub(crate) host: Option<Host>,
    /// The address at which the other peer listens, such as fd00:c057::1 over a link that costof
    /// makes [default: loopback, the one that ssh connected to, or the host's first]
    #[arg(id = "peer_address", long = "peer-address", value_name = "ADDRESS",
          requires = "path", value_parser = address, hide_short_help = true)]
    pub(crate) address: Option<IpAddr>,
    /// The ports on which the other peer may listen, if a firewall is in the way
    #[arg(id = "peer_port", long = "peer-port", value_name = "FIRST-LAST", requires = "peer",
          conflicts_with = "links", value_parser = ports, hide_short_help = true)]
    pub(crate) ports: Option<(u16, u16)>,
    /// CPUs for the other peer, as --cpu is for the first one
    #[arg(
        id = "peer_cpu",
        long = "peer-cpu",
        value_name = "LIST",
        requires = "peer",
        conflicts_with = "links",
        hide_short_help = true
    )]
    pub(crate) cpu: Option<String>,
}
