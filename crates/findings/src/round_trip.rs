//! What a round trip over a network spends on waking who waits for it.

use crate::finding::{Finding, grade_by_others};
use costof_model::Text;
use costof_model::axis::AxisValue;
use costof_model::metric::Mode;
use costof_model::noise::Grade;
use costof_model::point::Point;
use costof_model::rows::PointRow;
use costof_model::run_file::Run;
use costof_model::unit::{Unit, display_bytes};

const PROBE: &str = "net.rtt";

/// What waiting in the kernel costs, and what a processor costs that rests meanwhile: once for
/// each link and protocol.
pub(crate) fn round_trip(run: &Run) -> Vec<Finding> {
    let blocked = run.points.iter().filter(|row| {
        is(row, PROBE, &[("wait", "block"), ("cpus", "cross")])
            && row.axes().find_number("rate") == Some(0)
            && is_waited_for(row)
    });
    let mut findings: Vec<Finding> = Vec::new();
    let found: [fn(&Run, &PointRow) -> Option<Finding>; 3] = [wake_ups, resting, modes];
    for row in blocked {
        for finding in found.iter().filter_map(|find| find(run, row)) {
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

/// Whether waiting for the other end is what it takes, and not waiting for a processor that others
/// use.
fn is_waited_for(row: &PointRow) -> bool {
    grade_by_others(row) < Grade::D
}

/// The link, and what goes over it.
fn subject(point: &Point) -> (&Text, Option<&str>) {
    (&point.link, point.axes.find_word("over"))
}

/// `a TCP round trip of 56B over loopback`.
fn named(row: &PointRow) -> String {
    let over = row.axes().find_word("over").unwrap_or("?");
    let size = row.axes().find_number("size").unwrap_or(0);
    format!(
        "a round trip of {} by {over} over {}",
        display_bytes(size),
        row.point.link
    )
}

/// A round trip that is waited for in the kernel beside one that is spun for: they differ in two
/// wake-ups, one at each end.
fn wake_ups(run: &Run, blocked: &PointRow) -> Option<Finding> {
    let awake = is(blocked, PROBE, &[("wake", "awake")]);
    let spinning = beside(run, blocked, "wait", "spin").filter(|_| awake)?;
    let (low, high) = more(blocked, spinning)?;
    let one = switch(run, "awake").map_or_else(String::new, |row| {
        format!(
            "; a context switch to another processor by a pipe takes {}",
            ns(row.primary().map_or(0.0, |estimate| estimate.median))
        )
    });
    Some(Finding {
        kind: "round_trip_wake_ups".into(),
        sentence: format!(
            "{} takes {} when both ends block instead of {} when they spin: a wake-up at each end, \
             of {} to {}{one}",
            named(blocked),
            ns(blocked.primary()?.median),
            ns(spinning.primary()?.median),
            ns(low / 2.0),
            ns(high / 2.0),
        ),
        advice: None,
        evidence: evidence(blocked, spinning, switch(run, "awake")),
    })
}

/// A round trip between processors that may rest beside one between processors that are kept awake.
fn resting(run: &Run, idle: &PointRow) -> Option<Finding> {
    let may_rest = is(idle, PROBE, &[("wake", "idle")]);
    let awake = beside(run, idle, "wake", "awake").filter(|_| may_rest)?;
    let (low, high) = more(idle, awake)?;
    let mut evidence = evidence(idle, awake, None);
    let mut one = String::new();
    if let (Some(idle), Some(awake)) = (switch(run, "idle"), switch(run, "awake"))
        && let Some((low, high)) = more(idle, awake)
    {
        one = format!(
            "; of a context switch by a pipe it is {} to {}",
            ns(low),
            ns(high)
        );
        evidence.extend([idle.point.clone(), awake.point.clone()]);
    }
    Some(Finding {
        kind: "round_trip_resting".into(),
        sentence: format!(
            "{} takes {} instead of {} where nothing keeps the processors awake: waking each from \
             its rest is {} to {} of it{one}",
            named(idle),
            ns(idle.primary()?.median),
            ns(awake.primary()?.median),
            ns(low / 2.0),
            ns(high / 2.0),
        ),
        advice: Some(
            "spin, or keep the processors awake (an idle loop that polls), where latency counts"
                .to_owned(),
        ),
        evidence,
    })
}

/// By which factor a mode may lie beside the round trip that it is held to be.
const SAME: f64 = 1.25;
/// From which factor on the slower mode is another thing.
const SLOWER: f64 = 1.5;

/// Two modes of a round trip between processors that may rest, of which the faster is that between
/// processors that are kept awake.
fn modes(run: &Run, idle: &PointRow) -> Option<Finding> {
    let may_rest = is(idle, PROBE, &[("wake", "idle")]);
    let awake = beside(run, idle, "wake", "awake").filter(|_| may_rest)?;
    let [faster, slower] = two_modes(idle)?;
    let awake_ns = awake.primary()?.median;
    let is_awake = (awake_ns / SAME..=awake_ns * SAME).contains(&faster.median);
    (is_awake && slower.median >= SLOWER * awake_ns).then(|| Finding {
        kind: "round_trip_modes".into(),
        sentence: format!(
            "of {} between processors that may rest, {:.0} % take about {}, as between processors \
             that are kept awake ({}); the other {:.0} % take about {}: a processor was at rest and \
             had to be woken",
            named(idle),
            100.0 * faster.share,
            ns(faster.median),
            ns(awake_ns),
            100.0 * slower.share,
            ns(slower.median),
        ),
        advice: None,
        evidence: evidence(idle, awake, None),
    })
}

/// The modes of a point that has two, the faster first.
fn two_modes(row: &PointRow) -> Option<[&Mode; 2]> {
    match row.primary()?.modes.as_slice() {
        [one, other] if one.median <= other.median => Some([one, other]),
        [one, other] => Some([other, one]),
        _ => None,
    }
}

fn is(row: &PointRow, probe: &str, words: &[(&str, &str)]) -> bool {
    row.point.probe == probe
        && words
            .iter()
            .all(|(axis, word)| row.axes().find_word(axis) == Some(word))
}

/// The point that differs from this one in the word of one axis.
fn beside<'r>(run: &'r Run, row: &PointRow, axis: &str, word: &str) -> Option<&'r PointRow> {
    let mut point = row.point.clone();
    *point.axes.0.get_mut(axis)? = AxisValue::Word(word.to_owned().into());
    let mut points = run.points.iter();
    points.find(|other| other.point == point && is_waited_for(other))
}

/// A context switch between processes on two processors.
fn switch<'r>(run: &'r Run, wake: &str) -> Option<&'r PointRow> {
    let such = [
        ("between", "processes"),
        ("over", "pipe"),
        ("cpus", "cross"),
        ("wake", wake),
    ];
    let mut points = run.points.iter();
    points.find(|row| {
        is(row, "os.context_switch", &such) && row.primary().is_some() && is_waited_for(row)
    })
}

