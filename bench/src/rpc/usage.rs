//! What an end has used, by what the kernel counts of its threads.

use std::fs;
use std::ops::Sub;
use std::path::Path;

/// What all threads of a process have used so far.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Usage {
    /// Time on a processor, of which the kernel's work for its calls is a part.
    pub(super) cpu_ns: f64,
    /// How often a thread went to sleep: each time another one, or the kernel, has to wake it.
    pub(super) sleeps: f64,
    /// How often a thread had to leave the processor to another one.
    pub(super) pushed_off: f64,
    /// How many threads there are.
    pub(super) threads: f64,
}

impl Usage {
    /// Of the process with this id; what cannot be read counts nothing.
    pub(super) fn of(process: u32) -> Usage {
        let threads = fs::read_dir(format!("/proc/{process}/task"));
        let threads = threads.into_iter().flatten().flatten();
        threads.fold(Usage::default(), |all, thread| {
            all.with(&thread.path()).unwrap_or(all)
        })
    }

    fn with(self, thread: &Path) -> Option<Usage> {
        let schedstat = fs::read_to_string(thread.join("schedstat")).ok()?;
        let status = fs::read_to_string(thread.join("status")).ok()?;
        Some(Usage {
            cpu_ns: self.cpu_ns + first_number(&schedstat)?,
            sleeps: self.sleeps + field(&status, "voluntary_ctxt_switches")?,
            pushed_off: self.pushed_off + field(&status, "nonvoluntary_ctxt_switches")?,
            threads: self.threads + 1.0,
        })
    }

    /// The same for one of so many.
    pub(super) fn of_each(self, count: f64) -> Usage {
        Usage {
            cpu_ns: self.cpu_ns / count,
            sleeps: self.sleeps / count,
            pushed_off: self.pushed_off / count,
            threads: self.threads,
        }
    }
}

/// What came since; as many threads as there are now.
impl Sub for Usage {
    type Output = Usage;

    fn sub(self, before: Usage) -> Usage {
        Usage {
            cpu_ns: self.cpu_ns - before.cpu_ns,
            sleeps: self.sleeps - before.sleeps,
            pushed_off: self.pushed_off - before.pushed_off,
            threads: self.threads,
        }
    }
}

/// The time on a processor, in nanoseconds, is the first number. Source: Linux,
/// Documentation/scheduler/sched-stats.rst.
fn first_number(schedstat: &str) -> Option<f64> {
    schedstat.split_whitespace().next()?.parse().ok()
}

/// A count of proc_pid_status(5).
fn field(status: &str, name: &str) -> Option<f64> {
    let value = status
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    value.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_read_by_their_whole_names() {
        let status = "Threads:\t2\nvoluntary_ctxt_switches:\t150\nnonvoluntary_ctxt_switches:\t5\n";
        assert_eq!(field(status, "voluntary_ctxt_switches"), Some(150.0));
        assert_eq!(field(status, "nonvoluntary_ctxt_switches"), Some(5.0));
        assert_eq!(field(status, "ctxt_switches"), None);
        assert_eq!(first_number("6012 88 3\n"), Some(6012.0));
    }

    #[test]
    fn this_process_has_used_something_and_none_nothing() {
        let before = Usage::of(std::process::id());
        std::thread::sleep(std::time::Duration::from_millis(1));
        let used = Usage::of(std::process::id()) - before;
        assert!(before.cpu_ns > 0.0 && used.sleeps >= 1.0 && used.threads >= 2.0);
        // Process ids are below 2^22.
        assert_eq!(Usage::of(u32::MAX), Usage::default());
    }
}
