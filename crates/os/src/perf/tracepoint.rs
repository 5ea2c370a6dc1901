//! Tracepoints of the kernel, looked up by name.

use std::fs;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;

use rustix::fs::{Mode, OFlags, openat};
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};

use super::selector::{CorePmu, Selector};
use super::{Event, open_counter};
use crate::system_call::{check, with_context};

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
    let number = read(category, name, "id")?.trim().parse();
    number.map(Event::Tracepoint).map_err(|_| explained(category, name, io::ErrorKind::InvalidData))
}

/// What a tracepoint's record holds, as tracefs describes it.
#[derive(Debug)]
pub(crate) struct Format {
    event: Event,
    text: String,
}

impl Format {
    /// The format of a tracepoint.
    ///
    /// # Errors
    ///
    /// Those of [`tracepoint()`].
    pub(crate) fn read(category: &str, name: &str) -> io::Result<Self> {
        Ok(Self { event: tracepoint(category, name)?, text: read(category, name, "format")? })
    }

    /// Where a field begins, bytes.
    ///
    /// # Errors
    ///
    /// `NotFound` without such a field.
    pub(crate) fn offset(&self, field: &str) -> io::Result<i16> {
        let of_field = |line: &&str| {
            let declaration = line.trim_start().strip_prefix("field:");
            let declaration = declaration.and_then(|rest| rest.split([';', '[']).next());
            declaration.and_then(|words| words.split(' ').next_back()) == Some(field)
        };
        let line = self.text.lines().find(of_field);
        let offset = line.and_then(|line| line.split("offset:").nth(1)?.split(';').next());
        offset.and_then(|offset| offset.parse().ok()).ok_or_else(|| {
            io::Error::new(
                io::ErrorKind::NotFound,
                format!("the tracepoint's record has no {field}"),
            )
        })
    }

    /// Runs an eBPF program of type tracepoint at each hit, in every process of the machine, until this is dropped.
    ///
    /// # Errors
    ///
    /// Those of perf_event_open(2) and of ioctl(2) with `PERF_EVENT_IOC_SET_BPF`.
    pub(crate) fn attach(&self, program: &OwnedFd) -> io::Result<OwnedFd> {
        const SET_BPF: libc::Ioctl = 0x4004_2408;
        let selector = Selector::new(self.event, &CorePmu::here())?;
        let event = open_counter(selector, false, None)?;
        // SAFETY: the request takes the number of a descriptor; both are open.
        check(unsafe { libc::ioctl(event.as_raw_fd(), SET_BPF, program.as_raw_fd()) })?;
        Ok(event)
    }
}

/// Reads a file of a tracepoint.
fn read(category: &str, name: &str, file: &str) -> io::Result<String> {
    if [category, name].iter().any(|part| part.contains(['/', '\0']) || *part == "..") {
        return Err(explained(category, name, io::ErrorKind::InvalidInput));
    }
    let file = format!("events/{category}/{name}/{file}");
    let mut folders =
        ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"].map(Path::new).into_iter();
    let text = match folders.find(|folder| folder.join("events").exists()) {
        Some(folder) => fs::read_to_string(folder.join(&file)),
        None => read_in_detached_tracefs(&file),
    };
    text.map_err(|error| explained(category, name, error))
}

fn explained(category: &str, name: &str, error: impl Into<io::Error>) -> io::Error {
    with_context(format_args!("cannot find tracepoint {category}:{name}"), error)
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

    #[test]
    fn the_fields_of_a_record_are_found_by_their_names() {
        let text = "name: x\nformat:\n\tfield:char comm[16];\toffset:8;\tsize:16;\tsigned:0;\n\
                    \tfield:pid_t pid;\toffset:24;\tsize:4;\tsigned:1;\n";
        let format = Format { event: Event::Tracepoint(1), text: text.to_owned() };
        assert_eq!(format.offset("comm").unwrap(), 8);
        assert_eq!(format.offset("pid").unwrap(), 24);
        assert!(format.offset("id").unwrap_err().to_string().contains("has no id"));
    }
}
