//! Finds which peer of a network transfer was at its limit.

use crate::text::{self, bytes, percent, range, rate, span};
use crate::{Finding, Kind, over};
use costof_model::noise::PEER;
use costof_model::{Link, PointRow, Run, Select};

/// A thread that runs for this share of the time has no time left.
pub(crate) const SATURATED: f64 = 0.95;
/// A thread that runs for less surely has time left.
pub(crate) const HAS_TIME: f64 = 0.9;
/// From this share of a link's rate in payload on, the rate is the limit.
const OF_RATE: f64 = 0.85;
/// If more than this share of datagrams is lost, the received rate says nothing about the sender.
const LOSES: f64 = 0.01;

/// What limits a transfer.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Limit {
    Sender,
    Receiver,
    Both,
    /// The link's rate in bits per second.
    Rate(f64),
    Neither,
}

/// What is transferred: the words for it and for its pieces.
type Transfer = (&'static str, &'static str);
const BYTES: Transfer = ("network bandwidth", "writes");
const MESSAGES: Transfer = ("a stream of messages", "messages");

/// The limit of each protocol over each link, by the size of writes or messages.
pub(crate) fn saturated(run: &Run) -> Vec<Finding> {
    let flows = run
        .select("net.bandwidth")
        .with_value("flows", 1)
        .with_value("congestion_control", "default");
    let messages = run
        .select("net.stream")
        .with_value("window", 0)
        .with_value("congestion_control", "default");
    let found =
        [(BYTES, flows), (MESSAGES, messages)].map(|(transfer, rows)| limits(run, transfer, rows));
    found.concat()
}

fn limits(run: &Run, transfer: Transfer, rows: Select<'_>) -> Vec<Finding> {
    let limits = rows
        .group_with(|row| Some((limit(run, row)?, &row.point.link, row.word(over::AXIS)?)))
        .into_iter();
    limits.map(|((limit, link, over), rows)| finding(transfer, limit, link, over, &rows)).collect()
}

/// The share of the time for which the receiver ran. Of calls, all of its threads are counted, by KiB.
fn receiver_running(row: &PointRow) -> Option<f64> {
    row.median("receiver_running").or_else(|| {
        let ns_per_kib = row.median("cpu_receiver")?;
        Some(ns_per_kib * row.median("throughput")? / 1024.0 / 1e9)
    })
}

/// The limit of one flow with the default congestion control; `None` if that is not certain.
fn limit(run: &Run, row: &PointRow) -> Option<Limit> {
    let sender = row.median("sender_running")?;
    let receiver = receiver_running(row)?;
    if let Some(rate) = rate_that_is_used_up(row) {
        return Some(Limit::Rate(rate));
    }
    // A sender of datagrams does not wait for them to arrive. If some are lost, a busy sender is not the
    // limit.
    let loses = |metric| row.median(metric).is_some_and(|lost| lost > LOSES);
    if loses("lost") || loses("lost_in_queue") {
        return None;
    }
    match (sender >= SATURATED, receiver >= SATURATED) {
        (true, true) => Some(Limit::Both),
        (true, false) => Some(Limit::Sender),
        (false, true) => Some(Limit::Receiver),
        (false, false) => {
            let have_time = sender < HAS_TIME && receiver < HAS_TIME;
            let is_sure = have_their_own(run, row) && row.has_its_cpus();
            (have_time && is_sure).then_some(Limit::Neither)
        }
    }
}

/// The rate of the link in bits per second, if the transfer uses all of it.
fn rate_that_is_used_up(row: &PointRow) -> Option<f64> {
    let bits = 8.0 * row.median("throughput")?;
    match row.point.link.parse() {
        Ok(Link::Emulated { up, .. }) => up.rate.filter(|rate| bits >= OF_RATE * rate),
        _ => None,
    }
}

/// Whether each peer has a CPU that the other does not use. On two machines, equal CPU numbers mean different
/// CPUs.
fn have_their_own(run: &Run, row: &PointRow) -> bool {
    let first = |role: &str| row.placement.0.get(role)?.first();
    run.run.plan.placement.0.contains_key(PEER) || first("sender") != first("receiver")
}

