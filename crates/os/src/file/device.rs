//! The block device of a file, by its major and minor number, and the kernel's counters for it.
//!
//! Source: stat(2), makedev(3), Linux Documentation/ABI/stable/sysfs-block and
//! block/stat.rst.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;

use rustix::fs::{major, minor};

/// How often the kernel has asked this disk to flush its cache, for any process (Linux 5.5). As for
/// [`read_bytes`], but only for disks: a partition has no such counter.
pub fn flushes(name: &str) -> Option<u64> {
    count(name, 15)
}

/// The kernel counts in sectors of this size, regardless of the device's own sector size.
const SECTOR_BYTES: u64 = 512;

/// The major and minor number of the file system's device; major 0 for a file system without its
/// own device (btrfs, overlay, NFS).
///
/// # Errors
///
/// The errors of fstat(2).
pub fn numbers(file: &File) -> io::Result<(u32, u32)> {
    let device = file.metadata()?.dev();
    Ok((major(device), minor(device)))
}

/// The disks whose counters show what left this kernel: not those that it makes of files, of memory or of other
/// disks.
pub fn physical() -> Vec<String> {
    const MADE: [&str; 6] = ["loop", "ram", "zram", "dm-", "md", "pmem"];
    let disks = fs::read_dir("/sys/block").into_iter().flatten();
    let names = disks.filter_map(|disk| disk.ok()?.file_name().into_string().ok());
    names.filter(|name| !MADE.iter().any(|made| name.starts_with(made))).collect()
}

/// Whether a loop device reads and writes its file past the page cache, so that this kernel does not cache it.
/// `None` if it is no loop device.
pub fn is_direct_loop(name: &str) -> Option<bool> {
    let direct = fs::read_to_string(format!("/sys/block/{name}/loop/dio")).ok()?;
    Some(direct.trim() == "1")
}

/// How many bytes were read from this block device so far, by any process. `name` is the kernel's
/// name of a disk or a partition. `None` if it has no such counter. Allocates.
pub fn read_bytes(name: &str) -> Option<u64> {
    sectors(name, 2)
}

/// The same for written bytes.
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
