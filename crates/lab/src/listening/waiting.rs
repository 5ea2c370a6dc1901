//! Connections that have not been admitted yet. If too many wait, the oldest has to give way to the
//! next. So a sender that has the token is admitted however many silent connections there are: it
//! needs one round trip to prove that.

use crate::call::Connection;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// How many may wait.
const MAX: usize = 64;

/// The connections that wait, in the order in which they came.
#[derive(Debug, Default)]
pub(super) struct Waiting(Mutex<VecDeque<Arc<Connection>>>);

/// A connection that waits, until this is dropped.
#[derive(Debug)]
pub(super) struct Waiter<'a> {
    waiting: &'a Waiting,
    pub(super) connection: Arc<Connection>,
}

impl Waiting {
    /// Lets a connection wait. Also returns the one that has to give way to it, if there is one.
    pub(super) fn enter(&self, connection: Connection) -> (Waiter<'_>, Option<Arc<Connection>>) {
        let connection = Arc::new(connection);
        let mut all = self.lock();
        let gives_way = if all.len() >= MAX { all.pop_front() } else { None };
        all.push_back(Arc::clone(&connection));
        (Waiter { waiting: self, connection }, gives_way)
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Arc<Connection>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiter<'_> {
    /// Whether it had to give way.
    pub(super) fn gave_way(&self) -> bool {
        !self.waiting.lock().iter().any(|other| Arc::ptr_eq(other, &self.connection))
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        self.waiting.lock().retain(|other| !Arc::ptr_eq(other, &self.connection));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::tests::pair;

    #[test]
    fn no_more_wait_than_may_and_the_oldest_gives_way() {
        let waiting = Waiting::default();
        let mut waiters = Vec::new();
        for number in 0..2 * MAX {
            let (waiter, gives_way) = waiting.enter(pair().0);
            assert_eq!(gives_way.is_some(), number >= MAX);
            waiters.push(waiter);
            let oldest = waiters.len().saturating_sub(MAX);
            assert!(waiters[..oldest].iter().all(Waiter::gave_way));
            assert!(!waiters[oldest..].iter().any(Waiter::gave_way));
        }
        drop(waiters);
        assert_eq!(waiting.lock().len(), 0);
    }
}
