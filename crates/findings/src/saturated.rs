//! Which end of a transfer over a network was at its limit.

use crate::finding::{Finding, grade_by_others};
use costof_model::Text;
use costof_model::link::Link;
use costof_model::noise::{Grade, PEER};
use costof_model::rows::PointRow;
use costof_model::run_file::Run;
use costof_model::unit::{Unit, display_bytes};

/// From which share of the time on a thread that runs has no more to give.
pub(crate) const SATURATED: f64 = 0.95;
/// Below which share it surely has.
pub(crate) const HAS_TIME: f64 = 0.9;
/// From which share of a link's rate on, in payload, the rate is what limits.
const OF_RATE: f64 = 0.85;
/// From which share of datagrams on that do not arrive, what arrives says nothing of the sender.
const LOSES: f64 = 0.01;

/// What keeps a transfer from going faster.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Limit {
    Sender,
    Receiver,
    Both,
    /// The link's, in bits per second.
    Rate(f64),
    Neither,
}

/// What limits each protocol over each link, by the size of what is written.
pub(crate) fn saturated(run: &Run) -> Vec<Finding> {
    let mut groups: Vec<(Limit, Vec<&PointRow>)> = Vec::new();
    for row in &run.points {
        let Some(limit) = limit(run, row) else {
            continue;
        };
        let alike = |(known, rows): &&mut (Limit, Vec<&PointRow>)| {
            *known == limit && subject(rows[0]) == subject(row)
        };
        match groups.iter_mut().find(alike) {
            Some((_, rows)) => rows.push(row),
            None => groups.push((limit, vec![row])),
        }
    }
    groups
        .iter()
        .map(|(limit, rows)| said(*limit, rows))
        .collect()
}

/// The link, and what goes over it.
fn subject(row: &PointRow) -> (&Text, Option<&str>) {
    (&row.point.link, row.axes().find_word("over"))
}

/// What limits one flow with the usual congestion control; `None` where it is not certain.
fn limit(run: &Run, row: &PointRow) -> Option<Limit> {
    let axes = row.axes();
    let is_plain = row.point.probe == "net.bandwidth"
        && axes.find_number("flows") == Some(1)
        && axes.find_word("congestion_control") == Some("default");
    let (sender, receiver) = running(row).filter(|_| is_plain)?;
    if let Some(rate) = rate_that_is_used_up(row) {
        return Some(Limit::Rate(rate));
    }
    // Datagrams are sent whatever becomes of them: a sender at its limit is not why no more arrive.
    let loses = |metric| row.estimate(metric).is_some_and(|lost| lost.median > LOSES);
    if loses("lost") || loses("lost_in_queue") {
        return None;
    }
    match (sender >= SATURATED, receiver >= SATURATED) {
        (true, true) => Some(Limit::Both),
        (true, false) => Some(Limit::Sender),
        (false, true) => Some(Limit::Receiver),
        (false, false) if sender < HAS_TIME && receiver < HAS_TIME => {
            let sure = have_their_own(run, row) && grade_by_others(row) <= Grade::B;
            sure.then_some(Limit::Neither)
        }
        (false, false) => None,
    }
}

/// The rate of the link in bits per second, where all of it is used.
fn rate_that_is_used_up(row: &PointRow) -> Option<f64> {
    let bits = 8.0 * row.estimate("throughput")?.median;
    match row.point.link.parse() {
        Ok(Link::Emulated { up, .. }) => up.rate.filter(|rate| bits >= OF_RATE * rate),
        _ => None,
    }
}

/// Whether each end has a processor that the other one has not: on two machines the same number is
/// another one.
fn have_their_own(run: &Run, row: &PointRow) -> bool {
    let first = |role: &str| row.placement.0.get(role)?.first();
    run.run.plan.placement.0.contains_key(PEER) || first("sender") != first("receiver")
}

/// For which share of the time the sender's and the receiver's thread ran.
fn running(row: &PointRow) -> Option<(f64, f64)> {
    let share = |metric| row.estimate(metric).map(|estimate| estimate.median);
    Some((share("sender_running")?, share("receiver_running")?))
}

fn said(limit: Limit, rows: &[&PointRow]) -> Finding {
    let sizes: Vec<String> = rows
        .iter()
        .filter_map(|row| row.axes().find_number("size").map(display_bytes))
        .collect();
    let shares: Vec<(f64, f64)> = rows.iter().filter_map(|row| running(row)).collect();
    let of = |end: fn(&(f64, f64)) -> f64| {
        let all = || shares.iter().map(end);
        let least = all().fold(f64::INFINITY, f64::min);
        range(least, all().fold(0.0, f64::max))
    };
    let (sender, receiver) = (of(|(sender, _)| *sender), of(|(_, receiver)| *receiver));
    let ran = format!("the sender ran for {sender} of the time, the receiver for {receiver}");
    let what = match limit {
        Limit::Sender => format!("the sender's processor is what limits: {ran}"),
        Limit::Receiver => format!("the receiver's processor is what limits: {ran}"),
        Limit::Both => format!("both ends' processors are at their limit: {ran}"),
        Limit::Rate(bits) => {
            format!("the link's {} Mbit/s are what limits: {ran}", bits / 1e6)
        }
        Limit::Neither => format!(
            "neither end's processor is what limits: {ran}, and both waited meanwhile, for the \
             link, its window or each other"
        ),
    };
    let over = rows[0].axes().find_word("over").unwrap_or("?");
    let fastest = rows
        .iter()
        .filter_map(|row| Some(row.estimate("throughput")?.median))
        .fold(0.0, f64::max);
    Finding {
        kind: "bandwidth_limit".into(),
        sentence: format!(
            "network bandwidth by {over} over {}, in writes of {} (up to {}): {what}",
            rows[0].point.link,
            sizes.join(", "),
            Unit::BytesPerSecond.display(fastest),
        ),
        advice: None,
        evidence: rows.iter().map(|row| row.point.clone()).collect(),
    }
}

