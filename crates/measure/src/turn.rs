//! Which costof may measure on this machine: two that measure at once would measure each other.
//!
//! A lock that the kernel releases when its holder ends, however it ends. Its file lies in /tmp and
//! is named after the machine's boot, so that machines that share the folder have different files.

use costof_os::process;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Where the file lies, regardless of TMPDIR. TMPDIR, and the run-time folder of XDG, belong to one
/// user, session or job (pam_tmpdir, batch systems); processes with different ones would measure at
/// once.
const FOLDER: &str = "/tmp";
/// Names another folder: for containers of one machine that share a folder other than /tmp.
const FOLDER_VARIABLE: &str = "COSTOF_LOCK_FOLDER";
/// How much of the holder's description of itself is read, in bytes.
const HOLDER_MAX_BYTES: u64 = 200;

/// This process may measure on the machine until it drops this.
#[derive(Debug)]
pub struct Turn(#[expect(dead_code, reason = "it is held open")] Option<File>);

/// Takes the lock, or reports who holds it.
///
/// # Errors
/// The holder, as far as it is known, and the path of the file.
pub fn take() -> Result<Turn, String> {
    // Machines on which the boot id cannot be read share one name.
    let boot = crate::facts::boot_id().unwrap_or_default();
    let folder = std::env::var_os(FOLDER_VARIABLE).map_or_else(|| FOLDER.into(), PathBuf::from);
    take_at(&folder.join(format!("costof-{boot}.lock")))
}

fn take_at(path: &Path) -> Result<Turn, String> {
    // If no such file can be created, the measurement goes on without the lock.
    let Ok(mut file) = open(path) else {
        return Ok(Turn(None));
    };
    match file.try_lock() {
        Ok(()) => {
            // Best effort: if this fails, only the description of the holder is missing.
            let _ = introduce(&mut file);
            Ok(Turn(Some(file)))
        }
        Err(TryLockError::WouldBlock) => Err(format!(
            "{}, which holds the lock {}",
            holder(&mut file),
            path.display()
        )),
        Err(TryLockError::Error(_)) => Ok(Turn(None)),
    }
}

/// Opens an existing file without `O_CREAT`: in such a folder, the kernel does not let a user
/// create a file that another user has created (fs.protected_regular). Never follows a symbolic
/// link that somebody placed there.
fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options
        .read(true)
        .write(true)
        .custom_flags(process::NO_FOLLOW);
    match options.open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        opened => return opened,
    }
    let file = options.create(true).open(path)?;
    // So that other users can lock it too. The file may belong to another user by now.
    let _ = file.set_permissions(PermissionsExt::from_mode(0o666));
    Ok(file)
}

fn introduce(file: &mut File) -> io::Result<()> {
    let data = file.metadata()?;
    if !data.is_file() || data.nlink() != 1 {
        // Somebody placed another file there under this name; it stays as it is.
        return Ok(());
    }
    // Services and containers have no such variable.
    let number = || std::fs::metadata("/proc/self").map_or(0, |own| own.uid());
    let user = std::env::var("USER").unwrap_or_else(|_| format!("user {}", number()));
    // The worker's parent is what a user started, and would end: costof, or the command that ssh
    // runs.
    let parent = process::parent().and_then(|pid| {
        let words = std::fs::read(format!("/proc/{pid}/cmdline")).ok()?;
        let command = String::from_utf8_lossy(&words).replace('\0', " ");
        Some((pid as u32, format!(", `{}`", command.trim())))
    });
    let (pid, command) = parent.unwrap_or_else(|| (std::process::id(), String::new()));
    file.set_len(0)?;
    file.rewind()?;
    write!(file, "process {pid} of {user}{command}")
}

/// What the holder says of itself: at most one line, without control characters that would move a
/// terminal's cursor, since anybody may have written it.
fn holder(file: &mut File) -> String {
    let mut bytes = Vec::new();
    // Reading from a pipe that somebody placed there would never end.
    if file.metadata().is_ok_and(|data| data.is_file()) {
        // What could be read before an error counts.
        let _ = file.take(HOLDER_MAX_BYTES).read_to_end(&mut bytes);
    }
    if bytes.is_empty() {
        return "another costof".to_owned();
    }
    let text = String::from_utf8_lossy(&bytes);
    text.chars().filter(|c| !c.is_control()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_has_it_until_it_lets_go_and_the_others_learn_who() {
        let name = format!("costof-turn-test-{}.lock", std::process::id());
        let path = std::env::temp_dir().join(name);
        let turn = take_at(&path).unwrap();
        let refused = take_at(&path).unwrap_err();
        let parent = format!("process {} of ", process::parent().unwrap());
        assert!(refused.starts_with(&parent), "{refused}");
        assert!(refused.ends_with(&path.display().to_string()), "{refused}");
        drop(turn);
        take_at(&path).unwrap();
        // What is another file under its name is not written to.
        let other = path.with_extension("other");
        std::fs::hard_link(&path, &other).unwrap();
        std::fs::write(&other, "precious").unwrap();
        drop(take_at(&path).unwrap());
        assert_eq!(std::fs::read_to_string(&other).unwrap(), "precious");
        std::fs::remove_file(&other).unwrap();
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn a_pipe_under_the_locks_name_is_not_waited_for() {
        let name = format!("costof-turn-pipe-{}.lock", std::process::id());
        let path = std::env::temp_dir().join(name);
        let made = std::process::Command::new("mkfifo").arg(&path).status();
        assert!(made.unwrap().success());
        let pipe = open(&path).unwrap();
        pipe.lock().unwrap();
        let refused = take_at(&path).unwrap_err();
        assert!(refused.starts_with("another costof, "), "{refused}");
        std::fs::remove_file(&path).unwrap();
    }
}
