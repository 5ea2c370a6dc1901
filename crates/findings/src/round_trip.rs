//! The time in a network round trip that goes into waking the threads that wait for it.

use crate::Kind;
use crate::figures::{Figures, bytes, figures, ns, percent};
use crate::finding::Finding;
use crate::modes::two_modes;
use crate::pairs::{same_but, surely_more};
use costof_model::point::Point;
use costof_model::rows::PointRow;
use costof_model::run_file::Run;

pub(crate) const SENTENCES: &str = r#"
[round_trip_wake_ups]
sentence = "a round trip of {size} by {over} over {link} takes {slow} when both ends block instead of {fast} when they spin: a wake-up at each end, of {low} to {high}[; a context switch to another CPU by a pipe takes {switch}]"

[round_trip_resting]
sentence = "a round trip of {size} by {over} over {link} takes {slow} instead of {fast} where nothing keeps the CPUs awake: waking each idle CPU is {low} to {high} of it[; of a context switch by a pipe it is {switch_low} to {switch_high}]"
advice = "spin, or keep the CPUs awake (an idle loop that polls), where latency matters"

[round_trip_modes]
sentence = "of the round trips of {size} by {over} over {link} between CPUs that may be idle, {fast_share} % take about {fast}, as between CPUs that are kept awake ({awake}); the other {slow_share} % take about {slow}: a CPU was idle and had to be woken"
"#;

/// The cost of blocking, and the cost of an idle CPU: one finding each for every link and protocol.
pub(crate) fn round_trip(run: &Run) -> Vec<Finding> {
    let blocked = run
        .select("net.rtt")
        .words(&[("wait", "block"), ("cpus", "cross")]);
    let blocked = blocked.at("rate", 0);
    let subject = |point: &Point| (point.link.clone(), point.axes.0.get("over").cloned());
    let mut findings: Vec<Finding> = Vec::new();
    for row in blocked {
        let found = [wake_ups(run, row), idle_cpus(run, row), modes(run, row)];
        for finding in found.into_iter().flatten() {
            let is_new = |known: &Finding| {
                known.kind != finding.kind || subject(&known.evidence[0]) != subject(&row.point)
            };
            if findings.iter().all(is_new) {
                findings.push(finding);
            }
        }
    }
    findings
}

/// The size, the protocol and the link of a round trip.
fn described(row: &PointRow) -> Figures {
    figures()
        .with("size", bytes(row.number("size").unwrap_or(0)))
        .with("over", row.word("over").unwrap_or("?"))
        .with("link", &*row.point.link)
}

/// The additional time of the slower one, if it is sure: both medians, and half of their difference.
fn compared(slow: &PointRow, fast: &PointRow) -> Option<Figures> {
    let (low, high) = more(slow, fast)?;
    let figures = described(slow)
        .with("slow", ns(slow.primary()?.median))
        .with("fast", ns(fast.primary()?.median))
        .with("low", ns(low / 2.0));
    Some(figures.with("high", ns(high / 2.0)))
}

/// Compares a round trip with blocking peers to one with spinning peers. They differ in two wake-ups, one at
/// each peer.
fn wake_ups(run: &Run, blocked: &PointRow) -> Option<Finding> {
    let is_awake = blocked.is_at("wake", "awake");
    let spinning = same_but(run, blocked, &[("wait", "spin")]).filter(|_| is_awake)?;
    let switch = context_switch(run, "awake");
    let switch_ns = switch.and_then(|row| Some(ns(row.primary()?.median)));
    let figures = compared(blocked, spinning)?;
    let figures = figures.maybe("switch", switch_ns);
    let evidence = [blocked, spinning].into_iter().chain(switch);
    Some(Finding::new(Kind::RoundTripWakeUps, evidence, figures))
}

/// Compares a round trip between CPUs that may be idle to one between CPUs that are kept awake.
fn idle_cpus(run: &Run, idle: &PointRow) -> Option<Finding> {
    let may_be_idle = idle.is_at("wake", "idle");
    let awake = same_but(run, idle, &[("wake", "awake")]).filter(|_| may_be_idle)?;
    let mut figures = compared(idle, awake)?;
    let mut evidence = vec![idle, awake];
    if let Some((idle, awake)) = context_switch(run, "idle").zip(context_switch(run, "awake"))
        && let Some((low, high)) = more(idle, awake)
    {
        figures = figures
            .with("switch_low", ns(low))
            .with("switch_high", ns(high));
        evidence.extend([idle, awake]);
    }
    Some(Finding::new(Kind::RoundTripResting, evidence, figures))
}

/// A mode is the same as another round trip if the two differ by at most this factor.
const SAME: f64 = 1.25;
/// The slower mode is a different thing from this factor on.
const SLOWER: f64 = 1.5;

/// Two modes of a round trip between CPUs that may be idle, if the faster mode is the round trip between CPUs
/// that are kept awake.
fn modes(run: &Run, idle: &PointRow) -> Option<Finding> {
    let may_be_idle = idle.is_at("wake", "idle");
    let awake = same_but(run, idle, &[("wake", "awake")]).filter(|_| may_be_idle)?;
    let [faster, slower] = two_modes(idle.primary()?)?;
    let awake_ns = awake.primary()?.median;
    let is_awake = (awake_ns / SAME..=awake_ns * SAME).contains(&faster.median);
    let figures = described(idle)
        .with("fast_share", percent(faster.share))
        .with("fast", ns(faster.median))
        .with("awake", ns(awake_ns))
        .with("slow_share", percent(slower.share))
        .with("slow", ns(slower.median));
    let is_found = is_awake && slower.median >= SLOWER * awake_ns;
    is_found.then(|| Finding::new(Kind::RoundTripModes, [idle, awake], figures))
}

