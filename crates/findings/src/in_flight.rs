//! Finds what keeps messages from being faster: a window that is too small for the round trip, and loss that
//! starves a transport.

use crate::over;
use crate::prelude::*;
use crate::text;

pub(crate) const PROBES: [&str; 2] = ["net.stream", "rudp.loss"];

const THROUGHPUT: &str = "throughput";

/// A window is the limit if a larger one surely gives this many times as much.
const MORE: f64 = 1.25;
/// Otherwise it is the limit if the round trip that follows from it is at most this many times the link's
/// delays,
const IS_DELAY: f64 = 1.25;
/// and the link could carry this many times as much.
const LINK_HAS: f64 = 2.0;
/// A transport that gets less than this share of what the link lets through is starved.
const STARVED: f64 = 0.5;
/// A transport that gets at least this share is not.
const FED: f64 = 0.8;

/// Finds where a window limits throughput, and which loss starves which transport.
pub(crate) fn in_flight(run: &Run) -> Vec<Finding> {
    let rows = run.select_all().filter(|row| PROBES.contains(&&*row.point.probe));
    let mut findings = windows(run, rows.clone().filter(|row| !is_lossy(row)));
    let links = rows.filter(is_lossy).group_with(|row| Some(&*row.point.link));
    for (link, rows) in links {
        findings.extend(shares(link, &rows));
    }
    let counted = PROBES.into_iter().flat_map(|probe| run.select_any(probe));
    let lossy: Select<'_> = counted.filter(|row| is_lossy(row)).collect();
    for (link, rows) in lossy.group_with(|row| Some(&*row.point.link)) {
        findings.extend(waits(link, &rows));
    }
    findings
}

/// The name of what carries a row's messages: `rudp by cubic`, `tcp by bbr`, `study`.
pub(crate) fn contender(row: &PointRow) -> Option<String> {
    let over = row.word(over::AXIS)?;
    let by = match over {
        "rudp" => row.word("control"),
        "tcp" | "quic" => row.word("congestion_control"),
        _ => None,
    };
    let by = by.filter(|by| *by != "default");
    Some(over.to_owned() + &maybe(by, |by| format!(" by {by}")))
}

/// Whether the study's protocol carries a row's messages.
pub(crate) fn is_study(row: &PointRow) -> bool {
    row.is_at(over::AXIS, "study")
}

/// How many messages may be in flight; none if the transport sizes its own window.
pub(crate) fn window(row: &PointRow) -> Option<u64> {
    let one_by_itself = is_study(row) || row.is_at("control", "fixed");
    match row.number("window")? {
        0 => one_by_itself.then_some(1),
        window => Some(window),
    }
}

/// How many bytes may be in flight.
fn window_bytes(row: &PointRow) -> Option<u64> {
    Some(window(row)? * row.number("size").unwrap_or(0))
}

fn is_lossy(row: &PointRow) -> bool {
    match row.point.link.parse() {
        Ok(Link::Emulated { up, down }) => up.loss + down.loss > 0.0,
        _ => false,
    }
}

/// One finding for each transport and link, about the smallest window: if any window limits, that one does.
fn windows(run: &Run, rows: Select<'_>) -> Vec<Finding> {
    let with_window = rows.filter(|row| window(row).is_some());
    let groups = with_window.group_with(|row| Some((&row.point.link, contender(row))));
    let found = groups.into_iter().filter_map(|(_, rows)| {
        let smallest = rows.into_iter().min_by_key(|row| window_bytes(row))?;
        limited(run, smallest)
    });
    found.collect()
}

