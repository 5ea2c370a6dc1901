//! What keeps messages from going faster than they do: a window that is too small for the round
//! trip, and loss that starves a stack.

use crate::finding::Finding;
use costof_model::link::Link;
use costof_model::point::Point;
use costof_model::rows::PointRow;
use costof_model::run_file::Run;
use costof_model::unit::{Unit, display_bytes};

const PROBES: [&str; 2] = ["rudp.bandwidth", "rudp.loss"];

/// A window is what limits where another one gives so much more, surely.
const MORE: f64 = 1.25;
/// Or where the round trip that follows from it is the link's delays, up to so much more.
const IS_DELAY: f64 = 1.25;
/// And the link would carry so many times as much.
const LINK_HAS: f64 = 2.0;
/// Who gets less than this share of what a link lets through is starved.
const STARVED: f64 = 0.5;
/// And who gets so much is not.
const FED: f64 = 0.8;

/// Where one window under way limits, and which loss starves which stack.
pub(crate) fn under_way(run: &Run) -> Vec<Finding> {
    let mut findings = windows(run);
    findings.extend(losses(run));
    findings
}

/// What a row is about: `rudp by cubic`, `tcp by bbr`, `study`.
fn contender(row: &PointRow) -> Option<String> {
    let axes = row.axes();
    let stack = axes.find_word("stack")?;
    let by = match stack {
        "rudp" => axes.find_word("control"),
        "tcp" | "quic" => axes.find_word("congestion_control"),
        _ => None,
    };
    Some(match by {
        Some("default") | None => stack.to_owned(),
        Some(by) => format!("{stack} by {by}"),
    })
}

/// How many messages may be under way; none where the stack has a window of its own.
fn window(row: &PointRow) -> Option<u64> {
    let axes = row.axes();
    let one_by_itself =
        axes.find_word("stack") == Some("study") || axes.find_word("control") == Some("fixed");
    match axes.find_number("window")? {
        0 => one_by_itself.then_some(1),
        window => Some(window),
    }
}

/// The interval of the throughput.
fn interval(row: &PointRow) -> Option<(f64, f64)> {
    let estimate = row.estimate("throughput")?;
    Some(estimate.ci95.unwrap_or((estimate.median, estimate.median)))
}

fn is_of(row: &PointRow) -> bool {
    PROBES.contains(&&*row.point.probe)
}

/// Once for each contender and link: the smallest window, which limits if any does.
fn windows(run: &Run) -> Vec<Finding> {
    let mut least: Vec<(&PointRow, u64)> = Vec::new();
    for row in run.points.iter().filter(|row| is_of(row)) {
        let Some(under_way) = window(row).filter(|_| !loses(row)) else {
            continue;
        };
        let bytes = under_way * row.axes().find_number("size").unwrap_or(0);
        let same = least.iter_mut().find(|(known, _)| {
            known.point.link == row.point.link && contender(known) == contender(row)
        });
        match same {
            Some(known) if known.1 > bytes => *known = (row, bytes),
            Some(_) => {}
            None => least.push((row, bytes)),
        }
    }
    least
        .into_iter()
        .filter_map(|(row, bytes)| limited(run, row, bytes as f64))
        .collect()
}

fn loses(row: &PointRow) -> bool {
    match row.point.link.parse() {
        Ok(Link::Emulated { up, down }) => up.loss + down.loss > 0.0,
        _ => false,
    }
}

fn limited(run: &Run, row: &PointRow, bytes: f64) -> Option<Finding> {
    let throughput = row
        .median("throughput")
        .filter(|rate| *rate > 0.0 && bytes > 0.0)?;
    let round_trip_ns = bytes / throughput * 1e9;
    let mut evidence = vec![row.point.clone()];
    let link: Option<Link> = row.point.link.parse().ok();
    let delays = link.and_then(|link| link.round_trip_ns());
    let delays_ns = delays.map_or(0.0, |(ns, _)| ns);
    let rate = match link {
        Some(Link::Emulated { up, .. }) => up.rate.map(|bits| bits / 8.0),
        _ => None,
    };
    let is_delay = delays_ns > 0.0 && round_trip_ns <= IS_DELAY * delays_ns;
    let link_has = rate.is_none_or(|rate| rate >= LINK_HAS * throughput);
    let faster = with_more(run, row);
    if !(is_delay && link_has) && faster.is_none() {
        return None;
    }
    let mut more = String::new();
    if is_delay {
        more += &format!(", of which the link's delays are {}", ns(delays_ns));
    }
    if let Some(rtt) = small_round_trip(run, row).filter(|_| !is_delay) {
        more += &format!(
            ", where a small message takes {} there and back",
            ns(rtt.median("latency")?)
        );
        evidence.push(rtt.point.clone());
    }
    if let Some(faster) = faster {
        let how = match window(faster) {
            Some(window) => format!("{window} under way"),
            None => "a window of its own".to_owned(),
        };
        more += &format!("; with {how} it is {}", shown(faster.median("throughput")?));
        evidence.push(faster.point.clone());
    }
    if let Some(rate) = rate.filter(|_| is_delay) {
        more += &format!(
            "; to fill the link, {} have to be under way",
            display_bytes((rate * delays_ns / 1e9).ceil() as u64)
        );
    }
    let (count, size) = (window(row)?, row.axes().find_number("size")?);
    Some(Finding {
        kind: "window_limit".into(),
        sentence: format!(
            "{} over {}: what is under way limits it to {}: {count} × {} ÷ a round trip of {}{more}",
            contender(row)?,
            row.point.link,
            shown(throughput),
            display_bytes(size),
            ns(round_trip_ns),
        ),
        advice: Some(
            "have more under way, as much as the rate times the round trip, or send longer messages"
                .to_owned(),
        ),
        evidence,
    })
}

