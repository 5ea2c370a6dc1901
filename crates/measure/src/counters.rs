//! Hardware counters around the timed batches of a point's primary metric.
//!
//! The kernel's perf_event counts for the measuring thread only, and only while a batch runs.
//! Starting and stopping are system calls; both happen between batches, never within the time of
//! one.

use costof_model::Text;
use costof_model::protocol::CounterInfo;
use costof_os::perf::{Count, Event, Group};
use std::collections::BTreeMap;

/// The events counted at every point. Events that the kernel itself counts (context switches, page
/// faults) are not among them: each costs the kernel time when it happens (80 ns a page fault), and
/// the noise ledger has their numbers from getrusage.
const EVENTS: [Event; 7] = [
    Event::Cycles,
    Event::Instructions,
    Event::L1dLoadMisses,
    Event::L2LoadMisses,
    Event::LlcLoadMisses,
    Event::DtlbLoadMisses,
    Event::BranchMisses,
];

/// Counters on the thread that opened them.
#[derive(Debug)]
pub struct Counters(Group);

impl Counters {
    /// The counters that this machine grants this thread; `None` if it grants none.
    // METHOD 18
    pub fn open() -> Option<Counters> {
        let (group, _) = Group::open(&EVENTS);
        (!group.is_empty()).then_some(Counters(group))
    }

    /// Lists the counters that exist here, and why the others are absent.
    pub fn describe() -> CounterInfo {
        let (group, absent) = Group::open(&EVENTS);
        let name = |event: &Event| Text::Borrowed(event.name());
        let is_absent = |event: &&Event| absent.iter().any(|(missing, _)| missing == *event);
        let counts = group.read().unwrap_or_default();
        let user_only = counts.iter().filter(|count| count.user_only);
        let absences = absent.iter();
        CounterInfo {
            available: (EVENTS.iter().filter(|event| !is_absent(event))).map(name).collect(),
            user_only: user_only.map(|count| name(&count.event)).collect(),
            absent: absences.map(|(event, error)| (name(event), error.to_string())).collect(),
        }
    }

    /// Sets the counts to zero.
    pub(crate) fn reset(&mut self) {
        // On open counters, these calls cannot fail.
        let _ = self.0.reset();
    }

    pub(crate) fn resume(&mut self) {
        let _ = self.0.enable();
    }

    pub(crate) fn pause(&mut self) {
        let _ = self.0.disable();
    }

    /// The counts since the last [`Counters::reset`].
    pub(crate) fn read(&self) -> Vec<Count> {
        self.0.read().unwrap_or_default()
    }
}

/// What the counters counted at a point over all its rounds, by the counter's name, each with the
/// operations of the rounds in which the counter ran. The name ends in `_user` if the kernel's part
/// could not be counted.
#[derive(Debug, Default)]
pub(crate) struct Counts(BTreeMap<Text, (u64, u64)>);

impl Counts {
    /// Adds what was counted over `operations` in one round.
    pub(crate) fn add(&mut self, counts: Vec<Count>, operations: u64) {
        for count in counts {
            if let Some(value) = count.value {
                let sums = self.0.entry(name(&count)).or_default();
                sums.0 += value;
                sums.1 += operations;
            }
        }
    }

    /// The counts per operation.
    pub(crate) fn per_operation(self) -> Vec<(Text, f64)> {
        let sums = self.0.into_iter();
        let ran = sums.filter(|(_, (_, operations))| *operations > 0);
        ran.map(|(name, (count, operations))| (name, count as f64 / operations as f64)).collect()
    }
}

fn name(count: &Count) -> Text {
    let name = count.event.name();
    if count.user_only { Text::Owned(format!("{name}_user")) } else { Text::Borrowed(name) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_counter_is_available_or_absent_with_a_reason() {
        let info = Counters::describe();
        assert_eq!(info.available.len() + info.absent.len(), EVENTS.len());
        assert!(info.absent.values().all(|reason| !reason.is_empty()));
    }

    #[test]
    fn rounds_are_added_up_and_divided_once() {
        let count =
            |value, user_only| Count { event: Event::Cycles, value, running: 1.0, user_only };
        let mut counts = Counts::default();
        counts.add(vec![count(Some(900), false)], 100);
        counts.add(vec![count(Some(100), false)], 100);
        // It did not run in this round, whose operations say nothing then.
        counts.add(vec![count(None, false)], 100);
        counts.add(vec![count(Some(50), true)], 100);
        assert_eq!(counts.per_operation(), [("cycles".into(), 5.0), ("cycles_user".into(), 0.5)]);
    }

    #[test]
    fn only_what_happens_while_counting_is_counted() {
        // An event of the kernel, since most test machines have no other.
        let (group, absent) = Group::open(&[Event::ContextSwitches]);
        if let [(_, error)] = absent.as_slice() {
            eprintln!("skipped: context switches cannot be counted here: {error}");
            return;
        }
        let mut counters = Counters(group);
        let switch = |times| {
            for _ in 0..times {
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
        };
        counters.reset();
        // So many that they would show beside those of a busy machine.
        switch(40);
        counters.resume();
        switch(4);
        counters.pause();
        switch(40);
        let mut counts = Counts::default();
        counts.add(counters.read(), 4);
        let counted = counts.per_operation();
        let switches = counted.iter().find(|(name, _)| name == "context_switches");
        let (_, per_sleep) = switches.expect("it is available");
        assert!((1.0..10.0).contains(per_sleep), "{per_sleep} switches per sleep");
    }
}
