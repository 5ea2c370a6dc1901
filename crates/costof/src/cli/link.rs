//! The commands of `costof link`.

use clap::Subcommand;
use costof_model::link::Link;

#[derive(Debug, Subcommand)]
pub(crate) enum LinkCommand {
    /// Make it: network namespaces costof-server (10.0.0.1, fd00:c057::1) and costof-client
    /// (10.0.0.2, fd00:c057::2), joined
    Up {
        /// Which: veth, lan, wan, or spelt out, such as delay=10ms,loss=1%,up.rate=100Mbit
        #[arg(default_value = "veth")]
        link: Link,
        /// The seed that decides which packets are lost, late or duplicated
        #[arg(long, value_name = "N", default_value_t = 1)]
        seed: u64,
    },
    /// Say which one is up, and what it has done to packets since
    Status,
    /// Take it away
    Down,
}
