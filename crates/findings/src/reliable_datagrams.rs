//! What reliability adds to the round trip of a datagram, and at which peer.

use crate::Kind;
use crate::figures::{Part, bytes, figures, ns, times};
use crate::finding::Finding;
use crate::interval::Interval;
use crate::naming::place;
use crate::pairs::{Pair, ends, pairs, rows};
use costof_model::run_file::Run;
use costof_model::select::{Group, Select};

pub(crate) const SENTENCES: &str = r#"
[reliable_round_trip]
sentence = "compared with the round trip of a plain datagram over {place}: {stacks|; }"
rudp = "by rudp, it takes {sizes| and }"
study = "by the study's protocol, which answers with 8 B, it takes {sizes| and }"
longer = "{middle} times as long at {size} ({low} to {high}[; {time}])"
as_long = "no measurably longer at {size} ({low} to {high}[; {time}])"

[reliable_ends]
sentence = "by the kernel's timestamps, a reliable datagram over {place} takes longer than a plain one: {stacks|; }"
rudp = "by rudp {sizes}"
study = "by the study's protocol {sizes}"
at_size = "at {size} {ends| and }"
at_client = "{more} at the client"
at_server = "{more} at the server"
more = "{middle} ({low} to {high})"
up_to = "nothing measurable (up to {high})"
nothing = "nothing"
"#;

/// The protocol that the others are compared with.
const PLAIN: &str = "udp";
/// The reliable stacks, and the template of each.
const RELIABLE: [(&str, &str); 2] = [("rudp", "rudp"), ("study", "study")];
/// The peers: the name of each in metrics of time stamps, and its template.
const ENDS: [(&str, &str); 2] = [("client", "at_client"), ("server", "at_server")];

/// For each link and way of waiting, a finding about round trips and one about the peers.
pub(crate) fn reliable_datagrams(run: &Run) -> Vec<Finding> {
    fn groups(rows: Select<'_>) -> impl Iterator<Item = Group<'_>> {
        rows.group_by(&["stack", "size"]).into_iter()
    }
    // Round trips that took turns are compared however busy the machine was.
    let round_trips = groups(run.select_any("rudp.rtt"))
        .filter_map(|group| by_stack(run, &group, Kind::ReliableRoundTrip, round_trips));
    let at_ends = groups(run.select("rudp.stages"))
        .filter_map(|group| by_stack(run, &group, Kind::ReliableEnds, at_ends));
    round_trips.chain(at_ends).collect()
}

/// The smallest and the largest message that were measured both with a stack and with plain datagrams.
fn with_plain<'a>(rows: &Select<'a>, stack: &str) -> Vec<Pair<'a>> {
    ends(pairs(rows, "size", "stack", (stack, PLAIN)))
}

