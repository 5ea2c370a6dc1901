//! An unnamed file on a real file system, so that nothing is left of it however this process ends,
//! and its mappings.
//!
//! Source: open(2) on `O_TMPFILE` (Linux 3.11, most file systems), statfs(2), posix_fadvise(2),
//! mmap(2), madvise(2).

use std::env;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{Advice, fadvise, fstatfs};

use super::cache;
use super::map::Mapping;
pub use super::map::Sharing;
use crate::memory::arena::base_page_bytes;

/// An unnamed file whose pages are a fixed distance apart, with holes between them.
#[derive(Debug)]
pub struct Scratch {
    file: File,
    folder: PathBuf,
    /// Its length in bytes, including the last page.
    len: usize,
}

impl Scratch {
    /// Creates a file with a page every `stride` bytes, `pages` in all, and writes it to its device; every
    /// byte of the pages is [`CONTENT`]. It uses the first of these folders that is not in memory and allows
    /// such a file: the one for temporary files (`TMPDIR`, otherwise /tmp), the current one,
    /// `XDG_CACHE_HOME`, `HOME`, /var/tmp.
    ///
    /// # Errors
    ///
    /// `Unsupported` with why each folder was left out; otherwise the error of writing, with the folder.
    ///
    /// # Panics
    ///
    /// If there is no page.
    pub fn write(pages: usize, stride: usize) -> io::Result<Self> {
        assert!(pages > 0, "a mapping would reach beyond an empty file");
        let (file, folder) = nameless_and_where()?;
        let len = (pages - 1) * stride + base_page_bytes();
        let scratch = Self { file, folder, len };
        scratch.fill(pages, stride).map_err(|error| {
            let folder = scratch.folder.display();
            let text = format!("writing to a file in {folder}: {error}");
            io::Error::new(error.kind(), text)
        })?;
        Ok(scratch)
    }

    fn fill(&self, pages: usize, stride: usize) -> io::Result<()> {
        let page = vec![CONTENT; base_page_bytes()];
        for number in 0..pages {
            self.file.write_all_at(&page, (number * stride) as u64)?;
        }
        self.file.sync_all()
    }

    /// The folder in which it lies.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Asks the kernel to evict the file from the page cache. Mapped pages stay, and some file systems keep
    /// everything: what is read afterwards shows this ([`crate::sched::usage::device_read_bytes`]).
    ///
    /// # Errors
    ///
    /// The errors of posix_fadvise(2).
    pub fn evict(&self) -> io::Result<()> {
        Ok(fadvise(&self.file, 0, None, Advice::DontNeed)?)
    }

    /// Maps the file, none of its pages yet. The kernel reads nothing ahead (`MADV_RANDOM`).
    ///
    /// # Errors
    ///
    /// The errors of mmap(2) and madvise(2).
    pub fn map(&self, sharing: Sharing) -> io::Result<FileMap> {
        let mapping = Mapping::new(&self.file, 0, self.len, sharing)?;
        mapping.disable_read_ahead()?;
        Ok(FileMap(mapping))
    }
}

/// The byte that fills the pages of a [`Scratch`].
pub const CONTENT: u8 = 7;

/// A scratch file in memory, unmapped on drop.
#[derive(Debug)]
pub struct FileMap(Mapping);

impl FileMap {
    /// Its bytes.
    #[inline]
    pub fn as_slice(&self) -> &[u8] {
        // SAFETY: `len` readable bytes. The file has no name and is written to before it is mapped
        // alone, so nobody changes or shortens it.
        unsafe { std::slice::from_raw_parts(self.0.start(), self.0.len()) }
    }

    /// Its bytes, for writing; `None` if it is only read.
    #[inline]
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        let len = match self.0.sharing() {
            Sharing::ReadShared => 0,
            Sharing::WritePrivate => self.0.len(),
        };
        // SAFETY: as above; a private mapping is writable, and borrowed mutably as this is.
        unsafe { std::slice::from_raw_parts_mut(self.0.start(), len) }
    }
}

/// The folders for such a file, the best first, each once.
fn candidates() -> Vec<PathBuf> {
    let variable = |name| env::var_os(name).filter(|value| !value.is_empty());
    let all = [
        Some(env::temp_dir()),
        env::current_dir().ok(),
        variable("XDG_CACHE_HOME").map(PathBuf::from),
        variable("HOME").map(PathBuf::from),
        Some("/var/tmp".into()),
    ];
    let mut folders = Vec::new();
    for folder in all.into_iter().flatten() {
        if !folders.contains(&folder) {
            folders.push(folder);
        }
    }
    folders
}

/// An empty unnamed file for reading and writing, in the first folder that [`Scratch::write`] would use.
pub(crate) fn nameless() -> io::Result<File> {
    Ok(nameless_and_where()?.0)
}

/// The folder in which [`Scratch::write`] would create a file; `None` if no folder is suitable.
pub fn folder() -> Option<PathBuf> {
    nameless_and_where().ok().map(|(_, folder)| folder)
}

/// As [`nameless`], with the file's folder.
pub(crate) fn nameless_and_where() -> io::Result<(File, PathBuf)> {
    let mut refused = Vec::new();
    for folder in candidates() {
        match nameless_file(&folder) {
            Ok(file) => return Ok((file, folder)),
            Err(error) => refused.push(format!("{}: {error}", folder.display())),
        }
    }
    let text = format!("no folder on a disk to write to ({})", refused.join("; "));
    Err(io::Error::new(io::ErrorKind::Unsupported, text))
}

