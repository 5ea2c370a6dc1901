//! The block device under a file, by its numbers, and what the kernel counts for it.
//!
//! Source: stat(2), makedev(3), Linux Documentation/ABI/stable/sysfs-block and
//! block/stat.rst.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;

use rustix::fs::{major, minor};

/// How often this disk was told to flush its cache so far, by any process (Linux 5.5). As
/// [`read_bytes`], of a disk alone: a partition has none.
pub fn flushes(name: &str) -> Option<u64> {
    count(name, 15)
}

/// The kernel counts in sectors of this size, whatever the device's own are.
const SECTOR_BYTES: u64 = 512;

/// The numbers of the device that a file system says it lies on: of one without a device of its
/// own (btrfs, overlay, NFS), major 0.
///
/// # Errors
///
/// What fstat(2) says.
pub fn numbers(file: &File) -> io::Result<(u32, u32)> {
    let device = file.metadata()?.dev();
    Ok((major(device), minor(device)))
}

/// Bytes that were read from this block device so far, by any process; `name` is the kernel's,
/// of a disk or a partition. None where it has no such counter. Allocates.
pub fn read_bytes(name: &str) -> Option<u64> {
    sectors(name, 2)
}

/// The same of bytes written.
pub fn written_bytes(name: &str) -> Option<u64> {
    sectors(name, 6)
}

fn sectors(name: &str, field: usize) -> Option<u64> {
    count(name, field)?.checked_mul(SECTOR_BYTES)
}

fn count(name: &str, field: usize) -> Option<u64> {
    let counts = fs::read_to_string(format!("/sys/class/block/{name}/stat")).ok()?;
    counts.split_whitespace().nth(field)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_counts_what_is_read_from_it_and_what_is_none_does_not() {
        assert_eq!(read_bytes("no such device"), None);
        let disks = fs::read_dir("/sys/class/block").into_iter().flatten();
        let counted = disks.filter_map(|disk| {
            let name = disk.ok()?.file_name().into_string().ok()?;
            Some((read_bytes(&name)?, written_bytes(&name)?))
        });
        if counted.count() == 0 {
            eprintln!("checked less: no block device");
        }
        let (major, _) = numbers(&File::open("/proc/self/io").unwrap()).unwrap();
        assert_eq!(major, 0);
    }
}
