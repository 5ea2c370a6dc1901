//! Names for the two ends of a link, by which people enter them with `ip netns exec`.
//!
//! One process at a time has the names. If it is killed they stay, being mounts, until the next
//! process takes them.

use crate::link::Made;
use crate::link::ends::succeed;
use costof_model::Link;
use costof_model::link::named::{LEADING, OTHER, RECORD};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

const LOCK: &str = "/run/costof-link.lock";
const ROOT: &str = " (costof link needs root: its namespaces have names, which are mounts)";

/// The names of a link's ends, until this is dropped.
#[derive(Debug)]
pub struct Names {
    /// Nobody else can open it, so nobody else can keep the names. The kernel releases the lock when this closes.
    _lock: File,
}

impl Names {
    /// Takes the names for a link, also from one whose process was killed.
    ///
    /// # Errors
    /// If another process has them, if namespaces of these names are not costof's, or if this process is not root.
    pub fn take(link: &Link) -> Result<Names, String> {
        let lock = locked().map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock => {
                "a link is up already: end its costof link first (Ctrl-C)".to_owned()
            }
            _ => format!("cannot lock {LOCK}: {error}{ROOT}"),
        })?;
        // One that was killed has left its record too.
        if fs::exists(RECORD).is_ok_and(|is_there| is_there) {
            remove_names();
        }
        let is_there = |name: &&str| Path::new("/run/netns").join(name).exists();
        if let Some(name) = [LEADING, OTHER].into_iter().find(is_there) {
            return Err(format!(
                "no costof link has made the network namespace {name}: remove it first (ip netns delete {name})"
            ));
        }
        let text = serde_json::json!({ "link": link.to_string() }).to_string();
        fs::write(RECORD, text).map_err(|error| format!("cannot write {RECORD}: {error}"))?;
        Ok(Names { _lock: lock })
    }

    /// Gives them to the ends of this link.
    ///
    /// # Errors
    /// If ip(8) cannot do it.
    pub fn give_to(&self, made: &Made) -> Result<(), String> {
        for (name, end) in [(LEADING, &made.near), (OTHER, &made.far)] {
            let namespace = end.namespace.as_ref().ok_or("this link has no namespaces")?;
            // It attaches the namespace in which it runs.
            let mut attach = Command::new("sh");
            attach.args(["-c", "exec ip netns attach \"$0\" $$", name]);
            succeed(namespace, attach, "").map_err(|reason| reason + ROOT)?;
        }
        Ok(())
    }
}

impl Drop for Names {
    fn drop(&mut self) {
        remove_names();
        let _ = fs::remove_file(RECORD);
    }
}

/// The lock, taken by this process. The file stays, so that no two processes lock different ones.
fn locked() -> io::Result<File> {
    let lock = File::options().write(true).create(true).truncate(false).mode(0o600).open(LOCK)?;
    lock.try_lock()?;
    Ok(lock)
}

/// There may be none.
fn remove_names() {
    for name in [LEADING, OTHER] {
        let mut delete = Command::new("ip");
        delete.args(["netns", "delete", name]).stdin(Stdio::null());
        let _ = delete.stdout(Stdio::null()).stderr(Stdio::null()).status();
    }
}