fn limited(run: &Run, row: &PointRow) -> Option<Finding> {
    let window_bytes = window_bytes(row).filter(|bytes| *bytes > 0)?;
    let throughput = row.median(THROUGHPUT).filter(|rate| *rate > 0.0)?;
    let round_trip_ns = window_bytes as f64 / throughput * 1e9;
    let link: Option<Link> = row.point.link.parse().ok();
    let delays = link.and_then(|link| link.round_trip_ns());
    let delays_ns = delays.map_or(0.0, |(ns, _)| ns);
    let link_rate = match link {
        Some(Link::Emulated { up, .. }) => up.rate.map(|bits| bits / 8.0),
        _ => None,
    };
    let is_delay = delays_ns > 0.0 && round_trip_ns <= IS_DELAY * delays_ns;
    let link_has = link_rate.is_none_or(|rate| rate >= LINK_HAS * throughput);
    let faster = with_larger_window(run, row);
    if !(is_delay && link_has) && faster.is_none() {
        return None;
    }
    let delays =
        maybe(is_delay.then(|| ns(delays_ns)), |ns| format!(", {ns} of it the link's delays"));
    let more = maybe(faster, |row| {
        let larger = match self::window(row) {
            Some(larger) => format!("{larger} in flight"),
            None => "a window of its own".to_owned(),
        };
        format!("; with {larger} it reaches {}", rate(row.median(THROUGHPUT).unwrap_or(0.0)))
    });
    let sentence = format!(
        "{contender} over {link}: the window limits it to {rate}: {window} × {size} ÷ a round trip of \
         {round_trip}{delays}{more}",
        contender = contender(row)?,
        link = text::link(&row.point.link),
        rate = rate(throughput),
        window = window(row)?,
        size = bytes(row.number("size")?),
        round_trip = ns(round_trip_ns),
    );
    let evidence = [row].into_iter().chain(faster);
    let found = Finding::new(Kind::WindowLimit, evidence, sentence);
    let advice =
        "keep more in flight (as much as the rate times the round trip), or send longer messages";
    Some(found.advise(advice))
}

/// The fastest of the points that differ only in the window, if it is surely faster.
fn with_larger_window<'r>(run: &'r Run, row: &PointRow) -> Option<&'r PointRow> {
    let (_, high) = row.interval(THROUGHPUT)?;
    let others = run.select(&row.point.probe).over(&row.point.link).filter(|other| {
        other.number("window").is_some()
            && other.point.without(&["window"]) == row.point.without(&["window"])
            && other.interval(THROUGHPUT).is_some_and(|(low, _)| low > MORE * high)
    });
    greatest(others, |row| row.median(THROUGHPUT).unwrap_or(0.0))
}

/// A share in percent, with two digits after the point if it is small.
fn percent(share: f64) -> String {
    let percent = 100.0 * share;
    let is_whole = percent >= 10.0 || percent == 0.0;
    format!("{percent:.*} %", if is_whole { 0 } else { 2 })
}

/// Which transports surely get less than half of what the link lets through, and which gets most of it.
fn shares(link: &str, rows: &Select<'_>) -> Option<Finding> {
    const SHARE: &str = "goodput_share";
    let streams = rows.clone().filter(|row| window(row).is_none() || is_study(row));
    let starved =
        streams.clone().filter(|row| row.interval(SHARE).is_some_and(|(_, most)| most < STARVED));
    let fed = streams.filter(|row| row.median(SHARE) >= Some(FED));
    if starved.is_empty() {
        return None;
    }
    let each = |rows: &Select<'_>| -> Vec<String> {
        let each = |row: &&PointRow| {
            let share = percent(row.counted(SHARE)?);
            Some(format!("{} ({share})", contender(row)?))
        };
        rows.iter().filter_map(each).collect()
    };
    let sentence = format!(
        "over {link}, less than half of what the link can deliver despite its losses reaches {starved}{fed}",
        link = text::link(link),
        starved = each(&starved).join(", "),
        fed = list("; not starved: ", &each(&fed), ", "),
    );
    let evidence = starved.into_iter().chain(fed);
    Some(Finding::new(Kind::LossStarves, evidence, sentence))
}

