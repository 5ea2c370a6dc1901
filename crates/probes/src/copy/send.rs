//! `copy.send`: which way of sending a message of several fields pays.

pub mod by_hand;
mod describe;
mod plan;
mod predict;
mod roles;

use crate::arenas;
use crate::derived;
use crate::net::both_ends::{joined, take};
use crate::net::congestion_control::control;
use costof_measure::probe::Probe;
use costof_model::facts::Facts;
use costof_model::failure::Failure;
use costof_model::metric::Data;
use costof_model::point::{Headline, Point};
use costof_model::protocol::Report;
use costof_os::delivery::Shape;
use costof_os::field_sender::Primitive;
use costof_os::fields;
use costof_os::meeting::{DATAGRAM_MOST_BYTES, Over};
use std::sync::LazyLock;

pub(crate) static PROBE: Probe = Probe {
    info: LazyLock::new(|| describe::INFO),
    rounds: 2,
    // Ways of sending are compared: those of one message are in one block.
    blocks_by: &[
        "size",
        "pattern",
        "in_flight",
        "threads",
        "source",
        "pages",
        "over",
        "congestion_control",
        "fields",
        "working_set",
    ],
    least_ns: |point| 2.0 * roles::least_ns(point),
    memory_bytes,
    processors: |point| 2 * threads(point),
    headlines,
    more_points: plan::more_points,
    budget: Some(plan::budget),
    predict: predict::predict,
    roles: &[
        |launch| Ok(Box::new(roles::Receiving::start(launch)?)),
        |launch| Ok(Box::new(roles::Sending::start(launch)?)),
    ],
    derive,
};

fn headlines(_: &Facts) -> Vec<Headline> {
    vec![Headline::new(
        "send: 32 KiB in 8 fields, two copies, TCP on loopback",
        PROBE.info.defaults(),
    )]
}

fn over(point: &Point) -> Over {
    match point.axes.word("over") {
        "udp" | "udp_gso" => Over::Udp,
        "unix" => Over::Unix,
        _ => Over::Tcp,
    }
}

fn threads(point: &Point) -> usize {
    point.axes.number("threads") as usize
}

/// Whether the end of a message waits for what comes behind it.
fn is_joined(point: &Point) -> bool {
    point.axes.word("nagle") == "on"
}

/// Whether a message goes as several datagrams.
fn is_segmented(point: &Point) -> bool {
    point.axes.word("over") == "udp_gso"
}

/// What goes the other way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pattern {
    Stream,
    Echo,
    Trigger,
}

fn pattern(point: &Point) -> Pattern {
    match point.axes.word("pattern") {
        "echo" => Pattern::Echo,
        "trigger" => Pattern::Trigger,
        _ => Pattern::Stream,
    }
}

/// How many messages may be unanswered, or are asked for at once.
fn in_flight(point: &Point) -> u64 {
    point.axes.number("in_flight")
}

/// What each thread sends: one message, or as many as fill its share of the working set, but no
/// fewer than two.
fn shape(point: &Point) -> Shape {
    let size = point.axes.number("size") as usize;
    let fields = point.axes.number("fields") as usize;
    let count = match point.axes.word("source") {
        "cold" => {
            let share = point.axes.number("working_set") as usize / threads(point);
            let each = fields::memory_bytes(1, size, fields).unwrap_or(usize::MAX);
            (share / each).max(2)
        }
        _ => 1,
    };
    Shape { size, count }
}

fn memory_bytes(point: &Point) -> u64 {
    let Shape { size, count } = shape(point);
    let fields = point.axes.number("fields") as usize;
    let messages = fields::memory_bytes(count, size, fields).unwrap_or(usize::MAX);
    // A file has them once more; both ends have a message and a buffer beside them, and the sender
    // arrays that fill its caches.
    let copies = match point.axes.word("primitive") {
        "sendfile_memory" | "sendfile_file" => 2,
        _ => 1,
    };
    let each = copies * messages as u64 + 2 * size as u64 + (8 << 20);
    threads(point) as u64 * each + (64 << 20)
}

