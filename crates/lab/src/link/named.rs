//! Names for the two ends of a link, by which people enter them with `ip netns exec`.
//!
//! One process at a time has the names. If it is killed they stay, being mounts, until the next
//! process takes them.

use crate::link::Made;
use crate::link::ends::succeed;
use costof_model::Link;
use costof_model::link::named::{LEADING, OTHER, RECORD};
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::process::{Command, Stdio};

const ROOT: &str = " (costof link needs root: its namespaces have names, which are mounts)";

/// The names of a link's ends, until this is dropped.
#[derive(Debug)]
pub struct Names {
    /// The record of the link, which tells `costof send` what it goes over. The kernel releases its
    /// lock when this closes.
    _record: File,
}

impl Names {
    /// Takes the names for a link, also from one whose process was killed.
    ///
    /// # Errors
    /// If another process has them, or this one is not root.
    pub fn take(link: &Link) -> Result<Names, String> {
        let mut record = locked().map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock => {
                "a link is up already: end its costof link first (Ctrl-C)".to_owned()
            }
            _ => format!("cannot lock {RECORD}: {error}{ROOT}"),
        })?;
        remove_names();
        let text = serde_json::json!({ "link": link.to_string() });
        let written = record.set_len(0).and_then(|()| write!(record, "{text}"));
        let names = Names { _record: record };
        written.map_err(|error| format!("cannot write {RECORD}: {error}"))?;
        Ok(names)
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

/// The record, locked by this process.
fn locked() -> io::Result<File> {
    loop {
        let record = File::options().write(true).create(true).truncate(false).open(RECORD)?;
        record.try_lock()?;
        // Who had the lock may just have removed the file.
        let inode = record.metadata()?.ino();
        if fs::metadata(RECORD).is_ok_and(|named| named.ino() == inode) {
            return Ok(record);
        }
    }
}

/// There may be none.
fn remove_names() {
    for name in [LEADING, OTHER] {
        let mut delete = Command::new("ip");
        delete.args(["netns", "delete", name]).stdin(Stdio::null());
        let _ = delete.stdout(Stdio::null()).stderr(Stdio::null()).status();
    }
}
