//! Connections that have not been admitted yet. If too many wait, one has to give way to the next:
//! a stranger before one that has the token, unless those are more than half; of these from the
//! network that has most of them, the earliest first. So a sender that has the token is admitted
//! however many silent connections there are, with the token or without.
//!
//! Source: sshd_config(5) on MaxStartups and PerSourceMaxStartups.

use crate::call::Connection;
use std::cmp::Reverse;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// How many may wait.
const MAX: usize = 64;

/// The connections that wait, in the order in which they came.
#[derive(Debug, Default)]
pub(super) struct Waiting(Mutex<Vec<Caller>>);

#[derive(Debug)]
struct Caller {
    connection: Arc<Connection>,
    network: u64,
    has_token: bool,
}

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
        let mut callers = self.lock();
        let gives_way = (callers.len() >= MAX).then(|| {
            let at = gives_way(&callers);
            callers.remove(at).connection
        });
        callers.push(Caller {
            connection: Arc::clone(&connection),
            network: network(connection.remote.ip()),
            has_token: false,
        });
        let waiting = self;
        (Waiter { waiting, connection }, gives_way)
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Caller>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiter<'_> {
    /// Notes that it has proved that it has the token.
    pub(super) fn has_token(&self) {
        let mut callers = self.waiting.lock();
        if let Some(own) = callers.iter_mut().find(|caller| self.is(caller)) {
            own.has_token = true;
        }
    }

    /// Whether it had to give way.
    pub(super) fn gave_way(&self) -> bool {
        !self.waiting.lock().iter().any(|caller| self.is(caller))
    }

    fn is(&self, caller: &Caller) -> bool {
        Arc::ptr_eq(&caller.connection, &self.connection)
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        self.waiting.lock().retain(|caller| !self.is(caller));
    }
}

/// Which one has to give way.
fn gives_way(callers: &[Caller]) -> usize {
    let alike = |one: &Caller| {
        let alike =
            |other: &&Caller| other.network == one.network && other.has_token == one.has_token;
        callers.iter().filter(alike).count()
    };
    // Else silent ones with the token would leave a new sender no time to prove that it has it.
    let with_token = callers.iter().filter(|caller| caller.has_token).count();
    let first = with_token > callers.len() / 2;
    let rank = |at: &usize| {
        let caller = &callers[*at];
        (caller.has_token != first, Reverse(alike(caller)))
    };
    (0..callers.len()).min_by_key(rank).unwrap_or(0)
}

/// What one owner of addresses usually has: one IPv4 address, or 64 bits of IPv6.
fn network(address: IpAddr) -> u64 {
    match address {
        IpAddr::V4(address) => u32::from(address).into(),
        IpAddr::V6(address) => (u128::from(address) >> 64) as u64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::tests::pair;

    #[test]
    fn a_silent_stranger_of_the_largest_crowd_gives_way() {
        // Each caller is a network, and whether it has the token.
        for (callers, expected) in [
            (&[(1, false), (1, false)][..], 0),
            (&[(1, true), (1, false)], 1),
            (&[(1, false), (2, false), (2, false), (3, false)], 1),
            (&[(2, true), (2, true), (1, false), (3, false)], 2),
            // The newest may be a sender that has not had time for the token.
            (&[(2, true), (2, true), (2, true), (1, false)], 0),
            (&[(1, true), (2, true), (2, true)], 1),
        ] {
            let caller = |(network, has_token): &(u64, bool)| Caller {
                connection: Arc::new(pair().0),
                network: *network,
                has_token: *has_token,
            };
            let waiting: Vec<Caller> = callers.iter().map(caller).collect();
            assert_eq!(gives_way(&waiting), expected, "{callers:?}");
        }
    }

    #[test]
    fn no_more_wait_than_may_and_the_newest_always_does() {
        let waiting = Waiting::default();
        let mut waiters = Vec::new();
        for number in 0..2 * MAX {
            let (waiter, gives_way) = waiting.enter(pair().0);
            assert_eq!(gives_way.is_some(), number >= MAX);
            assert!(!waiter.gave_way());
            // Those that have the token and stay silent give way, too.
            waiter.has_token();
            waiters.push(waiter);
            assert!(waiting.lock().len() <= MAX);
        }
        assert!(waiters[0].gave_way());
        drop(waiters);
        assert_eq!(waiting.lock().len(), 0);
    }
}
