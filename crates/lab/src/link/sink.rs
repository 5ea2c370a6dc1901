//! The link with only the sender's half: packets are dropped where they would go to a device's
//! driver, before anybody receives them.
//!
//! With a receiver on the same machine, the kernel copies a zero-copy send as soon as the packet
//! enters the receiving socket's stack. Here there is no receiver, so nothing is copied, as with a
//! network card.

use crate::link::ends::{FAR_ADDRESS, NEAR_ADDRESS, ip, tc};
use costof_os::net::sink::{BACK, DEVICE};
use costof_os::process::namespace::Namespace;

/// The largest IPv4 packet: a datagram of 65,507 bytes is then one packet. If a datagram is split
/// into several, the kernel copies all of it.
const MTU: u32 = 65_535;

const DEVICE_ETHERNET: &str = "02:00:00:00:00:02";
const BACK_ETHERNET: &str = "02:00:00:00:00:01";

/// One instruction of classic BPF: return 4, which is `TC_ACT_STOLEN`, for every packet. It needs
/// neither a compiler nor the system call bpf(2). The sender sees the packet as sent. After
/// `TC_ACT_SHOT` it would see a full queue, and TCP would slow down and retransmit the packet.
const DROP: &str = "1,6 0 0 4";

/// Sets the link up in the sender's namespace: a cable in front of which all packets are dropped, and
/// through which acknowledgements can be sent back.
///
/// # Errors
/// Why it failed.
// METHOD 22
pub(crate) fn lay(near: &Namespace) -> Result<(), String> {
    let cable = format!(
        "link add {DEVICE} address {DEVICE_ETHERNET} mtu {MTU} type veth \
         peer name {BACK} address {BACK_ETHERNET} mtu {MTU}"
    );
    ip(near, &[&cable])?;
    tc(near, ["qdisc", "add", "dev", DEVICE, "clsact"])?;
    let filter = ["filter", "add", "dev", DEVICE, "egress"];
    let drop = ["bpf", "bytecode", DROP, "direct-action"];
    tc(near, filter.into_iter().chain(drop))?;
    // The hardware address is set, since nobody would answer a request for it.
    let known = format!("neighbour add {FAR_ADDRESS} lladdr {BACK_ETHERNET} dev {DEVICE}");
    ip(
        near,
        &[
            &format!("link set {BACK} up"),
            &format!("link set {DEVICE} up"),
            &format!("{known} nud permanent"),
            &format!("address add {NEAR_ADDRESS}/24 dev {DEVICE}"),
            "link set lo up",
        ],
    )
}
