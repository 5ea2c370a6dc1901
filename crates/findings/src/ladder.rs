//! Puts a remote procedure call on one scale with the costs beneath it: a copy of as many bytes, a system
//! call, and the round trips of the transports.

use crate::over;
use crate::prelude::*;
use costof_model::{State, Text, display_bytes};

/// The transport that calls are compared with.
const PLAIN: &str = "tcp";
/// What carries messages, in the order of the sentence: each with its name there, and whether it makes calls.
const ROUND_TRIPS: [(&str, &str, bool); 5] = [
    ("udp", "UDP", false),
    (PLAIN, "TCP", false),
    ("rudp", "rudp", false),
    ("thrift", "Thrift", true),
    ("grpc", "gRPC", true),
];

/// The cost of a call with one payload, on one scale with the costs beneath it.
#[derive(Clone, Debug, PartialEq)]
pub struct Ladder {
    /// `string64 over loopback`.
    pub payload: String,
    /// The name of each rung and its time in nanoseconds, the shortest first.
    pub rungs: Vec<(String, f64)>,
    /// The link of the round trips.
    pub link: Text,
    finding: Finding,
}

/// A ladder for each payload and link for which the run has a call and TCP.
pub fn ladders(run: &Run) -> Vec<Ladder> {
    let round_trips = run.select("net.rtt");
    let measured = round_trips.filter(|row| row.state == State::Ok && row.primary().is_some());
    let groups = measured.group_by(&[over::AXIS]).into_iter();
    groups.filter_map(|group| ladder_of_payload(run, &group)).collect()
}

/// A finding for each.
pub(crate) fn ladder(run: &Run) -> Vec<Finding> {
    let ladders = ladders(run).into_iter();
    ladders.map(|ladder| ladder.finding).collect()
}

/// A rung: its name, and the point that has its time.
struct Rung<'a> {
    name: String,
    row: &'a PointRow,
}

impl Rung<'_> {
    fn ns(&self) -> f64 {
        self.row.primary().map_or(0.0, |estimate| estimate.median)
    }
}

fn ladder_of_payload(run: &Run, group: &Group<'_>) -> Option<Ladder> {
    let plain = over::first(&group.rows, PLAIN)?;
    let payload = Payload::of(plain)?;
    let round_trips = ROUND_TRIPS.into_iter().filter_map(|(over, name, _)| {
        let name = name.to_owned();
        over::first(&group.rows, over).map(|row| Rung { name, row })
    });
    let mut rungs = beneath(run, payload.bytes());
    rungs.extend(round_trips);
    rungs.sort_by(|one, other| one.ns().total_cmp(&other.ns()));
    let mut evidence: Vec<&PointRow> = rungs.iter().map(|rung| rung.row).collect();
    let calls =
        ROUND_TRIPS.into_iter().filter(|(.., is_call)| *is_call).filter_map(|(over, name, _)| {
            let (call, marshalled) =
                call(run, over, over::first(&group.rows, over)?, plain, payload)?;
            evidence.extend(marshalled.into_iter().flatten());
            Some(format!("{name} = {call}"))
        });
    let calls: Vec<String> = calls.collect();
    if calls.is_empty() {
        return None;
    }
    let place = place(run, &group.common.without(&["payload", "size"]));
    let payload = match payload {
        Payload::String(bytes) => format!("a string of {} over {place}", display_bytes(bytes)),
        Payload::Other(word) => format!("{word} over {place}"),
    };
    let scale = rungs.iter().map(|rung| format!("{} {}", rung.name, ns(rung.ns())));
    let (calls, scale) = (calls.join("; "), scale.collect::<Vec<_>>().join(" < "));
    let sentence = format!("a call with {payload}: {calls}; {scale}");
    let named = |rung: &Rung<'_>| (rung.name.clone(), rung.ns());
    Some(Ladder {
        payload,
        finding: Finding::new(Kind::RpcLadder, evidence, sentence),
        rungs: rungs.iter().map(named).collect(),
        link: group.common.link.clone(),
    })
}

/// How many round trips a call takes, how much of it is marshalling, and the points that show this.
fn call<'a>(
    run: &'a Run,
    over: &str,
    call: &PointRow,
    plain: &PointRow,
    payload: Payload<'_>,
) -> Option<(String, Option<[&'a PointRow; 2]>)> {
    let ratio = Interval::log_ratio(run, call, plain, "latency")?.exp();
    let marshalling = marshalling(run, over, payload);
    let share = marshalling.and_then(|[marshal, unmarshal]| {
        // For the request and the reply.
        let marshalled = 2.0 * (marshal.primary()?.median + unmarshal.primary()?.median);
        Some(marshalled / call.primary()?.median)
    });
    let marshalled = maybe(share, |share| {
        let digits = if share < 0.1 { 1 } else { 0 };
        format!(", of which marshalling {:.digits$} %", 100.0 * share)
    });
    let (middle, ends) = (times(ratio.middle), range((ratio.low, ratio.high), times));
    Some((format!("{middle} TCP round trips ({ends}){marshalled}"), marshalling))
}

/// The points that convert the argument to bytes and back.
fn marshalling<'a>(run: &'a Run, over: &str, payload: Payload<'_>) -> Option<[&'a PointRow; 2]> {
    let payload = payload.argument();
    let rows = run.select("rpc.marshal").filter(|row| row.primary().is_some());
    let rows = rows.words(&[("stack", over), ("payload", &*payload)]);
    let direction = |direction| rows.clone().with_value("direction", direction).one();
    Some([direction("marshal")?, direction("unmarshal")?])
}

