//! The message that a client sends: the last answer, so that none is made for each call.

use crate::{Kind, Payload, RpcError};

/// What one kind of payload is as a stack's own message, and the one to be sent next.
#[derive(Debug)]
pub(crate) struct Messages<M> {
    kind: Kind,
    expected: M,
    /// None while it is in flight, and after a call that failed.
    next: Vec<M>,
}

impl<M: Clone + PartialEq> Messages<M> {
    /// Those in `place`, which are made anew where the last ones were of another kind.
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
            _ => Messages {
                kind,
                expected: make(payload)?,
                next: Vec::new(),
            },
        };
        Ok(place.insert(messages))
    }

    /// The next to be sent.
    pub(crate) fn next(&mut self) -> M {
        self.next.pop().unwrap_or_else(|| self.expected.clone())
    }

    /// Checks that this is what was sent, and keeps it to be sent next.
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
