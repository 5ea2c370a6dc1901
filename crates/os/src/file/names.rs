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

use crate::system_call::check;
use std::ffi::{CStr, CString};
use std::io::{self, PipeWriter};
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags, mkdirat, openat};

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
        let parent = CString::new(parent.as_os_str().as_bytes())?;
        let parent = open_folder(&CWD, &parent)?;
        // Where it lies follows from its name too.
        let inside = CString::new(format!("{name}/{name}"))?;
        let name = CString::new(name)?;
        let called = |letter: char| -> Vec<CString> {
            (0..most)
                .map(|number| CString::new(format!("{letter}{number}")).expect("no zero byte"))
                .collect()
        };
        let (names, others) = (called('a'), called('b'));
        // Started before the folder exists, so that none is left if this process ends in between.
        let janitor = Janitor::start(parent, name, inside, [&names, &others])?;
        let folder = janitor.make_folder()?;
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
        self.janitor.pid.cast_unsigned()
    }
}

#[inline]
fn unlink(folder: &OwnedFd, name: &CStr) -> io::Result<()> {
    // SAFETY: the name ends in a zero byte.
    check(unsafe { libc::unlinkat(folder.as_raw_fd(), name.as_ptr(), 0) }).map(drop)
}

fn open_folder(at: &impl AsFd, name: &CStr) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(openat(at, name, flags, Mode::empty())?)
}

/// The child that removes the folder when this process has ended.
#[derive(Debug)]
struct Janitor {
    parent: OwnedFd,
    name: CString,
    /// The folder in it that has the files.
    inside: CString,
    pid: libc::pid_t,
    /// The child waits until this end of the pipe closes.
    _open: PipeWriter,
}

impl Janitor {
    /// Starts a child that removes the folder `inside`, with the files of these names, and the folder
    /// `name` around it, both in `parent`.
    fn start(
        parent: OwnedFd,
        name: CString,
        inside: CString,
        files: [&[CString]; 2],
    ) -> io::Result<Self> {
        let (waits, open) = std::io::pipe()?;
        // SAFETY: the child makes system calls alone, on memory that was there before, and ends by
        // _exit: no lock of another thread can hold it up.
        let pid = check(unsafe { libc::fork() })?;
        if pid == 0 {
            let (waits, parent) = (waits.as_raw_fd(), parent.as_raw_fd());
            remove_when_closed(waits, parent, [&name, &inside], files);
        }
        Ok(Self { parent, name, inside, pid, _open: open })
    }

    fn make_folder(&self) -> io::Result<OwnedFd> {
        let make = |name: &CStr| {
            mkdirat(&self.parent, name, Mode::RWXU)?;
            open_folder(&self.parent, name)
        };
        spread_subfolders(&make(&self.name)?);
        make(&self.inside)
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

impl Drop for Names {
    fn drop(&mut self) {
        // Removes what can be removed now; the child removes the rest.
        let _ = self.clear();
        let janitor = &self.janitor;
        let parent = janitor.parent.as_raw_fd();
        // SAFETY: the names end in a zero byte, and the child is this one's own, waited for once.
        unsafe {
            libc::unlinkat(parent, janitor.inside.as_ptr(), libc::AT_REMOVEDIR);
            if libc::unlinkat(parent, janitor.name.as_ptr(), libc::AT_REMOVEDIR) == 0 {
                libc::kill(janitor.pid, libc::SIGKILL);
                libc::waitpid(janitor.pid, std::ptr::null_mut(), 0);
            }
        }
    }
}

/// The child waits, and removes. Only system calls on memory that was allocated before the fork.
fn remove_when_closed(
    waits: RawFd,
    parent: RawFd,
    [name, inside]: [&CStr; 2],
    files: [&[CString]; 2],
) -> ! {
    // SAFETY: numbers, and addresses of memory that is there and long enough.
    unsafe {
        // Leaves the group, which is killed as a whole, and so gets no signal from a terminal either.
        libc::setsid();
        for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGHUP, libc::SIGPIPE] {
            libc::signal(signal, libc::SIG_IGN);
        }
        libc::prctl(libc::PR_SET_PDEATHSIG, 0, 0, 0, 0);
        close_all_but([waits, parent]);
        let mut byte = 0_u8;
        while libc::read(waits, (&raw mut byte).cast(), 1) != 0 {
            if *libc::__errno_location() != libc::EINTR {
                break;
            }
        }
        let flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_CLOEXEC;
        let folder = libc::openat(parent, inside.as_ptr(), flags);
        if folder >= 0 {
            for file in files.into_iter().flatten() {
                libc::unlinkat(folder, file.as_ptr(), 0);
            }
        }
        libc::unlinkat(parent, inside.as_ptr(), libc::AT_REMOVEDIR);
        libc::unlinkat(parent, name.as_ptr(), libc::AT_REMOVEDIR);
        libc::_exit(0)
    }
}

/// Closes all open descriptors except these two: a reader of this process's output waits until all copies of
/// the descriptor are closed.
///
/// # Safety
///
/// None of the closed descriptors may be used any more.
unsafe fn close_all_but(mut open: [RawFd; 2]) {
    open.sort_unstable();
    let mut first = 0;
    for end in open.into_iter().chain([RawFd::MAX]) {
        if end > first {
            let (from, to) = (first.cast_unsigned(), end.cast_unsigned() - 1);
            // SAFETY: takes numbers; Linux 5.9. Before, the usual ones one by one.
            let closed = unsafe { libc::syscall(libc::SYS_close_range, from, to, 0) };
            if closed != 0 {
                for descriptor in first..end.min(first + 1024) {
                    // SAFETY: takes a number, which may be no descriptor.
                    unsafe { libc::close(descriptor) };
                }
            }
        }
        first = end.saturating_add(1);
    }
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
        let pid = names.janitor.pid;
        // SAFETY: taken out once, and never used again.
        drop(unsafe { std::ptr::read(&raw const names.janitor._open) });
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
