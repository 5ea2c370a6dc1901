//! The commands of `costof link`.

use clap::Subcommand;
use costof_model::Link;

#[derive(Debug, Subcommand)]
pub(crate) enum LinkCommand {
    /// Make the link. It joins the network namespaces costof-server (10.0.0.1, fd00:c057::1) and
    /// costof-client (10.0.0.2, fd00:c057::2)
    Up {
        /// Which link: veth, lan, wan, or spelt out, such as delay=10ms,loss=1%,up.rate=100Mbit
        #[arg(default_value = "veth")]
        link: Link,
        /// The seed that decides which packets the link loses, delays or duplicates
        #[arg(long, value_name = "N", default_value_t = 1)]
        seed: u64,
    },
    /// Show which link is up, and what it has done to packets so far
    Status,
    /// Remove the link
    Down,
}
