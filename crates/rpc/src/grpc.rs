//! gRPC by tonic and prost: HTTP/2, with the libraries' windows and longer frames.

mod channel;
mod client;
mod echo;
mod gathering;
mod in_flight;
mod marshal;
#[cfg(not(feature = "tls"))]
#[path = "grpc/no_security.rs"]
mod security;
#[cfg(feature = "tls")]
mod security;
mod server;

pub(crate) use client::Client;
pub use in_flight::InFlight;
pub(crate) use marshal::Marshal;
pub(crate) use server::Server;

use crate::{Socket, Stack};
use std::io;
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};

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

/// The key by which a client knows this process's servers, in hexadecimal digits; none of a stack without TLS.
///
/// # Errors
/// No key can be made; `Unsupported` in a build without the feature `tls`.
pub fn key(stack: Stack) -> io::Result<Option<&'static str>> {
    match stack {
        Stack::GrpcTls => security::own_key().map(Some),
        _ => Ok(None),
    }
}

/// A runtime that does all its work on the waiting thread.
fn runtime() -> io::Result<Runtime> {
    Builder::new_current_thread().enable_all().build()
}

/// The socket of a connection. Call this within the runtime that it will use.
///
/// # Errors
/// The system's, for the socket.
fn tokio_stream(socket: Socket) -> io::Result<TcpStream> {
    socket.set_nodelay()?;
    socket.0.set_nonblocking(true)?;
    TcpStream::from_std(socket.0)
}