fn finding(
    (what, pieces): Transfer,
    limit: Limit,
    link: &str,
    over: &str,
    rows: &Select<'_>,
) -> Finding {
    let sizes = rows.iter().filter_map(|row| row.number("size").map(bytes));
    let shares = |share: &dyn Fn(&PointRow) -> Option<f64>| {
        range(span(rows.iter().filter_map(|row| share(row))).unwrap_or_default(), percent)
    };
    let sender = shares(&|row| row.median("sender_running"));
    let receiver = shares(&receiver_running);
    let fastest = rows.iter().filter_map(|row| row.median("throughput"));
    let limit_is = match limit {
        Limit::Sender => "the limit is the sender's CPU".to_owned(),
        Limit::Receiver => "the limit is the receiver's CPU".to_owned(),
        Limit::Both => "both ends' CPUs are at their limit".to_owned(),
        Limit::Rate(bits) => format!("the limit is the link's {} Mbit/s", bits / 1e6),
        Limit::Neither => "neither end's CPU is the limit".to_owned(),
    };
    let waited = text::when(
        limit == Limit::Neither,
        ", and both waited for the link, its window or each other",
    );
    let sentence = format!(
        "{what} by {over} over {link}, in {pieces} of {sizes} (up to {fastest}): {limit_is}: the sender ran {sender} \
         % of the time, the receiver {receiver} %{waited}",
        link = text::link(link),
        sizes = sizes.collect::<Vec<_>>().join(", "),
        fastest = rate(fastest.fold(0.0, f64::max)),
    );
    Finding::new(Kind::BandwidthLimit, rows.iter().copied(), sentence)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{self, RowExt, add_metric, axes, contains, point_row, reads, run, warn};
    use costof_model::{Grade, Unit};

    fn row(link: &'static str, size: u64, megabytes_a_second: f64, ran: (f64, f64)) -> PointRow {
        let axes = axes!(over = "tcp", size, flows = 1, congestion_control = "default");
        let rate = megabytes_a_second * 1e6;
        let mut row = point_row("net.bandwidth", "throughput", axes, rate, (rate, rate)).over(link);
        row.metrics[0].unit = Unit::BytesPerSecond;
        for (name, share) in [("sender_running", ran.0), ("receiver_running", ran.1)] {
            add_metric(&mut row, name, share);
        }
        row.placed([("sender", &[1, 0]), ("receiver", &[0, 1])])
    }

    fn sentences(rows: &[PointRow]) -> Vec<String> {
        tests::sentences(saturated, rows)
    }

    #[test]
    fn the_end_that_always_runs_is_what_limits() {
        let rows = [
            row("loopback", 64, 100.0, (0.99, 0.4)),
            row("loopback", 1024, 1500.0, (0.96, 0.61)),
            row("loopback", 128 << 10, 5000.0, (0.71, 1.0)),
            row("loopback", 1 << 20, 5000.0, (0.98, 0.97)),
        ];
        reads!(sentences(&rows));
    }

    #[test]
    fn a_stream_of_calls_has_limits_too() {
        let mut calls = row("loopback", 64, 100.0, (0.99, 0.0));
        calls.point.probe = "net.stream".into();
        calls.point.axes =
            axes!(over = "grpc", size = 64, window = 0, congestion_control = "default");
        calls.metrics.pop();
        // 5 ns of CPU time per byte: half a second for 100 MB.
        add_metric(&mut calls, "cpu_receiver", 5.0 * 1024.0);
        reads!(sentences(&[calls]));
    }

    #[test]
    fn a_rate_that_is_used_up_is_what_limits() {
        let [rate, less] = [(11.8, "100 Mbit/s"), (4.0, "neither end's")]
            .map(|(rate, says)| (sentences(&[row("wan", 1024, rate, (0.05, 0.1))]), says));
        for (found, says) in [rate, less] {
            contains(&found[0], says);
        }
    }

    #[test]
    fn a_sender_at_its_limit_is_not_why_datagrams_are_lost() {
        let udp = |link, megabytes_a_second, lost: f64| {
            let mut row = row(link, 1024, megabytes_a_second, (1.0, 0.3));
            row.point.axes = row.point.axes.with("over", "udp");
            add_metric(&mut row, "lost", lost);
            sentences(&[row])
        };
        assert_eq!(udp("veth", 100.0, 0.4), [""; 0]);
        assert!(udp("veth", 100.0, 0.0)[0].contains("sender's CPU"));
        assert!(udp("wan", 11.8, 0.9)[0].contains("100 Mbit/s"));
    }

    #[test]
    fn the_same_number_on_two_machines_is_another_processor() {
        let mut row = row("remote", 1024, 100.0, (0.7, 0.8));
        row.placement.0.insert("receiver".into(), vec![1]);
        let mut run = run(&[]);
        run.points.push(row);
        assert_eq!(saturated(&run).len(), 0);
        run.run.plan.placement.0.insert(PEER.into(), vec![1]);
        assert!(saturated(&run)[0].sentence.contains("neither end's"));
    }

    #[test]
    fn what_is_not_certain_is_not_said() {
        let quiet = || row("veth", 1024, 100.0, (0.7, 0.8));
        assert_eq!(sentences(&[quiet()]).len(), 1);
        assert_eq!(sentences(&[row("veth", 1024, 100.0, (0.93, 0.5))]), [""; 0]);
        let mut disturbed = quiet();
        warn(&mut disturbed, "others", Grade::C);
        let mut together = quiet();
        together.placement.0.insert("receiver".into(), vec![1]);
        let mut two = quiet();
        two.point.axes = two.point.axes.with("flows", 2);
        let mut half = quiet();
        half.metrics.pop();
        assert_eq!(sentences(&[disturbed, together, two, half]), [""; 0]);
    }
}
