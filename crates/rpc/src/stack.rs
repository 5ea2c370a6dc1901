//! Which stack carries a call.

use std::fmt;

/// What a call goes through.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stack {
    /// gRPC over HTTP/2 without TLS, by tonic and prost.
    Grpc,
    /// Apache's Thrift.
    Thrift(Transport, Protocol),
}

impl Stack {
    /// Thrift as it is used most: framed, which every server takes that is not one thread a
    /// connection, in its binary protocol.
    pub const THRIFT: Stack = Stack::Thrift(Transport::Framed, Protocol::Binary);
}

/// How Thrift tells where a message ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Transport {
    /// Its length stands before it (`TFramedTransport`).
    Framed,
    /// By reading it (`TBufferedTransport`).
    Buffered,
}

/// How Thrift writes a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// Numbers as long as they are in memory (`TBinaryProtocol`, strict).
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
