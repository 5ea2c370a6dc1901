//! Measured: creating, looking up, renaming and removing named files in a folder of their own. When
//! this process ends, however it does, a child of it removes the folder with everything in it: a
//! killed process cannot do so itself.
//!
//! The child waits until a pipe closes; the kernel closes it when the process at its other end is
//! gone. The child leaves the process group, so that it is not killed with the group. It ends as
//! soon as it has removed everything.
//!
//! ext4 without a journal skips inodes that were removed within the last minutes, one by one:
//! creating a file took 8 µs, and 50 to 650 µs if earlier launches had removed files in the same
//! block group. So each folder lies inside one that asks the file system to spread its subfolders
//! over the disk, as it does for those of the root.
//!
//! Source: open(2), fstatat(2), renameat(2), unlinkat(2), mkdirat(2), fork(2), pipe(7), setsid(2),
//! FS_IOC_SETFLAGS(2const); `recently_deleted` and `find_group_orlov` in fs/ext4/ialloc.c.

use crate::process::child::{Child, close_from, exit_at_once};
use crate::system_call::check;
use std::ffi::{CStr, CString};
use std::fs::{self, DirBuilder, File};
use std::io::{self, PipeReader, PipeWriter};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use rustix::io::retry_on_intr;
use rustix::stdio::{dup2_stdin, stdin};

/// Named files in a folder that is removed when this process ends.
#[derive(Debug)]
pub struct Names {
    folder: OwnedFd,
    /// The name of each file, and the name that it is renamed to.
    names: Vec<CString>,
    others: Vec<CString>,
    /// Which files exist, and under which names.
    here: Here,
    /// When it closes, the child removes what is left.
    janitor: Janitor,
}

/// Which of the first files exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Here {
    /// Nothing.
    Nothing,
    /// Unknown: some of them, under either name.
    Some,
    /// All of this many files, under their names.
    Named(u64),
    /// All of the first `files`, which were renamed `times` times in total, one after the other: from their
    /// names to the others, and then back.
    Renamed { files: u64, times: u64 },
}

impl Names {
    /// Creates a folder for up to `most` files inside this one.
    ///
    /// # Errors
    ///
    /// The errors of mkdir(2), open(2), pipe(2) and fork(2).
    pub fn new(parent: &Path, most: u64) -> io::Result<Self> {
        let name = format!(".costof-{}-{}", std::process::id(), crate::random::digits()?);
        let folder = parent.canonicalize()?.join(&name);
        // Where it lies follows from its name too.
        let inside = folder.join(&name);
        let called = |letter: char| -> Vec<CString> {
            (0..most)
                .map(|number| CString::new(format!("{letter}{number}")).expect("no zero byte"))
                .collect()
        };
        let (names, others) = (called('a'), called('b'));
        // Started before the folder exists, so that none is left if this process ends in between.
        let janitor = Janitor::start(folder)?;
        spread_subfolders(&make_folder(&janitor.folder)?);
        let folder = make_folder(&inside)?;
        Ok(Self { folder, names, others, here: Here::Nothing, janitor })
    }

    /// Makes sure that none of the files exists.
    ///
    /// # Errors
    ///
    /// The errors of unlinkat(2).
    pub fn clear(&mut self) -> io::Result<()> {
        if self.here != Here::Nothing {
            for name in self.names.iter().chain(&self.others) {
                match unlink(&self.folder, name) {
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                    answer => answer?,
                }
            }
            self.here = Here::Nothing;
        }
        Ok(())
    }

    /// Makes sure that the first `n` files exist under their names, and no others.
    ///
    /// # Errors
    ///
    /// The errors of open(2) and unlinkat(2).
    pub fn provide(&mut self, n: u64) -> io::Result<()> {
        if self.here != Here::Named(n) {
            self.clear()?;
            self.create(n)?;
            self.here = Here::Named(n);
        }
        Ok(())
    }

    /// Makes sure that `files` files exist for renaming, under either name.
    ///
    /// # Errors
    ///
    /// The errors of open(2) and unlinkat(2).
    pub fn provide_to_rename(&mut self, files: u64) -> io::Result<()> {
        match self.here {
            Here::Renamed { files: here, .. } if here == files => Ok(()),
            _ => self.provide(files),
        }
    }