/// The way of sending.
///
/// # Errors
/// What cannot be, wherever it is tried.
fn primitive(point: &Point) -> Result<Primitive, Failure> {
    let registered = point.axes.word("buffers") == "registered";
    let per_message = point.axes.word("allocate") == "per_message";
    let name = point.axes.word("primitive");
    if registered && !name.starts_with("uring") {
        return Err(Failure::unsupported(
            "only io_uring sends from registered buffers (--set primitive=uring_send,uring_zero_copy)",
        ));
    }
    if per_message && name != "two_copy" {
        return Err(Failure::unsupported(
            "only two_copy has a buffer that could be allocated for each message (--set \
             allocate=once)",
        ));
    }
    Ok(match (name, registered) {
        ("one_copy", _) => Primitive::OneCopy,
        ("zero_copy", _) => Primitive::ZeroCopy,
        ("write_each", _) => Primitive::WriteEach,
        ("uring_send", false) => Primitive::UringSend,
        ("uring_send", true) => Primitive::UringSendRegistered,
        ("uring_zero_copy", false) => Primitive::UringZeroCopy,
        ("uring_zero_copy", true) => Primitive::UringZeroCopyRegistered,
        ("sendfile_memory", _) => Primitive::SendfileMemory,
        ("sendfile_file", _) => Primitive::SendfileFile,
        ("splice", _) => Primitive::Splice,
        _ if per_message => Primitive::TwoCopyAllocating,
        _ => Primitive::TwoCopy,
    })
}

/// What cannot be, wherever it is tried.
fn check(point: &Point) -> Result<(), Failure> {
    primitive(point)?;
    let unsupported = |reason: &str| Err(Failure::unsupported(reason));
    let size = point.axes.number("size");
    if over(point) == Over::Udp && size as usize > DATAGRAM_MOST_BYTES {
        return unsupported("a datagram has 65507 B of payload at most (--set size=65507)");
    }
    if over(point) != Over::Tcp && control(point).is_some() {
        return unsupported("only TCP has a congestion control (--set congestion_control=default)");
    }
    if is_joined(point) && (over(point) != Over::Tcp || pattern(point) != Pattern::Stream) {
        return unsupported(
            "Nagle's algorithm is TCP's, and would keep the end of a message from whoever is to \
             answer it (--set nagle=off, or over=tcp and pattern=stream)",
        );
    }
    if pattern(point) == Pattern::Stream && in_flight(point) > 1 {
        return unsupported(
            "a stream has as much under way as its socket takes (--set pattern=echo, trigger)",
        );
    }
    if point.link == "sink" && pattern(point) != Pattern::Stream {
        return unsupported("nobody answers or asks on the link sink (--set pattern=stream)");
    }
    if !arenas::fits(memory_bytes(point)) {
        return Err(arenas::does_not_fit(memory_bytes(point)));
    }
    Ok(())
}

/// Names of what the sender counts for [`derive()`]: what it handed to the kernel in a second, which is
/// all that is known where nobody receives it.
const LEFT: &str = "left";
const LEFT_COST: &str = "left_cost";

