//! Block devices and what is mounted from them. Source: Documentation/ABI/stable/sysfs-block,
//! proc_pid_mountinfo(5).

use std::collections::BTreeMap;

use costof_model::facts::{Disk, DiskKind, FileSystem};

use super::roots::{Roots, is_word_of};

const BLOCK: &str = "/sys/block";

/// The kernel counts disks in sectors of this size whatever the disk's own are.
const SECTOR_BYTES: u64 = 512;

/// File systems that hold the kernel's own things and no files of anybody.
const KERNEL_FILE_SYSTEMS: &str = "\
    autofs binfmt_misc bpf cgroup cgroup2 configfs debugfs devpts devtmpfs efivarfs fusectl \
    hugetlbfs mqueue nsfs proc pstore ramfs rpc_pipefs securityfs selinuxfs sysfs tracefs";

/// The block devices that have a size.
pub(super) fn disks(roots: &Roots) -> Vec<Disk> {
    roots
        .names(BLOCK)
        .iter()
        .filter_map(|name| disk(roots, name))
        .collect()
}

fn disk(roots: &Roots, name: &str) -> Option<Disk> {
    let folder = format!("{BLOCK}/{name}");
    let text = |file: &str| roots.text(&format!("{folder}/{file}"));
    let number = |file: &str| roots.value::<u64>(&format!("{folder}/{file}"));
    let sectors = number("size").filter(|&sectors| sectors > 0)?;
    let rotational = roots.flag(&format!("{folder}/queue/rotational"));
    let driver = roots.link_name(&format!("{folder}/device/driver"));
    Some(Disk {
        name: name.to_owned(),
        model: text("device/model").or_else(|| text("dm/name")),
        kind: kind(
            name,
            driver.as_deref(),
            text("device/model").as_deref(),
            rotational,
        ),
        raid: text("md/level"),
        parts: roots.names(&format!("{folder}/slaves")),
        size_bytes: sectors.checked_mul(SECTOR_BYTES),
        scheduler: roots.chosen(&format!("{folder}/queue/scheduler"), '[', ']'),
        rotational,
        write_cache: text("queue/write_cache"),
        logical_block_bytes: number("queue/logical_block_size"),
        physical_block_bytes: number("queue/physical_block_size"),
        read_ahead_bytes: number("queue/read_ahead_kb").and_then(|kib| kib.checked_mul(1024)),
    })
}

/// By the driver's naming; what a virtual disk says of turning is the hypervisor's default.
fn kind(
    name: &str,
    driver: Option<&str>,
    model: Option<&str>,
    rotational: Option<bool>,
) -> DiskKind {
    let named = |prefixes: &[&str]| prefixes.iter().any(|prefix| name.starts_with(prefix));
    let virtual_model = |model: &str| {
        ["QEMU", "Virtual", "VBOX", "VMware", "PersistentDisk"]
            .iter()
            .any(|maker| model.contains(maker))
    };
    match rotational {
        _ if named(&["nvme"]) => DiskKind::Nvme,
        _ if named(&["vd", "xvd"]) || driver == Some("virtio_blk") => DiskKind::Virtual,
        _ if named(&["md"]) => DiskKind::Raid,
        _ if named(&["dm-"]) => DiskKind::Mapped,
        _ if named(&["mmcblk"]) => DiskKind::Mmc,
        _ if named(&["loop", "nbd"]) => DiskKind::Loop,
        _ if named(&["zram", "ram", "pmem"]) => DiskKind::Memory,
        _ if model.is_some_and(virtual_model) => DiskKind::Virtual,
        Some(true) if named(&["sd", "hd"]) => DiskKind::Rotational,
        Some(false) if named(&["sd", "hd"]) => DiskKind::Ssd,
        _ => DiskKind::Unknown,
    }
}

/// What is mounted, other than the kernel's own; of several mounts at one point the last, which
/// hides the others.
pub(super) fn file_systems(roots: &Roots) -> Vec<FileSystem> {
    let disks = disks_by_number(roots);
    let mounts = roots.text("/proc/self/mountinfo").unwrap_or_default();
    let mut by_point = BTreeMap::new();
    for line in mounts.lines() {
        if let Some(file_system) = file_system(line, &disks) {
            by_point.insert(file_system.mount_point.clone(), file_system);
        }
    }
    by_point.into_values().collect()
}

