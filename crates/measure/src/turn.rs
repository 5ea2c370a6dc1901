//! Which costof may measure on this machine: two that measure at once would measure each other.
//!
//! A lock that the kernel releases when its holder ends, however it ends. Its file lies in /tmp (in
//! /dev/shm where there is none) and is named after the machine's boot, so that machines that share the folder have different files.
//! Nothing is ever written to it: who holds the lock is asked of the kernel (proc_locks(5)).

use costof_model::harmless;
use costof_os::process::{NO_FOLLOW, NO_WAIT};
use rustix::fs::{
    Mode, StatVfsMountFlags, Timespec, Timestamps, UTIME_NOW, futimens, inotify, statvfs,
};
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::thread;

/// Where the file lies, regardless of TMPDIR. TMPDIR, and the run-time folder of XDG, belong to one
/// user, session or job (pam_tmpdir, batch systems); processes with different ones would measure at
/// once.
const FOLDER: &str = "/tmp";
/// The folder where there is no /tmp that anybody can write to, as in an image of nothing but costof.
const FOLDER_IN_MEMORY: &str = "/dev/shm";
/// Names another folder: for containers of one machine that share a folder other than /tmp.
const FOLDER_VARIABLE: &str = "COSTOF_LOCK_FOLDER";
/// How much of the holder's command is shown, in characters.
const COMMAND_MAX_CHARS: usize = 200;

/// This process may measure on the machine until it drops this.
#[derive(Debug)]
pub struct Turn(File);

/// Why this process may not measure.
#[derive(Debug, PartialEq, Eq)]
pub enum NotTaken {
    /// Another costof measures: which one, and the path of the file.
    Held(String),
    /// Whether another costof measures cannot be known: why, and what to do.
    Unknown(String),
}

/// Takes the lock, or reports who holds it. Should somebody remove its file, this process ends, as the next
/// costof would lock another.
pub fn take() -> Result<Turn, NotTaken> {
    // Machines on which the boot id cannot be read share one name.
    let boot = crate::facts::boot_id().unwrap_or_default();
    // An empty one would be whatever folder each costof is started in.
    let folder = std::env::var_os(FOLDER_VARIABLE)
        .filter(|folder| !folder.is_empty())
        .map_or_else(|| usual_folder().into(), PathBuf::from);
    let path = folder.join(format!("costof-{boot}.lock"));
    let turn = take_at(&path)?;
    end_if_removed(&turn.0, path);
    Ok(turn)
}

/// The same for all users of the machine, and in all its containers that share the folder.
fn usual_folder() -> &'static str {
    let is_writable = |folder: &&str| {
        let its = statvfs(*folder);
        its.is_ok_and(|its| !its.f_flag.contains(StatVfsMountFlags::RDONLY))
    };
    let mut folders = [FOLDER, FOLDER_IN_MEMORY].into_iter();
    folders.find(is_writable).unwrap_or(FOLDER)
}

/// Ends this process when the lock's file is removed or renamed. A thread sleeps until then. Where it cannot be
/// started, or the kernel has no watch left, nobody notices; nor where a folder above is renamed.
fn end_if_removed(file: &File, path: PathBuf) {
    let held = format!("/proc/self/fd/{}", file.as_raw_fd());
    let identity = |data: &fs::Metadata| (data.dev(), data.ino());
    let own = file.metadata().map(|data| identity(&data));
    let wait = move || {
        let own = own?;
        let watches = inotify::init(inotify::CreateFlags::CLOEXEC)?;
        let changes = inotify::WatchFlags::ATTRIB | inotify::WatchFlags::MOVE_SELF;
        inotify::add_watch(&watches, held, changes)?;
        let mut buffer = [MaybeUninit::uninit(); 1024];
        let mut events = inotify::Reader::new(&watches, &mut buffer);
        while fs::symlink_metadata(&path).is_ok_and(|data| identity(&data) == own) {
            events.next()?;
        }
        Ok::<(), io::Error>(())
    };
    let end = move || {
        if wait().is_ok() {
            std::process::exit(1);
        }
    };
    let _ = thread::Builder::new().spawn(end);
}

