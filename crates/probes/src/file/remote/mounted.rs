//! A file on a mounted remote file system, read past the page cache.

use super::client::{Completed, ReadError};
use crate::prelude::*;
use costof_measure::facts;
use costof_os::file::remote::{ask_for_attributes, open_direct};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

/// A file on a mounted remote file system.
pub(super) struct Mounted {
    /// Its path and the kind of its file system, as people name it.
    pub(super) name: String,
    pub(super) size_bytes: u64,
    path: PathBuf,
    /// The kind of its file system.
    kind: String,
}

/// Kinds of file systems whose files are on another machine, or on the other side of a hypervisor.
const REMOTE: &str = "9p afs beegfs ceph cifs coda glusterfs gpfs lustre ncpfs nfs nfs4 orangefs \
                      smb3 smbfs virtiofs wekafs";
/// The same for FUSE, whose kinds have names of their own: `fuse.sshfs`.
const REMOTE_FUSE: &str = "ceph-fuse cephfs curlftpfs davfs2 gcsfuse glusterfs goofys httpfs \
                           juicefs mount-s3 moosefs rclone s3fs smbnetfs sshfs";

/// Whether files of this kind of file system are remote.
pub(super) fn is_remote(kind: &str) -> bool {
    let (kind, remote) = match kind.strip_prefix("fuse.") {
        Some(kind) => (kind, REMOTE_FUSE),
        None => (kind, REMOTE),
    };
    remote.split(' ').any(|remote| remote == kind)
}

/// The file at `path`, if it is remote.
///
/// # Errors
/// Where there is no such file, or it is local.
pub(super) fn find(path: &str) -> Result<Mounted> {
    let failed = |error: io::Error| Failure::error(format!("{path} cannot be read: {error}"));
    let real = fs::canonicalize(path).map_err(failed)?;
    let status = fs::metadata(&real).map_err(failed)?;
    let facts = facts::storage();
    let storage = facts.storage_of(&real.to_string_lossy());
    let kind = storage.map_or("unknown", |storage| &storage.file_system.kind);
    if !is_remote(kind) {
        unsupported!(
            "{path} is on a file system of this machine ({kind}): file.read measures those (--set \
             dir=…)"
        );
    }
    let none = |what| Err(Failure::error(format!("{path} cannot be read: {what}")));
    if status.is_dir() {
        return none("it is a directory, not a file");
    }
    if !status.is_file() {
        return none("it is not a regular file");
    }
    if status.len() == 0 {
        return none("the file is empty");
    }
    Ok(Mounted {
        name: format!("{path} ({kind})"),
        size_bytes: status.len(),
        kind: kind.to_owned(),
        path: real,
    })
}

impl Mounted {
    /// Opens it past the page cache, for reads of this size.
    ///
    /// # Errors
    /// If its file system does not support reads past the page cache, or cannot read the file.
    pub(super) fn open(&self, block: usize) -> Result<MountedFile> {
        let file = open_direct(&self.path).map_err(|error| match error.kind() {
            io::ErrorKind::InvalidInput => Failure::unsupported(format!(
                "{} cannot be read past the page cache of this machine (O_DIRECT: {error}; a URL nfs://… does not need that)",
                self.kind
            )),
            _ => Failure::error(format!("{} cannot be read: {error}", self.name)),
        })?;
        let bytes = block.next_multiple_of(base_page_bytes());
        let memory = Arena::map(bytes, PageSize::Base).or_fail("memory for a block")?;
        Ok(MountedFile { file, memory, block, requested: None })
    }
}

/// Reads by one call at a time.
pub(super) struct MountedFile {
    file: File,
    memory: Arena,
    block: usize,
    /// The block that was requested and is not read yet.
    requested: Option<Completed>,
}

impl MountedFile {
    pub(super) fn in_flight(&self) -> usize {
        usize::from(self.requested.is_some())
    }

    /// Measured: asks the server for the file's attributes.
    ///
    /// # Errors
    /// If statx(2) fails.
    pub(super) fn null(&mut self) -> io::Result<()> {
        ask_for_attributes(&self.file)
    }

    /// Notes that the block at `offset` is to be read. [`Self::complete`] reads it, so that
    /// whatever is counted from here on includes the read.
    pub(super) fn request(&mut self, offset: u64, began: u64) {
        self.requested = Some(Completed { began, offset });
    }

    /// Measured: reads the block that was requested. One system call.
    ///
    /// # Errors
    /// If pread(2) fails or reads less.
    ///
    /// # Panics
    /// If no block was requested, which is a bug.
    pub(super) fn complete(&mut self) -> Result<Completed, ReadError> {
        let read = self.requested.take().expect("a block was requested");
        let offset = read.offset;
        let block = &mut self.memory.as_mut_slice()[..self.block];
        let count = self.file.read_at(block, offset)?;
        if count != self.block {
            return Err(ReadError::Count { offset, count: count as u32, block: self.block });
        }
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_remote_or_local() {
        for kind in ["nfs", "nfs4", "cifs", "9p", "virtiofs", "ceph", "fuse.sshfs", "fuse.rclone"] {
            assert!(is_remote(kind), "{kind}");
        }
        for kind in ["ext4", "tmpfs", "overlay", "fuse.ntfs-3g", "fuse", "fuseblk", "xfs"] {
            assert!(!is_remote(kind), "{kind}");
        }
    }

    #[test]
    fn a_block_is_read_when_it_is_completed_and_not_before() {
        const BLOCK: usize = 512;
        let mut file = MountedFile {
            file: File::open("/proc/self/exe").unwrap(),
            memory: Arena::map(base_page_bytes(), PageSize::Base).unwrap(),
            block: BLOCK,
            requested: None,
        };
        file.request(0, 7);
        assert_eq!(file.in_flight(), 1);
        assert!(file.memory.as_mut_slice()[..4] == [0; 4], "nothing is read yet");
        let completed = file.complete().unwrap();
        assert_eq!((completed.began, completed.offset), (7, 0));
        assert_eq!(file.in_flight(), 0);
        assert_eq!(&file.memory.as_mut_slice()[..4], b"\x7fELF");
        // A read past the end fails when it is completed.
        file.request(1 << 40, 0);
        assert!(matches!(file.complete(), Err(ReadError::Count { count: 0, .. })));
        assert_eq!(file.in_flight(), 0);
    }

    #[test]
    fn a_local_file_and_one_that_is_not_there_are_refused() {
        let local = find("/etc/passwd").err().unwrap();
        assert!(local.reason.contains("of this machine"), "{local}");
        let absent = find("/nonexistent/costof").err().unwrap();
        assert!(absent.reason.contains("No such file"), "{absent}");
    }
}
