//! The message that a client sends: the last answer, so that no call creates one.

use crate::{Kind, Payload};
use std::io;

/// Messages of one kind of payload, in the stack's own type.
#[derive(Debug)]
pub(crate) struct Messages<M> {
    kind: Kind,
    expected: M,
    /// Empty while the message is in flight, and after a call that failed.
    next: Vec<M>,
}

impl<M: Clone + PartialEq + for<'a> From<&'a Payload>> Messages<M> {
    pub(crate) fn new(payload: &Payload) -> Self {
        Self { kind: payload.kind(), expected: payload.into(), next: Vec::new() }
    }

    /// The messages in `place`, created anew if their kind differs.
    pub(crate) fn reuse<'a>(place: &'a mut Option<Self>, payload: &Payload) -> &'a mut Self {
        let same = place.take().filter(|messages| messages.kind == payload.kind());
        place.insert(same.unwrap_or_else(|| Self::new(payload)))
    }

    /// The next message to send.
    pub(crate) fn next(&mut self) -> M {
        self.next.pop().unwrap_or_else(|| self.expected.clone())
    }

    /// Checks that the answer equals what was sent, and keeps it as the next message.
    ///
    /// # Errors
    /// It is another.
    pub(crate) fn check_reply(&mut self, answer: M) -> io::Result<()> {
        if answer != self.expected {
            let sent = self.kind;
            let reason = format!("the answer differs from what was sent: {sent} was sent");
            return Err(io::Error::other(reason));
        }
        self.next.push(answer);
        Ok(())
    }
}
