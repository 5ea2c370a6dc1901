//! The names under which transfers use [`costof_exchange::transport::rudp`].

pub(super) use costof_exchange::transport::rudp::{accepting, closed, connect};
