//! gRPC by tonic and prost: HTTP/2 without TLS, with the libraries' windows and longer frames.

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

/// What tonic's and prost's generators make of `idl/echo.proto` (`crates/rpc/generate`; `./check`
/// generates it again and compares). Nobody reads or edits it, so its lints are allowed, here and
/// nowhere else.
#[allow(unreachable_pub)]
mod wire {
    include!("grpc/generated/costof.rpc.rs");
}

/// The longest HTTP/2 frame that each end accepts, and so the longest that the other sends. A
/// message of 64 KiB takes one system call to send and two to receive. With the libraries' default
/// of 16 KiB it took four and eight.
const MAX_FRAME: u32 = 128 << 10;

/// A runtime that does all its work on the waiting thread.
fn runtime() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()
}
