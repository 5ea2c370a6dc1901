//! The stack that carries a call.

use std::fmt;

/// An RPC library, and how it is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stack {
    /// gRPC over HTTP/2 without TLS, by tonic and prost.
    Grpc,
    /// Apache's Thrift.
    Thrift(Transport, Protocol),
}

impl Stack {
    /// The most common form of Thrift: the binary protocol, framed, which every server accepts that
    /// does not use a thread per connection.
    pub const THRIFT: Stack = Stack::Thrift(Transport::Framed, Protocol::Binary);
}

/// How Thrift marks the end of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Transport {
    /// A length before the message (`TFramedTransport`).
    Framed,
    /// None: the end is found by parsing (`TBufferedTransport`).
    Buffered,
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
            Self::Thrift(Transport::Framed, Protocol::Binary) => "Thrift (framed, binary)",
            Self::Thrift(Transport::Framed, Protocol::Compact) => "Thrift (framed, compact)",
            Self::Thrift(Transport::Buffered, Protocol::Binary) => "Thrift (buffered, binary)",
            Self::Thrift(Transport::Buffered, Protocol::Compact) => "Thrift (buffered, compact)",
        })
    }
}