/// How much more the one takes than the other, at least and at most; `None` where their intervals
/// do not tell.
fn more(slow: &PointRow, fast: &PointRow) -> Option<(f64, f64)> {
    let (slow_low, slow_high) = slow.primary()?.ci95?;
    let (fast_low, fast_high) = fast.primary()?.ci95?;
    (slow_low > fast_high).then_some((slow_low - fast_high, slow_high - fast_low))
}

fn evidence(one: &PointRow, other: &PointRow, third: Option<&PointRow>) -> Vec<Point> {
    let rows = [one, other].into_iter().chain(third);
    rows.map(|row| row.point.clone()).collect()
}

fn ns(value: f64) -> String {
    Unit::Nanoseconds.display(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory_sample::{self, point_row};
    use costof_model::axis::Axes;
    use costof_model::noise::Warning;

    fn row(probe: &'static str, metric: &'static str, axes: Axes, us: f64) -> PointRow {
        let ns = us * 1000.0;
        point_row(probe, metric, axes, ns, (ns * 0.99, ns * 1.01))
    }

    fn rtt(wait: &'static str, wake: &'static str, us: f64) -> PointRow {
        let axes = Axes::default()
            .with("over", "tcp")
            .with("size", 56)
            .with("wait", wait)
            .with("cpus", "cross")
            .with("wake", wake)
            .with("rate", 0);
        let mut row = row(PROBE, "latency", axes, us);
        row.point.link = "loopback".into();
        row
    }

    fn context_switch(wake: &'static str, us: f64) -> PointRow {
        let axes = Axes::default()
            .with("between", "processes")
            .with("over", "pipe")
            .with("cpus", "cross")
            .with("wake", wake);
        row("os.context_switch", "cost", axes, us)
    }

    fn sentences(rows: &[PointRow]) -> Vec<String> {
        memory_sample::sentences(round_trip, rows)
    }

    #[test]
    fn blocking_costs_a_wake_up_at_each_end() {
        let (spin, block) = (rtt("spin", "awake", 8.0), rtt("block", "awake", 28.0));
        let found = sentences(&[spin.clone(), block.clone()]);
        assert_eq!(
            found,
            [
                "a round trip of 56B by tcp over loopback takes 28.0 µs when both ends block \
                 instead of 8.00 µs when they spin: a wake-up at each end, of 9.82 µs to 10.2 µs"
            ]
        );
        let found = sentences(&[context_switch("awake", 9.0), block.clone(), spin]);
        assert!(
            found[0].ends_with(
                "10.2 µs; a context switch to another processor by a pipe takes 9.00 µs"
            )
        );
        // What cannot be told apart, or has nothing beside it, says nothing.
        assert_eq!(
            sentences(&[rtt("spin", "awake", 27.9), block.clone()]),
            [""; 0]
        );
        assert_eq!(sentences(&[context_switch("awake", 9.0), block]), [""; 0]);
    }

    #[test]
    fn where_others_used_the_processors_nothing_is_held_to_be_a_wake_up() {
        let found = |grade| {
            let mut block = rtt("block", "awake", 28.0);
            block.warnings.push(Warning {
                kind: "others".into(),
                grade,
                what: String::new(),
                advice: String::new(),
            });
            sentences(&[rtt("spin", "awake", 8.0), block]).len()
        };
        assert_eq!((found(Grade::C), found(Grade::D)), (1, 0));
    }

    #[test]
    fn each_link_and_protocol_is_told_once() {
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
    fn a_processor_that_rests_is_told_beside_one_that_is_kept_awake() {
        let rows = [rtt("block", "awake", 28.0), rtt("block", "idle", 64.0)];
        assert_eq!(
            sentences(&rows),
            [
                "a round trip of 56B by tcp over loopback takes 64.0 µs instead of 28.0 µs where \
                 nothing keeps the processors awake: waking each from its rest is 17.5 µs to 18.5 \
                 µs of it"
            ]
        );
        let switches = [context_switch("awake", 10.0), context_switch("idle", 27.0)];
        let found = sentences(&[&rows[..], &switches].concat());
        assert!(
            found[0].ends_with("of it; of a context switch by a pipe it is 16.6 µs to 17.4 µs")
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
                "of a round trip of 56B by tcp over loopback between processors that may rest, 70 % \
                 take about 14.5 µs, as between processors that are kept awake (15.0 µs); the other \
                 30 % take about 60.0 µs: a processor was at rest and had to be woken"
            ]
        );
        // Neither where the faster is another thing, nor where the slower hardly is one.
        assert_eq!(with(40.0, 60.0), [""; 0]);
        assert_eq!(with(14.5, 17.0), [""; 0]);
    }
}
