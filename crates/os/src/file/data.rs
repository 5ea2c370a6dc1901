//! A file without a name, so that nothing is left of it however this process ends. The value of
//! every word follows from its position.
//!
//! Source: open(2) on `O_TMPFILE`, proc_pid_fd(5), statvfs(3), fsync(2).

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{Advice, fadvise, fstatvfs};

use crate::file::scratch;

/// The most bytes to write at a time.
const CHUNK_BYTES: u64 = 1 << 20;
/// A file's length is a multiple of this.
pub const STEP_BYTES: u64 = 4096;
/// A file may take at most this share of its disk's free space; the rest stays for others.
const MAX_SHARE_OF_FREE: f64 = 0.9;

/// An unnamed file: at byte `offset`, where a word begins, it contains [`word_at`].
#[derive(Debug)]
pub struct DataFile {
    file: File,
    folder: PathBuf,
    in_memory: bool,
    len: u64,
}

/// Whether a descriptor uses the page cache, and which order of reads it announces to the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// The page cache, without advice: the kernel reads ahead if blocks are read in order.
    Cached,
    /// The page cache, with `POSIX_FADV_RANDOM`: nothing is read ahead.
    CachedRandom,
    /// Past the page cache (`O_DIRECT`).
    Direct,
}

impl DataFile {
    /// An empty file in this folder, or in [the first suitable folder](crate::file::scratch).
    ///
    /// # Errors
    ///
    /// The errors of open(2) for the folder; without a folder `Unsupported`, with why each was left out.
    pub fn create(folder: Option<&Path>) -> io::Result<Self> {
        let (file, folder, in_memory) = match folder {
            None => {
                let (file, folder) = scratch::nameless_and_where()?;
                (file, folder, false)
            }
            Some(folder) => {
                let file = scratch::nameless_in(folder)?;
                let in_memory = scratch::is_in_memory(&file)?;
                (file, folder.to_owned(), in_memory)
            }
        };
        Ok(Self { file, folder, in_memory, len: 0 })
    }

    /// The folder in which it lies, without a name.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Whether its file system keeps files in memory alone (tmpfs), so that no device is behind it.
    pub fn is_in_memory(&self) -> bool {
        self.in_memory
    }

    /// The descriptor with which it was created.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Its length in bytes.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// How long it may become in bytes without filling its disk: nine tenths of the space that is free for
    /// this user, plus its own length.
    ///
    /// # Errors
    ///
    /// The errors of fstatvfs(3).
    pub fn most_bytes(&self) -> io::Result<u64> {
        let free = fstatvfs(&self.file)?;
        let bytes = free.f_bavail as f64 * free.f_frsize as f64;
        Ok(self.len + (MAX_SHARE_OF_FREE * bytes) as u64)
    }

    /// Makes it at least `len` bytes long, with everything written and on its device: `len` rounded
    /// up to whole [steps](STEP_BYTES). A longer file stays unchanged.
    ///
    /// # Errors
    ///
    /// The errors of pwrite(2) and fsync(2): `StorageFull`, `QuotaExceeded`, `FileTooLarge`. What was written
    /// stays.
    pub fn extend(&mut self, len: u64) -> io::Result<()> {
        if self.len >= len {
            return Ok(());
        }
        let mut chunk = vec![0; CHUNK_BYTES as usize];
        while self.len < len {
            let bytes = (len - self.len).min(CHUNK_BYTES).next_multiple_of(STEP_BYTES);
            let chunk = &mut chunk[..bytes as usize];
            fill(chunk, self.len);
            self.file.write_all_at(chunk, self.len)?;
            self.len += bytes;
        }
        self.file.sync_all()
    }

    /// Another descriptor of the file, with its own offset, flags and read-ahead.
    ///
    /// # Errors
    ///
    /// The errors of open(2): `EINVAL` if the file system does not support `O_DIRECT` (one in memory may
    /// accept the flag all the same). Those of posix_fadvise(2).
    pub fn open(&self, access: Access) -> io::Result<File> {
        let flags = match access {
            Access::Direct => libc::O_DIRECT,
            Access::Cached | Access::CachedRandom => 0,
        };
        let file = self.open_with(flags)?;
        if access == Access::CachedRandom {
            fadvise(&file, 0, None, Advice::Random)?;
        }
        Ok(file)
    }

    /// The same with these flags of open(2), to read and write.
    pub(crate) fn open_with(&self, flags: i32) -> io::Result<File> {
        OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(flags)
            .open(format!("/proc/self/fd/{}", self.file.as_raw_fd()))
    }
}

