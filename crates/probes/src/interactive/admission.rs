//! How many senders the receiver serves at the same time, and how much of its memory they may use.

use super::Refusal;
use crate::copy::send::axes::{CopySend, Pattern};
use costof_model::typed::At;
use costof_model::unit::display_bytes;
use std::sync::atomic::{AtomicU64, Ordering};

/// The most memory of all clients together at this end.
pub(super) const MEMORY_MAX_BYTES: u64 = 4 << 30;

/// What the clients use.
#[derive(Debug)]
pub(super) struct Admission {
    clients_most: u64,
    clients: AtomicU64,
    promised_bytes: AtomicU64,
}

/// A client's place, and its memory.
pub(super) type Slot<'a> = (Taken<'a>, Taken<'a>);

/// An amount of something, until this is dropped, by a panic too.
#[derive(Debug)]
pub(super) struct Taken<'a> {
    from: &'a AtomicU64,
    amount: u64,
}

impl Admission {
    pub(super) fn new(clients_most: u64) -> Admission {
        Admission { clients_most, clients: AtomicU64::new(0), promised_bytes: AtomicU64::new(0) }
    }

    /// Room for one more client, which needs `bytes` of memory.
    pub(super) fn client(&self, bytes: u64) -> Result<Slot<'_>, Refusal> {
        let (wants, most) = (display_bytes(bytes), display_bytes(MEMORY_MAX_BYTES));
        if bytes > MEMORY_MAX_BYTES {
            return Err(Refusal::Wrong(format!(
                "this would take {wants} of the receiver's memory, and {most} are the most (fewer \
                 threads, a smaller size or working_set)"
            )));
        }
        let client = Taken::new(&self.clients, 1, self.clients_most).map_err(|clients| {
            Refusal::Nothing(format!(
                "the receiver serves {clients} clients, and no more (--max-clients there)"
            ))
        })?;
        let memory = Taken::new(&self.promised_bytes, bytes, MEMORY_MAX_BYTES);
        let memory = memory.map_err(|promised| {
            Refusal::Nothing(format!(
                "this would take {wants} of the receiver's memory, of which the clients that it serves \
                 have {}, and {most} are the most (later, or fewer threads, a smaller size or \
                 working_set)",
                display_bytes(promised),
            ))
        })?;
        Ok((client, memory))
    }
}

impl<'a> Taken<'a> {
    /// Takes the amount, unless that exceeds the limit; then returns how much is taken already.
    fn new(from: &'a AtomicU64, amount: u64, most: u64) -> Result<Taken<'a>, u64> {
        let more = |taken: u64| taken.checked_add(amount).filter(|taken| *taken <= most);
        from.fetch_update(Ordering::AcqRel, Ordering::Acquire, more).map(|_| Taken { from, amount })
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        self.from.fetch_sub(self.amount, Ordering::AcqRel);
    }
}

/// Approximate memory that the receiver needs for a client. Only an echo needs messages of its own.
pub(super) fn held_bytes(point: &At<CopySend>) -> u64 {
    /// A thread's buffer, its marks, and its bursts where it asks for them.
    const THREAD_BYTES: u64 = 24 << 20;
    if point.pattern == Pattern::Echo {
        return point.memory_bytes();
    }
    // Of each datagram the receiver knows the first word and its place: 24 bytes, for datagrams of
    // 64 or more.
    let first_words = if point.socket().is_datagrams() {
        point.size.saturating_mul(point.shape().count as u64) / 2
    } else {
        0
    };
    (point.threads as u64).saturating_mul(first_words.saturating_add(THREAD_BYTES))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Memory for the largest messages of many threads.
    fn held(pattern: Pattern) -> u64 {
        let sent = CopySend { pattern, threads: 64, size: 64 << 20, ..CopySend::default() };
        held_bytes(&sent.into())
    }

    #[test]
    fn a_client_is_promised_what_it_holds_and_gives_it_back() {
        for pattern in [Pattern::Stream, Pattern::Trigger] {
            let bytes = held(pattern);
            assert!(bytes <= MEMORY_MAX_BYTES / 2, "{pattern:?}: {bytes}");
        }
        assert!(held(Pattern::Echo) > MEMORY_MAX_BYTES);
        let admission = Admission::new(2);
        let half = MEMORY_MAX_BYTES / 2;
        let is_wrong = |bytes| {
            let refusal = admission.client(bytes).err()?;
            Some(matches!(refusal, Refusal::Wrong(_)))
        };
        assert_eq!(is_wrong(MEMORY_MAX_BYTES + 1), Some(true));
        let first = admission.client(half + 1);
        assert!(first.is_ok());
        // A refused client has taken nothing.
        assert_eq!((is_wrong(half), is_wrong(half)), (Some(false), Some(false)));
        let second = admission.client(1);
        assert!(second.is_ok());
        assert_eq!(is_wrong(1), Some(false));
        drop((first, second));
        let panicked = std::panic::catch_unwind(|| {
            let _taken = admission.client(MEMORY_MAX_BYTES);
            std::panic::resume_unwind(Box::new(()));
        });
        assert!(panicked.is_err());
        assert!(admission.client(MEMORY_MAX_BYTES).is_ok());
    }
}