    /// Creates the first `n` files, each opened and closed: two system calls per file.
    ///
    /// # Errors
    ///
    /// The first error of open(2): `AlreadyExists` if one exists.
    pub fn create(&mut self, n: u64) -> io::Result<()> {
        self.here = Here::Some;
        for name in &self.names[..n as usize] {
            let flags = libc::O_CREAT | libc::O_EXCL | libc::O_WRONLY | libc::O_CLOEXEC;
            // SAFETY: the name ends in a zero byte.
            let file = check(unsafe {
                libc::openat(self.folder.as_raw_fd(), name.as_ptr(), flags, 0o600)
            })?;
            // SAFETY: the kernel just gave this descriptor to nobody else.
            unsafe { libc::close(file) };
        }
        Ok(())
    }

    /// Looks up the first `n` files.
    ///
    /// # Errors
    ///
    /// The first error of fstatat(2): `NotFound` if one does not exist.
    pub fn stat(&self, n: u64) -> io::Result<()> {
        let folder = self.folder.as_raw_fd();
        for name in &self.names[..n as usize] {
            let mut status = std::mem::MaybeUninit::<libc::stat>::uninit();
            let (name, status) = (name.as_ptr(), status.as_mut_ptr());
            // SAFETY: the name ends in a zero byte, and a stat is there to be written.
            check(unsafe { libc::fstatat(folder, name, status, 0) })?;
        }
        Ok(())
    }

    /// Renames files within the folder, `n` times: one file after the other to its other name, and then each
    /// back. So the folder stays equally full.
    ///
    /// # Errors
    ///
    /// The errors of renameat(2) the first time that it fails: `NotFound` if no files were provided.
    pub fn rename(&mut self, n: u64) -> io::Result<()> {
        let (files, times) = match self.here {
            Here::Named(files) => (files, 0),
            Here::Renamed { files, times } => (files, times),
            Here::Nothing | Here::Some => return Err(io::ErrorKind::NotFound.into()),
        };
        self.here = Here::Some;
        let folder = self.folder.as_raw_fd();
        for time in times..times + n {
            let (file, is_back) = ((time % files) as usize, time / files % 2 == 1);
            let (mut from, mut to) = (&self.names[file], &self.others[file]);
            if is_back {
                (from, to) = (to, from);
            }
            // SAFETY: both names end in a zero byte.
            check(unsafe { libc::renameat(folder, from.as_ptr(), folder, to.as_ptr()) })?;
        }
        let times = times + n;
        self.here = Here::Renamed { files, times };
        Ok(())
    }

    /// Removes the first `n` files.
    ///
    /// # Errors
    ///
    /// The first error of unlinkat(2).
    pub fn unlink(&mut self, n: u64) -> io::Result<()> {
        self.here = Here::Some;
        for name in &self.names[..n as usize] {
            unlink(&self.folder, name)?;
        }
        Ok(())
    }

    /// How many of the files exist, under either name.
    ///
    /// # Errors
    ///
    /// Those of reading the folder.
    pub fn count(&self) -> io::Result<u64> {
        let listed = std::fs::read_dir(format!("/proc/self/fd/{}", self.folder.as_raw_fd()))?;
        Ok(listed.count() as u64)
    }

    /// The process id of the child that removes what is left.
    pub fn janitor(&self) -> u32 {
        let (child, _) = self.janitor.child.as_ref().expect("there until it is dropped");
        child.pid().as_raw_nonzero().get().cast_unsigned()
    }
}

#[inline]
fn unlink(folder: &OwnedFd, name: &CStr) -> io::Result<()> {
    // SAFETY: the name ends in a zero byte.
    check(unsafe { libc::unlinkat(folder.as_raw_fd(), name.as_ptr(), 0) }).map(drop)
}

fn make_folder(path: &Path) -> io::Result<OwnedFd> {
    DirBuilder::new().mode(0o700).create(path)?;
    Ok(File::open(path)?.into())
}

/// The folder with all that is in it, and the child that removes it when this process has ended.
#[derive(Debug)]
struct Janitor {
    folder: PathBuf,
    /// It waits until this end of the pipe closes.
    child: Option<(Child, PipeWriter)>,
}

impl Janitor {
    fn start(folder: PathBuf) -> io::Result<Self> {
        let (closes, open) = io::pipe()?;
        // SAFETY: a worker has one thread, so that no lock was held; the C library sees to its own.
        match Child::started(unsafe { libc::fork() })? {
            Some(child) => Ok(Self { folder, child: Some((child, open)) }),
            None => remove_when_closed(closes, &folder),
        }
    }
}