/// The point that differs in its window alone and is fastest, if that is surely faster.
fn with_more<'r>(run: &'r Run, row: &PointRow) -> Option<&'r PointRow> {
    let differs_in_window_alone = |other: &Point| {
        let mut axes = other.axes.clone();
        let own = row.axes().find_number("window").unwrap_or(0);
        axes = axes.with("window", own);
        other.probe == row.point.probe && other.link == row.point.link && axes == *row.axes()
    };
    let high = interval(row)?.1;
    run.points
        .iter()
        .filter(|other| differs_in_window_alone(&other.point))
        .filter(|other| interval(other).is_some_and(|(low, _)| low > MORE * high))
        .max_by(|one, other| {
            let of = |row: &PointRow| row.median("throughput").unwrap_or(0.0);
            of(one).total_cmp(&of(other))
        })
}

/// The round trip of a small message over the same link, blocked.
fn small_round_trip<'r>(run: &'r Run, row: &PointRow) -> Option<&'r PointRow> {
    run.points.iter().find(|other| {
        other.point.probe == "net.rtt"
            && other.point.link == row.point.link
            && other.axes().find_word("wait") == Some("block")
    })
}

/// What each link that loses packets leaves of its rate to whom, and whose messages wait.
fn losses(run: &Run) -> Vec<Finding> {
    let mut links: Vec<(&str, Vec<&PointRow>)> = Vec::new();
    let rows = run.points.iter().filter(|row| is_of(row) && loses(row));
    for row in rows {
        match links.iter_mut().find(|(link, _)| *link == row.point.link) {
            Some((_, rows)) => rows.push(row),
            None => links.push((&row.point.link, vec![row])),
        }
    }
    let found = |(link, rows): &(&str, Vec<&PointRow>)| [shares(link, rows), waits(link, rows)];
    links.iter().flat_map(found).flatten().collect()
}

/// Who has surely less than half of the link's rate times what it does not lose, and who has most of it.
fn shares(link: &str, rows: &[&PointRow]) -> Option<Finding> {
    let streams = || {
        rows.iter().filter(|row| {
            let own = window(row).is_none();
            own || row.axes().find_word("stack") == Some("study")
        })
    };
    let share = |row: &PointRow| {
        let estimate = row.estimate("goodput_share")?;
        Some((
            estimate.median,
            estimate.ci95.map_or(estimate.median, |ci| ci.1),
        ))
    };
    let named = |is: fn((f64, f64)) -> bool| {
        let of_them = streams().filter(move |row| share(row).is_some_and(is));
        of_them.copied().collect::<Vec<&PointRow>>()
    };
    let starved = named(|(_, most)| most < STARVED);
    let fed = named(|(median, _)| median >= FED);
    if starved.is_empty() {
        return None;
    }
    let list = |rows: &[&PointRow]| {
        let each = rows.iter().filter_map(|row| {
            let percent = 100.0 * row.median("goodput_share")?;
            Some(format!("{} ({})", contender(row)?, percents(percent)))
        });
        each.collect::<Vec<_>>().join(", ")
    };
    let beside = match fed.is_empty() {
        true => String::new(),
        false => format!("; not starved: {}", list(&fed)),
    };
    Some(Finding {
        kind: "loss_starves".into(),
        sentence: format!(
            "over {link}, of the link's rate times the share that it does not lose, less than half is had by {}{beside}",
            list(&starved)
        ),
        advice: None,
        evidence: starved
            .iter()
            .chain(&fed)
            .map(|row| row.point.clone())
            .collect(),
    })
}

