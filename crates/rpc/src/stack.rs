//! The stack that carries a call.

use std::fmt;

/// An RPC library, and how it is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stack {
    /// gRPC over HTTP/2 without TLS, by tonic and prost.
    Grpc,
    /// Apache's Thrift, each message in a frame (`TFramedTransport`).
    Thrift(Protocol),
}

impl Stack {
    /// The most common form of Thrift: the binary protocol.
    pub const THRIFT: Stack = Stack::Thrift(Protocol::Binary);
}

/// How Thrift encodes a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// Numbers at their size in memory (`TBinaryProtocol`, strict).
    Binary,
    /// Small numbers in fewer bytes (`TCompactProtocol`).
    Compact,
}

impl fmt::Display for Stack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Grpc => "gRPC",
            Self::Thrift(Protocol::Binary) => "Thrift (binary)",
            Self::Thrift(Protocol::Compact) => "Thrift (compact)",
        })
    }
}
