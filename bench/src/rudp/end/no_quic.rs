//! What stands for the ends that use QUIC in a build without quinn.

use super::RoleResult;
use crate::rudp::tally::Tally;
use std::net::SocketAddr;
use std::time::Duration;

const NO_QUIC: &str = "it was built without quinn (--features quic)";

pub(super) fn receive(_: SocketAddr, _: Duration) -> RoleResult<Tally> {
    Err(NO_QUIC.into())
}

pub(super) fn send(_: SocketAddr, _: &str) -> RoleResult<()> {
    Err(NO_QUIC.into())
}
