//! What a remote procedure call takes on one scale with what lies beneath it: a copy of as many bytes,
//! a system call, and the round trips of the transports.

use crate::finding::{Finding, grade_by_others};
use crate::ratio::LogRatio;
use crate::send_crossover::{circumstances, groups};
use costof_model::Text;
use costof_model::noise::Grade;
use costof_model::point::Point;
use costof_model::rows::{PointRow, State};
use costof_model::run_file::Run;
use costof_model::unit::{Unit, display_bytes};

const ROUND_TRIP: &str = "rpc.rtt";
const MARSHAL: &str = "rpc.marshal";
/// What calls are held against.
const PLAIN: &str = "tcp";
/// The round trips, and how a sentence calls each, in the order in which they are said.
const ROUND_TRIPS: [(&str, &str); 5] = [
    ("udp", "UDP"),
    (PLAIN, "TCP"),
    ("rudp", "rudp"),
    ("thrift", "Thrift"),
    ("grpc", "gRPC"),
];
/// Those of them that are calls.
const CALLS: [&str; 2] = ["thrift", "grpc"];

/// What a call takes of one payload, on one scale with what lies beneath it.
#[derive(Clone, Debug, PartialEq)]
pub struct Ladder {
    /// `string64 over loopback`.
    pub of: String,
    /// What it is called and how long it takes, in nanoseconds: the shortest first.
    pub rungs: Vec<(String, f64)>,
    /// The link of the round trips.
    pub link: Text,
    /// How many round trips a call is.
    beside: Vec<String>,
    evidence: Vec<Point>,
}

/// One for each payload and link, where a call was measured beside TCP.
pub fn ladders(run: &Run) -> Vec<Ladder> {
    let round_trips = run.points.iter().filter(|row| {
        row.point.probe == ROUND_TRIP
            && row.state == State::Ok
            && row.primary().is_some()
            && grade_by_others(row) < Grade::D
    });
    let groups = groups(round_trips, &["stack"]);
    let ladders = groups
        .into_iter()
        .filter_map(|(common, rows)| of_payload(run, &common, &rows));
    ladders.collect()
}

/// A sentence for each.
pub(crate) fn ladder(run: &Run) -> Vec<Finding> {
    let said = ladders(run).into_iter().map(|ladder| {
        let scale = ladder.rungs.iter();
        let scale: Vec<String> = scale
            .map(|(name, ns)| format!("{name} {}", shown(*ns)))
            .collect();
        Finding {
            kind: "rpc_ladder".into(),
            sentence: format!(
                "a call with {}: {}; {}",
                ladder.of,
                ladder.beside.join("; "),
                scale.join(" < "),
            ),
            advice: None,
            evidence: ladder.evidence,
        }
    });
    said.collect()
}

/// A rung: what it is called, and the point that says how long it takes.
struct Rung<'a> {
    name: String,
    row: &'a PointRow,
}

impl Rung<'_> {
    fn ns(&self) -> f64 {
        self.row.primary().map_or(0.0, |estimate| estimate.median)
    }
}

fn of_payload(run: &Run, common: &Point, rows: &[&PointRow]) -> Option<Ladder> {
    let of = |stack: &str| {
        let mut rows = rows.iter().copied();
        rows.find(|row| row.axes().find_word("stack") == Some(stack))
    };
    let plain = of(PLAIN)?;
    let calls: Vec<(&str, &str, &PointRow)> = ROUND_TRIPS
        .into_iter()
        .filter(|(stack, _)| CALLS.contains(stack))
        .filter_map(|(stack, name)| Some((stack, name, of(stack)?)))
        .collect();
    let round_trips = ROUND_TRIPS.into_iter().filter_map(|(stack, name)| {
        let name = name.to_owned();
        of(stack).map(|row| Rung { name, row })
    });
    let payload = common.axes.find_word("payload").unwrap_or("?");
    let mut rungs = beneath(run, bytes(payload));
    rungs.extend(round_trips);
    rungs.sort_by(|one, other| one.ns().total_cmp(&other.ns()));
    let mut evidence: Vec<Point> = rungs.iter().map(|rung| rung.row.point.clone()).collect();
    let beside: Vec<String> = calls
        .iter()
        .filter_map(|(stack, name, row)| {
            let (times, marshalled) = beside(run, stack, row, plain)?;
            evidence.extend(marshalled.iter().map(|row| row.point.clone()));
            Some(format!("{name} = {times}"))
        })
        .collect();
    if beside.is_empty() {
        return None;
    }
    let mut others = common.clone();
    others.axes.0.retain(|name, _| &**name != "payload");
    let with = circumstances(run, &others);
    Some(Ladder {
        of: format!("{payload} over {}{with}", common.link),
        rungs: rungs
            .into_iter()
            .map(|rung| (rung.name.clone(), rung.ns()))
            .collect(),
        link: common.link.clone(),
        beside,
        evidence,
    })
}

/// `2.90 TCP round trips (2.81 to 3.02), of which marshalling 2 %`, and the points of that.
fn beside<'a>(
    run: &'a Run,
    stack: &str,
    call: &PointRow,
    plain: &PointRow,
) -> Option<(String, Vec<&'a PointRow>)> {
    let ratio = LogRatio::of(run, call, plain, "latency")?;
    let [low, middle, high] = [ratio.low, ratio.middle, ratio.high].map(f64::exp);
    let mut times = format!("{middle:.2} TCP round trips ({low:.2} to {high:.2})");
    let both = marshalling(run, stack, call);
    if let Some([marshal, unmarshal]) = both {
        // There and back.
        let marshalled = 2.0 * (marshal.primary()?.median + unmarshal.primary()?.median);
        let share = marshalled / call.primary()?.median;
        times += &match share < 0.1 {
            true => format!(", of which marshalling {:.1} %", 100.0 * share),
            false => format!(", of which marshalling {:.0} %", 100.0 * share),
        };
    }
    Some((times, both.into_iter().flatten().collect()))
}