impl Drop for Janitor {
    fn drop(&mut self) {
        match fs::remove_dir_all(&self.folder) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                // The child tries again when this process has ended.
                std::mem::forget(self.child.take());
            }
            _ => {}
        }
    }
}

/// Asks the file system to spread a folder's subfolders over the disk, if the file system supports this.
fn spread_subfolders(folder: &OwnedFd) {
    /// `FS_TOPDIR_FL` of linux/fs.h.
    const FS_TOPDIR_FL: libc::c_int = 0x0002_0000;
    let mut flags: libc::c_int = 0;
    // SAFETY: the kernel reads and writes an int, whatever type the request names.
    unsafe {
        if libc::ioctl(folder.as_raw_fd(), libc::FS_IOC_GETFLAGS, &raw mut flags) == 0 {
            flags |= FS_TOPDIR_FL;
            libc::ioctl(folder.as_raw_fd(), libc::FS_IOC_SETFLAGS, &raw const flags);
        }
    }
}

/// The child's work.
fn remove_when_closed(closes: PipeReader, folder: &Path) -> ! {
    // Leaves the group, which is killed as a whole, and so gets no signal from a terminal either.
    let _ = rustix::process::setsid();
    for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGHUP, libc::SIGPIPE] {
        // SAFETY: ignoring a signal runs no code.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
    let _ = rustix::process::set_parent_process_death_signal(None);
    // A reader of this process's output waits until all copies of the descriptor are closed.
    if dup2_stdin(&closes).is_ok() {
        // SAFETY: of the descriptors, only standard input is used from here on.
        unsafe { close_from(libc::STDOUT_FILENO) };
        while matches!(retry_on_intr(|| rustix::io::read(stdin(), &mut [0; 64])), Ok(1..)) {}
        let _ = fs::remove_dir_all(folder);
    }
    exit_at_once(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::time::{Duration, Instant};

    fn folder() -> std::path::PathBuf {
        let number = u128::from_ne_bytes(crate::random::bytes().unwrap());
        let folder = std::env::temp_dir().join(format!("costof-names-{number:x}"));
        fs::create_dir(&folder).unwrap();
        folder
    }

    #[test]
    fn files_come_and_go() {
        let parent = folder();
        let mut names = Names::new(&parent, 10).unwrap();
        let janitor = names.janitor();
        assert_eq!(names.count().unwrap(), 0);
        names.create(10).unwrap();
        assert_eq!(names.count().unwrap(), 10);
        names.stat(10).unwrap();
        assert!(names.rename(1).is_err(), "none was provided");
        names.provide(10).unwrap();
        names.rename(4).unwrap();
        assert!(names.stat(1).is_err());
        names.provide_to_rename(10).unwrap();
        assert!(names.stat(1).is_err(), "it keeps its other name");
        names.rename(6).unwrap();
        assert!(names.stat(1).is_err());
        names.rename(10).unwrap();
        assert_eq!(names.count().unwrap(), 10);
        names.stat(10).unwrap();
        names.provide(6).unwrap();
        assert_eq!(names.count().unwrap(), 6);
        names.stat(6).unwrap();
        names.unlink(6).unwrap();
        assert_eq!(names.count().unwrap(), 0);
        names.provide(3).unwrap();
        assert!(names.create(1).is_err(), "it is there");
        drop(names);
        assert_eq!(fs::read_dir(&parent).unwrap().count(), 0);
        assert!(!Path::new(&format!("/proc/{janitor}")).exists());
        fs::remove_dir(&parent).unwrap();
    }

    #[test]
    fn the_child_removes_what_a_killed_process_has_left() {
        let parent = folder();
        let names = Names::new(&parent, 10).unwrap();
        // As when the process ends: nothing is removed, and the pipe closes.
        let mut names = std::mem::ManuallyDrop::new(names);
        names.provide(7).unwrap();
        names.rename(2).unwrap();
        let pid = names.janitor().cast_signed();
        let (child, open) = names.janitor.child.take().unwrap();
        std::mem::forget(child);
        drop(open);
        let began = Instant::now();
        while fs::read_dir(&parent).unwrap().count() > 0 {
            assert!(began.elapsed() < Duration::from_secs(60));
            std::thread::sleep(Duration::from_millis(5));
        }
        // SAFETY: a child of this process's own.
        assert_eq!(unsafe { libc::waitpid(pid, std::ptr::null_mut(), 0) }, pid);
        fs::remove_dir(&parent).unwrap();
    }
}
