//! The stack that carries a call.

/// An RPC library, and how it is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stack {
    /// gRPC over HTTP/2 without TLS, by tonic and prost.
    Grpc,
    /// Apache's Thrift in its most common form: the binary protocol, numbers at their size in memory, each message
    /// in a frame (`TFramedTransport`).
    Thrift,
}
