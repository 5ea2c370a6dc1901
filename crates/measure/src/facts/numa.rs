//! The memory nodes. Source: Documentation/ABI/stable/sysfs-devices-node.

use costof_model::facts::NumaNode;

use super::roots::{Roots, bytes_of};

/// The nodes that are online, by their numbers.
pub(super) fn nodes(roots: &Roots) -> Vec<NumaNode> {
    let folder = "/sys/devices/system/node";
    roots
        .numbered(folder, "node")
        .into_iter()
        .map(|id| {
            let node = format!("{folder}/node{id}");
            let memory = roots.text(&format!("{node}/meminfo")).unwrap_or_default();
            let distances = roots.text(&format!("{node}/distance")).unwrap_or_default();
            NumaNode {
                id,
                cpus: roots.set(&format!("{node}/cpulist")),
                total_bytes: of_node(&memory, "MemTotal:"),
                free_bytes: of_node(&memory, "MemFree:"),
                distances: distances
                    .split_whitespace()
                    .filter_map(|d| d.parse().ok())
                    .collect(),
            }
        })
        .collect()
}

/// `Node 0 MemTotal:        4942036 kB`.
fn of_node(text: &str, name: &str) -> Option<u64> {
    text.lines()
        .find_map(|line| bytes_of(line.split_once(name)?.1))
}
