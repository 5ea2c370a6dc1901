//! Network devices. Source: Documentation/ABI/testing/sysfs-class-net.

use std::collections::BTreeMap;

use costof_model::facts::NetworkDevice;

use super::folder::Folder;

/// What a driver counts of a link's health, beside the packets. Source:
/// Documentation/ABI/testing/sysfs-class-net-statistics.
const COUNTS: &str = "\
    rx_packets rx_errors rx_crc_errors rx_dropped rx_missed_errors tx_packets tx_errors tx_dropped \
    tx_carrier_errors collisions";

/// The devices of this network namespace.
pub(super) fn devices(root: &Folder) -> Vec<NetworkDevice> {
    let folders = root.folder("/sys/class/net").folders();
    folders.filter_map(|(name, folder)| device(name, &folder)).collect()
}

/// `None` for a file among the folders (`bonding_masters`).
fn device(name: String, folder: &Folder) -> Option<NetworkDevice> {
    let mtu_bytes = folder.value("mtu")?;
    Some(NetworkDevice {
        name,
        driver: folder.link_name("device/driver"),
        // A device without a rate reports −1, which does not read as a u64.
        speed_bits_per_s: (folder.scaled("speed", 1_000_000)).filter(|&rate| rate > 0),
        duplex: folder.text("duplex").filter(|duplex| duplex != "unknown"),
        counts: counts(folder),
        bus_bits_per_s: bus_bits_per_s(folder),
        mtu_bytes: Some(mtu_bytes),
        state: folder.text("operstate"),
    })
}

fn counts(folder: &Folder) -> BTreeMap<String, u64> {
    if folder.link_name("device/driver").is_none() {
        return BTreeMap::new();
    }
    let statistics = folder.folder("statistics");
    let counts = COUNTS.split(' ').map(|name| (name, statistics.value(name)));
    let counts = counts.chain([("carrier_changes", folder.value("carrier_changes"))]);
    let counts = counts.filter_map(|(name, count)| Some((name.to_owned(), count?)));
    counts.filter(|(_, count)| *count > 0).collect()
}

/// What a PCI Express link lets through each way: `8.0 GT/s PCIe` for each lane, less the encoding.
/// Source: PCI Express Base Specification 5.0, section 4.2: 8b/10b up to 5 GT/s, 128b/130b above.
fn bus_bits_per_s(folder: &Folder) -> Option<u64> {
    let lanes: u32 = folder.value("device/current_link_width")?;
    let speed = folder.text("device/current_link_speed")?;
    let transfers: f64 = speed.split_whitespace().next()?.parse().ok()?;
    let payload = if transfers < 8.0 { 0.8 } else { 128.0 / 130.0 };
    Some((1e9 * transfers * payload * f64::from(lanes)) as u64).filter(|&rate| rate > 0)
}
