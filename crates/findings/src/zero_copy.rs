//! What the kernel said of sends that asked for no copy, and why it copied after all.

use crate::finding::Finding;
use costof_model::Text;
use costof_model::link::Link;
use costof_model::rows::PointRow;
use costof_model::run_file::Run;
use costof_model::unit::display_bytes;

/// From which share of the sends on all, and up to which none, have been copied: a few of a
/// connection's beginning may be of the other kind.
const ALL: f64 = 0.995;
const NONE: f64 = 0.005;

/// What became of the sends.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fate {
    Copied,
    NotCopied,
    Both,
}

/// A sentence for each link, protocol and way of asking, and what the processor time says of it.
pub(crate) fn zero_copy(run: &Run) -> Vec<Finding> {
    let mut groups: Vec<(Fate, Vec<&PointRow>)> = Vec::new();
    for row in run
        .points
        .iter()
        .filter(|row| row.point.probe == "copy.send")
    {
        let Some(copied) = row.estimate("copied") else {
            continue;
        };
        let fate = match copied.median {
            copied if copied >= ALL => Fate::Copied,
            copied if copied <= NONE => Fate::NotCopied,
            _ => Fate::Both,
        };
        let alike = |(known, rows): &&mut (Fate, Vec<&PointRow>)| {
            *known == fate && subject(rows[0]) == subject(row)
        };
        match groups.iter_mut().find(alike) {
            Some((_, rows)) => rows.push(row),
            None => groups.push((fate, vec![row])),
        }
    }
    let said = groups.iter().map(|(fate, rows)| said(run, *fate, rows));
    said.collect()
}

/// The link, what goes over it, and who asks.
fn subject(row: &PointRow) -> (&Text, Option<&str>, Option<&str>) {
    let axes = row.axes();
    (
        &row.point.link,
        axes.find_word("over"),
        axes.find_word("primitive"),
    )
}

fn said(run: &Run, fate: Fate, rows: &[&PointRow]) -> Finding {
    let (link, over, primitive) = subject(rows[0]);
    let (over, primitive) = (over.unwrap_or(""), primitive.unwrap_or(""));
    let of = |metric| -> f64 {
        let estimates = rows.iter().filter_map(|row| row.estimate(metric));
        estimates.map(|estimate| estimate.median).sum()
    };
    let asked = of("asked").round();
    let copies: f64 = rows
        .iter()
        .filter_map(|row| Some(row.estimate("asked")?.median * row.estimate("copied")?.median))
        .sum();
    let sends = format!("{primitive} by {over} over {link}");
    let by = time_beside_a_copy(run, rows);
    let sentence = match fate {
        Fate::Copied => format!(
            "{sends}: copied {:.0} %: {}, so this measures a deferred copy{by}",
            100.0 * copies / asked.max(1.0),
            why_copied(run, rows[0]),
        ),
        Fate::NotCopied => format!(
            "{sends}: {:.0} of {asked:.0} sends not copied{by}",
            asked - copies.round(),
        ),
        Fate::Both => format!(
            "{sends}: copied {:.0} %, in part: {}{by}",
            100.0 * copies / asked.max(1.0),
            why_copied(run, rows[0]),
        ),
    };
    let advice = match fate {
        Fate::NotCopied => None,
        _ => Some(
            "--link sink measures the sender's half where nothing is copied; between two machines \
             the network card decides"
                .to_owned(),
        ),
    };
    Finding {
        kind: "zero_copy".into(),
        sentence,
        advice,
        evidence: rows.iter().map(|row| row.point.clone()).collect(),
    }
}

/// What makes the kernel copy, as far as the run shows it.
fn why_copied(run: &Run, row: &PointRow) -> String {
    let ends = run
        .launches
        .iter()
        .filter(|launch| launch.points.iter().any(|point| point.point == row.point))
        .flat_map(|launch| launch.noise.ends.values());
    let sniffed = ends
        .filter(|end| end.sniffers.is_some_and(|sniffers| sniffers > 0))
        .find_map(|end| end.device.clone());
    let sniffer =
        sniffed.map(|device| format!("a packet sniffer is open on {device} (tcpdump, AF_PACKET)"));
    let receiver = match row.point.link.parse() {
        Ok(Link::Loopback) => Some("the receiver is on this machine (loopback)"),
        Ok(Link::Veth) => Some("the receiver is on this machine, in another namespace (veth)"),
        Ok(Link::Emulated { .. }) => Some("the packets go through this machine's own emulation"),
        _ => None,
    };
    match (receiver, sniffer) {
        (Some(receiver), Some(sniffer)) => format!("{receiver}, and {sniffer}"),
        (Some(receiver), None) => receiver.to_owned(),
        (None, Some(sniffer)) => sniffer,
        (None, None) => {
            "the device cannot gather (scatter-gather), is a tunnel, or loops back".to_owned()
        }
    }
}

