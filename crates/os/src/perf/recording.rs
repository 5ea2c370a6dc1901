//! Records of perf events of the calling thread, in memory where the newest overwrite the oldest.
//!
//! Source: perf_event_open(2) on `mmap` and overflow; Linux include/uapi/linux/perf_event.h.

use std::io;
use std::os::fd::OwnedFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{Attributes, Event, FLAG_EXCLUDE_HYPERVISOR, explained, opened};
use crate::memory::arena::base_page_bytes;
use crate::perf::selector::{CorePmu, Selector};
use crate::system_call::unsupported;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

/// What is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recorded {
    /// Each hit of a tracepoint, with its arguments.
    Each(Event),
    /// Where the thread is, as many times a second of its CPU time (Hz), as perf record does by default.
    Samples(u64),
}

/// Records, until this is dropped.
#[derive(Debug)]
pub struct Recording {
    memory: NonNull<u64>,
    bytes: usize,
    _event: OwnedFd,
}

/// Pages of records after the first page, which describes them; a power of two.
const PAGES: usize = 64;

impl Recording {
    /// Begins at once.
    ///
    /// # Errors
    ///
    /// Those of perf_event_open(2), with what to do about them; of mmap(2): `EPERM` beyond perf_event_mlock_kb.
    pub fn start(recorded: Recorded) -> io::Result<Self> {
        const FREQUENCY: u64 = 1 << 10;
        const CLOCK: Event = Event::TaskClock;
        /// `PERF_SAMPLE_IP`, `TID`, `TIME` and `PERIOD`; `RAW` are the arguments of a tracepoint.
        const SAMPLE: u64 = 1 | 1 << 1 | 1 << 2 | 1 << 8;
        const RAW: u64 = 1 << 10;
        let (event, period, what, flags) = match recorded {
            Recorded::Each(event) => (event, 1, SAMPLE | RAW, 0),
            Recorded::Samples(hz) => (CLOCK, hz, SAMPLE, FREQUENCY),
        };
        let selector = Selector::new(event, &CorePmu::here())?;
        let attributes = Attributes {
            kind: selector.kind,
            size: size_of::<Attributes>() as u32,
            config: selector.config,
            sample_period: period,
            sample_type: what,
            flags: flags | FLAG_EXCLUDE_HYPERVISOR,
            ..Attributes::default()
        };
        let opened = opened(&attributes, None).map_err(|error| explained(event, error))?;
        let bytes = (1 + PAGES) * base_page_bytes();
        // SAFETY: a new mapping at an address that the kernel chooses. As it cannot be written to, the kernel overwrites.
        let memory = unsafe {
            mmap(std::ptr::null_mut(), bytes, ProtFlags::READ, MapFlags::SHARED, &opened, 0)
        };
        let memory = memory.map_err(|error| {
            unsupported(format!("no memory for records: {error} (kernel.perf_event_mlock_kb)"))
        })?;
        let memory = NonNull::new(memory.cast()).expect("nothing is mapped at 0");
        Ok(Self { memory, bytes, _event: opened })
    }

    /// Bytes of records so far.
    pub fn recorded_bytes(&self) -> u64 {
        /// Where `data_head` is in the first page, in words.
        const DATA_HEAD: usize = 1024 / size_of::<u64>();
        // SAFETY: the word lies in the mapping and is aligned; the kernel alone writes it, at once.
        unsafe { AtomicU64::from_ptr(self.memory.as_ptr().add(DATA_HEAD)) }.load(Ordering::Acquire)
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        // SAFETY: the mapping is this one's own, and nothing refers to it.
        let _ = unsafe { munmap(self.memory.as_ptr().cast(), self.bytes) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::perf::tracepoint;
    use crate::process::syscalls::getppid;

    #[test]
    fn each_call_is_recorded() {
        let event = match tracepoint("raw_syscalls", "sys_enter") {
            Ok(event) => event,
            Err(error) => return eprintln!("checked less: {error}"),
        };
        match Recording::start(Recorded::Each(event)) {
            Ok(recording) => {
                let before = recording.recorded_bytes();
                getppid(1000);
                assert!(recording.recorded_bytes() - before >= 1000 * 32);
            }
            Err(error) => eprintln!("checked less: {error}"),
        }
    }
}
