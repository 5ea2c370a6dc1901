//! The names under which transfers use [`costof_exchange::datagrams`].

pub(super) use costof_exchange::datagrams::{accept, connect as call, is_passing, send};
pub(super) use costof_exchange::rendezvous::{TIMEOUT as MEETS, only};