/// The costs beneath all round trips: a system call, and a copy of as many bytes, or of the next larger size
/// that was measured.
fn beneath(run: &Run, bytes: Option<u64>) -> Vec<Rung<'_>> {
    let measured = |probe| run.select(probe).filter(|row| row.primary().is_some());
    let copies =
        measured("cpu.memcpy").words(&[("source", "hot"), ("shape", "one"), ("align", "both")]);
    let copies = copies.by_number("size").into_iter();
    let mut large_enough = copies.filter(|(size, _)| bytes.is_some_and(|bytes| *size >= bytes));
    let copy = large_enough
        .next()
        .map(|(size, row)| Rung { name: format!("memcpy of {}", display_bytes(size)), row });
    let calls = measured("os.syscall").with_value("call", "read");
    let call = calls.filter(|row| row.number("threads") != Some(2)).one();
    let call = call.map(|row| Rung { name: "a system call (read)".to_owned(), row });
    copy.into_iter().chain(call).collect()
}

/// What a message is.
#[derive(Clone, Copy)]
enum Payload<'a> {
    /// A string of so many bytes.
    String(u64),
    Other(&'a str),
}

impl<'a> Payload<'a> {
    fn of(row: &'a PointRow) -> Option<Payload<'a>> {
        match row.word("payload") {
            None | Some("string") => Some(Payload::String(row.number("size")?)),
            Some(other) => Some(Payload::Other(other)),
        }
    }

    /// Its bytes in memory; `None` of a structure.
    fn bytes(self) -> Option<u64> {
        match self {
            Payload::String(bytes) => Some(bytes),
            Payload::Other("int") => Some(4),
            Payload::Other("double") => Some(8),
            Payload::Other(_) => None,
        }
    }

    /// The word for it of `rpc.marshal`.
    fn argument(self) -> String {
        match self {
            Payload::String(bytes) => format!("string{bytes}"),
            Payload::Other(word) => word.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{self, RowExt, axes, ends, known_row, reads};
    use costof_model::{Axes, Grade};

    fn row(probe: &'static str, metric: &'static str, axes: Axes, ns: f64) -> PointRow {
        known_row(probe, metric, axes, ns, 0.02)
    }

    fn rtt(over: &'static str, payload: &'static str, us: f64) -> PointRow {
        let size = payload.strip_prefix("string").map_or(56, |bytes| bytes.parse::<u64>().unwrap());
        let payload = if payload.starts_with("string") { "string" } else { payload };
        let axes = axes!(over, size, payload);
        row("net.rtt", "latency", axes, us * 1000.0).over("loopback")
    }

    fn marshals(stack: &'static str, direction: &'static str, ns: f64) -> PointRow {
        let axes = axes!(stack, payload = "string64", direction);
        row("rpc.marshal", "cost", axes, ns)
    }

    fn copies(size: u64, ns: f64) -> PointRow {
        let axes = axes!(size, source = "hot", shape = "one", align = "both");
        row("cpu.memcpy", "cost", axes, ns)
    }

    fn found(rows: &[PointRow]) -> Vec<Finding> {
        tests::found(ladder, rows)
    }

    #[test]
    fn everything_for_one_payload_is_on_one_scale() {
        let read = row("os.syscall", "cost", axes!(call = "read"), 200.0);
        let rows = [
            rtt("grpc", "string64", 29.0),
            rtt("thrift", "string64", 15.0),
            rtt("rudp", "string64", 12.0),
            rtt("tcp", "string64", 10.0),
            rtt("udp", "string64", 9.0),
            marshals("grpc", "marshal", 40.0),
            marshals("grpc", "unmarshal", 105.0),
            copies(1024, 15.0),
            copies(64, 2.5),
            copies(16, 2.0),
            read,
        ];
        let found = found(&rows);
        reads!(&found);
        assert_eq!(found[0].evidence.len(), 9);
    }

    #[test]
    fn what_is_said_in_order_is_in_order() {
        let rows = [rtt("grpc", "int", 29.0), rtt("tcp", "int", 10.0), rtt("udp", "int", 11.0)];
        let sentence = found(&rows)[0].sentence.clone();
        ends(&sentence, "TCP 10.0 µs < UDP 11.0 µs < gRPC 29.0 µs");
    }

    #[test]
    fn each_payload_has_a_ladder_of_its_own_if_it_was_measured_beside_tcp() {
        let rows = [
            rtt("grpc", "string64", 29.0),
            rtt("tcp", "string64", 10.0),
            rtt("thrift", "structure", 15.0),
            rtt("tcp", "structure", 10.0),
            rtt("grpc", "double", 29.0),
            rtt("udp", "double", 9.0),
        ];
        assert_eq!(found(&rows).len(), 2);
    }

    #[test]
    fn where_others_used_the_processors_nothing_is_held_to_be_the_stacks() {
        let with = |grade| {
            let row = rtt("grpc", "int", 29.0).warned("others", grade);
            found(&[row, rtt("tcp", "int", 10.0)]).len()
        };
        assert_eq!((with(Grade::C), with(Grade::D)), (1, 0));
    }
}
