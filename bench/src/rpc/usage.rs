//! What an end has used, by what the kernel counts of its threads.

use procfs::ProcResult;
use procfs::process::{Process, Task};
use std::ops::Sub;

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
        let tasks = Process::new(process.cast_signed()).and_then(|process| process.tasks());
        let tasks = tasks.into_iter().flatten().flatten();
        tasks.fold(Usage::default(), |all, task| all.with(&task).unwrap_or(all))
    }

    fn with(self, thread: &Task) -> ProcResult<Usage> {
        let (ran, status) = (thread.schedstat()?, thread.status()?);
        let count = |switches: Option<u64>| switches.unwrap_or(0) as f64;
        Ok(Usage {
            cpu_ns: self.cpu_ns + ran.sum_exec_runtime as f64,
            sleeps: self.sleeps + count(status.voluntary_ctxt_switches),
            pushed_off: self.pushed_off + count(status.nonvoluntary_ctxt_switches),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_used_something_and_none_nothing() {
        let before = Usage::of(std::process::id());
        (0..5).for_each(|_| std::thread::sleep(std::time::Duration::from_millis(1)));
        let used = Usage::of(std::process::id()) - before;
        assert!(before.cpu_ns > 0.0 && used.sleeps >= 1.0 && used.threads >= 2.0);
        // Process ids are below 2^22.
        assert_eq!(Usage::of(u32::MAX), Usage::default());
    }
}
