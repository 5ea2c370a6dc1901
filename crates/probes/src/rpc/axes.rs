//! What probes of remote procedure calls vary: what carries a call, and what it has for an argument.

use crate::literal::{list, word, words};
use costof_model::axis::{Axis, Choice};
use costof_model::failure::Failure;
use costof_model::point::Point;
use costof_os::meeting::{DATAGRAM_MOST_BYTES, Over};
use costof_rpc::{Kind, Payload, Stack as Rpc};

/// gRPC, as `stack` has it.
pub(super) const GRPC: Choice = word(
    "grpc",
    "gRPC: protobuf over HTTP/2, by tonic, on a runtime of one thread at each end",
);
/// Thrift, as `stack` has it.
pub(super) const THRIFT: Choice = word(
    "thrift",
    "Apache Thrift: its binary protocol in frames, by Apache's own crate",
);
/// A connection, as `stack` has it.
pub(super) const TCP: Choice = word(
    "tcp",
    "the socket beneath: as many bytes there and back, of no procedure",
);

/// The axis `stack`.
pub(super) const STACK: Axis = words(
    "stack",
    "what carries a call, or as many bytes as its argument has",
    list![
        GRPC,
        THRIFT,
        TCP,
        word("rudp", "the library rudp: reliable datagrams"),
        word("udp", "plain datagrams"),
    ],
);

/// The axis `over`.
pub(super) const OVER: Axis = words(
    "over",
    "what a connection goes through; the stacks of datagrams have none, and go by UDP",
    list![
        word("tcp", "TCP with TCP_NODELAY"),
        word(
            "unix",
            "a Unix stream socket, on one machine without a link"
        ),
    ],
);

/// The axis `payload`.
pub(super) const PAYLOAD: Axis = words(
    "payload",
    "the argument of a call, which is its answer too",
    list![
        word("string64", "a string of 64 B"),
        word("int", "a 32-bit integer"),
        word("double", "a 64-bit floating-point number"),
        word(
            "structure",
            "a structure with a structure in it, a list, a map and strings"
        ),
        word("string512", "a string of 512 B"),
        word("string1024", "a string of 1 KiB"),
        word("string2048", "a string of 2 KiB"),
        word("string16384", "a string of 16 KiB"),
        word("string65536", "a string of 64 KiB"),
    ],
);

/// What carries a point's calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stack {
    /// Calls of procedures.
    Calls(Rpc),
    /// As many bytes, by what `rudp.rtt` calls so too.
    Bytes(&'static str),
}

pub(super) fn stack(point: &Point) -> Stack {
    match point.axes.word("stack") {
        "thrift" => Stack::Calls(Rpc::THRIFT),
        "rudp" => Stack::Bytes("rudp"),
        "udp" => Stack::Bytes("udp"),
        "tcp" => Stack::Bytes(match over(point) {
            Over::Unix => "unix",
            _ => "tcp",
        }),
        _ => Stack::Calls(Rpc::Grpc),
    }
}

/// The stack of a point of calls.
pub(super) fn called(point: &Point) -> Rpc {
    match stack(point) {
        Stack::Calls(stack) => stack,
        Stack::Bytes(_) => unreachable!("bytes go by other ends"),
    }
}

/// What a point's connection goes through; TCP where it has no such axis.
pub(super) fn over(point: &Point) -> Over {
    match point.axes.find_word("over") {
        Some("unix") => Over::Unix,
        _ => Over::Tcp,
    }
}

/// What cannot be, wherever it is tried.
pub(super) fn check(point: &Point) -> Result<(), Failure> {
    let is_datagrams = matches!(stack(point), Stack::Bytes("rudp" | "udp"));
    if is_datagrams && over(point) == Over::Unix {
        return Err(Failure::unsupported(
            "datagrams go by UDP here, and have no Unix socket (--set over=tcp, which says nothing \
             of them)",
        ));
    }
    if stack(point) == Stack::Bytes("udp") && bytes(point) > DATAGRAM_MOST_BYTES {
        return Err(Failure::unsupported(
            "a datagram carries 65,507 B at most (--set payload=string16384, or stack=rudp, which \
             cuts)",
        ));
    }
    Ok(())
}

/// What kind of argument a point's calls have.
pub(super) fn kind(point: &Point) -> Kind {
    match point.axes.word("payload") {
        "int" => Kind::Int,
        "double" => Kind::Double,
        "structure" => Kind::Structure,
        string => {
            let digits = string.trim_start_matches(|c: char| !c.is_ascii_digit());
            Kind::String(digits.parse().expect("every other payload is a string"))
        }
    }
}

/// The argument of a point's calls.
pub(super) fn payload(point: &Point) -> Payload {
    Payload::new(kind(point))
}

/// Bytes that a point's argument has by itself: those that a socket carries for it. A structure's are
/// those of its protobuf message, the shortest form that it has here.
pub(super) fn bytes(point: &Point) -> usize {
    match kind(point) {
        Kind::Int => 4,
        Kind::Double => 8,
        Kind::Structure => STRUCTURE_BYTES,
        Kind::String(bytes) => bytes,
    }
}

/// Bytes of the structure as protobuf.
const STRUCTURE_BYTES: usize = 221;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::literal;
    use crate::rpc::rtt::PROBE;
    use costof_model::axis::AxisValue;
    use costof_model::failure::FailureKind;
    use costof_rpc::Marshal;

    fn at(name: &'static str, value: AxisValue) -> Point {
        let mut axes = PROBE.info.defaults();
        axes.0.insert(name.into(), value);
        literal::point(&PROBE, axes)
    }

    /// What gRPC puts before a message, and a message before what its one field has.
    const HEADER_BYTES: std::ops::RangeInclusive<usize> = 5..=5 + 4;

    #[test]
    fn a_socket_carries_as_many_bytes_as_the_argument_has() {
        let payloads = PAYLOAD.usual();
        assert_eq!(payloads.len(), 9);
        for value in payloads {
            let point = at("payload", value);
            let marshal = Marshal::new(Rpc::Grpc, &payload(&point)).unwrap();
            let header = marshal.wire_bytes() - bytes(&point);
            assert!(HEADER_BYTES.contains(&header), "{point}: {header}");
        }
    }

    #[test]
    fn datagrams_have_no_unix_socket() {
        let unix = |stack: &'static str| {
            let mut point = at("over", AxisValue::Word("unix".into()));
            point.axes = point.axes.with("stack", stack);
            check(&point)
        };
        for stack in ["rudp", "udp"] {
            let failure = unix(stack).unwrap_err();
            assert_eq!(failure.kind, FailureKind::Unsupported);
            assert!(failure.reason.contains("over=tcp"), "{failure}");
        }
        for stack in ["tcp", "thrift", "grpc"] {
            assert_eq!(unix(stack), Ok(()));
        }
    }

    #[test]
    fn a_datagram_is_no_longer_than_it_can_be() {
        let long = |stack: &'static str| {
            let mut point = at("payload", AxisValue::Word("string65536".into()));
            point.axes = point.axes.with("stack", stack);
            check(&point).map_err(|failure| failure.reason)
        };
        assert!(long("udp").unwrap_err().contains("payload=string16384"));
        for stack in ["rudp", "tcp", "grpc"] {
            assert_eq!(long(stack), Ok(()));
        }
    }
}
