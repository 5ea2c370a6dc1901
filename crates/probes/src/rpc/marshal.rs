//! `rpc.marshal`: what it costs to turn an argument into bytes, and back.

use super::axes::{Argument, bytes_of};
use crate::prelude::*;
use costof_rpc::{Kind, Marshal};

pub(crate) static PROBE: Probe = Probe::new::<Marshalling>();

words! {
    /// The format of the bytes.
    pub(crate) enum Stack => costof_rpc::Stack {
        /// gRPC's: a protobuf message with the argument as its field, by prost, behind the five bytes of its length
        Grpc = "grpc",
        /// Thrift's, by Apache's own crate: a framed message of a call in the binary protocol
        Thrift = "thrift",
    }

    /// The direction.
    pub(crate) enum Direction {
        /// from the value to bytes
        Marshal = "marshal",
        /// from bytes to a value of its own
        Unmarshal = "unmarshal",
    }
}

/// For predictions of calls by any stack.
impl From<costof_rpc::Stack> for Stack {
    fn from(stack: costof_rpc::Stack) -> Stack {
        match stack {
            costof_rpc::Stack::Thrift => Stack::Thrift,
            _ => Stack::Grpc,
        }
    }
}

point! {
    /// What does it cost to marshal an argument of a call, and to unmarshal it?
    ///
    /// The request of a call, in the generated code of each stack, is written into an existing
    /// buffer that is long enough, and read back into a new value, whose strings and lists are
    /// allocated, as for every call. There is no socket and no HTTP/2. The bytes are the same each
    /// time, so they and the branches are cached. Before the timed batches, what comes back is
    /// compared with the argument.
    ///
    /// # Predicted from
    /// the fields of the argument at the core clock (cpu.frequency), and copies of its bytes
    ///
    /// # Sources
    /// - Protocol Buffers, Encoding; crate prost 0.14
    /// - Apache Thrift, doc/specs/thrift-binary-protocol.md
    /// - CS 739 mini-project 1, part 3: marshalling and unmarshalling by type, by gRPC and Thrift
    pub(crate) struct Marshalling of "rpc.marshal" {
        /// which stack's format
        stack: Stack = words(),
        payload: Argument = Argument::axis(),
        /// the direction
        direction: Direction = words(),
    }
}

impl Measure for Marshalling {
    // With 1, the libraries were inlined into each other (LTO).
    const METHOD: u32 = 2;
    const METRICS: &'static [Metric] = metrics! {
        /// one argument, in memory
        cost: Nanoseconds Lower,
        /// bytes of the marshalled argument: for Thrift the whole call, for gRPC without HTTP/2's
        /// frames and headers
        wire_bytes: Bytes Lower,
    };
    const AFTER: NameList = &["cpu.frequency"];
    const CROSSINGS: &'static [NameList] = &[&["stack", "payload", "direction"]];
    const ROUNDS: u32 = 2;
    const ROLES: &'static [StartRole] = &[alone::<Marshalling, Marshals>];

    fn memory_bytes(_: &At<Self>) -> u64 {
        1 << 20
    }

    headlines! {
        "marshal a string of 64 B: protobuf": {},
    }

    fn predict(point: &At<Self>, _: &Facts, measured: &MeasuredRows<'_>) -> Option<Prediction> {
        expected(point.payload.kind(), measured)?.predict("cost")
    }
}

/// Values in the structure, including those in its lists and inner structure.
const STRUCTURE_VALUES: f64 = 25.0;
/// Cycles for a message of any stack, for its name and length, and for each value in it.
const MESSAGE_CYCLES: Range = Range(10.0, 600.0);
const VALUE_CYCLES: Range = Range(4.0, 150.0);
/// How fast strings are copied and checked to be UTF-8: at most a cache line per cycle, and at
/// least in bytes per nanosecond.
const LINE_BYTES: f64 = 64.0;
const COPIES_MIN: f64 = 3.0;

/// Marshalling or unmarshalling an argument.
pub(super) fn expected(argument: Kind, measured: &MeasuredRows<'_>) -> Option<Cost> {
    let hz = measured.primary("cpu.frequency", &[])?;
    let (values, bytes) = match argument {
        Kind::Structure => (STRUCTURE_VALUES, bytes_of(argument) as f64),
        Kind::String(bytes) => (1.0, bytes as f64),
        Kind::Int | Kind::Double => (1.0, 0.0),
    };
    let Range(low, high) = MESSAGE_CYCLES + VALUE_CYCLES * values;
    let message = cycles(measured, (low, high), "a message and the values in it")?;
    let strings = Cost::bytes(bytes, (COPIES_MIN, LINE_BYTES * hz / 1e9), "of strings");
    Some((message + strings).named("marshalling"))
}

struct Marshals(Marshal);

fn failed(error: &io::Error) -> Failure {
    Failure::error(format!("marshalling failed: {error}"))
}

impl Setup<Marshalling> for Marshals {
    fn set_up(point: &At<Marshalling>, _: &Launch) -> Result<Self, Failure> {
        // The result is compared here.
        let marshal = Marshal::new(point.stack.into(), &point.payload.payload());
        Ok(Marshals(marshal.map_err(|error| failed(&error))?))
    }

    fn measure(&mut self, point: &At<Marshalling>, meter: &mut Meter<'_>) -> Result<(), Failure> {
        let marshal = &mut self.0;
        let (mut bytes, mut wrong) = (marshal.wire_bytes(), None);
        match point.direction {
            Direction::Marshal => {
                // Thrift allocates memory for the name of a message.
                if point.stack != Stack::Grpc {
                    meter.operation_allocates();
                }
                meter.repeatable("cost", |n| match marshal.encode(n) {
                    Ok(encoded) => bytes = encoded,
                    Err(error) => wrong = Some(error),
                });
            }
            Direction::Unmarshal => {
                // A new value needs memory.
                meter.operation_allocates();
                meter.repeatable("cost", |n| {
                    if let Err(error) = marshal.decode(n) {
                        wrong = Some(error);
                    }
                });
            }
        }
        match wrong {
            Some(error) => Err(failed(&error)),
            None if bytes != marshal.wire_bytes() => Err(Failure::error(format!(
                "{bytes} B were marshalled, {} before",
                marshal.wire_bytes()
            ))),
            None => Ok(()),
        }
    }

    fn check(self, _: &At<Marshalling>, meter: &mut Meter<'_>) -> Result<(), Failure> {
        meter.value("wire_bytes", self.0.wire_bytes() as f64);
        Ok(())
    }
}
