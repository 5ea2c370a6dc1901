//! Remote procedure calls: one interface over gRPC (tonic) and Thrift (Apache's own crate), with
//! servers, clients, and marshalling in memory.
//!
//! The interface is defined twice, in `idl/echo.proto` and in `idl/echo.thrift`. Heavy dependencies
//! stay in this crate. It never measures: a timed call does here what any client does, without an
//! additional clock reading, lock or allocation.

mod client;
mod grpc;
mod marshal;
mod memory;
mod messages;
mod payload;
mod server;
mod socket;
mod stack;
mod summary;
mod thrift;
#[cfg(feature = "tls")]
pub mod tls;

pub use client::{Client, client};
pub use grpc::{InFlight, key};
pub use marshal::Marshal;
pub use payload::{Kind, Payload};
pub use server::{Server, server};
pub use socket::Socket;
pub use stack::Stack;
pub use summary::Summary;

/// The longest message that an end takes, in bytes as the stack marshals it.
const MAX_MESSAGE_BYTES: usize = 8 << 20;
