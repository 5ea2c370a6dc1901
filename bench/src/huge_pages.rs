//! Huge pages that programs may ask for by name, as fio does.

use crate::error::{OrCannot, Result};
use std::fs;

/// As many as fio's memory may take.
const COUNT: u64 = 4;
const FILE: &str = "/proc/sys/vm/nr_hugepages";

/// Reserved huge pages; as many as before when it is dropped.
pub(crate) struct Reserved {
    before: u64,
}

impl Reserved {
    /// Errors: this process may not reserve them.
    pub(crate) fn new() -> Result<Reserved> {
        let action = format!("reserve huge pages for fio, by {FILE} as root");
        let before: u64 =
            fs::read_to_string(FILE).or_cannot(&action)?.trim().parse().or_cannot(&action)?;
        fs::write(FILE, (before + COUNT).to_string()).or_cannot(&action)?;
        Ok(Reserved { before })
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        let before = self.before;
        if let Err(error) = fs::write(FILE, before.to_string()) {
            eprintln!("{FILE} stays as it is, and was {before}: {error}");
        }
    }
}
