//! What reliability adds to the round trip of a datagram, and at which peer.

use crate::over;
use crate::pairs::rows;
use crate::prelude::*;

/// The protocol that the others are compared with.
const PLAIN: &str = "udp";
/// The reliable transports, and what each is called.
const RELIABLE: [(&str, &str); 2] = [("rudp", "rudp"), ("study", "the study's protocol")];

/// For each link and way of waiting, a finding about round trips and one about the peers.
pub(crate) fn reliable_datagrams(run: &Run) -> Vec<Finding> {
    fn groups(rows: Select<'_>) -> impl Iterator<Item = Group<'_>> {
        rows.group_by(&[over::AXIS, "size"]).into_iter()
    }
    // Round trips that took turns are compared however busy the machine was.
    let longer = groups(run.select_any("net.rtt"));
    let longer = longer.filter_map(|group| round_trips(run, &group));
    let at_ends = groups(run.select("rudp.stages"));
    let at_ends = at_ends.filter_map(|group| at_ends_of(run, &group));
    longer.chain(at_ends).collect()
}

/// A transport, what it is called, and a text for each size.
type Texts = (&'static str, &'static str, Vec<String>);

/// For each reliable transport: its name and a text for the smallest and the largest message that were measured with it
/// and with plain datagrams. Also the rows that these come from.
fn by_transport<'r>(
    group: &Group<'r>,
    compared: impl Fn(&Pair<'_>) -> Option<String>,
) -> (Vec<Texts>, Vec<&'r PointRow>) {
    let (mut texts, mut measured) = (Vec::new(), Vec::new());
    for (over, name) in RELIABLE {
        let pairs = ends(pairs(&group.rows, "size", over::AXIS, (over, PLAIN)));
        let sizes: Vec<String> = pairs.iter().filter_map(&compared).collect();
        if !sizes.is_empty() {
            texts.push((over, name, sizes));
            measured.extend(rows(&pairs));
        }
    }
    (texts, measured)
}

/// How many times as long a round trip takes.
fn round_trips(run: &Run, group: &Group<'_>) -> Option<Finding> {
    const METRIC: &str = "latency";
    let (texts, measured) = by_transport(group, |pair| {
        let ratio = Interval::log_ratio(run, pair.row, pair.other, METRIC)?;
        let time = pair.row.median(METRIC).filter(|_| pair.row.is_sound());
        let time = maybe(time, |time| format!("; {}", ns(time)));
        let longer = match ratio.differs() {
            true => format!("{} times as long", times(ratio.exp().middle)),
            false => "no measurably longer".to_owned(),
        };
        let Interval { low, high, .. } = ratio.exp();
        let (size, ends) = (bytes(pair.number), range((low, high), times));
        Some(format!("{longer} at {size} ({ends}{time})"))
    });
    let texts = texts.iter().map(|(over, name, sizes)| {
        let answers = match *over {
            "study" => ", which answers with 8 B,",
            _ => ",",
        };
        format!("by {name}{answers} it takes {}", sizes.join(" and "))
    });
    let (place, texts) = (place(run, &group.common), texts.collect::<Vec<_>>().join("; "));
    let sentence =
        format!("compared with the round trip of a plain datagram over {place}: {texts}");
    let is_any = !measured.is_empty();
    is_any.then(|| Finding::new(Kind::ReliableRoundTrip, measured, sentence))
}

/// How much more time a datagram takes at each peer, by the kernel's time stamps.
fn at_ends_of(run: &Run, group: &Group<'_>) -> Option<Finding> {
    let (texts, measured) = by_transport(group, |pair| {
        let ends = ["client", "server"].into_iter().filter_map(|end| {
            let Interval { low, middle, high } =
                Interval::difference(run, pair.row, pair.other, end)?;
            let more = match () {
                () if low > 0.0 => format!("{} ({})", ns(middle), range((low, high), ns)),
                () if high > 0.0 => format!("nothing measurable (up to {})", ns(high)),
                () => "nothing".to_owned(),
            };
            Some(format!("{more} at the {end}"))
        });
        let ends: Vec<String> = ends.collect();
        let (size, all) = (bytes(pair.number), ends.join(" and "));
        (!ends.is_empty()).then(|| format!("at {size} {all}"))
    });
    let texts = texts.iter().map(|(_, name, sizes)| format!("by {name} {}", sizes.join(", ")));
    let (place, texts) = (place(run, &group.common), texts.collect::<Vec<_>>().join("; "));
    let sentence = format!(
        "by the kernel's timestamps, a reliable datagram over {place} takes longer than a plain one: {texts}"
    );
    let is_any = !measured.is_empty();
    is_any.then(|| Finding::new(Kind::ReliableEnds, measured, sentence))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{self, RowExt, axes, contains, known_row, reads};
    use costof_model::{Grade, PointRow};

    fn row(
        probe: &'static str,
        metric: &'static str,
        over: &'static str,
        size: u64,
        us: f64,
    ) -> PointRow {
        let axes = axes!(over, size, wait = "spin");
        let ns = us * 1000.0;
        known_row(probe, metric, axes, ns, 0.02).over("loopback")
    }

    fn found(rows: &[PointRow]) -> Vec<Finding> {
        tests::found(reliable_datagrams, rows)
    }

    fn rtt(over: &'static str, size: u64, us: f64) -> PointRow {
        row("net.rtt", "latency", over, size, us)
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
        reads!(&found);
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
        contains(&found[1].sentence, "over veth");
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
        let stages = |over, client_us: f64, server_us: f64| {
            let mut both = row("rudp.stages", "client", over, 1400, client_us);
            let server = row("rudp.stages", "server", over, 1400, server_us);
            both.metrics.extend(server.metrics);
            both
        };
        let plain = || stages("udp", 5.0, 5.0);
        let found_of = |server_us| found(&[stages("rudp", 6.0, server_us), plain()]);
        let found = found_of(5.1);
        reads!(&found);
        assert!(found_of(4.0)[0].sentence.contains("and nothing at the server"));
        let study = stages("study", 6.0, 5.1);
        let both = tests::found(reliable_datagrams, &[stages("rudp", 6.0, 5.1), study, plain()]);
        assert_eq!(both.len(), 1);
        contains(&both[0].sentence, "; by the study's protocol at 1400B 1.00 µs");
    }
}