/// What turning the argument into bytes takes, and back.
fn marshalling<'a>(run: &'a Run, stack: &str, call: &PointRow) -> Option<[&'a PointRow; 2]> {
    let payload = call.axes().find_word("payload")?;
    let of = |direction: &str| {
        run.points.iter().find(|row| {
            let axes = [
                ("stack", stack),
                ("payload", payload),
                ("direction", direction),
            ];
            is(row, MARSHAL, &axes) && row.primary().is_some()
        })
    };
    Some([of("marshal")?, of("unmarshal")?])
}

/// What lies beneath all round trips: a copy, and a system call.
fn beneath<'a>(run: &'a Run, bytes: Option<u64>) -> Vec<Rung<'a>> {
    let has_number = |row: &&PointRow| row.primary().is_some();
    let copies = run.points.iter().filter(has_number).filter(|row| {
        is(
            row,
            "cpu.memcpy",
            &[("source", "hot"), ("shape", "one"), ("align", "both")],
        )
    });
    let size = |row: &PointRow| row.axes().find_number("size");
    // Of as many bytes, or the next size that was measured.
    let copy = copies
        .filter(|row| bytes.is_some_and(|bytes| size(row) >= Some(bytes)))
        .min_by_key(|row| size(row));
    let copy = copy.map(|row| Rung {
        name: format!("memcpy of {}", display_bytes(size(row).unwrap_or(0))),
        row,
    });
    let mut calls = run.points.iter().filter(has_number);
    let call = calls.find(|row| {
        is(row, "os.syscall", &[("call", "read")]) && row.axes().find_number("threads") != Some(2)
    });
    let call = call.map(|row| Rung {
        name: "a system call (read)".to_owned(),
        row,
    });
    copy.into_iter().chain(call).collect()
}

fn is(row: &PointRow, probe: &str, words: &[(&str, &str)]) -> bool {
    row.point.probe == probe
        && words
            .iter()
            .all(|(axis, word)| row.axes().find_word(axis) == Some(word))
}

/// How long a payload is by itself, as its word says; a structure's word does not.
fn bytes(payload: &str) -> Option<u64> {
    match payload {
        "int" => Some(4),
        "double" => Some(8),
        string => string.strip_prefix("string")?.parse().ok(),
    }
}

fn shown(ns: f64) -> String {
    Unit::Nanoseconds.display(ns)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory_sample::{point_row, run};
    use costof_model::axis::Axes;
    use costof_model::noise::Warning;

    fn row(probe: &'static str, metric: &'static str, axes: Axes, ns: f64) -> PointRow {
        point_row(probe, metric, axes, ns, (ns * 0.98, ns * 1.02))
    }

    fn rtt(stack: &'static str, payload: &'static str, us: f64) -> PointRow {
        let axes = Axes::default()
            .with("stack", stack)
            .with("payload", payload);
        let mut row = row(ROUND_TRIP, "latency", axes, us * 1000.0);
        row.point.link = "loopback".into();
        row
    }

    fn marshals(stack: &'static str, direction: &'static str, ns: f64) -> PointRow {
        let axes = Axes::default()
            .with("stack", stack)
            .with("payload", "string64")
            .with("direction", direction);
        row(MARSHAL, "cost", axes, ns)
    }

    fn copies(size: u64, ns: f64) -> PointRow {
        let axes = Axes::default()
            .with("size", size)
            .with("source", "hot")
            .with("shape", "one")
            .with("align", "both");
        row("cpu.memcpy", "cost", axes, ns)
    }

    fn found(rows: &[PointRow]) -> Vec<Finding> {
        let mut run = run(&[]);
        run.points.extend(rows.iter().cloned());
        let findings = ladder(&run);
        for point in findings.iter().flat_map(|finding| &finding.evidence) {
            assert!(rows.iter().any(|row| row.point == *point));
        }
        findings
    }

    #[test]
    fn everything_for_one_payload_is_on_one_scale() {
        let read = row(
            "os.syscall",
            "cost",
            Axes::default().with("call", "read"),
            200.0,
        );
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
        assert_eq!(found.len(), 1);
        assert_eq!(
            found[0].sentence,
            "a call with string64 over loopback: Thrift = 1.50 TCP round trips (1.46 to 1.54); gRPC = \
             2.90 TCP round trips (2.82 to 2.98), of which marshalling 1.0 %; memcpy of 64B 2.50 ns < a \
             system call (read) 200 ns < UDP 9.00 µs < TCP 10.0 µs < rudp 12.0 µs < \
             Thrift 15.0 µs < gRPC 29.0 µs"
        );
        assert_eq!(found[0].evidence.len(), 9);
    }

    #[test]
    fn what_is_said_in_order_is_in_order() {
        let rows = [
            rtt("grpc", "int", 29.0),
            rtt("tcp", "int", 10.0),
            rtt("udp", "int", 11.0),
        ];
        let sentence = &found(&rows)[0].sentence;
        assert!(
            sentence.ends_with("TCP 10.0 µs < UDP 11.0 µs < gRPC 29.0 µs"),
            "{sentence}"
        );
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
            let mut row = rtt("grpc", "int", 29.0);
            row.warnings.push(Warning {
                kind: "others".into(),
                grade,
                what: String::new(),
                advice: String::new(),
            });
            found(&[row, rtt("tcp", "int", 10.0)]).len()
        };
        assert_eq!((with(Grade::C), with(Grade::D)), (1, 0));
    }
}
