//! Whose turn it is on this machine: two costofs that measure at once would
//! measure each other.
//!
//! A lock that the kernel gives back when its holder ends, however that ends.
//! Its file lies in /tmp and is named after the machine's boot, so that machines
//! which share that folder have different ones.

use costof_os::process;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Where the file lies, whatever TMPDIR says: that is each user's, session's or
/// job's own (pam_tmpdir, batch systems), as the run-time folder of XDG is, and
/// costofs that differ in it would measure at once.
const FOLDER: &str = "/tmp";
/// Names another folder: for containers of one machine that share one, but no /tmp.
const FOLDER_VARIABLE: &str = "COSTOF_LOCK_FOLDER";
/// How much is read of what the holder says of itself, in bytes.
const HOLDER_MAX_BYTES: u64 = 200;

/// The machine is this process's until it drops this.
#[derive(Debug)]
pub struct Turn(#[expect(dead_code, reason = "it is held open")] Option<File>);

/// Takes the machine, or says who has it.
///
/// # Errors
/// Whose it is, as far as that is known, and by which file.
pub fn take() -> Result<Turn, String> {
    // Where it is not to be read, all such machines have one name.
    let boot = crate::facts::boot_id().unwrap_or_default();
    let folder = std::env::var_os(FOLDER_VARIABLE).map_or_else(|| FOLDER.into(), PathBuf::from);
    take_at(&folder.join(format!("costof-{boot}.lock")))
}

fn take_at(path: &Path) -> Result<Turn, String> {
    // A machine on which there can be no such file is measured all the same.
    let Ok(mut file) = open(path) else {
        return Ok(Turn(None));
    };
    match file.try_lock() {
        Ok(()) => {
            // Only the description of the holder depends on it.
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

/// Opened without making it where it is there, since the kernel lets nobody
/// make anew what another user has made in such a folder
/// (fs.protected_regular); never through a link that somebody has laid there.
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
    // So that other users can lock it too; it may be another's by now.
    let _ = file.set_permissions(PermissionsExt::from_mode(0o666));
    Ok(file)
}

fn introduce(file: &mut File) -> io::Result<()> {
    let data = file.metadata()?;
    if !data.is_file() || data.nlink() != 1 {
        // Somebody has laid another file there under this name: it stays as it is.
        return Ok(());
    }
    // Services and containers have no such variable.
    let number = || std::fs::metadata("/proc/self").map_or(0, |own| own.uid());
    let user = std::env::var("USER").unwrap_or_else(|_| format!("user {}", number()));
    // The worker's parent is what somebody started, and would end: costof, or what ssh runs for it.
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

/// What the holder says of itself: no more than a line, and nothing that would
/// move a terminal's cursor, since anybody may have written it.
fn holder(file: &mut File) -> String {
    let mut bytes = Vec::new();
    // Of a pipe that somebody has laid there, reading would never end.
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
