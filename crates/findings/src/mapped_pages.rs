//! Which share of what came was mapped and not copied, and why no more.

use crate::finding::Finding;
use crate::memory_latency::facts;
use costof_model::Text;
use costof_model::rows::PointRow;
use costof_model::run_file::Run;

const PROBE: &str = "copy.receive";
/// Below this share nothing is mapped, and above the other one all is.
const NOTHING: f64 = 0.01;
const ALL: f64 = 0.99;

/// For each link, by how the other end sent.
pub(crate) fn mapped_pages(run: &Run) -> Vec<Finding> {
    let mapped: Vec<&PointRow> = run
        .points
        .iter()
        .filter(|row| row.point.probe == PROBE && row.estimate("mapped").is_some())
        .collect();
    let mut links: Vec<&Text> = mapped.iter().map(|row| &row.point.link).collect();
    links.sort_unstable();
    links.dedup();
    let of_link = |link: &Text| {
        let rows = mapped.iter().copied();
        rows.filter(|row| row.point.link == *link)
            .collect::<Vec<_>>()
    };
    links
        .into_iter()
        .filter_map(|link| over(run, link, &of_link(link)))
        .collect()
}

fn over(run: &Run, link: &Text, rows: &[&PointRow]) -> Option<Finding> {
    let page_bytes = facts(run).and_then(|facts| facts.memory.page_bytes);
    let page_bytes = page_bytes.unwrap_or(4096);
    let sent = |sent_by: &str, segments: &str| {
        let word = |row: &PointRow, axis| row.axes().find_word(axis).map(str::to_owned);
        let rows = rows.iter().copied().filter(|row| {
            word(row, "sent_by").as_deref() == Some(sent_by)
                && word(row, "segments").as_deref() == Some(segments)
        });
        rows.collect::<Vec<_>>()
    };
    let plain = part(&sent("send", "usual"), "send", |_, (_, most)| {
        let of_the_copies = "whose copies lie in larger pieces than pages";
        (most < NOTHING).then(|| of_the_copies.to_owned())
    });
    let usual = part(
        &sent("zero_copy", "usual"),
        "MSG_ZEROCOPY",
        |segment, (least, _)| {
            let rest = segment % page_bytes;
            (least < ALL && rest != 0).then(|| {
                format!(
                    "in segments of {segment} B, no multiple of a page: what fills no page is \
                     copied, and what begins in the midst of one up to its packet's end"
                )
            })
        },
    );
    let pages = part(&sent("zero_copy", "pages"), "MSG_ZEROCOPY", |_, _| {
        Some("in segments of whole pages".to_owned())
    });
    let parts: Vec<String> = [plain, usual, pages].into_iter().flatten().collect();
    (!parts.is_empty()).then(|| Finding {
        kind: "mapped_pages".into(),
        sentence: format!(
            "over {link} TCP_ZEROCOPY_RECEIVE mapped and did not copy {}",
            parts.join("; ")
        ),
        advice: None,
        evidence: rows.iter().map(|row| row.point.clone()).collect(),
    })
}

/// The share of what was sent in one way, over all sizes, and why it is so.
fn part(
    rows: &[&PointRow],
    by: &str,
    why: impl Fn(u64, (f64, f64)) -> Option<String>,
) -> Option<String> {
    let shares = rows.iter().filter_map(|row| row.median("mapped"));
    let (least, most) = shares.fold((f64::INFINITY, 0.0), |(least, most), share| {
        (f64::min(least, share), f64::max(most, share))
    });
    let segments = rows.iter().filter_map(|row| row.median("segment"));
    let segment = segments.fold(0.0, f64::max) as u64;
    let [low, high] = [least, most].map(|share| format!("{:.0}", 100.0 * share));
    let share = match low == high {
        true => low,
        false => format!("{low} to {high}"),
    };
    let why = why(segment, (least, most)).map_or_else(String::new, |why| format!(", {why}"));
    (!rows.is_empty()).then(|| format!("{share} % of what {by} sent{why}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory_sample::{point_row, run};
    use costof_model::axis::Axes;

    fn row(sent_by: &'static str, segments: &'static str, size: u64, share: f64) -> PointRow {
        let axes = Axes::default()
            .with("how", "zero_copy")
            .with("sent_by", sent_by)
            .with("segments", segments)
            .with("size", size);
        let mut row = point_row(PROBE, "mapped", axes, share, (share, share));
        let mut segment = row.metrics[0].clone();
        segment.name = "segment".into();
        segment.median = if segments == "pages" { 4096.0 } else { 65483.0 };
        row.metrics.push(segment);
        row.point.link = "loopback".into();
        row
    }

    #[test]
    fn what_is_mapped_is_told_with_its_reason() {
        let mut run = run(&[]);
        assert_eq!(mapped_pages(&run), []);
        run.points.push(row("send", "usual", 65536, 0.0));
        run.points.push(row("zero_copy", "usual", 65536, 0.84));
        run.points.push(row("zero_copy", "usual", 1 << 20, 0.93));
        run.points.push(row("zero_copy", "pages", 65536, 0.999));
        let findings = mapped_pages(&run);
        assert_eq!(findings.len(), 1);
        assert_eq!(
            findings[0].sentence,
            "over loopback TCP_ZEROCOPY_RECEIVE mapped and did not copy 0 % of what send sent, whose \
             copies lie in larger pieces than pages; 84 to 93 % of what MSG_ZEROCOPY sent, in \
             segments of 65483 B, no multiple of a page: what fills no page is copied, and what begins \
             in the midst of one up to its packet's end; 100 % of what MSG_ZEROCOPY sent, in segments \
             of whole pages"
        );
        assert_eq!(findings[0].evidence.len(), 4);
    }

    #[test]
    fn a_link_is_told_once_though_others_lie_between() {
        let mut run = run(&[]);
        for link in ["loopback", "veth", "loopback"] {
            run.points.push(row("send", "usual", 65536, 0.0));
            run.points.last_mut().unwrap().point.link = link.into();
        }
        assert_eq!(mapped_pages(&run).len(), 2);
    }

    /// As with a card that puts headers elsewhere.
    #[test]
    fn no_reason_is_made_up_where_all_is_mapped() {
        let mut run = run(&[]);
        run.points.push(row("send", "usual", 65536, 1.0));
        run.points[0].point.link = "remote".into();
        assert_eq!(
            mapped_pages(&run)[0].sentence,
            "over remote TCP_ZEROCOPY_RECEIVE mapped and did not copy 100 % of what send sent"
        );
    }
}