/// `27 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw,discard`: number, parent, device, root,
/// mount point, options, optional fields, a dash, kind, source, the file system's own options.
fn file_system(line: &str, disks: &BTreeMap<String, String>) -> Option<FileSystem> {
    let (mount, file_system) = line.split_once(" - ")?;
    let mut mount = mount.split(' ').skip(2);
    let (device, _root, point, options) =
        (mount.next()?, mount.next()?, mount.next()?, mount.next()?);
    let mut file_system = file_system.split(' ');
    let (kind, source) = (file_system.next()?, file_system.next()?);
    let kernels_place = ["/proc", "/sys"]
        .iter()
        .any(|place| point.starts_with(place));
    if is_word_of(KERNEL_FILE_SYSTEMS, kind) || kernels_place {
        return None;
    }
    let own = file_system.next().unwrap_or("");
    let disk = disks.get(device).or_else(|| disks.get(source)).cloned();
    Some(FileSystem {
        mount_point: unescape(point),
        kind: kind.to_owned(),
        disk,
        options: merged(options, own),
    })
}

/// Both lists of options without repetition.
fn merged(options: &str, own: &str) -> String {
    let mut all: Vec<&str> = Vec::new();
    for option in options.split(',').chain(own.split(',')) {
        if !option.is_empty() && !all.contains(&option) {
            all.push(option);
        }
    }
    all.join(",")
}

/// Blanks, tabs, line ends and backslashes stand as three octal digits.
fn unescape(text: &str) -> String {
    [
        ("\\040", " "),
        ("\\011", "\t"),
        ("\\012", "\n"),
        ("\\134", "\\"),
    ]
    .iter()
    .fold(text.to_owned(), |text, (escaped, plain)| {
        text.replace(escaped, plain)
    })
}

/// From `major:minor` and from `/dev/name` to the disk's name, partitions to the disk they lie on.
fn disks_by_number(roots: &Roots) -> BTreeMap<String, String> {
    let mut numbers = BTreeMap::new();
    for disk in roots.names(BLOCK) {
        let folder = format!("{BLOCK}/{disk}");
        let own_parts = roots
            .names(&folder)
            .into_iter()
            .filter(|part| part.starts_with(&disk));
        let places = own_parts.map(|part| (format!("{folder}/{part}"), part));
        for (place, name) in places.chain([(folder.clone(), disk.clone())]) {
            if let Some(number) = roots.text(&format!("{place}/dev")) {
                numbers.insert(number, disk.clone());
                numbers.insert(format!("/dev/{name}"), disk.clone());
            }
        }
    }
    numbers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_is_what_its_driver_calls_it() {
        let kinds = [
            ("vda", None, None, Some(true), DiskKind::Virtual),
            (
                "sda",
                None,
                Some("QEMU HARDDISK"),
                Some(true),
                DiskKind::Virtual,
            ),
            (
                "sda",
                None,
                Some("ST4000NM0035"),
                Some(true),
                DiskKind::Rotational,
            ),
            (
                "sda",
                None,
                Some("Samsung SSD 870"),
                Some(false),
                DiskKind::Ssd,
            ),
            ("sda", None, None, None, DiskKind::Unknown),
            ("nvme0n1", None, None, Some(false), DiskKind::Nvme),
            ("dm-0", None, None, Some(false), DiskKind::Mapped),
        ];
        for (name, driver, model, rotational, expected) in kinds {
            assert_eq!(
                kind(name, driver, model, rotational),
                expected,
                "{name} {model:?}"
            );
        }
    }

    #[test]
    fn mounts_find_their_disk_by_number_or_name() {
        let disks = BTreeMap::from([
            ("259:2".to_owned(), "nvme0n1".to_owned()),
            ("/dev/nvme0n1p3".to_owned(), "nvme0n1".to_owned()),
        ]);
        let ext4 = "27 1 259:2 / / rw,noatime shared:1 master:2 - ext4 /dev/root rw,discard";
        let root = file_system(ext4, &disks).unwrap();
        assert_eq!(root.disk.as_deref(), Some("nvme0n1"));
        assert_eq!(root.options, "rw,noatime,discard");
        let btrfs = r"30 1 0:27 /@home /home/a\040b rw - btrfs /dev/nvme0n1p3 rw,ssd";
        let home = file_system(btrfs, &disks).unwrap();
        assert_eq!(
            (home.disk.as_deref(), home.mount_point.as_str()),
            (Some("nvme0n1"), "/home/a b")
        );
        assert_eq!(
            file_system("22 27 0:21 / /proc rw - proc proc rw", &disks),
            None
        );
        for strange in ["", " - ", "1 2 3 - ext4", "1 2 3:4 / / rw - ext4"] {
            assert_eq!(file_system(strange, &disks), None, "{strange}");
        }
    }
}
