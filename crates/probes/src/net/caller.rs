//! The end that calls and leads, as probes need it whose ends talk.

use crate::ends::Cpus;
use crate::net::meeting;
use crate::net::path::End;
use crate::wake::{Kept, Wake};
use costof_exchange::conversation::{Conversation, Wait};
use costof_exchange::rendezvous::Over;
use costof_model::failure::Failure;
use costof_model::protocol::{Launch, Meeting, Offers};

/// Calls the end that listens.
pub(crate) struct Caller {
    end: End,
    offers: Offers,
    kept: Option<Kept>,
}

impl Caller {
    /// Where the launch says.
    ///
    /// # Errors
    /// Those of [`End::of`].
    pub(crate) fn start(launch: &Launch) -> Result<Caller, Failure> {
        Ok(Caller {
            end: End::of(launch, true)?,
            offers: Offers::new(),
            kept: None,
        })
    }

    /// Runs where the point's end does, knows where the other one listens, and offers nothing.
    /// `waits`: whether it waits in the kernel.
    ///
    /// # Errors
    /// Those of [`End::settle`].
    pub(crate) fn prepare(
        &mut self,
        link: &str,
        (cpus, wake): (Cpus, Wake),
        offers: &Offers,
        waits: bool,
    ) -> Result<Offers, Failure> {
        self.offers = offers.clone();
        self.kept = Some(self.end.settle(link, cpus, wake, waits)?);
        Ok(Offers::new())
    }

    /// What keeps the processor awake, and the conversation during which it does.
    ///
    /// # Errors
    /// Why the other end cannot be reached.
    pub(crate) fn call(
        &mut self,
        over: Over,
        wait: Wait,
    ) -> Result<(Option<Kept>, Conversation), Failure> {
        self.call_by(|meeting, offers| meeting::call(meeting, offers, over, wait))
    }

    /// The same by a call of another kind.
    ///
    /// # Errors
    /// Those of the call.
    pub(crate) fn call_by<T>(
        &mut self,
        call: impl FnOnce(&Meeting, &Offers) -> Result<T, Failure>,
    ) -> Result<(Option<Kept>, T), Failure> {
        let kept = self.kept.take();
        Ok((kept, call(&self.end.meeting, &self.offers)?))
    }
}
