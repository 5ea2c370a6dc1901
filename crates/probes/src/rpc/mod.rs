//! Remote procedure calls: gRPC and Thrift, and the transports beneath them.

mod axes;
mod ends;
mod expect;
pub(crate) mod first_call;
pub(crate) mod load;
pub(crate) mod marshal;
pub(crate) mod rtt;
pub(crate) mod stream;