/// `97 %`, or `95 to 99 %`.
fn range(least: f64, most: f64) -> String {
    let [least, most] = [least, most].map(|share| (100.0 * share).round());
    match least < most {
        true => format!("{least} to {most} %"),
        false => format!("{most} %"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory_sample::{self, point_row, run};
    use costof_model::axis::Axes;
    use costof_model::noise::{Placement, Warning};

    fn row(link: &'static str, size: u64, megabytes_a_second: f64, ran: (f64, f64)) -> PointRow {
        let axes = Axes::default()
            .with("over", "tcp")
            .with("size", size)
            .with("flows", 1)
            .with("congestion_control", "default");
        let rate = megabytes_a_second * 1e6;
        let mut row = point_row("net.bandwidth", "throughput", axes, rate, (rate, rate));
        row.point.link = link.into();
        row.metrics[0].unit = Unit::BytesPerSecond;
        for (name, share) in [("sender_running", ran.0), ("receiver_running", ran.1)] {
            let mut metric = row.metrics[0].clone();
            (metric.name, metric.median) = (name.into(), share);
            row.metrics.push(metric);
        }
        let cpus = [("sender", vec![1, 0]), ("receiver", vec![0, 1])];
        row.placement = Placement(
            cpus.map(|(role, cpus)| (role.into(), cpus))
                .into_iter()
                .collect(),
        );
        row
    }

    fn sentences(rows: &[PointRow]) -> Vec<String> {
        memory_sample::sentences(saturated, rows)
    }

    #[test]
    fn the_end_that_always_runs_is_what_limits() {
        let rows = [
            row("loopback", 64, 100.0, (0.99, 0.4)),
            row("loopback", 1024, 1500.0, (0.96, 0.61)),
            row("loopback", 128 << 10, 5000.0, (0.71, 1.0)),
            row("loopback", 1 << 20, 5000.0, (0.98, 0.97)),
        ];
        assert_eq!(
            sentences(&rows),
            [
                "network bandwidth by tcp over loopback, in writes of 64B, 1KiB (up to 1.50 GB/s): \
                 the sender's processor is what limits: the sender ran for 96 to 99 % of the time, \
                 the receiver for 40 to 61 %",
                "network bandwidth by tcp over loopback, in writes of 128KiB (up to 5.00 GB/s): the \
                 receiver's processor is what limits: the sender ran for 71 % of the time, the \
                 receiver for 100 %",
                "network bandwidth by tcp over loopback, in writes of 1MiB (up to 5.00 GB/s): both \
                 ends' processors are at their limit: the sender ran for 98 % of the time, the \
                 receiver for 97 %",
            ]
        );
    }

    #[test]
    fn a_rate_that_is_used_up_is_what_limits() {
        let [rate, less] = [(11.8, "100 Mbit/s are"), (4.0, "neither end's")]
            .map(|(rate, says)| (sentences(&[row("wan", 1024, rate, (0.05, 0.1))]), says));
        for (found, says) in [rate, less] {
            assert!(found[0].contains(says), "{found:?}");
        }
    }

    #[test]
    fn a_sender_at_its_limit_is_not_why_datagrams_are_lost() {
        let udp = |link, megabytes_a_second, lost: f64| {
            let mut row = row(link, 1024, megabytes_a_second, (1.0, 0.3));
            row.point.axes = row.point.axes.with("over", "udp");
            let mut metric = row.metrics[0].clone();
            (metric.name, metric.median) = ("lost".into(), lost);
            row.metrics.push(metric);
            sentences(&[row])
        };
        assert_eq!(udp("veth", 100.0, 0.4), [""; 0]);
        assert!(udp("veth", 100.0, 0.0)[0].contains("the sender's processor"));
        assert!(udp("wan", 11.8, 0.9)[0].contains("100 Mbit/s are"));
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
        disturbed.warnings.push(Warning {
            kind: "others".into(),
            grade: Grade::C,
            what: String::new(),
            advice: String::new(),
        });
        let mut together = quiet();
        together.placement.0.insert("receiver".into(), vec![1]);
        let mut two = quiet();
        two.point.axes = two.point.axes.with("flows", 2);
        let mut half = quiet();
        half.metrics.pop();
        assert_eq!(sentences(&[disturbed, together, two, half]), [""; 0]);
    }
}