/// Whose messages take a second or more.
fn waits(link: &str, rows: &[&PointRow]) -> Option<Finding> {
    let timed: Vec<(&&PointRow, f64)> = rows
        .iter()
        .filter_map(|row| Some((row, row.median("starved")?)))
        .collect();
    if timed.iter().all(|(_, share)| *share == 0.0) {
        return None;
    }
    let each = timed.iter().filter_map(|(row, share)| {
        Some(format!("{} {}", contender(row)?, percents(100.0 * share)))
    });
    let each: Vec<String> = each.collect();
    Some(Finding {
        kind: "round_trips_above_a_second".into(),
        sentence: format!(
            "over {link}, the share of messages that take a second or more: {}",
            each.join(", ")
        ),
        advice: None,
        evidence: timed.iter().map(|(row, _)| row.point.clone()).collect(),
    })
}

/// `92 %`, `0.3 %`.
fn percents(percent: f64) -> String {
    match percent >= 10.0 || percent == 0.0 {
        true => format!("{percent:.0} %"),
        false => format!("{percent:.2} %"),
    }
}

fn shown(bytes_per_second: f64) -> String {
    Unit::BytesPerSecond.display(bytes_per_second)
}

fn ns(ns: f64) -> String {
    Unit::Nanoseconds.display(ns)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory_sample::{self, point_row};
    use costof_model::axis::Axes;

    fn row(link: &'static str, stack: &'static str, window: u64, rate: f64) -> PointRow {
        let axes = Axes::default()
            .with("stack", stack)
            .with("control", "cubic")
            .with("congestion_control", "default")
            .with("size", 20_000)
            .with("window", window);
        let mut row = point_row("rudp.bandwidth", "throughput", axes, rate, (rate, rate));
        row.point.link = link.into();
        row
    }

    fn with(mut row: PointRow, name: &'static str, value: f64) -> PointRow {
        let mut metric = row.metrics[0].clone();
        metric.name = name.into();
        (metric.median, metric.ci95) = (value, Some((value, value)));
        row.metrics.push(metric);
        row
    }

    fn sentences(rows: &[PointRow]) -> Vec<String> {
        memory_sample::sentences(under_way, rows)
    }

    #[test]
    fn stop_and_wait_is_limited_by_the_round_trip() {
        // 20,000 B in 191.6 ms of the link's 190.
        let found = sentences(&[row("wan", "study", 0, 104_384.0)]);
        assert_eq!(found.len(), 1, "{found:?}");
        for said in [
            "study over wan",
            "1 × 20000B ÷ a round trip of 192 ms",
            "the link's delays are 190 ms",
            "to fill the link, 2375000B have to be under way",
        ] {
            assert!(found[0].contains(said), "`{said}` is missing in {found:?}");
        }
    }

    #[test]
    fn a_window_is_what_limits_where_a_larger_one_does_better() {
        let rows = [
            row("loopback", "rudp", 1, 200e6),
            row("loopback", "rudp", 8, 900e6),
            row("loopback", "rudp", 0, 2e9),
        ];
        let found = sentences(&rows);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(
            found[0].contains("rudp by cubic over loopback"),
            "{found:?}"
        );
        assert!(found[0].contains("÷ a round trip of 100 µs"), "{found:?}");
        assert!(
            found[0].contains("with a window of its own it is 2.00 GB/s"),
            "{found:?}"
        );
    }

    #[test]
    fn what_does_not_limit_is_not_said() {
        let as_fast = [
            row("loopback", "rudp", 8, 1.9e9),
            row("loopback", "rudp", 0, 2e9),
            // The link is full.
            row("wan", "rudp", 128, 12.2e6),
            // Retries take longer than the delays.
            row("delay=95ms,rate=100Mbit,up.loss=10%", "study", 1, 90e3),
        ];
        assert_eq!(sentences(&as_fast), [""; 0]);
    }

    #[test]
    fn who_starves_is_told_beside_who_does_not() {
        let link = "delay=95ms,rate=100Mbit,up.loss=10%";
        let of = |stack, share| with(row(link, stack, 0, 1e6), "goodput_share", share);
        let found = sentences(&[of("rudp", 0.93), of("tcp", 0.004), of("quic", 0.6)]);
        assert_eq!(
            found,
            [
                "over delay=95ms,rate=100Mbit,up.loss=10%, of the link's rate times the share that it does not lose, less than \
              half is had by tcp (0.40 %); not starved: rudp by cubic (93 %)"
            ]
        );
        assert_eq!(sentences(&[of("rudp", 0.93), of("quic", 0.6)]), [""; 0]);
    }

    #[test]
    fn messages_that_wait_for_a_second_are_told_by_stack() {
        let link = "rate=100Mbit,up.loss=10%";
        let of = |stack, share| with(row(link, stack, 10, 1e6), "starved", share);
        let found = sentences(&[of("rudp", 0.0), of("study", 0.11)]);
        assert_eq!(
            found,
            [
                "over rate=100Mbit,up.loss=10%, the share of messages that take a second or more: \
              rudp by cubic 0 %, study 11 %"
            ]
        );
        assert_eq!(sentences(&[of("rudp", 0.0)]), [""; 0]);
    }
}
