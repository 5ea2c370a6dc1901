//! Remote procedure calls: one interface over gRPC (tonic) and Thrift (Apache's own crate), with
//! servers, clients, and marshalling in memory.
//!
//! The interface is defined twice, in `idl/echo.proto` and in `idl/echo.thrift`. Heavy dependencies
//! stay in this crate. It never measures: a timed call does here what any client does, without an
//! additional clock reading, lock or allocation.

mod by_stack;
mod client;
mod error;
mod grpc;
mod in_flight;
mod marshal;
mod memory;
mod messages;
mod options;
mod payload;
mod server;
mod socket;
mod stack;
mod summary;
mod thrift;

pub use client::Client;
pub use error::RpcError;
pub use in_flight::InFlight;
pub use marshal::Marshal;
pub use options::Options;
pub use payload::{Kind, Payload};
pub use server::Server;
pub use socket::Socket;
pub use stack::{Protocol, Stack};
pub use summary::Summary;
