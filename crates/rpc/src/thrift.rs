//! Thrift by Apache's own crate, and by what Apache's compiler makes of `idl/echo.thrift`.

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

/// What Apache's compiler makes of `idl/echo.thrift`, as it was made (`crates/rpc/generate`; `./check`
/// makes it anew and compares). It is nobody's to read or to mend: what it does not say of itself is
/// allowed to it, here and nowhere else.
#[allow(
    dead_code,
    unreachable_pub,
    unused_imports,
    clippy::all,
    clippy::unwrap_used
)]
mod wire {
    include!("thrift/generated/echo.rs");

    pub(super) mod calls;
}

/// The most that the crate takes as one frame, which cannot be set (`TConfiguration` reaches the
/// protocols and not the transport).
const MAX_FRAME: usize = TConfiguration::DEFAULT_MAX_FRAME_SIZE;
/// What a message has besides what it carries, at most: its name, its number, its fields.
const MAX_OVERHEAD: usize = 1024;

/// What the protocols may take.
fn limits(options: &Options) -> TConfiguration {
    let limits = TConfiguration::builder()
        .max_frame_size(None)
        .max_message_size(Some(options.max_message_bytes))
        .max_string_size(Some(options.max_message_bytes));
    limits
        .build()
        .expect("it refuses frames that are longer than messages alone")
}
