//! gRPC by tonic and prost, as they are: HTTP/2 without TLS, its windows as the libraries set them,
//! its frames longer.

mod channel;
mod client;
mod echo;
mod errors;
mod gathering;
mod in_flight;
mod marshal;
mod server;
mod stream;

pub(crate) use client::Client;
pub(crate) use in_flight::InFlight;
pub(crate) use marshal::Marshal;
pub(crate) use server::Server;

/// What `build.rs` makes of `idl/echo.proto`. It is nobody's to read or to mend: what it does not
/// say of itself is allowed to it, here and nowhere else.
#[allow(unreachable_pub)]
mod wire {
    tonic::include_proto!("costof.rpc");
}

/// The longest frame of HTTP/2 that each end takes, and so the longest that the other sends: a
/// message of 64 KiB goes by one system call and comes by two. In frames of 16 KiB, the libraries'
/// own, it went by four and came by eight.
const MAX_FRAME: u32 = 128 << 10;

/// A runtime that does all its work on the thread that waits for it.
fn runtime() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
}
