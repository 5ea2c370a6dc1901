//! What is measured of remote procedure calls: one interface, over gRPC (tonic) and over Thrift
//! (Apache's own crate), its servers, its clients, and what they do to a message in memory.
//!
//! The interface is written down twice, in `idl/echo.proto` and in `idl/echo.thrift`. Heavy
//! dependencies stay in this crate. It never measures: what is timed from outside does here what
//! anybody's client does, and takes no clock, lock or allocation more.

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
mod thrift;

pub use client::{Client, Summary};
pub use error::RpcError;
pub use in_flight::InFlight;
pub use marshal::Marshal;
pub use options::Options;
pub use payload::{Kind, Payload};
pub use server::Server;
pub use socket::Socket;
pub use stack::{Protocol, Stack, Transport};