fn take_at(path: &Path) -> Result<Turn, NotTaken> {
    let unknown = |why: &dyn std::fmt::Display| {
        NotTaken::Unknown(format!(
            "cannot tell whether another costof measures this machine: {}: {why} (set \
             {FOLDER_VARIABLE} to another folder, the same for all costofs of this machine)",
            path.display()
        ))
    };
    let file = open(path).map_err(|error| unknown(&error))?;
    let data = file.metadata().map_err(|error| unknown(&error))?;
    let another = &"somebody has put another file there; remove it";
    if !data.is_file() {
        return Err(unknown(another));
    }
    match file.try_lock() {
        Ok(()) if data.nlink() != 1 => Err(unknown(another)),
        Ok(()) => {
            touch(&file);
            Ok(Turn(file))
        }
        Err(TryLockError::WouldBlock) => Err(NotTaken::Held(format!(
            "{}, which holds the lock {}",
            holder(&file).unwrap_or_else(|| "another costof".to_owned()),
            path.display()
        ))),
        Err(TryLockError::Error(error)) => Err(unknown(&error)),
    }
}

/// Opens an existing file, which may belong to another user, who may have put anything there: this never follows
/// a symbolic link, nor waits for a pipe's other end. To read it is enough to lock it, except on NFS (flock(2)).
fn open(path: &Path) -> io::Result<File> {
    let existing = |write| {
        let mut options = OpenOptions::new();
        options.read(true).write(write);
        options.custom_flags(NO_FOLLOW | NO_WAIT).open(path)
    };
    loop {
        match existing(true) {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                return existing(false);
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            opened => return opened,
        }
        match create(path) {
            // Another costof has created it just now.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            created => drop(created?),
        }
    }
}

/// Makes the file new, if it may: systemd-tmpfiles removes old ones, also while they are locked, and the next costof
/// would lock another.
fn touch(file: &File) {
    let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
    let now = Timestamps { last_access: now, last_modification: now };
    let _ = futimens(file, &now);
}

/// Creates the file so that other users can lock it, from its first moment on: one who comes in between is
/// not refused. The umask is the whole process's, which has one thread here.
fn create(path: &Path) -> io::Result<File> {
    let umask = rustix::process::umask(Mode::empty());
    let created = OpenOptions::new().write(true).create_new(true).mode(0o666).open(path);
    rustix::process::umask(umask);
    created
}

/// The process that holds the lock of a file, if it can be seen from here.
fn holder(file: &File) -> Option<String> {
    let worker = holder_pid(&fs::read_to_string("/proc/locks").ok()?, &file.metadata().ok()?)?;
    // The worker's parent is what a user started, and would end: costof, or the command that ssh
    // runs.
    let status = fs::read_to_string(format!("/proc/{worker}/status")).unwrap_or_default();
    let parent = status.lines().find_map(|line| line.strip_prefix("PPid:"));
    let parent = parent.and_then(|pid| pid.trim().parse().ok());
    let pid: u32 = parent.filter(|pid| *pid > 1).unwrap_or(worker);
    let folder = PathBuf::from(format!("/proc/{pid}"));
    let user = fs::metadata(&folder).map_or_else(|_| String::new(), |data| user(data.uid()));
    let words = fs::read(folder.join("cmdline")).unwrap_or_default();
    let command = String::from_utf8_lossy(&words).replace('\0', " ");
    let command: String = command.trim().chars().take(COMMAND_MAX_CHARS).collect();
    // Of another user's process it may be hidden.
    let command = match harmless::text(&command) {
        command if command.is_empty() => command,
        command => format!(", `{command}`"),
    };
    Some(format!("process {pid}{user}{command}"))
}

/// The process in /proc/locks that has an exclusive flock(2) on this file.
fn holder_pid(locks: &str, data: &fs::Metadata) -> Option<u32> {
    let (major, minor) = (rustix::fs::major(data.dev()), rustix::fs::minor(data.dev()));
    let file = format!("{major:02x}:{minor:02x}:{}", data.ino());
    locks.lines().find_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            [_, "FLOCK", _, "WRITE", pid, at, ..] if **at == file => pid.parse().ok(),
            _ => None,
        }
    })
}

