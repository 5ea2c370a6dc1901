//! What making datagrams reliable adds to a round trip, and at which end.

use crate::finding::{Finding, grade_by_others};
use crate::ratio::{Difference, LogRatio};
use crate::send_crossover::{circumstances, groups};
use costof_model::noise::Grade;
use costof_model::point::Point;
use costof_model::rows::PointRow;
use costof_model::run_file::Run;
use costof_model::unit::{Unit, display_bytes};

const ROUND_TRIP: &str = "rudp.rtt";
const STAGES: &str = "rudp.stages";
/// What the others are held against.
const PLAIN: &str = "udp";
/// The others, and how a sentence calls each.
const RELIABLE: [(&str, &str); 2] = [
    ("rudp", "by rudp"),
    ("study", "by the study's protocol, which answers with 8 B"),
];
/// The ends, by what is stamped there, and how a sentence calls each.
const ENDS: [(&str, &str); 2] = [
    ("client", "at the end that asks"),
    ("server", "at the end that answers"),
];

/// What the points of a group say.
type Find = fn(&Run, &Group<'_>) -> Option<Finding>;

/// Of which probe's points each is asked.
const FINDERS: [(&str, Find); 2] = [(ROUND_TRIP, round_trips), (STAGES, ends)];

/// For each link and way of waiting, a sentence on round trips and one on either end.
pub(crate) fn reliable_datagrams(run: &Run) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (probe, find) in FINDERS {
        let quiet = |row: &&PointRow| row.point.probe == probe && grade_by_others(row) < Grade::D;
        let groups = groups(run.points.iter().filter(quiet), &["stack", "size"]);
        let groups = groups
            .into_iter()
            .map(|(common, rows)| Group { common, rows });
        findings.extend(groups.filter_map(|group| find(run, &group)));
    }
    findings
}

/// Points that differ in stack and size alone.
struct Group<'a> {
    common: Point,
    rows: Vec<&'a PointRow>,
}

/// A point beside the plain one of its size.
struct Beside<'a> {
    size: u64,
    row: &'a PointRow,
    plain: &'a PointRow,
}

impl Group<'_> {
    fn of(&self, stack: &str) -> impl Iterator<Item = &PointRow> {
        let rows = self.rows.iter().copied();
        rows.filter(move |row| row.axes().find_word("stack") == Some(stack))
    }

    /// The smallest message and the largest of a stack that both were measured with; one if there
    /// is no other.
    fn beside_plain(&self, stack: &str) -> Vec<Beside<'_>> {
        let size = |row: &PointRow| row.axes().find_number("size");
        let mut beside: Vec<Beside<'_>> = self
            .of(stack)
            .filter_map(|row| {
                Some(Beside {
                    size: size(row)?,
                    row,
                    plain: self.of(PLAIN).find(|plain| size(plain) == size(row))?,
                })
            })
            .collect();
        beside.sort_by_key(|beside| beside.size);
        if beside.len() > 2 {
            beside.drain(1..beside.len() - 1);
        }
        beside
    }

    /// ` over loopback (wait=spin)`.
    fn place(&self, run: &Run) -> String {
        format!(
            "over {}{}",
            self.common.link,
            circumstances(run, &self.common)
        )
    }
}

