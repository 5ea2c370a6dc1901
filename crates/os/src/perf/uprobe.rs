//! A breakpoint of the kernel on a function of this process, which counts its calls.
//!
//! Source: Linux Documentation/trace/uprobetracer.rst; perf_event_open(2) on `uprobe_path` and `probe_offset` (Linux 4.17).

use std::ffi::CString;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;

use super::{Attributes, opened};
use crate::system_call::{unsupported, with_context};

/// Counts the calls of a function by this thread, until it is dropped.
#[derive(Debug)]
pub struct Uprobe(OwnedFd);

impl Uprobe {
    /// Begins to count the calls of the C library's getppid(2), in whatever file that is.
    ///
    /// # Errors
    ///
    /// `Unsupported` if the kernel has no uprobes or the function is in no file; those of perf_event_open(2), with what was tried:
    /// `EACCES` without CAP_PERFMON (before Linux 5.8 CAP_SYS_ADMIN).
    pub fn on_getppid() -> io::Result<Self> {
        let kind = fs::read_to_string("/sys/bus/event_source/devices/uprobe/type");
        let kind = kind.ok().and_then(|kind| kind.trim().parse().ok());
        let kind = kind.ok_or_else(|| unsupported("this kernel has no uprobes"))?;
        let address = (libc::getppid as *const ()).addr();
        let maps = fs::read_to_string("/proc/self/maps")?;
        let (path, offset) = in_file(&maps, address as u64)
            .ok_or_else(|| unsupported("getppid is in no file that is mapped here"))?;
        let path = CString::new(path)?;
        let attributes = Attributes {
            kind,
            size: size_of::<Attributes>() as u32,
            config1: path.as_ptr().expose_provenance() as u64,
            config2: offset,
            ..Attributes::default()
        };
        opened(&attributes, None)
            .map(Self)
            .map_err(|error| with_context("a uprobe by perf_event_open", error))
    }

    /// Calls so far.
    ///
    /// # Errors
    ///
    /// Those of read(2), which has none for open counters.
    pub fn calls(&self) -> io::Result<u64> {
        let mut count = [0; 8];
        rustix::io::read(&self.0, &mut count)?;
        Ok(u64::from_ne_bytes(count))
    }
}

/// The file that is mapped at this address, and the address in the file, by the lines of /proc/PID/maps.
fn in_file(maps: &str, address: u64) -> Option<(&str, u64)> {
    maps.lines().find_map(|line| {
        let mut fields = line.split_ascii_whitespace();
        let (start, end) = fields.next()?.split_once('-')?;
        let offset = fields.nth(1)?;
        let number = |text| u64::from_str_radix(text, 16).ok();
        let (start, end, offset) = (number(start)?, number(end)?, number(offset)?);
        let path = line.get(line.find('/')?..)?;
        (start..end).contains(&address).then_some((path, offset + address - start))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::syscalls;

    #[test]
    fn calls_are_counted() {
        match Uprobe::on_getppid() {
            Ok(uprobe) => {
                syscalls::getppid(100);
                syscalls::getpid(10);
                assert_eq!(uprobe.calls().unwrap(), 100);
            }
            Err(error) => eprintln!("checked less: {error}"),
        }
    }

    #[test]
    fn an_address_is_found_in_its_file() {
        let maps = "55e0-55f0 r--p 00000000 fe:00 12  /bin/a b\n\
                    7f00-7f80 r-xp 00000100 fe:00 13  /lib/libc.so.6\n\
                    7f80-7f90 rw-p 00000000 00:00 0\n";
        assert_eq!(in_file(maps, 0x7f10), Some(("/lib/libc.so.6", 0x110)));
        assert_eq!(in_file(maps, 0x55e1), Some(("/bin/a b", 1)));
        assert_eq!(in_file(maps, 0x7f80), None);
    }
}
