//! Tracepoints of the kernel, looked up by name.

use std::fs;
use std::io::{self, Read};
use std::path::Path;

use rustix::fs::{Mode, OFlags, openat};
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};

use super::Event;
use crate::system_call::with_context;

/// The tracepoint of that name, to be counted in a [`Group`](super::Group): `tracepoint("raw_syscalls",
/// "sys_enter")` counts system calls.
///
/// Its number is read from tracefs, if that is mounted (/sys/kernel/tracing, /sys/kernel/debug/tracing),
/// otherwise from an instance that is attached to no path and vanishes here (Linux 5.2, needs CAP_SYS_ADMIN).
///
/// # Errors
///
/// `NotFound` if there is no tracefs or it has no such tracepoint; `PermissionDenied` if only root may read
/// it; `InvalidInput` for names with a slash.
pub fn tracepoint(category: &str, name: &str) -> io::Result<Event> {
    let explained = |error: io::Error| {
        with_context(format_args!("cannot find tracepoint {category}:{name}"), error)
    };
    if [category, name].iter().any(|part| part.contains(['/', '\0']) || *part == "..") {
        return Err(explained(io::ErrorKind::InvalidInput.into()));
    }
    let file = format!("events/{category}/{name}/id");
    let mut folders =
        ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"].map(Path::new).into_iter();
    let text = match folders.find(|folder| folder.join("events").exists()) {
        Some(folder) => fs::read_to_string(folder.join(&file)),
        None => read_in_detached_tracefs(&file),
    };
    let number = text.map_err(explained)?.trim().parse();
    number.map(Event::Tracepoint).map_err(|_| explained(io::ErrorKind::InvalidData.into()))
}

/// Reads a file of tracefs through a mount that no path leads to and that ends with its
/// descriptor.
fn read_in_detached_tracefs(file: &str) -> io::Result<String> {
    let mount = || {
        let context = fsopen("tracefs", FsOpenFlags::FSOPEN_CLOEXEC)?;
        fsconfig_create(&context)?;
        let flags = FsMountFlags::FSMOUNT_CLOEXEC;
        fsmount(&context, flags, MountAttrFlags::MOUNT_ATTR_RDONLY)
    };
    let root = mount().map_err(|error| {
        with_context(
            "tracefs is not readable at /sys/kernel/tracing (mount it there as root) and cannot be \
             opened by itself",
            error,
        )
    })?;
    let opened = openat(&root, file, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    let mut text = String::new();
    fs::File::from(opened).read_to_string(&mut text)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tracepoint_that_is_not_there_is_named() {
        let error = tracepoint("no_such", "thing").unwrap_err().to_string();
        assert!(error.contains("no_such:thing"), "{error}");
        assert!(tracepoint("../..", "id").is_err());
    }
}