#[cfg(test)]
impl DataFile {
    /// A file of this size, if a test finds a folder for it.
    pub(crate) fn for_test(bytes: u64) -> Option<Self> {
        let made = Self::create(None);
        let mut data = made.inspect_err(|error| eprintln!("skipped: {error}")).ok()?;
        data.extend(bytes).expect("a file can be written");
        Some(data)
    }
}

/// The word at this byte of a file.
#[inline]
pub fn word_at(offset: u64) -> u64 {
    // SplitMix64's finaliser, so that blocks can be neither compressed nor deduplicated.
    let mixed = (offset ^ (offset >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// Fills a buffer with the contents from `offset` on.
pub(crate) fn fill(bytes: &mut [u8], offset: u64) {
    let (words, rest) = bytes.as_chunks_mut();
    debug_assert!(rest.is_empty(), "blocks are whole words");
    for (number, word) in (0..).zip(words) {
        *word = word_at(offset + 8 * number).to_ne_bytes();
    }
}

/// Whether a buffer has the contents from `offset` on.
pub fn is_content(bytes: &[u8], offset: u64) -> bool {
    let (words, rest) = bytes.as_chunks();
    let mut numbered = (0..).zip(words);
    rest.is_empty()
        && numbered.all(|(number, word)| u64::from_ne_bytes(*word) == word_at(offset + 8 * number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_known_by_where_it_stands() {
        let Some(mut data) = DataFile::for_test(0) else {
            return;
        };
        data.extend(3 << 20).unwrap();
        data.extend(1).unwrap();
        assert_eq!(data.len(), 3 << 20);
        assert_eq!(data.file.metadata().unwrap().len(), 3 << 20);
        assert!(data.most_bytes().unwrap() >= 3 << 20);
        let mut block = [0; 4096];
        let file = data.open(Access::Cached).unwrap();
        for offset in [0, 4096, (2 << 20) + 512] {
            file.read_exact_at(&mut block, offset).unwrap();
            assert!(is_content(&block, offset), "{offset}");
            assert!(!is_content(&block, offset + 8), "{offset}");
        }
    }

    #[test]
    fn it_is_as_long_as_was_asked_for_in_whole_steps() {
        let Some(mut data) = DataFile::for_test(0) else {
            return;
        };
        for (asked, len) in [
            (64 << 10, 64 << 10),
            (1, 64 << 10),
            (100_000, 102_400),
            ((2 << 20) + 1, (2 << 20) + 4096),
        ] {
            data.extend(asked).unwrap();
            assert_eq!(data.len(), len, "{asked}");
            assert_eq!(data.file.metadata().unwrap().len(), len, "{asked}");
        }
        let mut all = vec![0; data.len() as usize];
        data.file.read_exact_at(&mut all, 0).unwrap();
        assert!(is_content(&all, 0));
    }

    #[test]
    fn a_folder_that_will_not_do_says_why() {
        let error = |folder: &str| DataFile::create(Some(Path::new(folder))).unwrap_err();
        assert_eq!(error("/no/such/folder").kind(), io::ErrorKind::NotFound);
        assert_eq!(error("/dev/null").kind(), io::ErrorKind::NotADirectory);
        assert!(DataFile::create(Some(Path::new("/proc"))).is_err());
    }

    /// In a thread with its own mounts, where that is allowed.
    #[test]
    fn a_disk_that_gets_full_is_an_error_of_that_kind() {
        use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};
        let written = std::thread::spawn(|| {
            let flags = libc::CLONE_FS | libc::CLONE_NEWNS;
            // SAFETY: takes a number; only this thread's view of what is mounted changes.
            if unsafe { libc::unshare(flags) } != 0 {
                return None;
            }
            let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
            mount_change("/", private).ok()?;
            let folder = Path::new("/mnt");
            mount("none", folder, "tmpfs", MountFlags::empty(), c"size=2m").ok()?;
            let mut data = DataFile::create(Some(folder)).ok()?;
            Some((data.most_bytes(), data.extend(8 << 20), data.len()))
        });
        let Some((most, written, len)) = written.join().unwrap() else {
            eprintln!("skipped: mounting is not permitted here");
            return;
        };
        assert!(most.unwrap() < 2 << 20);
        assert_eq!(written.unwrap_err().kind(), io::ErrorKind::StorageFull);
        assert!(len < 8 << 20);
    }
}
