//! An overlay file system as containers have it: a layer in memory, and an empty one above it that takes changes.
//!
//! It is mounted in a mount namespace of the calling process alone, so nothing of it is left when that ends.
//!
//! Source: Linux Documentation/filesystems/overlayfs.rst; mount_namespaces(7).

use std::ffi::{CStr, CString};
use std::fs;
use std::io;

use crate::process::namespace::become_root_of_new_user_namespace;
use crate::system_call::with_context;
use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};
use rustix::thread::{UnshareFlags, unshare_unsafe};

/// A file, by two paths.
#[derive(Debug)]
pub struct Overlaid {
    /// In the layer itself.
    pub below: CString,
    /// Through the overlay.
    pub through: CString,
}

/// Moves the process, which must have one thread, into a mount namespace of its own, whose /tmp has such a file. An ordinary
/// user gets a user namespace besides.
///
/// # Errors
///
/// Those of unshare(2) and mount(2), with what was tried: `EPERM` without CAP_SYS_ADMIN where ordinary users may not create user
/// namespaces, `ENODEV` without overlayfs (ordinary users: Linux 5.11).
pub fn mount_overlay() -> io::Result<Overlaid> {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        become_root_of_new_user_namespace()
            .map_err(|error| with_context("a user namespace", error))?;
    }
    // SAFETY: a mount namespace for this process, which has one thread: no memory or descriptor is unshared.
    unsafe { unshare_unsafe(UnshareFlags::NEWNS) }
        .map_err(|error| with_context("a mount namespace", error))?;
    let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    mount_change("/", private).map_err(|error| with_context("making mounts private", error))?;
    let none = MountFlags::empty();
    mount("tmpfs", "/tmp", "tmpfs", none, None)
        .map_err(|error| with_context("mounting a tmpfs at /tmp", error))?;
    for folder in ["lower", "upper", "work", "through"] {
        fs::create_dir(format!("/tmp/{folder}"))?;
    }
    fs::write("/tmp/lower/file", "content")?;
    const LAYERS: &CStr = c"lowerdir=/tmp/lower,upperdir=/tmp/upper,workdir=/tmp/work";
    const OF_USER: &CStr = c"lowerdir=/tmp/lower,upperdir=/tmp/upper,workdir=/tmp/work,userxattr";
    let layers = if is_root { LAYERS } else { OF_USER };
    mount("overlay", "/tmp/through", "overlay", none, layers)
        .map_err(|error| with_context("mounting an overlay file system", error))?;
    Ok(Overlaid { below: c"/tmp/lower/file".to_owned(), through: c"/tmp/through/file".to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::tests::child;

    #[test]
    fn the_file_is_there_by_both_paths_and_gone_with_the_process() {
        let output = child("overlay::tests::child_with_an_overlay").output().unwrap();
        assert!(output.status.success(), "{output:?}");
        assert!(!fs::exists("/tmp/through/file").unwrap());
    }

    #[test]
    #[ignore = "the child of another test"]
    fn child_with_an_overlay() {
        // The harness runs a test in a second thread, which only root may move alone.
        match mount_overlay() {
            Ok(Overlaid { below, through }) => {
                for path in [below, through] {
                    let content = fs::read_to_string(path.to_str().unwrap()).unwrap();
                    assert_eq!(content, "content");
                }
            }
            Err(error) => eprintln!("checked less: {error}"),
        }
    }
}
