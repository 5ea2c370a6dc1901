//! Which file system and disk hold a folder's files.

use super::{Disk, DiskKind, Facts, FileSystem};

/// The kind of storage that a process waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Medium {
    /// Rotating platters: a read elsewhere waits for the head to seek and the platter to turn.
    Rotational,
    /// Solid state.
    Flash,
    /// A virtual machine's disk: the real storage is unknown, and the host may cache it.
    Virtual,
    /// Memory.
    Memory,
    /// A file that is served as a disk (a loop device): this kernel may cache it.
    File,
    /// Unknown.
    Unknown,
}

impl Medium {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Medium::Rotational => "rotational",
            Medium::Flash => "flash",
            Medium::Virtual => "virtual",
            Medium::Memory => "memory",
            Medium::File => "a file",
            Medium::Unknown => "of unknown kind",
        }
    }
}

/// What holds a folder's files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Storage<'a> {
    /// The file system.
    pub file_system: &'a FileSystem,
    /// The disk below it, if it has one that is known.
    pub disk: Option<&'a Disk>,
    /// The kind of that storage.
    pub medium: Medium,
}

impl Storage<'_> {
    /// `vda (virtual)`, or without a disk `tmpfs (memory)`.
    pub fn name(&self) -> String {
        let name = self.disk.map_or(&self.file_system.kind, |disk| &disk.name);
        format!("{name} ({})", self.medium.name())
    }
}

/// File systems that keep their files only in memory.
const IN_MEMORY: [&str; 3] = ["tmpfs", "ramfs", "hugetlbfs"];
/// At most this many volumes are followed downwards.
const DEEPEST: usize = 8;

impl Facts {
    /// The storage of this folder, given by its absolute path without symbolic links; `None` if no
    /// known mount contains it.
    pub fn storage_of(&self, folder: &str) -> Option<Storage<'_>> {
        let is_above = |file_system: &&FileSystem| {
            let point = file_system.mount_point.trim_end_matches('/');
            let rest = folder.strip_prefix(point);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let above = self.file_systems.iter().filter(is_above);
        let file_system = above.max_by_key(|file_system| file_system.mount_point.len())?;
        let name = file_system.disk.as_ref();
        let disk = name.and_then(|name| self.disks.iter().find(|disk| disk.name == *name));
        Some(Storage {
            file_system,
            disk,
            medium: match disk {
                Some(disk) => self.medium(disk, DEEPEST),
                None if IN_MEMORY.contains(&&*file_system.kind) => Medium::Memory,
                None => Medium::Unknown,
            },
        })
    }

    /// The kind of storage; for a volume that of its parts, if they agree.
    fn medium(&self, disk: &Disk, deepest: usize) -> Medium {
        match disk.kind {
            DiskKind::Rotational => Medium::Rotational,
            DiskKind::Ssd | DiskKind::Nvme | DiskKind::Mmc => Medium::Flash,
            DiskKind::Virtual => Medium::Virtual,
            DiskKind::Memory => Medium::Memory,
            DiskKind::Loop if disk.name.starts_with("loop") => Medium::File,
            DiskKind::Loop | DiskKind::Unknown => Medium::Unknown,
            DiskKind::Raid | DiskKind::Mapped => {
                let parts = disk.parts.iter().filter_map(|part| self.disk_of_part(part));
                let mut media = parts.map(|part| match deepest {
                    0 => Medium::Unknown,
                    _ => self.medium(part, deepest - 1),
                });
                let first = media.next().unwrap_or(Medium::Unknown);
                if media.all(|medium| medium == first) { first } else { Medium::Unknown }
            }
        }
    }

    /// The disk that a part of a volume is, or whose partition it is.
    fn disk_of_part(&self, part: &str) -> Option<&Disk> {
        let disks = self.disks.iter().filter(|disk| part.starts_with(&disk.name));
        disks.max_by_key(|disk| disk.name.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn disk(name: &str, kind: DiskKind, parts: &[&str]) -> Disk {
        Disk {
            name: name.to_owned(),
            kind,
            parts: parts.iter().map(ToString::to_string).collect(),
            ..Disk::default()
        }
    }

    fn mounted(point: &str, kind: &str, disk: Option<&str>) -> FileSystem {
        FileSystem {
            mount_point: point.to_owned(),
            kind: kind.to_owned(),
            disk: disk.map(str::to_owned),
            ..FileSystem::default()
        }
    }

    #[test]
    fn a_folder_lies_on_what_is_mounted_next_above_it() {
        let facts = Facts {
            disks: vec![
                disk("sda", DiskKind::Rotational, &[]),
                disk("nvme0n1", DiskKind::Nvme, &[]),
                disk("vda", DiskKind::Virtual, &[]),
                disk("dm-0", DiskKind::Mapped, &["nvme0n1p3"]),
                disk("md0", DiskKind::Raid, &["sda1", "nvme0n1p1"]),
                disk("loop3", DiskKind::Loop, &[]),
                disk("dm-1", DiskKind::Mapped, &["loop3"]),
            ],
            file_systems: vec![
                mounted("/", "ext4", Some("vda")),
                mounted("/data", "xfs", Some("sda")),
                mounted("/home", "btrfs", Some("dm-0")),
                mounted("/dev/shm", "tmpfs", None),
                mounted("/mixed", "ext4", Some("md0")),
                mounted("/net", "nfs4", None),
                mounted("/image", "ext4", Some("loop3")),
                mounted("/sealed", "ext4", Some("dm-1")),
                mounted("/box", "overlay", None),
            ],
            ..Facts::default()
        };
        for (folder, name) in [
            ("/", "vda (virtual)"),
            ("/tmp", "vda (virtual)"),
            ("/database", "vda (virtual)"),
            ("/data", "sda (rotational)"),
            ("/data/a/b", "sda (rotational)"),
            ("/home/me", "dm-0 (flash)"),
            ("/dev/shm", "tmpfs (memory)"),
            ("/mixed", "md0 (of unknown kind)"),
            ("/net/x", "nfs4 (of unknown kind)"),
            ("/image", "loop3 (a file)"),
            ("/sealed", "dm-1 (a file)"),
            ("/box", "overlay (of unknown kind)"),
        ] {
            let storage = facts.storage_of(folder);
            assert_eq!(storage.map(|storage| storage.name()).as_deref(), Some(name));
        }
        assert_eq!(Facts::default().storage_of("/"), None);
    }
}
