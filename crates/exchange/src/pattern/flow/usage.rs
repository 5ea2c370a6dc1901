//! The resources that a thread used for its work: read before and after, and never during the work.

use std::io;

use costof_os::perf::{Count, Event, Group};
use costof_os::sched::usage::{self, Usage};

/// The CPU's events that are counted, if it can count them.
const EVENTS: [Event; 5] = [
    Event::Cycles,
    Event::L1dLoadMisses,
    Event::L2LoadMisses,
    Event::LlcLoadMisses,
    Event::DtlbLoadMisses,
];

/// The resources that the calling thread used for its work.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ThreadUsage {
    /// CPU time and context switches.
    pub resources: Usage,
    /// How often it moved to another CPU; `None` if the kernel does not report it.
    pub migrations: Option<u64>,
    /// What the CPU counted, in user space and in the kernel; empty if it counts nothing.
    pub counts: Vec<Count>,
}

impl ThreadUsage {
    /// Does some work in this thread, and counts what it used. The CPU's counters run only
    /// during the work: the kernel saves them at each context switch, which takes some hundreds of
    /// nanoseconds.
    pub(super) fn around<T>(work: impl FnOnce() -> io::Result<T>) -> (io::Result<T>, Self) {
        let (group, _) = Group::open(&EVENTS);
        let migrated = usage::migrations();
        let before = usage::thread();
        // Counters that are open start and stop without an error.
        let _ = group.enable();
        let worked = work();
        let _ = group.disable();
        let resources = usage::thread().since(&before);
        let migrations = migrated.and_then(|before| Some(usage::migrations()? - before));
        let mut counts = group.read().unwrap_or_default();
        counts.retain(|count| !count.user_only);
        let used = Self { resources, migrations, counts };
        (worked, used)
    }

    /// How often this event happened; `None` if the CPU did not count it.
    pub fn count(&self, event: Event) -> Option<u64> {
        self.counts.iter().find(|count| count.event == event)?.value
    }
}
