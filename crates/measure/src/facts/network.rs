//! Network devices: `/sys/class/net`, and `ip` and `ethtool` if they are installed.
//! Source: Documentation/ABI/testing/sysfs-class-net, ip-link(8), ethtool(8).

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::process::{Command, Stdio};

use costof_model::facts::NetworkDevice;
use serde_json::Value;

use super::folder::{Folder, field, is_word_of};

/// Offloads that change the cost of sending and receiving, named as in `ethtool -k`.
const OFFLOADS: &str = "\
    generic-receive-offload generic-segmentation-offload hw-tc-offload large-receive-offload \
    receive-hashing rx-checksumming rx-gro-hw rx-udp-gro-forwarding scatter-gather \
    tcp-segmentation-offload tls-hw-tx-offload tx-checksumming tx-nocache-copy tx-udp-segmentation";

/// What a driver counts of a link's health, beside the packets. Source:
/// Documentation/ABI/testing/sysfs-class-net-statistics.
const COUNTS: &str = "\
    rx_packets rx_errors rx_crc_errors rx_dropped rx_missed_errors tx_packets tx_errors tx_dropped \
    tx_carrier_errors collisions";

/// At most this many devices are queried: each `ethtool` takes about a millisecond, and a machine
/// with hundreds of container links does not need all of them.
const ASKED_DEVICES_MAX: usize = 8;

/// The devices of this network namespace.
pub(super) fn devices(root: &Folder) -> Vec<NetworkDevice> {
    let folders = root.folder("/sys/class/net").folders();
    let mut devices: Vec<NetworkDevice> =
        folders.filter_map(|(name, folder)| device(name, &folder)).collect();
    if root.is_live() {
        if let Some(json) = output(root, "ip", &["-json", "-details", "link", "show"]) {
            add_link_details(&mut devices, &json);
        }
        let up = devices.iter_mut().filter(|device| device.state.as_deref() != Some("down"));
        for device in up.take(ASKED_DEVICES_MAX) {
            let Some(text) = output(root, "ethtool", &["-k", &device.name]) else {
                break;
            };
            device.offloads = offloads(&text);
        }
    }
    devices
}

/// `None` for a file among the folders (`bonding_masters`).
fn device(name: String, folder: &Folder) -> Option<NetworkDevice> {
    let mtu_bytes = folder.value("mtu")?;
    let queues = folder.folder("queues").names();
    let queue_count = |direction: &str| {
        let count = (queues.iter()).filter(|queue| queue.starts_with(direction));
        u32::try_from(count.count()).ok().filter(|&count| count > 0)
    };
    Some(NetworkDevice {
        name,
        kind: kind(folder),
        driver: folder.link_name("device/driver"),
        // A device without a rate reports −1, which does not read as a u64.
        speed_bits_per_s: (folder.scaled("speed", 1_000_000)).filter(|&rate| rate > 0),
        duplex: folder.text("duplex").filter(|duplex| duplex != "unknown"),
        counts: counts(folder),
        bus_bits_per_s: bus_bits_per_s(folder),
        mtu_bytes: Some(mtu_bytes),
        state: folder.text("operstate"),
        send_queue_count: queue_count("tx-"),
        receive_queue_count: queue_count("rx-"),
        ..NetworkDevice::default()
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

/// The kind that the driver reports (`DEVTYPE=bridge`), or the link type. Source: linux/if_arp.h.
fn kind(folder: &Folder) -> Option<String> {
    let event = folder.text("uevent").unwrap_or_default();
    let kind = match field(&event, "DEVTYPE", '=') {
        Some(kind) => kind,
        None => match folder.value::<u32>("type")? {
            1 => "ethernet",
            32 => "infiniband",
            772 => "loopback",
            801..=803 => "wlan",
            65534 => "none",
            _ => return None,
        },
    };
    Some(kind.to_owned())
}

/// Adds what only `ip -json -details link` reports; ignores output in another format.
fn add_link_details(devices: &mut [NetworkDevice], json: &str) {
    let Ok(Value::Array(links)) = serde_json::from_str(json) else {
        return;
    };
    for device in devices {
        let mut links = links.iter();
        let Some(link) = links.find(|link| link["ifname"] == *device.name) else {
            continue;
        };
        let number = |field: &str| u32::try_from(link[field].as_u64()?).ok();
        device.queue_discipline = link["qdisc"].as_str().map(str::to_owned);
        device.gso_max_bytes = number("gso_max_size");
        device.gro_max_bytes = number("gro_max_size");
        if let Some(kind) = link["linkinfo"]["info_kind"].as_str() {
            device.kind = Some(kind.to_owned());
        }
    }
}

/// `tcp-segmentation-offload: on`, `large-receive-offload: off [fixed]`.
fn offloads(text: &str) -> BTreeMap<String, bool> {
    text.lines()
        .filter_map(|line| {
            let (name, value) = line.split_once(':')?;
            let on = match value.split_whitespace().next()? {
                "on" => true,
                "off" => false,
                _ => return None,
            };
            is_word_of(OFFLOADS, name.trim()).then(|| (name.trim().to_owned(), on))
        })
        .collect()
}

/// The output of a tool; `None` if it fails, and the reason is recorded.
fn output(root: &Folder, tool: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(tool)
        .args(arguments)
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output();
    let reason = match output {
        Ok(output) if output.status.success() => return String::from_utf8(output.stdout).ok(),
        Ok(output) => format!("`{tool} {}` failed: {}", arguments.join(" "), output.status),
        Err(error) if error.kind() == ErrorKind::NotFound => "not installed".to_owned(),
        Err(error) => format!("cannot start it: {error}"),
    };
    root.refuse(tool, reason);
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn link_details_are_added_to_the_device_of_that_name() {
        let mut devices =
            vec![NetworkDevice { name: "eth0".to_owned(), ..NetworkDevice::default() }];
        add_link_details(
            &mut devices,
            r#"[{"ifname":"lo"},{"ifname":"eth0","qdisc":"fq","gso_max_size":65536,"linkinfo":{"info_kind":"veth"}}]"#,
        );
        assert_eq!(devices[0].queue_discipline.as_deref(), Some("fq"));
        assert_eq!(devices[0].gso_max_bytes, Some(65536));
        assert_eq!(devices[0].kind.as_deref(), Some("veth"));
        let before = devices.clone();
        for strange in ["", "{}", "[1,null,{\"ifname\":3}]", "Usage: ip"] {
            add_link_details(&mut devices, strange);
        }
        assert_eq!(devices, before);
    }

    #[test]
    fn offloads_are_read_from_ethtool() {
        let text = "Features for eth0:\nrx-checksumming: on [fixed]\ntcp-segmentation-offload: off\n\
            \ttx-tcp-segmentation: off\nlarge-receive-offload: requested on\nscatter-gather:\n";
        let expected = [("rx-checksumming", true), ("tcp-segmentation-offload", false)];
        assert_eq!(offloads(text), expected.map(|(name, on)| (name.to_owned(), on)).into());
    }
}
