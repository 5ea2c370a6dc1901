//! Thrift by Apache's own crate, and the code that Apache's compiler generates from
//! `idl/echo.thrift`.

mod client;
mod errors;
mod in_flight;
mod line;
mod marshal;
mod protocols;
mod server;

pub(crate) use client::Client;
pub(crate) use in_flight::InFlight;
pub(crate) use marshal::Marshal;
pub(crate) use server::Server;

use crate::Options;
use ::thrift::TConfiguration;

/// What Apache's compiler generates from `idl/echo.thrift`, unchanged (`crates/rpc/generate`;
/// `./check --all` generates it again and compares). Nobody reads or edits it, so its lints are allowed,
/// here and nowhere else.
#[allow(dead_code, unreachable_pub, unused_imports, clippy::all, clippy::unwrap_used)]
mod wire {
    include!("thrift/generated/echo.rs");

    pub(super) mod calls;
}

/// The longest frame that the crate accepts. It cannot be configured: `TConfiguration` reaches the
/// protocols, not the transport.
const MAX_FRAME: usize = TConfiguration::DEFAULT_MAX_FRAME_SIZE;
/// The most bytes of a message besides its payload: name, number, field headers.
const MAX_OVERHEAD: usize = 1024;

fn limits(options: &Options) -> TConfiguration {
    let limits = TConfiguration::builder()
        .max_frame_size(None)
        .max_message_size(Some(options.max_message_bytes))
        .max_string_size(Some(options.max_message_bytes));
    limits.build().expect("only frames longer than messages are refused")
}
