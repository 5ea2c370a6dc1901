//! What the kernel counts for a thread or a process: CPU time, page faults, context switches.
//!
//! Source: getrusage(2), proc_pid_io(5). `RUSAGE_THREAD` is Linux 2.6.26.

use std::fs;
use std::io;
use std::mem::MaybeUninit;

use crate::system_call::with_context;

/// Counts since the thread or process began.
///
/// Times are as fine as the kernel's accounting: if it counts ticks, some milliseconds (use
/// [`crate::cpu::clock::ClockId::ThreadCpu`] for a fine total).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// CPU time in user space, nanoseconds (microsecond resolution at best).
    pub user_ns: u64,
    /// CPU time in the kernel, nanoseconds (microsecond resolution at best).
    pub system_ns: u64,
    /// Page faults served without input or output.
    pub minor_faults: u64,
    /// Page faults that read from a disk.
    pub major_faults: u64,
    /// Context switches because it waited for something.
    pub voluntary_switches: u64,
    /// Context switches because something else got the CPU.
    pub involuntary_switches: u64,
    /// The largest resident set so far, in bytes; always the whole process's.
    pub max_rss_bytes: u64,
}

impl Usage {
    /// CPU time in user space and in the kernel, nanoseconds.
    pub fn cpu_ns(&self) -> u64 {
        self.user_ns + self.system_ns
    }

    /// What was added since an earlier reading; the largest resident set is not a count and stays the same.
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            user_ns: self.user_ns.saturating_sub(earlier.user_ns),
            system_ns: self.system_ns.saturating_sub(earlier.system_ns),
            minor_faults: self.minor_faults - earlier.minor_faults,
            major_faults: self.major_faults - earlier.major_faults,
            voluntary_switches: self.voluntary_switches - earlier.voluntary_switches,
            involuntary_switches: self.involuntary_switches - earlier.involuntary_switches,
            max_rss_bytes: self.max_rss_bytes,
        }
    }
}

/// The calling thread's usage. Cannot fail.
#[inline]
pub fn thread() -> Usage {
    usage(libc::RUSAGE_THREAD)
}

/// The usage of children that have ended and were waited for, and of theirs.
/// Cannot fail.
#[inline]
pub fn children() -> Usage {
    usage(libc::RUSAGE_CHILDREN)
}

/// How many bytes were read from devices for the calling thread so far, as /proc/thread-self/io reports
/// (Linux 3.17, CONFIG_TASK_IO_ACCOUNTING). Allocates.
///
/// # Errors
///
/// When that file cannot be read or does not say.
pub fn device_read_bytes() -> io::Result<u64> {
    device_bytes("/proc/thread-self/io", "read_bytes:")
}

/// How many bytes were read from devices for this process so far, by all its threads, including those of
/// io_uring. As [`device_read_bytes`].
///
/// # Errors
///
/// When /proc/self/io cannot be read or does not say.
pub fn process_read_bytes() -> io::Result<u64> {
    device_bytes("/proc/self/io", "read_bytes:")
}

/// How many bytes this process has caused to be written to devices so far: dirtied in the page cache, or
/// written past it. As [`process_read_bytes`].
pub fn process_written_bytes() -> io::Result<u64> {
    device_bytes("/proc/self/io", "write_bytes:")
}

/// A count in such a file. A process may read its own.
fn device_bytes(file: &str, name: &str) -> io::Result<u64> {
    let counts = fs::read_to_string(file).map_err(|error| {
        with_context(format_args!("{file} (the kernel needs CONFIG_TASK_IO_ACCOUNTING)"), error)
    })?;
    counts
        .lines()
        .find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
        .ok_or_else(|| io::Error::other(format!("{file} has no {name}")))
}

/// How often the calling thread has moved to another CPU, from /proc/thread-self/sched (Linux 3.17); `None`
/// if the kernel does not report it (`CONFIG_SCHED_DEBUG`). Allocates.
pub fn migrations() -> Option<u64> {
    migrations_in(&fs::read_to_string("/proc/thread-self/sched").ok()?)
}

/// `se.nr_migrations` of that file.
fn migrations_in(text: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.contains("nr_migrations"))?;
    line.rsplit(':').next()?.trim().parse().ok()
}

fn usage(whose: libc::c_int) -> Usage {
    let mut raw = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: `raw` is a valid rusage to write to.
    let status = unsafe { libc::getrusage(whose, raw.as_mut_ptr()) };
    debug_assert_eq!(status, 0, "every kind of usage always exists");
    // SAFETY: a rusage of zeroes is valid, and the kernel has filled it in since.
    Usage::from_raw(&unsafe { raw.assume_init() })
}

impl Usage {
    pub(crate) fn from_raw(raw: &libc::rusage) -> Self {
        Self {
            user_ns: nanoseconds(raw.ru_utime),
            system_ns: nanoseconds(raw.ru_stime),
            minor_faults: raw.ru_minflt.cast_unsigned(),
            major_faults: raw.ru_majflt.cast_unsigned(),
            voluntary_switches: raw.ru_nvcsw.cast_unsigned(),
            involuntary_switches: raw.ru_nivcsw.cast_unsigned(),
            max_rss_bytes: raw.ru_maxrss.cast_unsigned() * 1024,
        }
    }
}

fn nanoseconds(time: libc::timeval) -> u64 {
    time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_usec.cast_unsigned() * 1_000
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::arena::{Arena, PageSize, base_page_bytes};
    use std::thread::sleep;
    use std::time::Duration;

    #[test]
    fn migrations_are_read_where_the_kernel_tells() {
        let text = "worker (5, #threads: 2)\n---\nse.nr_migrations   :     17\nnr_switches : 4\n";
        assert_eq!(migrations_in(text), Some(17));
        assert_eq!(migrations_in("nothing"), None);
    }

    #[test]
    fn sleeping_is_a_voluntary_switch() {
        let before = thread();
        for _ in 0..5 {
            sleep(Duration::from_millis(1));
        }
        let used = thread().since(&before);
        // A thread that is preempted just before it sleeps does not switch of its own will.
        assert!(used.voluntary_switches > 0, "{used:?}");
        assert!(used.max_rss_bytes > 0);
    }

    #[test]
    fn first_touches_are_minor_faults() {
        const PAGES: usize = 64;
        let bytes = PAGES * base_page_bytes();
        let mut arena = Arena::map(bytes, PageSize::Base).unwrap();
        let before = thread();
        for byte in arena.as_mut_slice().iter_mut().step_by(base_page_bytes()) {
            *byte = 1;
        }
        let used = thread().since(&before);
        assert!(used.minor_faults >= PAGES as u64, "{used:?}");
    }
}
