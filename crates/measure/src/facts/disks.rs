//! Block devices and mounted file systems. Source: Documentation/ABI/stable/sysfs-block,
//! proc_pid_mountinfo(5).

use std::collections::BTreeMap;

use costof_model::facts::{Disk, DiskKind, FileSystem};

use super::folder::{Folder, is_word_of};

const BLOCK: &str = "/sys/block";

/// The kernel counts in sectors of this size, regardless of the disk's own sector size.
const SECTOR_BYTES: u64 = 512;

/// File systems that hold kernel objects and no user files.
const KERNEL_FILE_SYSTEMS: &str = "\
    autofs binfmt_misc bpf cgroup cgroup2 configfs debugfs devpts devtmpfs efivarfs fusectl \
    hugetlbfs mqueue nsfs proc pstore ramfs rpc_pipefs securityfs selinuxfs sysfs tracefs";

/// The block devices with a size.
pub(super) fn disks(root: &Folder) -> Vec<Disk> {
    let disks = root.folder(BLOCK).folders();
    disks.filter_map(|(name, folder)| disk(name, &folder)).collect()
}

fn disk(name: String, folder: &Folder) -> Option<Disk> {
    let sectors: u64 = folder.value("size").filter(|&sectors| sectors > 0)?;
    let model = folder.text("device/model");
    let rotational = folder.flag("queue/rotational");
    let driver = folder.link_name("device/driver");
    Some(Disk {
        kind: kind(&name, driver.as_deref(), model.as_deref(), rotational),
        name,
        model: model.or_else(|| folder.text("dm/name")),
        parts: folder.folder("slaves").names(),
        size_bytes: sectors.checked_mul(SECTOR_BYTES),
        scheduler: folder.chosen("queue/scheduler", '[', ']'),
    })
}

/// The kind of disk, from the names of device and driver: the rotational flag of a virtual disk is
/// only the hypervisor's default.
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

/// The mounted file systems, without those of the kernel. Of several mounts at one point only the
/// last counts, which hides the others.
pub(super) fn file_systems(root: &Folder) -> Vec<FileSystem> {
    let disks = disks_by_number(root);
    let mounts = root.text("/proc/self/mountinfo").unwrap_or_default();
    let file_systems = mounts.lines().filter_map(|line| file_system(line, &disks));
    let by_point: BTreeMap<String, FileSystem> =
        file_systems.map(|file_system| (file_system.mount_point.clone(), file_system)).collect();
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
    let is_kernels = point.starts_with("/proc") || point.starts_with("/sys");
    if is_word_of(KERNEL_FILE_SYSTEMS, kind) || is_kernels {
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

/// Both lists of options, without duplicates.
fn merged(options: &str, own: &str) -> String {
    let mut all: Vec<&str> = Vec::new();
    for option in options.split(',').chain(own.split(',')) {
        if !option.is_empty() && !all.contains(&option) {
            all.push(option);
        }
    }
    all.join(",")
}

/// Replaces the three octal digits that stand for blanks, tabs, line ends and backslashes.
fn unescape(text: &str) -> String {
    let text = text.replace("\\040", " ").replace("\\011", "\t");
    text.replace("\\012", "\n").replace("\\134", "\\")
}

/// Maps `major:minor` and `/dev/name` to the disk's name, and partitions to the disk that holds
/// them.
fn disks_by_number(root: &Folder) -> BTreeMap<String, String> {
    let mut numbers = BTreeMap::new();
    for (disk, folder) in root.folder(BLOCK).folders() {
        let parts = folder.clone().folders().filter(|(part, _)| part.starts_with(&disk));
        for (name, folder) in parts.chain([(disk.clone(), folder.clone())]) {
            if let Some(number) = folder.text("dev") {
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
        use DiskKind::{Mapped, Nvme, Rotational, Ssd, Unknown, Virtual};
        for (name, model, rotational, expected) in [
            ("vda", "", Some(true), Virtual),
            ("sda", "QEMU HARDDISK", Some(true), Virtual),
            ("sda", "ST4000NM0035", Some(true), Rotational),
            ("sda", "Samsung SSD 870", Some(false), Ssd),
            ("sda", "", None, Unknown),
            ("nvme0n1", "", Some(false), Nvme),
            ("dm-0", "", Some(false), Mapped),
        ] {
            let model = Some(model).filter(|model| !model.is_empty());
            let found = kind(name, None, model, rotational);
            assert_eq!(found, expected, "{name} {model:?}");
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
        assert_eq!(home.disk.as_deref(), Some("nvme0n1"));
        assert_eq!(home.mount_point, "/home/a b");
        let kernels = "22 27 0:21 / /proc rw - proc proc rw";
        for strange in [kernels, "", " - ", "1 2 3 - ext4", "1 2 3:4 / / rw - ext4"] {
            assert_eq!(file_system(strange, &disks), None, "{strange}");
        }
    }
}
