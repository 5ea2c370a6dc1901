//! The page cache: how much of a file is in it, and evicting the file from it.
//!
//! Source: posix_fadvise(2), cachestat(2) (Linux 6.5), mincore(2), Linux mm/filemap.c.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::thread;
use std::time::Duration;

use rustix::fs::{Advice, fadvise};

use super::map::{Mapping, Sharing};
use crate::memory::arena::base_page_bytes;
use crate::system_call::check;

/// Linux system call number, the same on all architectures of this crate.
const SYS_CACHESTAT: libc::c_long = 451;
/// How often eviction is tried while pages are being read or written.
const ATTEMPTS: u32 = 50;
/// The pause between two attempts.
const PAUSE: Duration = Duration::from_millis(1);
/// How much is mapped at a time if the kernel has no cachestat.
const WINDOW_BYTES: u64 = 64 << 20;

/// Evicts the file from the page cache, and returns how many bytes are left: 0 if all are gone.
/// Dirty, mapped and in-flight pages stay, so the file must be synced and unmapped. Waits for pages
/// that are still being read ahead.
///
/// # Errors
///
/// The errors of posix_fadvise(2), and as [`cached_bytes`].
pub fn evict(file: &File, len: u64) -> io::Result<u64> {
    let mut left = 0;
    for attempt in 0..ATTEMPTS {
        if attempt > 0 {
            thread::sleep(PAUSE);
        }
        fadvise(file, 0, None, Advice::DontNeed)?;
        left = cached_bytes(file, len)?;
        if left == 0 {
            break;
        }
    }
    Ok(left)
}

/// How many of the file's first `len` bytes are in the page cache, in whole pages.
///
/// # Errors
///
/// The errors of cachestat(2); before Linux 6.5, and where it counts none, those of mmap(2) and of mincore(2),
/// which answers only processes that own the file or may write to it.
pub fn cached_bytes(file: &File, len: u64) -> io::Result<u64> {
    match cachestat(file, len) {
        // An overlay's file has its pages in the file of a layer, which is what mmap(2) maps.
        Ok(0) => match by_mincore(file, len) {
            // Some FUSE files cannot be mapped.
            Err(error) if error.raw_os_error() == Some(libc::ENODEV) => Ok(0),
            cached => cached,
        },
        // EPERM: a seccomp filter that does not know it yet.
        Err(error) if matches!(error.raw_os_error(), Some(libc::ENOSYS | libc::EPERM)) => {
            by_mincore(file, len)
        }
        answer => answer,
    }
}

fn cachestat(file: &File, len: u64) -> io::Result<u64> {
    /// `struct cachestat_range`: offset and length.
    type Range = [u64; 2];
    /// `struct cachestat`: pages cached, dirty, in writeback, evicted, recently evicted.
    type Counts = [u64; 5];
    let (range, mut counts): (Range, Counts) = ([0, len], [0; 5]);
    // SAFETY: both structures are as long as the kernel reads and writes.
    let status = unsafe {
        libc::syscall(SYS_CACHESTAT, file.as_raw_fd(), range.as_ptr(), counts.as_mut_ptr(), 0)
    };
    check(status)?;
    Ok(counts[0] * base_page_bytes() as u64)
}

fn by_mincore(file: &File, len: u64) -> io::Result<u64> {
    let page = base_page_bytes();
    let mut cached = 0;
    let mut at = 0;
    while at < len {
        let bytes = (len - at).min(WINDOW_BYTES) as usize;
        let mut resident = vec![0_u8; bytes.div_ceil(page)];
        let map = Mapping::new(file, at, bytes, Sharing::ReadShared)?;
        let start = map.start().cast();
        // SAFETY: the range was just mapped, and there is a byte for each of its pages.
        check(unsafe { libc::mincore(start, bytes, resident.as_mut_ptr()) })?;
        let count = resident.iter().filter(|page| **page & 1 == 1).count();
        cached += (count * page) as u64;
        at += bytes as u64;
    }
    Ok(cached)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::data::DataFile;
    use crate::file::scratch;
    use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};
    use std::ffi::CString;
    use std::path::Path;

    /// How much of a file of 1 MiB in a new overlay is cached after it was written and after it was evicted, and
    /// whether it counts as in memory. The upper layer is in this folder, or in a tmpfs. `None` where mounting is
    /// not permitted.
    fn in_an_overlay(upper_in: Option<&Path>) -> Option<(u64, u64, bool)> {
        let flags = libc::CLONE_FS | libc::CLONE_NEWNS;
        // SAFETY: takes a number; only this thread's view of what is mounted changes.
        if unsafe { libc::unshare(flags) } != 0 {
            return None;
        }
        let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
        mount_change("/", private).ok()?;
        let place = upper_in.unwrap_or(Path::new("/mnt"));
        if upper_in.is_none() {
            mount("none", place, "tmpfs", MountFlags::empty(), c"size=16m").ok()?;
        }
        for folder in ["lower", "upper", "work", "all"] {
            std::fs::create_dir(place.join(folder)).ok()?;
        }
        let of = |folder: &str| place.join(folder).display().to_string();
        let (lower, upper, work) = (of("lower"), of("upper"), of("work"));
        let options = format!("lowerdir={lower},upperdir={upper},workdir={work}");
        let options = CString::new(options).unwrap();
        let all = place.join("all");
        mount("none", &all, "overlay", MountFlags::empty(), &*options).ok()?;
        let mut data = DataFile::create(Some(&all)).unwrap();
        let len = 1 << 20;
        data.extend(len).unwrap();
        let cached = cached_bytes(data.file(), len).unwrap();
        let in_memory = scratch::is_in_memory(data.file()).unwrap();
        Some((cached, evict(data.file(), len).unwrap(), in_memory))
    }

    #[test]
    fn pages_of_an_overlay_are_those_of_its_upper_layer() {
        let on_disk = scratch::folder().map(|folder| {
            let name = format!("costof-overlay-{}", std::process::id());
            let folder = folder.join(name);
            std::fs::create_dir(&folder).unwrap();
            let inside = folder.clone();
            let found = std::thread::spawn(move || in_an_overlay(Some(&inside))).join();
            std::fs::remove_dir_all(&folder).unwrap();
            found.unwrap()
        });
        match on_disk {
            Some(Some(found)) => assert_eq!(found, (1 << 20, 0, false)),
            _ => eprintln!("skipped: no overlay on a disk can be mounted here"),
        }
        match std::thread::spawn(|| in_an_overlay(None)).join().unwrap() {
            Some(found) => assert_eq!(found, (1 << 20, 1 << 20, true)),
            None => eprintln!("skipped: mounting is not permitted here"),
        }
    }

    #[test]
    fn what_is_written_is_cached_until_it_is_evicted() {
        let len = 2 << 20;
        let Some(data) = DataFile::for_test(len) else {
            return;
        };
        assert_eq!(cached_bytes(data.file(), len).unwrap(), len);
        assert_eq!(by_mincore(data.file(), len).unwrap(), len);
        if evict(data.file(), len).unwrap() > 0 {
            eprintln!("checked less: this file system keeps its files in memory");
            return;
        }
        assert_eq!(cached_bytes(data.file(), len).unwrap(), 0);
        assert_eq!(by_mincore(data.file(), len).unwrap(), 0);
        let mut byte = [0];
        std::os::unix::fs::FileExt::read_at(data.file(), &mut byte, 0).unwrap();
        let page = base_page_bytes() as u64;
        assert!(cached_bytes(data.file(), len).unwrap() >= page);
        assert_eq!(by_mincore(data.file(), len).unwrap(), cached_bytes(data.file(), len).unwrap());
    }
}
