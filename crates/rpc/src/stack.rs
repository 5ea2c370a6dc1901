//! The stack that carries a call.

/// An RPC library, and how it is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stack {
    /// gRPC over HTTP/2 without TLS, by tonic and prost.
    Grpc,
    /// The same over TLS 1.3, in a build with the feature `tls`.
    GrpcTls,
    /// gRPC without TLS, whose ends compress each message by gzip.
    GrpcGzip,
    /// Apache's Thrift in its most common form: the binary protocol, numbers at their size in memory, each message
    /// in a frame (`TFramedTransport`).
    Thrift,
}
