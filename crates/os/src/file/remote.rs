//! Files on mounted remote file systems: reading them without the page cache, and asking their
//! server for attributes.
//!
//! Source: open(2) on `O_DIRECT` (Linux 2.4), statx(2) on `AT_STATX_FORCE_SYNC` (Linux 4.11).

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::{AtFlags, StatxFlags, statx};

/// Opens a file for reading past the page cache: memory, offsets and lengths must be aligned as its file
/// system requires. Success proves nothing: file systems in memory accept the flag too.
///
/// # Errors
///
/// `InvalidInput` if its file system cannot; otherwise those of open(2).
pub fn open_direct(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(libc::O_DIRECT);
    options.open(path)
}

/// Measured: makes the kernel fetch a file's attributes from the server, even if it has them cached. One
/// system call.
///
/// # Errors
///
/// The errors of statx(2): ENOSYS before Linux 4.11.
#[inline]
pub fn ask_for_attributes(file: &File) -> io::Result<()> {
    let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_FORCE_SYNC;
    statx(file, c"", flags, StatxFlags::BASIC_STATS)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_attributes_and_one_that_is_not_there_is_not_opened() {
        let file = File::open("/proc/self/exe").unwrap();
        ask_for_attributes(&file).unwrap();
        let error = open_direct(Path::new("/nonexistent/costof")).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }
}