/// A context switch between processes on two CPUs.
pub(crate) fn context_switch<'r>(run: &'r Run, wake: &str) -> Option<&'r PointRow> {
    let words = [
        ("between", "processes"),
        ("over", "pipe"),
        ("cpus", "cross"),
        ("wake", wake),
    ];
    let switches = run.select("os.context_switch").words(&words);
    let measured = switches.filter(|row| row.primary().is_some());
    measured.one()
}

/// How much longer one takes than the other, at least and at most; `None` if their intervals overlap.
fn more(slow: &PointRow, fast: &PointRow) -> Option<(f64, f64)> {
    surely_more(slow.primary()?.ci95?, fast.primary()?.ci95?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{self, RowExt, axes, ends, known_row};
    use costof_model::axis::Axes;
    use costof_model::metric::Mode;
    use costof_model::noise::Grade;

    fn row(probe: &'static str, metric: &'static str, axes: Axes, us: f64) -> PointRow {
        let ns = us * 1000.0;
        known_row(probe, metric, axes, ns, 0.01)
    }

    fn rtt(wait: &'static str, wake: &'static str, us: f64) -> PointRow {
        let axes = axes!(
            over = "tcp",
            size = 56,
            wait,
            cpus = "cross",
            wake,
            rate = 0
        );
        row("net.rtt", "latency", axes, us).over("loopback")
    }

    fn context_switch(wake: &'static str, us: f64) -> PointRow {
        let axes = axes!(between = "processes", over = "pipe", cpus = "cross", wake);
        row("os.context_switch", "cost", axes, us)
    }

    fn sentences(rows: &[PointRow]) -> Vec<String> {
        tests::sentences(round_trip, rows)
    }

    #[test]
    fn blocking_costs_a_wake_up_at_each_end() {
        let (spin, block) = (rtt("spin", "awake", 8.0), rtt("block", "awake", 28.0));
        let found = sentences(&[spin.clone(), block.clone()]);
        assert_eq!(
            found,
            [
                "a round trip of 56B by tcp over loopback takes 28.0 µs when both ends block instead of 8.00 µs when they spin: a wake-up at each end, of 9.82 µs to 10.2 µs"
            ]
        );
        let found = sentences(&[context_switch("awake", 9.0), block.clone(), spin]);
        ends(
            &found[0],
            "10.2 µs; a context switch to another CPU by a pipe takes 9.00 µs",
        );
        // Overlapping intervals, or points without a counterpart, give no finding.
        assert_eq!(
            sentences(&[rtt("spin", "awake", 27.9), block.clone()]),
            [""; 0]
        );
        assert_eq!(sentences(&[context_switch("awake", 9.0), block]), [""; 0]);
    }

    #[test]
    fn where_others_used_the_processors_nothing_is_held_to_be_a_wake_up() {
        let found = |grade| {
            let block = rtt("block", "awake", 28.0).warned("others", grade);
            sentences(&[rtt("spin", "awake", 8.0), block]).len()
        };
        assert_eq!((found(Grade::C), found(Grade::D)), (1, 0));
    }

    #[test]
    fn each_link_and_protocol_is_reported_once() {
        let mut rows = vec![rtt("spin", "awake", 8.0), rtt("block", "awake", 28.0)];
        for row in rows.clone() {
            let mut large = row.clone();
            large.point.axes = large.point.axes.with("size", 1024);
            let mut veth = row;
            veth.point.link = "veth".into();
            rows.extend([large, veth]);
        }
        let found = sentences(&rows);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].contains("56B") && found[1].contains("56B by tcp over veth"));
    }

    #[test]
    fn a_processor_that_rests_is_reported_beside_one_that_is_kept_awake() {
        let rows = [rtt("block", "awake", 28.0), rtt("block", "idle", 64.0)];
        assert_eq!(
            sentences(&rows),
            [
                "a round trip of 56B by tcp over loopback takes 64.0 µs instead of 28.0 µs where nothing keeps the CPUs awake: waking each idle CPU is 17.5 µs to 18.5 µs of it"
            ]
        );
        let switches = [context_switch("awake", 10.0), context_switch("idle", 27.0)];
        let found = sentences(&[&rows[..], &switches].concat());
        ends(
            &found[0],
            "of it; of a context switch by a pipe it is 16.6 µs to 17.4 µs",
        );
        let same = [rtt("block", "awake", 28.0), rtt("block", "idle", 28.1)];
        assert_eq!(sentences(&same), [""; 0]);
    }

    #[test]
    fn two_modes_have_a_cause_where_the_faster_is_that_of_processors_kept_awake() {
        let awake = rtt("block", "awake", 15.0);
        let with = |fast: f64, slow: f64| {
            let mut idle = rtt("block", "idle", 15.0);
            idle.metrics[0].modes = [(fast, 0.7), (slow, 0.3)]
                .map(|(us, share)| Mode {
                    median: us * 1000.0,
                    share,
                })
                .to_vec();
            sentences(&[awake.clone(), idle])
        };
        let found = with(14.5, 60.0);
        assert_eq!(
            found,
            [
                "of the round trips of 56B by tcp over loopback between CPUs that may be idle, 70 % take about 14.5 µs, as between CPUs that are kept awake (15.0 µs); the other 30 % take about 60.0 µs: a CPU was idle and had to be woken"
            ]
        );
        // No finding if the faster mode differs from the round trip, or the slower hardly differs.
        assert_eq!(with(40.0, 60.0), [""; 0]);
        assert_eq!(with(14.5, 17.0), [""; 0]);
    }
}
