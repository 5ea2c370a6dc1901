//! The memory nodes. Source: Documentation/ABI/stable/sysfs-devices-node.

use costof_model::facts::NumaNode;

use super::folder::{Folder, bytes_of};

/// The nodes that are online, by number.
pub(super) fn nodes(root: &Folder) -> Vec<NumaNode> {
    let nodes = root.folder("/sys/devices/system/node").numbered("node");
    nodes.map(|(id, folder)| node(id, &folder)).collect()
}

fn node(id: u32, folder: &Folder) -> NumaNode {
    let memory = folder.text("meminfo").unwrap_or_default();
    // `Node 0 MemTotal:        4942036 kB`.
    let bytes = |name: &str| {
        let mut lines = memory.lines();
        lines.find_map(|line| bytes_of(line.split_once(name)?.1))
    };
    NumaNode {
        id,
        cpus: folder.set("cpulist"),
        total_bytes: bytes("MemTotal:"),
        free_bytes: bytes("MemFree:").map(|free| free + bytes("Inactive(file):").unwrap_or(0)),
        distances: folder.numbers("distance"),
    }
}
