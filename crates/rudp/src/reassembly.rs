//! Reassembles messages from parts, and delivers them in order or as soon as they are complete.
//!
//! All state is bounded: bytes by the window, messages by their number, gaps by the smallest
//! sensible size of a part. The sender is granted credit ([`Reassembly::credit`]); what exceeds it
//! is rejected.

use crate::frame::{Credit, Piece};
use crate::range_set::RangeSet;
use std::collections::{BTreeMap, VecDeque};

/// Why a part of a message was rejected: the sender violates the protocol, or is not this library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ProtocolError;

/// One gap is allowed for this many bytes of the window.
const BYTES_PER_GAP: u64 = 256;

#[derive(Debug, Default)]
pub(crate) struct Reassembly {
    is_ordered: bool,
    max_message: u32,
    window: Credit,
    partial: BTreeMap<u64, Partial>,
    /// Every message that was ever complete.
    complete: RangeSet,
    /// Complete messages that wait for an earlier one.
    waiting: BTreeMap<u64, Vec<u8>>,
    ready: VecDeque<Vec<u8>>,
    next_in_order: u64,
    /// Bytes of messages that have begun and that the caller has not taken yet.
    held_bytes: u64,
    gaps: usize,
    /// What the caller has taken.
    consumed: Credit,
}

#[derive(Debug)]
struct Partial {
    total: u32,
    /// As long as the highest byte received.
    data: Vec<u8>,
    received: RangeSet,
    missing: u64,
}

impl Reassembly {
    pub(crate) fn new(is_ordered: bool, max_message: u32, window: Credit) -> Reassembly {
        Reassembly { is_ordered, max_message, window, ..Reassembly::default() }
    }

    /// The credit of the other end.
    pub(crate) fn credit(&self) -> Credit {
        Credit {
            bytes: self.consumed.bytes + self.window.bytes,
            messages: self.consumed.messages + self.window.messages,
        }
    }

    /// Whether a part can be accepted in the current state.
    pub(crate) fn check(&self, piece: &Piece<'_>) -> Result<(), ProtocolError> {
        if piece.id >= self.credit().messages || piece.total > self.max_message {
            return Err(ProtocolError);
        }
        if self.complete.contains(piece.id) {
            return Ok(());
        }
        let fits = match self.partial.get(&piece.id) {
            Some(partial) => {
                partial.total == piece.total
                    && (self.gaps as u64) < self.window.bytes / BYTES_PER_GAP + 16
            }
            None => self.held_bytes + u64::from(piece.total) <= self.window.bytes,
        };
        fits.then_some(()).ok_or(ProtocolError)
    }

    /// Accepts a part of a message, whether it is new or not.
    pub(crate) fn take(&mut self, piece: &Piece<'_>) -> Result<(), ProtocolError> {
        self.check(piece)?;
        if self.complete.contains(piece.id) {
            return Ok(());
        }
        if piece.data.len() == piece.total as usize {
            match self.partial.remove(&piece.id) {
                Some(partial) => self.gaps -= partial.received.len(),
                None => self.held_bytes += u64::from(piece.total),
            }
            self.is_complete(piece.id, piece.data.to_vec());
            return Ok(());
        }
        let partial = self.partial.entry(piece.id).or_insert_with(|| {
            self.held_bytes += u64::from(piece.total);
            Partial {
                total: piece.total,
                data: Vec::new(),
                received: RangeSet::new(),
                missing: piece.total.into(),
            }
        });
        let gaps = partial.received.len();
        partial.take(piece);
        self.gaps = self.gaps + partial.received.len() - gaps;
        if partial.missing == 0
            && let Some(partial) = self.partial.remove(&piece.id)
        {
            self.gaps -= partial.received.len();
            self.is_complete(piece.id, partial.data);
        }
        Ok(())
    }

    fn is_complete(&mut self, id: u64, message: Vec<u8>) {
        self.complete.insert(id..id + 1);
        if !self.is_ordered {
            self.ready.push_back(message);
        } else if id == self.next_in_order {
            self.ready.push_back(message);
            self.next_in_order += 1;
            while let Some(message) = self.waiting.remove(&self.next_in_order) {
                self.ready.push_back(message);
                self.next_in_order += 1;
            }
        } else {
            self.waiting.insert(id, message);
        }
    }

    /// The next message for the caller.
    pub(crate) fn next(&mut self) -> Option<Vec<u8>> {
        let message = self.ready.pop_front()?;
        self.held_bytes -= message.len() as u64;
        self.consumed.bytes += message.len() as u64;
        self.consumed.messages += 1;
        Some(message)
    }

