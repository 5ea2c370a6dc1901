//! Which connection of an endpoint comes next.

use crate::time::Time;
use std::collections::{BTreeSet, VecDeque};

/// Connections that take turns. Each is queued once.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    queue: VecDeque<u32>,
    is_queued: Vec<bool>,
}

impl Turns {
    pub(crate) fn push(&mut self, slot: u32) {
        let at = slot as usize;
        if at >= self.is_queued.len() {
            self.is_queued.resize(at + 1, false);
        }
        if !std::mem::replace(&mut self.is_queued[at], true) {
            self.queue.push_back(slot);
        }
    }

    pub(crate) fn front(&self) -> Option<u32> {
        self.queue.front().copied()
    }

    #[cfg(feature = "socket")]
    pub(crate) fn len(&self) -> usize {
        self.queue.len()
    }

    /// Moves the first connection to the end of the queue.
    pub(crate) fn rotate(&mut self) {
        if self.queue.len() > 1 {
            self.queue.rotate_left(1);
        }
    }

    pub(crate) fn pop(&mut self) {
        if let Some(slot) = self.queue.pop_front() {
            self.is_queued[slot as usize] = false;
        }
    }
}

/// One timer for each connection; it may fire earlier than the connection needs.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    queue: BTreeSet<(Time, u32)>,
    times: Vec<Option<Time>>,
}

impl Timers {
    pub(crate) fn first(&self) -> Option<(Time, u32)> {
        self.queue.first().copied()
    }

    pub(crate) fn get(&self, slot: u32) -> Option<Time> {
        self.times.get(slot as usize).copied().flatten()
    }

    pub(crate) fn set(&mut self, slot: u32, time: Option<Time>) {
        let at = slot as usize;
        if at >= self.times.len() {
            self.times.resize(at + 1, None);
        }
        if let Some(old) = std::mem::replace(&mut self.times[at], time) {
            self.queue.remove(&(old, slot));
        }
        self.queue.extend(time.map(|time| (time, slot)));
    }
}