fn nameless_file(folder: &Path) -> io::Result<File> {
    let opened = nameless_in(folder)?;
    if is_in_memory(&opened)? {
        return Err(io::Error::other("a file system in memory"));
    }
    Ok(opened)
}

/// An empty unnamed file for reading and writing in this folder, on any file system.
pub(crate) fn nameless_in(folder: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(0o600);
    options.clone().custom_flags(libc::O_TMPFILE).open(folder).or_else(|error| {
        match error.raw_os_error() {
            // The errors of open(2) if a file system or kernel does not support the flag.
            Some(libc::EOPNOTSUPP | libc::EISDIR | libc::ENOENT) => {
                create_and_unlink(&options, folder)
            }
            _ => Err(error),
        }
    })
}

/// Whether the file's file system keeps files only in memory. Of an overlay, whose upper layer may be such a one,
/// the file shows it: a page of it is written, and stays when it is evicted.
///
/// # Errors
///
/// The errors of fstatfs(2); of an overlay those of writing, and of [`cache::evict`].
pub(crate) fn is_in_memory(file: &File) -> io::Result<bool> {
    // Only the low half is defined on every architecture.
    let kind = fstatfs(file)?.f_type as u32;
    if kind != OVERLAY {
        return Ok(MEMORY_FILE_SYSTEMS.contains(&kind));
    }
    let len = file.metadata()?.len();
    if len == 0 {
        file.write_all_at(&vec![CONTENT; base_page_bytes()], 0)?;
        file.sync_all()?;
    }
    let page = base_page_bytes() as u64;
    let stays = cache::evict(file, page)? > 0;
    file.set_len(len)?;
    Ok(stays)
}

fn create_and_unlink(options: &OpenOptions, folder: &Path) -> io::Result<File> {
    // Processes of other containers may have this one's number.
    let name = format!(".costof-{}", crate::random::digits()?);
    let path = folder.join(name);
    let file = options.clone().create_new(true).open(&path)?;
    fs::remove_file(&path)?;
    Ok(file)
}

/// tmpfs, ramfs, hugetlbfs. Source: include/uapi/linux/magic.h.
const MEMORY_FILE_SYSTEMS: [u32; 3] = [0x0102_1994, 0x8584_58f6, 0x9584_58f6];
const OVERLAY: u32 = 0x794c_7630;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::arena::smaps_bytes;
    use crate::memory::touch::{WRITTEN, read_pages, write_pages};
    use crate::sched::usage;

    const PAGES: usize = 16;
    const STRIDE: usize = 1 << 20;

    fn scratch() -> Option<Scratch> {
        match Scratch::write(PAGES, STRIDE) {
            Ok(scratch) => Some(scratch),
            Err(error) => {
                eprintln!("skipped: {error}");
                None
            }
        }
    }

    #[test]
    fn each_page_is_read_by_a_fault_of_its_own() {
        let Some(scratch) = scratch() else { return };
        let map = scratch.map(Sharing::ReadShared).unwrap();
        let before = usage::thread();
        let sum = read_pages(map.as_slice(), STRIDE, 0..PAGES);
        let faults = usage::thread().since(&before).minor_faults;
        assert_eq!(sum, PAGES as u64 * u64::from(CONTENT));
        assert!(faults >= PAGES as u64, "{faults}");
        let mapped = smaps_bytes(map.as_slice(), &["Rss"]).unwrap();
        assert_eq!(mapped, (PAGES * base_page_bytes()) as u64);
    }

    #[test]
    fn what_a_private_mapping_writes_stays_its_own() {
        let Some(scratch) = scratch() else { return };
        let mut map = scratch.map(Sharing::WritePrivate).unwrap();
        write_pages(map.as_mut_slice(), STRIDE, 0..PAGES);
        assert_eq!(read_pages(map.as_slice(), STRIDE, 0..PAGES), PAGES as u64 * u64::from(WRITTEN));
        let other = scratch.map(Sharing::ReadShared).unwrap();
        let sum = read_pages(other.as_slice(), STRIDE, 0..PAGES);
        assert_eq!(sum, PAGES as u64 * u64::from(CONTENT));
    }

    #[test]
    fn an_evicted_file_is_read_from_its_device() {
        let Some(scratch) = scratch() else { return };
        scratch.evict().unwrap();
        let map = scratch.map(Sharing::ReadShared).unwrap();
        let (before, Ok(read_before)) = (usage::thread(), usage::device_read_bytes()) else {
            eprintln!("skipped: reads from devices are not reported");
            return;
        };
        read_pages(map.as_slice(), STRIDE, 0..PAGES);
        let faults = usage::thread().since(&before).major_faults;
        let read = usage::device_read_bytes().unwrap() - read_before;
        // Both show a file system that keeps its files in memory all the same.
        assert_eq!(faults == 0, read == 0, "{faults} major faults, {read} bytes");
        if faults == 0 {
            eprintln!("checked less: {:?} keeps its files in memory", scratch.folder());
        }
    }

    #[test]
    fn files_in_memory_are_recognised() {
        let shared_memory = Path::new("/dev/shm");
        if let Ok(status) = rustix::fs::statfs(shared_memory)
            && status.f_type as u32 == 0x0102_1994
        {
            let error = nameless_file(shared_memory).unwrap_err();
            assert!(error.to_string().contains("in memory"), "{error}");
        }
        assert!(nameless_file(Path::new("/proc")).is_err());
    }
}