fn evidence(beside: &[Beside<'_>]) -> impl Iterator<Item = Point> {
    let rows = beside.iter().flat_map(|beside| [beside.row, beside.plain]);
    rows.map(|row| row.point.clone())
}

/// How many times as long a round trip takes.
fn round_trips(run: &Run, group: &Group<'_>) -> Option<Finding> {
    let mut said = Vec::new();
    let mut points = Vec::new();
    for (stack, by) in RELIABLE {
        let beside = group.beside_plain(stack);
        let times: Vec<String> = beside.iter().filter_map(|one| times(run, one)).collect();
        if !times.is_empty() {
            said.push(format!("{by}, it takes {}", times.join(" and ")));
            points.extend(evidence(&beside));
        }
    }
    (!said.is_empty()).then(|| Finding {
        kind: "reliable_round_trip".into(),
        sentence: format!(
            "beside a plain datagram there and back {}: {}",
            group.place(run),
            said.join("; ")
        ),
        advice: None,
        evidence: points,
    })
}

/// `1.59 times as long at 56B (1.48 to 1.70; 12.4 µs)`.
fn times(run: &Run, beside: &Beside<'_>) -> Option<String> {
    const METRIC: &str = "latency";
    let ratio = LogRatio::of(run, beside.row, beside.plain, METRIC)?;
    let [low, middle, high] = [ratio.low, ratio.middle, ratio.high].map(f64::exp);
    let size = display_bytes(beside.size);
    let ns = Unit::Nanoseconds.display(beside.row.estimate(METRIC)?.median);
    let rest = format!("({low:.2} to {high:.2}; {ns})");
    Some(match low > 1.0 || high < 1.0 {
        true => format!("{middle:.2} times as long at {size} {rest}"),
        false => format!("as long at {size}, as far as can be seen {rest}"),
    })
}

/// How much more the library takes at either end, by the kernel's stamps.
fn ends(run: &Run, group: &Group<'_>) -> Option<Finding> {
    let (stack, by) = RELIABLE[0];
    let beside = group.beside_plain(stack);
    let at_sizes: Vec<String> = beside
        .iter()
        .filter_map(|one| {
            let more: Vec<String> = ENDS
                .iter()
                .filter_map(|(metric, end)| Some(format!("{} {end}", more(run, one, metric)?)))
                .collect();
            let size = display_bytes(one.size);
            (!more.is_empty()).then(|| format!("at {size} {}", more.join(" and ")))
        })
        .collect();
    (!at_sizes.is_empty()).then(|| Finding {
        kind: "reliable_ends".into(),
        sentence: format!(
            "{by} {}, a datagram takes more than a plain one does, by the kernel's stamps: {}",
            group.place(run),
            at_sizes.join("; ")
        ),
        advice: None,
        evidence: evidence(&beside).collect(),
    })
}

/// `1.04 µs (0.9 µs to 1.2 µs)`.
fn more(run: &Run, beside: &Beside<'_>, metric: &str) -> Option<String> {
    let difference = Difference::of(run, beside.row, beside.plain, metric)?;
    let ns = |ns: f64| Unit::Nanoseconds.display(ns);
    let Difference { low, middle, high } = difference;
    Some(match low > 0.0 {
        true => format!("{} ({} to {})", ns(middle), ns(low), ns(high)),
        false if high > 0.0 => format!("nothing that can be seen (up to {})", ns(high)),
        false => "nothing".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory_sample::{point_row, run};
    use costof_model::axis::Axes;
    use costof_model::noise::Warning;

    fn row(
        probe: &'static str,
        metric: &'static str,
        stack: &'static str,
        size: u64,
        us: f64,
    ) -> PointRow {
        let axes = Axes::default()
            .with("stack", stack)
            .with("size", size)
            .with("wait", "spin");
        let ns = us * 1000.0;
        let mut row = point_row(probe, metric, axes, ns, (ns * 0.98, ns * 1.02));
        row.point.link = "loopback".into();
        row
    }

    fn found(rows: &[PointRow]) -> Vec<Finding> {
        let mut run = run(&[]);
        run.points.extend(rows.iter().cloned());
        let findings = reliable_datagrams(&run);
        for point in findings.iter().flat_map(|finding| &finding.evidence) {
            assert!(rows.iter().any(|row| row.point == *point));
        }
        findings
    }

    fn rtt(stack: &'static str, size: u64, us: f64) -> PointRow {
        row(ROUND_TRIP, "latency", stack, size, us)
    }

    #[test]
    fn a_round_trip_is_told_beside_the_plain_one_of_its_size() {
        let rows = [
            rtt("rudp", 2048, 15.0),
            rtt("udp", 2048, 10.0),
            rtt("rudp", 512, 11.0),
            rtt("udp", 512, 8.5),
            rtt("udp", 56, 8.0),
            rtt("rudp", 56, 12.0),
            rtt("study", 56, 8.1),
            // Nothing stands beside it.
            rtt("rudp", 4, 12.0),
        ];
        let found = found(&rows);
        assert_eq!(found.len(), 1);
        assert_eq!(
            found[0].sentence,
            "beside a plain datagram there and back over loopback: by rudp, it takes 1.50 times \
             as long at 56B (1.46 to 1.54; 12.0 µs) and 1.50 times as long at 2KiB (1.46 to 1.54; \
             15.0 µs); by the study's protocol, which answers with 8 B, it takes as long at 56B, as \
             far as can be seen (0.98 to 1.04; 8.10 µs)"
        );
        assert_eq!(found[0].evidence.len(), 6);
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
        assert!(found[1].sentence.contains("over veth"));
    }

    #[test]
    fn where_others_used_the_processors_nothing_is_held_to_be_the_librarys() {
        let with = |grade| {
            let mut row = rtt("rudp", 56, 12.0);
            row.warnings.push(Warning {
                kind: "others".into(),
                grade,
                what: String::new(),
                advice: String::new(),
            });
            found(&[row, rtt("udp", 56, 8.0)]).len()
        };
        assert_eq!((with(Grade::C), with(Grade::D)), (1, 0));
    }

    #[test]
    fn either_end_has_what_it_takes_more() {
        let stages = |stack, client_us: f64, server_us: f64| {
            let mut both = row(STAGES, "client", stack, 1400, client_us);
            let server = row(STAGES, "server", stack, 1400, server_us);
            both.metrics.extend(server.metrics);
            both
        };
        let found_of =
            |server_us| found(&[stages("rudp", 6.0, server_us), stages("udp", 5.0, 5.0)]);
        let found = found_of(5.1);
        assert_eq!(
            found[0].sentence,
            "by rudp over loopback, a datagram takes more than a plain one does, by the kernel's \
             stamps: at 1400B 1.00 µs (844 ns to 1.16 µs) at the end that asks and nothing that can \
             be seen (up to 243 ns) at the end that answers"
        );
        assert!(found_of(4.0)[0].sentence.contains("and nothing at the end"));
    }
}