/// The receiver's report and the sender's in one; soft interrupts of both ends together.
fn derive(point: &Point, reports: Vec<Report>) -> Report {
    let mut report = joined(reports);
    let left = take(&mut report, LEFT);
    let has = |report: &Report, name: &str| report.metrics.iter().any(|have| have.name == name);
    if let Some(left) = left.filter(|_| !has(&report, "throughput")) {
        derived::add(&mut report, "throughput", left);
    }
    let received = has(&report, "cost");
    report.metrics.retain_mut(|measured| {
        let is_left = measured.name == LEFT_COST;
        if is_left {
            measured.name = "cost".into();
        }
        !(is_left && received)
    });
    let throughput = report.metrics.iter().find(|have| have.name == "throughput");
    if let Some(Data::Value(throughput)) = throughput.map(|have| have.data.clone()) {
        let rate = throughput / point.axes.number("size") as f64;
        derived::add(&mut report, "rate", rate);
    }
    report
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::literal;
    use costof_model::axis::Axes;
    use costof_model::failure::FailureKind;
    use costof_model::metric::Measured;
    use costof_model::rows::State;

    fn point(axes: Axes) -> Point {
        let mut point = literal::point(&PROBE, axes);
        point.link = "loopback".into();
        point
    }

    fn default() -> Axes {
        PROBE.info.defaults()
    }

    #[test]
    fn cold_messages_fill_the_working_set_and_hot_is_one() {
        assert_eq!(shape(&point(default())).count, 1);
        let cold = default().with("source", "cold").with("size", 4096);
        for threads in [1, 4] {
            let point = point(cold.clone().with("threads", threads));
            let Shape { size, count } = shape(&point);
            let bytes = fields::memory_bytes(count, size, 8).unwrap() as u64 * threads;
            assert!(bytes <= 128 << 20 && bytes > 127 << 20, "{bytes}");
            assert!(memory_bytes(&point) >= bytes);
        }
        let large = cold.with("size", 16 << 20).with("working_set", 1 << 20);
        assert_eq!(shape(&point(large)).count, 2);
    }

    #[test]
    fn every_word_is_its_own_way_of_sending() {
        let mut ways = Vec::new();
        for value in PROBE.info.axis("primitive").unwrap().usual() {
            let mut axes = default();
            axes.0.insert("primitive".into(), value);
            for axes in [
                axes.clone(),
                axes.clone().with("buffers", "registered"),
                axes.with("allocate", "per_message"),
            ] {
                ways.extend(primitive(&point(axes)));
            }
        }
        assert_eq!(ways.len(), Primitive::ALL.len());
        assert!(Primitive::ALL.iter().all(|way| ways.contains(way)));
    }

    #[test]
    fn what_cannot_be_says_why_and_what_else_can() {
        let udp = default().with("over", "udp");
        let echo = default().with("pattern", "echo");
        let once = default().with("allocate", "per_message");
        for (axes, link, says) in [
            (udp.clone().with("size", 65_508), "loopback", "size=65507"),
            (
                udp.clone().with("over", "udp_gso").with("size", 65_508),
                "loopback",
                "size=65507",
            ),
            (
                udp.with("congestion_control", "reno"),
                "loopback",
                "only TCP",
            ),
            (default().with("in_flight", 2), "loopback", "pattern=echo"),
            (
                default().with("nagle", "on").with("over", "unix"),
                "loopback",
                "nagle=off",
            ),
            (
                default().with("nagle", "on").with("pattern", "echo"),
                "loopback",
                "nagle=off",
            ),
            (echo.clone(), "sink", "nobody answers"),
            (echo.with("pattern", "trigger"), "sink", "pattern=stream"),
            (
                default().with("buffers", "registered"),
                "loopback",
                "uring_send",
            ),
            (
                once.with("primitive", "one_copy"),
                "loopback",
                "allocate=once",
            ),
        ] {
            let mut point = point(axes);
            point.link = link.into();
            let failure = check(&point).unwrap_err();
            assert_eq!(failure.kind, FailureKind::Unsupported);
            assert!(failure.reason.contains(says), "{}", failure.reason);
        }
        assert_eq!(check(&point(default())), Ok(()));
        // As much as is wanted may be unanswered, and over UDP too.
        let echo = default().with("pattern", "echo").with("in_flight", 1024);
        assert_eq!(check(&point(echo.clone().with("size", 16 << 20))), Ok(()));
        assert_eq!(check(&point(echo.with("over", "udp_gso"))), Ok(()));
    }

    fn report(metrics: &[(&'static str, Data)]) -> Report {
        let metrics = metrics
            .iter()
            .map(|(name, data)| Measured::new((*name).into(), data.clone()));
        Report {
            state: State::Ok,
            allocations: 0,
            metrics: metrics.collect(),
        }
    }

    fn value(report: &Report, name: &str) -> Option<Data> {
        let found = report.metrics.iter().find(|metric| metric.name == name);
        found.map(|metric| metric.data.clone())
    }

    #[test]
    fn what_left_counts_where_nothing_arrives() {
        let sender = report(&[
            (LEFT, Data::Value(65_536.0)),
            (LEFT_COST, Data::Samples(vec![(1, 2.0)])),
        ]);
        let point = point(default());
        let sunk = derive(&point, vec![report(&[]), sender.clone()]);
        assert_eq!(value(&sunk, "throughput"), Some(Data::Value(65_536.0)));
        assert_eq!(value(&sunk, "rate"), Some(Data::Value(2.0)));
        assert_eq!(value(&sunk, "cost"), Some(Data::Samples(vec![(1, 2.0)])));
        let receiver = report(&[
            ("throughput", Data::Value(32_768.0)),
            ("cost", Data::Samples(vec![(1, 3.0)])),
        ]);
        let received = derive(&point, vec![receiver, sender]);
        assert_eq!(value(&received, "throughput"), Some(Data::Value(32_768.0)));
        assert_eq!(value(&received, "rate"), Some(Data::Value(1.0)));
        assert_eq!(
            value(&received, "cost"),
            Some(Data::Samples(vec![(1, 3.0)]))
        );
        for name in [LEFT, LEFT_COST] {
            assert_eq!(value(&sunk, name).or(value(&received, name)), None);
        }
    }
}
