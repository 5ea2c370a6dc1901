//! Checks the links of network devices.

use super::verdict::{Verdict, case};
use crate::prelude::*;
use costof_model::facts::NetworkDevice;

/// What may happen to packets: the counts of it, those of all packets, the share from which on a link is not healthy, and
/// its name. Ethernet allows one wrong bit in 10¹² (IEEE 802.3); a share of lost packets of 1 in 10⁴ slows TCP; the kernel
/// also counts as dropped what nobody listens for, such as announcements of switches.
const PACKETS: [(&[&str], &[&str], f64, &str); 3] = [
    (&["rx_errors", "tx_errors"], &["rx_packets", "tx_packets"], 1e-6, "damaged"),
    (
        &["rx_missed_errors", "tx_dropped"],
        &["rx_packets", "tx_packets"],
        1e-4,
        "lost by the device",
    ),
    (&["rx_dropped"], &["rx_packets"], 1e-2, "dropped by the kernel"),
];
/// Fewer errors may be those of one plug being pulled.
const MIN_COUNT: u64 = 10;
/// A link that came and went so often does so by itself. Starting a machine makes a handful.
const MAX_LINK_CHANGES: u64 = 100;

/// The devices with a driver of their own, whose link is up.
pub(super) fn links(facts: &Facts, _: &Probed) -> Option<Verdict> {
    let is_link = |device: &&NetworkDevice| {
        device.driver.is_some() && device.state.as_deref() != Some("down")
    };
    let links: Vec<&NetworkDevice> = facts.network_devices.iter().filter(is_link).collect();
    if links.is_empty() {
        return Some(case("none"));
    }
    let problems: Vec<String> = links.iter().flat_map(|device| problems(device)).collect();
    if problems.is_empty() {
        let links: Vec<String> = links.iter().map(|device| described(device)).collect();
        return Some(case("healthy").with("links", links.join("; ")));
    }
    Some(case("broken").with("problems", problems.join("; ")))
}

fn problems(device: &NetworkDevice) -> Vec<String> {
    let changes = count(device, &["carrier_changes"]);
    let is_half = device.duplex.as_deref() == Some("half");
    let packets = PACKETS.iter().filter_map(|(bad, packets, share, what)| {
        let (bad, all) = (count(device, bad), count(device, packets));
        let is_bad = bad >= MIN_COUNT && bad as f64 > share * all as f64;
        is_bad.then(|| format!("{}: {bad} of {all} packets {what}", device.name))
    });
    let half = is_half.then(|| described(device));
    let changes = (changes > MAX_LINK_CHANGES)
        .then(|| format!("{}: the link came or went {changes} times", device.name));
    packets.chain(half).chain(changes).collect()
}

fn count(device: &NetworkDevice, names: &[&str]) -> u64 {
    let counts = names.iter().filter_map(|name| device.counts.get(*name));
    counts.fold(0, |sum, count| sum.saturating_add(*count))
}

/// `eth0: 25 Gbit/s, full duplex`.
fn described(device: &NetworkDevice) -> String {
    let speed = maybe(device.speed_bits_per_s, |speed| format!("{} Gbit/s, ", speed as f64 / 1e9));
    format!("{}: {speed}{} duplex", device.name, device.duplex.as_deref().unwrap_or("unknown"))
}