    pub(crate) fn has_next(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Whether the first `messages` messages are complete.
    pub(crate) fn has_all(&self, messages: u64) -> bool {
        self.complete.contains_range(&(0..messages))
    }

    /// Bytes of messages that have begun and that the caller has not taken yet.
    pub(crate) fn held_bytes(&self) -> u64 {
        self.held_bytes
    }
}

impl Partial {
    fn take(&mut self, piece: &Piece<'_>) {
        let start = piece.offset as usize;
        let end = start + piece.data.len();
        self.missing -= self.received.insert(start as u64..end as u64);
        if self.data.is_empty() {
            self.data.reserve_exact(self.total as usize);
        }
        if start > self.data.len() {
            self.data.resize(start, 0);
        }
        let old = (self.data.len() - start).min(piece.data.len());
        self.data[start..start + old].copy_from_slice(&piece.data[..old]);
        self.data.extend_from_slice(&piece.data[old..]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const WINDOW: Credit = Credit { bytes: 4096, messages: 8 };

    fn piece(id: u64, offset: u32, total: u32, data: &[u8]) -> Piece<'_> {
        Piece { id, offset, total, data }
    }

    proptest! {
        #[test]
        fn parts_in_any_order_make_the_message_once(
            message in prop::collection::vec(any::<u8>(), 2..4000),
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..20),
            order in any::<u64>(),
        ) {
            let mut at: Vec<usize> = cuts.iter().map(|cut| cut.index(message.len())).collect();
            at.extend([0, message.len()]);
            at.sort_unstable();
            at.dedup();
            // Each part twice, and a few that span two.
            let mut parts: Vec<_> = at.windows(2).map(|pair| pair[0]..pair[1]).collect();
            parts.extend(at.windows(3).map(|three| three[0]..three[2]).collect::<Vec<_>>());
            parts.extend(parts.clone());
            fastrand::Rng::with_seed(order).shuffle(&mut parts);
            let mut reassembly = Reassembly::new(true, 4096, WINDOW);
            for part in parts {
                let part = piece(0, part.start as u32, message.len() as u32, &message[part]);
                prop_assert_eq!(reassembly.take(&part), Ok(()));
            }
            prop_assert_eq!(reassembly.next(), Some(message));
            prop_assert_eq!(reassembly.next(), None);
            prop_assert_eq!((reassembly.held_bytes, reassembly.gaps), (0, 0));
        }
    }

    #[test]
    fn order_is_kept_where_it_was_asked_for() {
        for (is_ordered, expected) in [(true, [0_u8, 1, 2]), (false, [2, 0, 1])] {
            let mut reassembly = Reassembly::new(is_ordered, 100, WINDOW);
            for id in [2_u8, 0, 1, 2, 0] {
                reassembly.take(&piece(id.into(), 0, 1, &[id])).unwrap();
            }
            let received: Vec<u8> = std::iter::from_fn(|| reassembly.next()).flatten().collect();
            assert_eq!(received, expected);
            assert!(reassembly.has_all(3) && !reassembly.has_all(4));
        }
    }

    #[test]
    fn what_goes_beyond_the_window_is_refused_and_credit_comes_back_with_taking() {
        let mut reassembly = Reassembly::new(true, 3000, WINDOW);
        assert_eq!(reassembly.credit(), WINDOW);
        assert_eq!(reassembly.take(&piece(0, 0, 3001, &[0])), Err(ProtocolError));
        assert_eq!(reassembly.take(&piece(8, 0, 1, &[0])), Err(ProtocolError));
        reassembly.take(&piece(1, 5, 3000, &[1; 70])).unwrap();
        assert_eq!(reassembly.take(&piece(1, 5, 2999, &[1])), Err(ProtocolError));
        assert_eq!(reassembly.take(&piece(2, 0, 1097, &[0])), Err(ProtocolError));
        reassembly.take(&piece(0, 0, 1096, &[0; 1096])).unwrap();
        assert_eq!(reassembly.held_bytes(), 4096);
        reassembly.next().unwrap();
        let credit = Credit { bytes: 4096 + 1096, messages: 9 };
        assert_eq!(reassembly.credit(), credit);
        assert_eq!(reassembly.held_bytes(), 3000);
    }

    #[test]
    fn gaps_are_bounded() {
        let mut reassembly = Reassembly::new(true, 4096, WINDOW);
        let consumed = (0..2000).filter(|at| {
            let part = piece(0, 2 * at, 4096, &[0]);
            reassembly.take(&part).is_ok()
        });
        assert!(consumed.count() < 40);
    }

    #[test]
    fn an_empty_message_is_a_message() {
        let mut reassembly = Reassembly::new(true, 4096, WINDOW);
        reassembly.take(&piece(0, 0, 0, &[])).unwrap();
        reassembly.take(&piece(0, 0, 0, &[])).unwrap();
        assert_eq!(reassembly.next(), Some(Vec::new()));
        assert_eq!(reassembly.next(), None);
    }
}
