//! The message that a client sends: the last answer, so that no call creates one.

use crate::{Kind, Payload, RpcError};

/// Messages of one kind of payload, in the stack's own type.
#[derive(Debug)]
pub(crate) struct Messages<M> {
    kind: Kind,
    expected: M,
    /// Empty while the message is in flight, and after a call that failed.
    next: Vec<M>,
}

impl<M: Clone + PartialEq> Messages<M> {
    /// The messages in `place`, created anew if their kind differs.
    ///
    /// # Errors
    /// Why such a message may not be sent.
    pub(crate) fn reuse<'a>(
        place: &'a mut Option<Messages<M>>,
        payload: &Payload,
        make: impl FnOnce(&Payload) -> Result<M, RpcError>,
    ) -> Result<&'a mut Messages<M>, RpcError> {
        let kind = payload.kind();
        let messages = match place.take() {
            Some(messages) if messages.kind == kind => messages,
            _ => Messages { kind, expected: make(payload)?, next: Vec::new() },
        };
        Ok(place.insert(messages))
    }

    /// The next message to send.
    pub(crate) fn next(&mut self) -> M {
        self.next.pop().unwrap_or_else(|| self.expected.clone())
    }

    /// Checks that the answer equals what was sent, and keeps it as the next message.
    ///
    /// # Errors
    /// [`RpcError::WrongAnswer`].
    pub(crate) fn check_reply(&mut self, answer: M) -> Result<(), RpcError> {
        if answer != self.expected {
            return Err(RpcError::WrongAnswer(format!("{} was sent", self.kind)));
        }
        self.next.push(answer);
        Ok(())
    }
}