/// The sender's processor time beside that of two copies where both were measured, least and most:
/// the kernel's word can be wrong both ways.
fn time_beside_a_copy(run: &Run, rows: &[&PointRow]) -> String {
    let mut ratios: Vec<(f64, u64)> = rows
        .iter()
        .filter_map(|row| {
            let axes = row.axes().clone().with("primitive", "two_copy");
            let axes = axes.with("buffers", "plain");
            let copying = run
                .points
                .iter()
                .find(|other| other.point.link == row.point.link && *other.axes() == axes)
                .filter(|other| other.point.probe == row.point.probe)?;
            let time = |row: &PointRow| Some(row.estimate("cpu_sender")?.median);
            let ratio = time(row)? / time(copying)?;
            Some((ratio, row.axes().find_number("size")?))
        })
        .collect();
    ratios.sort_by(|one, other| one.0.total_cmp(&other.0));
    let at = |(ratio, size): &(f64, u64)| format!("{ratio:.2} at {}", display_bytes(*size));
    match (ratios.first(), ratios.last()) {
        (Some(least), Some(most)) if ratios.len() > 1 => format!(
            "; the sender's processor time is {} to {} of that of two copies",
            at(least),
            at(most)
        ),
        (Some(only), _) => format!(
            "; the sender's processor time is {} of that of two copies",
            at(only)
        ),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory_sample::{CLAIMED, point_row, run};
    use costof_model::axis::Axes;

    fn send(link: &'static str, primitive: &'static str, size: u64, cpu: f64) -> PointRow {
        let axes = Axes::default()
            .with("primitive", primitive)
            .with("over", "tcp")
            .with("size", size)
            .with("buffers", "plain");
        let mut row = point_row("copy.send", "cpu_sender", axes, cpu, (cpu, cpu));
        row.point.link = link.into();
        row
    }

    fn completed(mut row: PointRow, asked: f64, copied: f64) -> PointRow {
        for (name, value) in [("asked", asked), ("copied", copied)] {
            let mut estimate = row.metrics[0].clone();
            estimate.name = name.into();
            estimate.median = value;
            row.metrics.push(estimate);
        }
        row
    }

    fn sentences(rows: Vec<PointRow>) -> Vec<String> {
        let mut run = run(&CLAIMED);
        run.points = rows;
        let findings = zero_copy(&run);
        findings.into_iter().map(|found| found.sentence).collect()
    }

    #[test]
    fn what_is_copied_says_why_and_what_is_not_says_how_many() {
        let sentences = sentences(vec![
            completed(send("loopback", "zero_copy", 65_536, 150.0), 900.0, 1.0),
            send("loopback", "two_copy", 65_536, 100.0),
            completed(send("sink", "zero_copy", 65_536, 60.0), 1000.0, 0.0),
            completed(send("sink", "zero_copy", 1 << 20, 50.0), 212.0, 0.0),
            send("sink", "two_copy", 65_536, 120.0),
            send("sink", "two_copy", 1 << 20, 200.0),
        ]);
        assert_eq!(
            sentences,
            [
                "zero_copy by tcp over loopback: copied 100 %: the receiver is on this machine \
                 (loopback), so this measures a deferred copy; the sender's processor time is 1.50 \
                 at 64KiB of that of two copies",
                "zero_copy by tcp over sink: 1212 of 1212 sends not copied; the sender's processor \
                 time is 0.25 at 1MiB to 0.50 at 64KiB of that of two copies",
            ]
        );
    }

    #[test]
    fn a_part_is_called_one_and_what_says_nothing_has_no_sentence() {
        let sentences = sentences(vec![
            completed(send("veth", "uring_zero_copy", 4096, 1.0), 100.0, 0.4),
            send("veth", "one_copy", 4096, 1.0),
        ]);
        assert_eq!(sentences.len(), 1);
        assert!(
            sentences[0].contains("copied 40 %, in part: the receiver"),
            "{sentences:?}"
        );
    }
}
