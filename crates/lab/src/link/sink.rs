//! The link of which only the sender's half exists: packets are dropped where
//! they would be handed to a device's driver, before anybody receives them.
//!
//! With a receiver, the kernel copies what a sender asked it not to copy as
//! soon as a packet enters a receiving socket's stack on the same machine. Here
//! none does, so a send without a copy stays one, as with a network card.

use crate::link::ends::{FAR_ADDRESS, NEAR_ADDRESS, ip, tc};
use costof_os::net::sink::{BACK, DEVICE};
use costof_os::process::namespace::Namespace;

/// The largest that an IPv4 packet can be: a datagram of 65,507 bytes is one
/// packet then. Of a datagram that is cut into several, the kernel copies all.
const MTU: u32 = 65_535;

const DEVICE_ETHERNET: &str = "02:00:00:00:00:02";
const BACK_ETHERNET: &str = "02:00:00:00:00:01";

/// One instruction of classic BPF: return 4, which is `TC_ACT_STOLEN`, whatever
/// the packet. It needs neither a compiler nor the system call bpf(2). The sender
/// learns that the packet has left; after `TC_ACT_SHOT` it would learn that a queue
/// was full, and TCP would slow down and send it again.
const DROP: &str = "1,6 0 0 4";

/// A way to lay the link out.
type Way = fn(&Namespace) -> Result<(), String>;

/// Lays the link out in the sender's namespace.
///
/// # Errors
/// Why it cannot be, for each way that was tried.
pub(crate) fn lay(near: &Namespace) -> Result<(), String> {
    let ways: [(&str, Way); 3] = [
        ("veth", veth_before_which_is_dropped),
        ("ifb", |near| device_that_drops(near, "ifb")),
        ("dummy", |near| device_that_drops(near, "dummy")),
    ];
    let mut reasons = Vec::new();
    for (name, way) in ways {
        match way(near).and_then(|()| address(near)) {
            Ok(()) => return Ok(()),
            Err(reason) => reasons.push(format!("with {name}: {reason}")),
        }
        // What there is of it; none is no error.
        let _ = ip(near, &[&format!("link delete {DEVICE}")]);
    }
    Err(reasons.join("; "))
}

/// A cable before which all that is sent is dropped, and through which
/// acknowledgements can be sent back.
fn veth_before_which_is_dropped(near: &Namespace) -> Result<(), String> {
    let cable = format!(
        "link add {DEVICE} address {DEVICE_ETHERNET} mtu {MTU} type veth \
         peer name {BACK} address {BACK_ETHERNET} mtu {MTU}"
    );
    ip(near, &[&cable])?;
    tc(near, ["qdisc", "add", "dev", DEVICE, "clsact"])?;
    let filter = ["filter", "add", "dev", DEVICE, "egress"];
    let drop = ["bpf", "bytecode", DROP, "direct-action"];
    tc(near, filter.into_iter().chain(drop))?;
    // No hardware address is asked for, since nobody would answer.
    let known = format!("neighbour add {FAR_ADDRESS} lladdr {BACK_ETHERNET} dev {DEVICE}");
    ip(
        near,
        &[
            &format!("link set {BACK} up"),
            &format!("link set {DEVICE} up"),
            &format!("{known} nud permanent"),
        ],
    )
}

/// A device that by its nature drops what is sent through it: ifb what was not
/// redirected to it, dummy everything. Nothing comes back from it, so there is
/// no TCP.
fn device_that_drops(near: &Namespace, kind: &str) -> Result<(), String> {
    ip(
        near,
        &[
            &format!("link add {DEVICE} mtu {MTU} type {kind}"),
            &format!("link set {DEVICE} arp off up"),
        ],
    )
}

fn address(near: &Namespace) -> Result<(), String> {
    let own = format!("address add {NEAR_ADDRESS}/24 dev {DEVICE}");
    ip(near, &[&own, "link set lo up"])
}
