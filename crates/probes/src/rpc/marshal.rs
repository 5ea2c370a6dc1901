//! `rpc.marshal`: what it costs to turn an argument into bytes, and back.

use super::axes::{PAYLOAD, payload};
use super::expect::marshal_ns;
use crate::expect::cost_ns;
use crate::literal::{cost, list, metric, text, word, words};
use costof_measure::meter::Meter;
use costof_measure::probe::{Probe, Role, the_only_report};
use costof_model::facts::Facts;
use costof_model::failure::Failure;
use costof_model::point::{Headline, Point};
use costof_model::prediction::{Known, Prediction};
use costof_model::probe_info::ProbeInfo;
use costof_model::protocol::Offers;
use costof_model::unit::{Better, Unit};
use costof_rpc::{Marshal, Protocol, RpcError, Stack, Transport};
use std::sync::LazyLock;

pub(crate) static PROBE: Probe = Probe {
    info: LazyLock::new(|| ProbeInfo {
        id: text("rpc.marshal"),
        method: 1,
        question: text("What does it cost to marshal an argument of a call, and to unmarshal it?"),
        axes: list![
            words(
                "stack",
                "whose bytes it becomes",
                list![
                    word(
                        "grpc",
                        "gRPC's: a protobuf message with the argument as its field, by prost, behind the five bytes of its length"
                    ),
                    word(
                        "thrift",
                        "Thrift's, by Apache's own crate: a framed message of a call in the binary protocol"
                    ),
                    word("thrift_compact", "the same in the compact protocol"),
                ],
            ),
            PAYLOAD,
            words(
                "direction",
                "which way",
                list![
                    word("marshal", "from the value to bytes"),
                    word("unmarshal", "from bytes to a value of its own"),
                ],
            ),
        ],
        crossings: list![list![text("stack"), text("payload"), text("direction")]],
        metrics: list![
            cost("one argument, in memory"),
            metric(
                "wire_bytes",
                Unit::Bytes,
                Better::Lower,
                "bytes that the argument becomes: of Thrift those of the whole call, of gRPC without HTTP/2's frames and headers",
            ),
        ],
        how: text(
            "The request of a call, as the generated code of each stack has it, into a buffer that \
             exists already and is long enough, and back into a new value, whose strings and lists \
             are allocated, as for every call. No socket and no HTTP/2. The same bytes again \
             and again, so they and the branches are cached. Before the timed batches, what comes \
             back is compared with the argument.",
        ),
        sources: list![
            text("Protocol Buffers, Encoding; crate prost 0.14"),
            text(
                "Apache Thrift, doc/specs/thrift-binary-protocol.md and thrift-compact-protocol.md"
            ),
            text(
                "CS 739 mini-project 1, part 3: marshalling and unmarshalling by type, by gRPC and Thrift"
            ),
        ],
        predicted_from: text(
            "the fields of the argument, at the core clock that cpu.frequency has measured, and copies of its bytes",
        ),
        after: list![text("cpu.frequency")],
        needs: list![],
        roles: list![text("only")],
    }),
    rounds: 2,
    blocks_by: &[],
    least_ns: |_| 0.0,
    memory_bytes: |_| 1 << 20,
    processors: |_| 1,
    headlines,
    more_points: |_| Vec::new(),
    budget: None,
    predict,
    roles: &[|_| Ok(Box::new(Marshals(None)))],
    derive: the_only_report,
};

fn headlines(_: &Facts) -> Vec<Headline> {
    vec![Headline::new(
        "marshal a string of 64 B: protobuf",
        PROBE.info.defaults(),
    )]
}

fn rpc(point: &Point) -> Stack {
    match point.axes.word("stack") {
        "thrift" => Stack::THRIFT,
        "thrift_compact" => Stack::Thrift(Transport::Framed, Protocol::Compact),
        _ => Stack::Grpc,
    }
}

struct Marshals(Option<Marshal>);

fn failed(error: &RpcError) -> Failure {
    Failure::error(format!("marshalling failed: {error}"))
}

impl Role for Marshals {
    fn prepare(&mut self, point: &Point, _: &Offers) -> Result<Offers, Failure> {
        // What comes back is compared here.
        let marshal = Marshal::new(rpc(point), &payload(point)).map_err(|error| failed(&error))?;
        self.0 = Some(marshal);
        Ok(Offers::new())
    }

    fn run(&mut self, point: &Point, meter: &mut Meter<'_>) -> Result<(), Failure> {
        let marshal = self.0.as_mut().expect("it is prepared");
        let (mut bytes, mut wrong) = (marshal.wire_bytes(), None);
        if point.axes.word("direction") == "marshal" {
            // A message of Thrift has its name in memory of its own.
            if rpc(point) != Stack::Grpc {
                meter.operation_allocates();
            }
            meter.repeatable("cost", |n| {
                for _ in 0..n {
                    match marshal.encode() {
                        Ok(encoded) => bytes = encoded,
                        Err(error) => wrong = Some(error),
                    }
                }
            });
        } else {
            // A new value has memory of its own.
            meter.operation_allocates();
            meter.repeatable("cost", |n| {
                for _ in 0..n {
                    if let Err(error) = marshal.decode() {
                        wrong = Some(error);
                    }
                }
            });
        }
        match wrong {
            Some(error) => Err(failed(&error)),
            None if bytes != marshal.wire_bytes() => Err(Failure::error(format!(
                "{bytes} B were marshalled where {} were before",
                marshal.wire_bytes()
            ))),
            None => Ok(()),
        }
    }

    fn finish(&mut self, _: &Point, meter: &mut Meter<'_>) -> Result<(), Failure> {
        let marshal = self.0.take().expect("it is prepared");
        meter.value("wire_bytes", marshal.wire_bytes() as f64);
        Ok(())
    }
}

fn predict(point: &Point, _: &Facts, known: &Known<'_>) -> Option<Prediction> {
    let (low, high, because) = marshal_ns(point, known)?;
    cost_ns(low, high, because)
}