/// Which transports have messages that take a second or more. They are counted, and no load of this machine makes
/// a second of a millisecond, so rows of any grade count.
fn waits(link: &str, rows: &Select<'_>) -> Option<Finding> {
    const SHARE: &str = "starved";
    let timed = rows.clone().filter(|row| row.counted(SHARE).is_some());
    if timed.iter().all(|row| row.counted(SHARE) == Some(0.0)) {
        return None;
    }
    let share = |row: &&PointRow| {
        let counts = row.counted("starved_count").zip(row.counted("asked"));
        let counts = maybe(counts, |(count, asked)| format!(" ({count:.0} of {asked:.0})"));
        Some(format!("{} {}{counts}", contender(row)?, percent(row.counted(SHARE)?)))
    };
    let shares: Vec<String> = timed.iter().filter_map(share).collect();
    let (link, shares) = (text::link(link), shares.join(", "));
    let sentence =
        format!("over {link}, the share of messages that take a second or more: {shares}");
    Some(Finding::new(Kind::RoundTripsAboveASecond, timed, sentence))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{self, RowExt, axes, point_row, reads};
    use costof_model::Grade;

    fn row(link: &'static str, over: &'static str, window: u64, rate: f64) -> PointRow {
        let axes =
            axes!(over, control = "cubic", congestion_control = "default", size = 20_000, window);
        point_row("net.stream", "throughput", axes, rate, (rate, rate)).over(link)
    }

    fn with(mut row: PointRow, name: &'static str, value: f64) -> PointRow {
        let mut metric = row.metrics[0].clone();
        metric.name = name.into();
        (metric.median, metric.ci95) = (value, Some((value, value)));
        row.metrics.push(metric);
        row
    }

    fn sentences(rows: &[PointRow]) -> Vec<String> {
        tests::sentences(in_flight, rows)
    }

    #[test]
    fn stop_and_wait_is_limited_by_the_round_trip() {
        // 20,000 B in 191.6 ms of the link's 190.
        let found = sentences(&[row("wan", "study", 0, 104_384.0)]);
        reads!(&found);
    }

    #[test]
    fn a_window_is_what_limits_where_a_larger_one_does_better() {
        let rows = [
            row("loopback", "rudp", 1, 200e6),
            row("loopback", "rudp", 8, 900e6),
            row("loopback", "rudp", 0, 2e9),
        ];
        reads!(sentences(&rows));
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
    fn who_starves_is_reported_beside_who_does_not() {
        let link = "delay=95ms,rate=100Mbit,up.loss=10%";
        let of = |over, share| with(row(link, over, 0, 1e6), "goodput_share", share);
        let found = sentences(&[of("rudp", 0.93), of("tcp", 0.004), of("quic", 0.6)]);
        reads!(&found);
        assert_eq!(sentences(&[of("rudp", 0.93), of("quic", 0.6)]), [""; 0]);
    }

    #[test]
    fn messages_that_wait_for_a_second_are_reported_by_transport() {
        let link = "rate=100Mbit,up.loss=10%";
        let of = |over, share| with(row(link, over, 10, 1e6), "starved", share);
        let study = with(of("study", 0.11), "starved_count", 11.0);
        let study = with(study, "asked", 100.0);
        let found = sentences(&[of("rudp", 0.0), study]);
        reads!(&found);
        assert_eq!(sentences(&[of("rudp", 0.0)]), [""; 0]);
    }

    #[test]
    fn messages_that_waited_are_counted_however_busy_the_machine_was() {
        let link = "rate=100Mbit,up.loss=10%";
        let busy = |row: PointRow| row.warned("others", Grade::D);
        let of = |over, share| with(row(link, over, 10, 1e6), "starved", share);
        let rows = [busy(of("rudp", 0.0)), busy(of("study", 0.11))];
        let mut run = tests::run(&[]);
        run.points = rows.to_vec();
        let found = crate::all::findings(&run);
        let kinds: Vec<Kind> = found.iter().map(|found| found.kind).collect();
        assert_eq!(kinds, [Kind::RoundTripsAboveASecond]);
        // What a transport gets through is a matter of time.
        let slow = busy(with(row(link, "tcp", 0, 1e6), "goodput_share", 0.01));
        assert_eq!(sentences(&[slow]), [""; 0]);
    }
}
