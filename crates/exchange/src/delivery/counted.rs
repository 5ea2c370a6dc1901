//! What a thread did and used while it worked: read before and after, and nothing between.

use std::io;

use costof_os::perf::{Count, Event, Group};
use costof_os::sched::usage::{self, Usage};

/// What is counted by the processor, where it can be.
const EVENTS: [Event; 5] = [
    Event::Cycles,
    Event::L1dLoadMisses,
    Event::L2LoadMisses,
    Event::LlcLoadMisses,
    Event::DtlbLoadMisses,
];

/// What the calling thread did and used.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Counted {
    /// Processor time and context switches.
    pub usage: Usage,
    /// How often it came to another processor; none where the kernel does not tell.
    pub migrations: Option<u64>,
    /// What the processor counted, its own and the kernel's half: nothing where it counts nothing.
    pub counts: Vec<Count>,
}

impl Counted {
    /// Does some work in this thread, and says what that was. The processor's counters are stopped
    /// before and after; as long as they run, each context switch takes the kernel longer, some
    /// hundreds of nanoseconds, since it saves them.
    pub(super) fn around<T>(work: impl FnOnce() -> io::Result<T>) -> (io::Result<T>, Self) {
        let (group, _) = Group::open(&EVENTS);
        let migrated = usage::migrations();
        let before = usage::thread();
        // Counters that are open start and stop without an error.
        let _ = group.enable();
        let worked = work();
        let _ = group.disable();
        let usage = usage::thread().since(&before);
        let migrations = migrated.and_then(|before| Some(usage::migrations()? - before));
        let mut counts = group.read().unwrap_or_default();
        counts.retain(|count| !count.user_only);
        let counted = Self {
            usage,
            migrations,
            counts,
        };
        (worked, counted)
    }

    /// What the processor counted of this, where it did.
    pub fn count(&self, event: Event) -> Option<u64> {
        let count = self.counts.iter().find(|count| count.event == event)?;
        count.value
    }
}
