//! The arguments of remote procedure calls.

use crate::prelude::*;
use costof_rpc::Payload;

pub(crate) use costof_rpc::Kind;

words! {
    /// The argument of a call.
    pub(crate) enum Argument {
        /// a string of 64 B
        String64 = "string64",
        /// a 32-bit integer
        Int = "int",
        /// a 64-bit floating-point number
        Double = "double",
        /// a structure with a structure in it, a list, a map and strings
        Structure = "structure",
        /// a string of 512 B
        String512 = "string512",
        /// a string of 1 KiB
        String1024 = "string1024",
        /// a string of 2 KiB
        String2048 = "string2048",
        /// a string of 16 KiB
        String16384 = "string16384",
        /// a string of 64 KiB
        String65536 = "string65536",
    }
}

impl Argument {
    /// The axis.
    pub(super) fn axis() -> AxisOf<Argument> {
        words().about("the argument of a call, which is its answer too")
    }

    pub(super) fn kind(self) -> Kind {
        match self {
            Argument::Int => Kind::Int,
            Argument::Double => Kind::Double,
            Argument::Structure => Kind::Structure,
            Argument::String64 => Kind::String(64),
            Argument::String512 => Kind::String(512),
            Argument::String1024 => Kind::String(1024),
            Argument::String2048 => Kind::String(2048),
            Argument::String16384 => Kind::String(16384),
            Argument::String65536 => Kind::String(65536),
        }
    }

    /// As the stacks take it.
    pub(super) fn payload(self) -> Payload {
        Payload::new(self.kind())
    }

    /// As [`bytes_of`].
    pub(super) fn bytes(self) -> usize {
        bytes_of(self.kind())
    }
}

/// Bytes of the structure as protobuf.
const STRUCTURE_BYTES: usize = 221;

/// Bytes of an argument without a protocol: those that a socket carries for it. Of a structure, those of its
/// protobuf message, its shortest form here.
pub(crate) fn bytes_of(argument: Kind) -> usize {
    match argument {
        Kind::Int => 4,
        Kind::Double => 8,
        Kind::Structure => STRUCTURE_BYTES,
        Kind::String(bytes) => bytes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use costof_rpc::Marshal;

    /// gRPC's header of a message, and protobuf's of its only field.
    const HEADER_BYTES: std::ops::RangeInclusive<usize> = 5..=5 + 4;

    #[test]
    fn a_socket_carries_as_many_bytes_as_the_argument_has() {
        for payload in Argument::ALL {
            let marshal = Marshal::new(costof_rpc::Stack::Grpc, &payload.payload()).unwrap();
            let header = marshal.wire_bytes() - payload.bytes();
            assert!(HEADER_BYTES.contains(&header), "{payload:?}: {header}");
        }
    }
}