/// A finding with a part for each stack, which has a part for each pair of the stack and a plain datagram.
fn by_stack(
    run: &Run,
    group: &Group<'_>,
    kind: Kind,
    compared: fn(&Run, &Pair<'_>) -> Option<Part>,
) -> Option<Finding> {
    let (mut stacks, mut measured) = (Vec::new(), Vec::new());
    for (stack, template) in RELIABLE {
        let pairs = with_plain(&group.rows, stack);
        let parts: Vec<Part> = pairs
            .iter()
            .filter_map(|pair| compared(run, pair))
            .collect();
        if !parts.is_empty() {
            stacks.push((template, figures().parts("sizes", parts)));
            measured.extend(rows(&pairs));
        }
    }
    let is_any = !stacks.is_empty();
    let figures = figures()
        .with("place", place(run, &group.common))
        .parts("stacks", stacks);
    is_any.then(|| Finding::new(kind, measured, figures))
}

/// How many times as long a round trip takes.
fn round_trips(run: &Run, pair: &Pair<'_>) -> Option<Part> {
    const METRIC: &str = "latency";
    let ratio = Interval::log_ratio(run, pair.row, pair.other, METRIC)?;
    let time = pair.row.median(METRIC).filter(|_| pair.row.is_sound());
    let figures = figures()
        .with("size", bytes(pair.number))
        .maybe("time", time.map(ns))
        .interval(ratio.exp(), times);
    Some((if ratio.differs() { "longer" } else { "as_long" }, figures))
}

/// How much more time a datagram takes at each peer, by the kernel's time stamps.
fn at_ends(run: &Run, pair: &Pair<'_>) -> Option<Part> {
    let ends = ENDS.iter().filter_map(|(metric, end)| {
        let more = Interval::difference(run, pair.row, pair.other, metric)?;
        let template = match more {
            more if more.low > 0.0 => "more",
            more if more.high > 0.0 => "up_to",
            _ => "nothing",
        };
        let more = (template, figures().interval(more, ns));
        Some((*end, figures().parts("more", [more])))
    });
    let ends: Vec<Part> = ends.collect();
    let size = figures().with("size", bytes(pair.number));
    (!ends.is_empty()).then(|| ("at_size", size.parts("ends", ends)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{self, RowExt, axes, contains, known_row};
    use costof_model::noise::Grade;
    use costof_model::rows::PointRow;

    fn row(
        probe: &'static str,
        metric: &'static str,
        stack: &'static str,
        size: u64,
        us: f64,
    ) -> PointRow {
        let axes = axes!(stack, size, wait = "spin");
        let ns = us * 1000.0;
        known_row(probe, metric, axes, ns, 0.02).over("loopback")
    }

    fn found(rows: &[PointRow]) -> Vec<Finding> {
        tests::found(reliable_datagrams, rows)
    }

    fn rtt(stack: &'static str, size: u64, us: f64) -> PointRow {
        row("rudp.rtt", "latency", stack, size, us)
    }

    #[test]
    fn a_round_trip_is_reported_beside_the_plain_one_of_its_size() {
        let rows = [
            rtt("rudp", 2048, 15.0),
            rtt("udp", 2048, 10.0),
            rtt("rudp", 512, 11.0),
            rtt("udp", 512, 8.5),
            rtt("udp", 56, 8.0),
            rtt("rudp", 56, 12.0),
            rtt("study", 56, 8.1),
            // Without a plain datagram of this size.
            rtt("rudp", 4, 12.0),
        ];
        let found = found(&rows);
        assert_eq!(found.len(), 1);
        assert_eq!(
            found[0].sentence(),
            "compared with the round trip of a plain datagram over loopback: by rudp, it takes 1.50 times as long at 56B (1.46 to 1.54; 12.0 µs) and 1.50 times as long at 2KiB (1.46 to 1.54; 15.0 µs); by the study's protocol, which answers with 8 B, it takes no measurably longer at 56B (0.98 to 1.04; 8.10 µs)"
        );
        assert_eq!(found[0].evidence.len(), 5);
    }

    #[test]
    fn each_link_has_a_sentence_of_its_own() {
        let mut rows = vec![rtt("rudp", 56, 12.0), rtt("udp", 56, 8.0)];
        for row in rows.clone() {
            let mut veth = row;
            veth.point.link = "veth".into();
            rows.push(veth);
        }
        let found = found(&rows);
        assert_eq!(found.len(), 2);
        contains(&found[1].sentence(), "over veth");
    }

    #[test]
    fn where_others_used_the_processors_nothing_is_held_to_be_the_librarys() {
        let with = |grade| {
            let row = rtt("rudp", 56, 12.0).warned("others", grade);
            found(&[row, rtt("udp", 56, 8.0)]).len()
        };
        assert_eq!((with(Grade::C), with(Grade::D)), (1, 0));
    }

    #[test]
    fn either_end_has_what_it_takes_more() {
        let stages = |stack, client_us: f64, server_us: f64| {
            let mut both = row("rudp.stages", "client", stack, 1400, client_us);
            let server = row("rudp.stages", "server", stack, 1400, server_us);
            both.metrics.extend(server.metrics);
            both
        };
        let plain = || stages("udp", 5.0, 5.0);
        let found_of = |server_us| found(&[stages("rudp", 6.0, server_us), plain()]);
        let found = found_of(5.1);
        assert_eq!(
            found[0].sentence(),
            "by the kernel's timestamps, a reliable datagram over loopback takes longer than a plain one: by rudp at 1400B 1.00 µs (844 ns to 1.16 µs) at the client and nothing measurable (up to 243 ns) at the server"
        );
        assert!(
            found_of(4.0)[0]
                .sentence()
                .contains("and nothing at the server")
        );
        let study = stages("study", 6.0, 5.1);
        let both = tests::found(
            reliable_datagrams,
            &[stages("rudp", 6.0, 5.1), study, plain()],
        );
        assert_eq!(both.len(), 1);
        contains(
            &both[0].sentence(),
            "; by the study's protocol at 1400B 1.00 µs",
        );
    }
}
