//! One copy: the kernel gathers the fields from where they are.
//!
//! Source: sendmsg(2).

use std::io;

use super::Call;
use super::parts::{Rest, send_parts};
use crate::memory::fields::Messages;

/// Gives the kernel the fields' places.
#[derive(Debug)]
pub(super) struct Sendmsg {
    rest: Rest,
}

impl Sendmsg {
    pub(super) fn new(messages: &Messages) -> Self {
        Self { rest: Rest::new(messages.fields()) }
    }

    #[inline]
    pub(super) fn send(&mut self, parts: &[libc::iovec], call: &mut Call<'_>) -> io::Result<()> {
        self.rest.whole(parts, |parts| {
            call.system_calls += 1;
            send_parts(call.socket, parts, 0).or_else(|error| call.again(error))
        })
    }
}
