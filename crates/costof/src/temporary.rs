//! Temporary files, and signals: one that ends costof leaves no such file.

use crate::error::INTERRUPTED;
use costof_os::process;
use costof_os::process::command::end_adopted;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The files that this process made and has not removed or renamed yet, as [`Temporary`] names them.
static TEMPORARY: Mutex<Vec<(PathBuf, Identity)>> = Mutex::new(Vec::new());

/// The device and number of a file, which its name does not decide: another process may have given that to another
/// file.
pub(crate) type Identity = (u64, u64);

pub(crate) fn identity(data: &Metadata) -> Identity {
    (data.dev(), data.ino())
}

fn temporary() -> MutexGuard<'static, Vec<(PathBuf, Identity)>> {
    TEMPORARY.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The name of a new file that is removed when this is dropped, or a signal ends costof.
pub(crate) struct Temporary {
    own: Identity,
    /// While it is open, no other file gets its number.
    pub(crate) file: File,
}

impl Temporary {
    /// Creates a file that does not exist yet, to write to it.
    pub(crate) fn create(path: &Path, options: &mut OpenOptions) -> io::Result<Temporary> {
        // Fails where a command watches for signals itself, and removes these files then.
        let _ = on_signals(|| end_at_once());
        // A signal waits until the name is noted.
        let mut all = temporary();
        let file = options.write(true).create_new(true).open(path)?;
        let own = identity(&file.metadata()?);
        all.push((path.to_owned(), own));
        Ok(Temporary { own, file })
    }

    /// Gives the file this name instead, which it keeps.
    pub(crate) fn keep_as(self, path: &Path) -> io::Result<()> {
        let mut all = temporary();
        let position = all.iter().position(|(_, own)| *own == self.own);
        let position = position.expect("it is noted until this is dropped");
        fs::rename(&all[position].0, path)?;
        all.swap_remove(position);
        Ok(())
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let mut all = temporary();
        if let Some(position) = all.iter().position(|(_, own)| *own == self.own) {
            remove(&all.swap_remove(position));
        }
    }
}

/// Removes a file of this process, and no other that has its name by now.
fn remove((path, own): &(PathBuf, Identity)) {
    if fs::symlink_metadata(path).is_ok_and(|data| identity(&data) == *own) {
        let _ = fs::remove_file(path);
    }
}

/// Ends costof because of a signal, without its temporary files, and the commands that it measures.
pub(crate) fn end_at_once() -> ! {
    end_adopted();
    // Until the end, so that no other is created.
    let all = temporary();
    all.iter().for_each(remove);
    std::process::exit(INTERRUPTED.into());
}

/// Calls a handler at each INT, TERM and HUP, except HUP under nohup(1). Only the first call has an effect.
pub(crate) fn on_signals(handler: impl FnMut() + Send + 'static) -> Result<(), ctrlc::Error> {
    let has_nohup = process::ignores_hangup();
    ctrlc::set_handler(handler)?;
    if has_nohup {
        process::ignore_hangup();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_temporary_file_goes_and_what_another_put_in_its_place_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        let create = || Temporary::create(&path, &mut File::options()).unwrap();
        drop(create());
        assert!(!path.exists());
        let own = create();
        fs::remove_file(&path).unwrap();
        fs::write(&path, "another's").unwrap();
        drop(own);
        assert_eq!(fs::read_to_string(&path).unwrap(), "another's");
        assert!(Temporary::create(&path, &mut File::options()).is_err());
    }
}
