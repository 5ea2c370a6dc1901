//! `copy.send`: which way of sending a message of several fields pays.

mod describe;
mod plan;
mod predict;
mod roles;

use crate::arenas;
use crate::derived;
use crate::net::bandwidth::{ARRIVED, DROPPED, SENT, take};
use costof_measure::probe::Probe;
use costof_model::facts::Facts;
use costof_model::failure::Failure;
use costof_model::metric::Data;
use costof_model::point::{Headline, Point};
use costof_model::protocol::Report;
use costof_model::rows::State;
use costof_os::delivery::Shape;
use costof_os::field_sender::Primitive;
use costof_os::fields;
use costof_os::meeting::{DATAGRAM_MOST_BYTES, Over};

/// How much may be under way where every message is answered: with more, both ends could wait
/// until the other reads.
const UNANSWERED_MOST_BYTES: u64 = 64 << 10;

pub(crate) static PROBE: Probe = Probe {
    info: describe::INFO,
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
        "udp" => Over::Udp,
        "unix" => Over::Unix,
        _ => Over::Tcp,
    }
}

fn threads(point: &Point) -> usize {
    point.axes.number("threads") as usize
}

/// The congestion control that is asked for.
fn control(point: &Point) -> Option<&str> {
    Some(point.axes.word("congestion_control")).filter(|control| *control != "default")
}

fn is_echo(point: &Point) -> bool {
    point.axes.word("pattern") == "echo"
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
    let in_flight = point.axes.number("in_flight");
    if over(point) == Over::Udp {
        if size as usize > DATAGRAM_MOST_BYTES {
            return unsupported("a datagram has 65507 B of payload at most (--set size=65507)");
        }
        if is_echo(point) {
            return unsupported(
                "an answer to a datagram that is lost never comes (--set pattern=stream)",
            );
        }
    }
    if over(point) != Over::Tcp && control(point).is_some() {
        return unsupported("only TCP has a congestion control (--set congestion_control=default)");
    }
    if !is_echo(point) && in_flight > 1 {
        return unsupported(
            "a stream has as much under way as its socket takes (--set pattern=echo)",
        );
    }
    if is_echo(point) && in_flight > 1 && in_flight * size > UNANSWERED_MOST_BYTES {
        return unsupported(
            "both ends could wait for each other with more than 64 KiB unanswered (a smaller \
             size or in_flight)",
        );
    }
    if point.link == "sink" && is_echo(point) {
        return unsupported("nobody answers on the link sink (--set pattern=stream)");
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
    let [mut report, sender] = <[Report; 2]>::try_from(reports).expect("a report of each role");
    if sender.state != State::Ok || report.state != State::Ok {
        report.state = State::Failed;
        report.metrics.clear();
        return report;
    }
    for measured in sender.metrics {
        let metrics = &mut report.metrics;
        let same = metrics.iter_mut().find(|have| have.name == measured.name);
        match (same.map(|have| &mut have.data), &measured.data) {
            (Some(Data::Value(sum)), Data::Value(more)) => *sum += more,
            _ => metrics.push(measured),
        }
    }
    report.allocations += sender.allocations;
    let [sent, arrived, dropped] = [SENT, ARRIVED, DROPPED].map(|name| take(&mut report, name));
    if let (Some(sent), Some(arrived), Some(dropped)) = (sent, arrived, dropped)
        && sent > 0.0
    {
        derived::add(&mut report, "lost", (sent - arrived).max(0.0) / sent);
        derived::add(&mut report, "lost_in_queue", dropped / sent);
    }
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
                udp.clone().with("pattern", "echo"),
                "loopback",
                "pattern=stream",
            ),
            (
                udp.with("congestion_control", "reno"),
                "loopback",
                "only TCP",
            ),
            (default().with("in_flight", 2), "loopback", "pattern=echo"),
            (echo.clone().with("in_flight", 16), "loopback", "64 KiB"),
            (echo, "sink", "nobody answers"),
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
    }

    fn report(metrics: &[(&'static str, Data)]) -> Report {
        let metrics = metrics.iter().map(|(name, data)| Measured {
            name: (*name).into(),
            data: data.clone(),
            disturbed: Vec::new(),
        });
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

    #[test]
    fn datagrams_that_did_not_arrive_are_a_share() {
        let receiver = report(&[(ARRIVED, Data::Value(90.0)), (DROPPED, Data::Value(5.0))]);
        let sender = report(&[(SENT, Data::Value(100.0))]);
        let derived = derive(&point(default()), vec![receiver, sender]);
        assert_eq!(value(&derived, "lost"), Some(Data::Value(0.1)));
        assert_eq!(value(&derived, "lost_in_queue"), Some(Data::Value(0.05)));
    }
}
