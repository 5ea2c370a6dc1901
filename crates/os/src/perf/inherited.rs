//! Counters of a program that this thread is about to start, with all its threads and children.

use super::{
    Event, FLAG_DISABLED, FLAG_ENABLE_ON_EXEC, FLAG_INHERIT, explained, is_refusal, open_with,
    scaled,
};
use crate::perf::selector::{CorePmu, Selector};
use std::io;
use std::os::fd::OwnedFd;

/// Counters that the processes forked by the calling thread inherit. They begin to count when such a process executes a
/// program. Closed on drop.
#[derive(Debug)]
pub struct Inherited(Vec<(Event, OwnedFd)>);

impl Inherited {
    /// Opens counters of these events, without the hypervisor's part, and without the kernel's where only root may count
    /// that. Events that cannot be counted are returned with the reason.
    pub fn open(events: &[Event]) -> (Self, Vec<(Event, io::Error)>) {
        let (mut counters, mut absent) = (Vec::new(), Vec::new());
        let pmu = CorePmu::here();
        let flags = FLAG_DISABLED | FLAG_INHERIT | FLAG_ENABLE_ON_EXEC;
        for &event in events {
            let opened = Selector::new(event, &pmu).and_then(|selector| {
                match open_with(selector, false, flags, 0, None) {
                    Err(error) if is_refusal(&error) && event.happens_in_user_space() => {
                        open_with(selector, true, flags, 0, None)
                    }
                    answer => answer,
                }
            });
            match opened {
                Ok(counter) => counters.push((event, counter)),
                Err(error) => absent.push((event, explained(event, error))),
            }
        }
        (Self(counters), absent)
    }

    /// What the program and its children counted so far, scaled up if a counter ran only part of the time; `None` if the
    /// event is not counted, or its counter never ran. What has ended is counted once its parent has waited for it.
    pub fn count(&self, event: Event) -> Option<u64> {
        let (_, counter) = self.0.iter().find(|(counted, _)| *counted == event)?;
        // The value, and the times enabled and running.
        let mut bytes = [0; 3 * size_of::<u64>()];
        if rustix::io::read(counter, &mut bytes) != Ok(bytes.len()) {
            return None;
        }
        let mut words = bytes.as_chunks().0.iter().copied().map(u64::from_ne_bytes);
        let (value, enabled, running) = (words.next()?, words.next()?, words.next()?);
        scaled(value, enabled, running).filter(|_| running > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn a_program_and_its_children_are_counted() {
        let (counters, absent) = Inherited::open(&[Event::PageFaults]);
        if !absent.is_empty() {
            return eprintln!("checked less: {absent:?}");
        }
        assert_eq!(counters.count(Event::PageFaults), None, "nothing was executed");
        let status = Command::new("sh").args(["-c", "sh -c : ; sh -c :"]).status();
        assert!(status.unwrap().success());
        let three = counters.count(Event::PageFaults).unwrap();
        let (counters, _) = Inherited::open(&[Event::PageFaults]);
        Command::new("sh").args(["-c", ":"]).status().unwrap();
        let one = counters.count(Event::PageFaults).unwrap();
        assert!(one > 0 && three > one, "{one} {three}");
        assert_eq!(counters.count(Event::Cycles), None, "not opened");
    }
}