fn user(id: u32) -> String {
    let users = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let name = users.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)?.parse() == Ok(id)).then_some(name)
    });
    name.map_or_else(|| format!(" of user {id}"), |name| format!(" of {name}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::os::unix::net::UnixListener;
    use std::process::Command;
    use std::sync::{Mutex, MutexGuard, PoisonError};
    use std::time::{Duration, SystemTime};

    /// Held where the lock's file is created: the umask is the whole process's, and tests are threads of one.
    fn one_creates() -> MutexGuard<'static, ()> {
        static CREATING: Mutex<()> = Mutex::new(());
        CREATING.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn path(name: &str) -> PathBuf {
        let name = format!("costof-turn-{name}-{}.lock", std::process::id());
        std::env::temp_dir().join(name)
    }

    #[test]
    fn one_has_it_until_it_lets_go_and_the_others_learn_who() {
        let _creating = one_creates();
        let path = path("test");
        let turn = take_at(&path).unwrap();
        let NotTaken::Held(refused) = take_at(&path).unwrap_err() else {
            panic!("it is held");
        };
        let parent = costof_os::process::parent().unwrap();
        assert!(refused.starts_with(&format!("process {parent} of ")), "{refused}");
        assert!(refused.ends_with(&path.display().to_string()), "{refused}");
        drop(turn);
        // It counts as new, however old it is.
        let file = File::options().write(true).open(&path).unwrap();
        file.set_modified(SystemTime::UNIX_EPOCH).unwrap();
        // What another test is just starting has all that is open here until it executes.
        let mut tries = (0..1000).map(|_| {
            thread::sleep(Duration::from_millis(1));
            take_at(&path)
        });
        let taken = tries.find(|taken| !matches!(taken, Err(NotTaken::Held(_))));
        drop(taken.expect("nobody holds it").unwrap());
        assert!(file.metadata().unwrap().modified().unwrap() > SystemTime::UNIX_EPOCH);
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o666);
        fs::remove_file(&path).unwrap();
    }

    #[test]
    fn every_user_can_open_the_file_from_its_first_moment_on() {
        let _creating = one_creates();
        let path = path("umask");
        let umask = rustix::process::umask(Mode::from_raw_mode(0o077));
        let created = create(&path);
        // It is as it was.
        assert_eq!(rustix::process::umask(umask).as_raw_mode(), 0o077);
        let mode = created.unwrap().metadata().unwrap().permissions().mode();
        fs::remove_file(&path).unwrap();
        assert_eq!(mode & 0o777, 0o666);
    }

    #[test]
    fn another_file_under_the_locks_name_is_left_alone_and_reported() {
        let (path, other) = (path("other"), path("precious"));
        fs::write(&other, "precious").unwrap();
        fs::set_permissions(&other, PermissionsExt::from_mode(0o600)).unwrap();
        let put: [(&str, &dyn Fn()); 5] = [
            ("a symbolic link", &|| symlink(&other, &path).unwrap()),
            ("a hard link", &|| fs::hard_link(&other, &path).unwrap()),
            ("a folder", &|| fs::create_dir(&path).unwrap()),
            ("a socket", &|| drop(UnixListener::bind(&path).unwrap())),
            ("a pipe", &|| {
                assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
            }),
        ];
        for (what, put) in put {
            put();
            let refused = take_at(&path).unwrap_err();
            let is_reported =
                matches!(&refused, NotTaken::Unknown(why) if why.contains(FOLDER_VARIABLE));
            assert!(is_reported, "{what}: {refused:?}");
            let _ = fs::remove_file(&path).or_else(|_| fs::remove_dir(&path));
        }
        let data = fs::metadata(&other).unwrap();
        assert_eq!(data.permissions().mode() & 0o777, 0o600);
        fs::remove_file(&other).unwrap();
        let missing = take_at(Path::new("/nowhere/costof.lock")).unwrap_err();
        assert!(matches!(missing, NotTaken::Unknown(_)), "{missing:?}");
    }
}
