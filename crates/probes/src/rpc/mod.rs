//! Remote procedure calls: gRPC and Thrift, and the transports beneath them.

pub(crate) mod axes;
pub(crate) mod expect;
pub(crate) mod first_call;
pub(crate) mod load;
pub(crate) mod marshal;
