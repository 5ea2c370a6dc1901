//! Which share of the received data was mapped instead of copied, and why not more.

use crate::Kind;
use crate::figures::{Figures, Part, figures, percents, span_of};
use crate::finding::Finding;
use costof_model::run_file::Run;
use costof_model::select::Select;

pub(crate) const SENTENCES: &str = r#"
[mapped_pages]
sentence = "over {link} TCP_ZEROCOPY_RECEIVE mapped and did not copy {parts|; }"
sent = "{share} % of what {by} sent"
sent_in_pieces = "{share} % of what {by} sent, which lies in pieces larger than a page"
sent_in_segments = "{share} % of what {by} sent, in segments of {segment} B, which is not a multiple of a page: the kernel copies the partly filled page, and the rest of any packet that begins inside a page"
sent_in_pages = "{share} % of what {by} sent, in segments of whole pages"
"#;

/// Below the first share nothing counts as mapped, above the second everything does.
const NOTHING: f64 = 0.01;
const ALL: f64 = 0.99;

/// A finding for each link, by how the sender sent.
pub(crate) fn mapped_pages(run: &Run) -> Vec<Finding> {
    let mapped = run
        .select("copy.receive")
        .filter(|row| row.estimate("mapped").is_some());
    let mut links = mapped.group_with(|row| Some(&row.point.link));
    links.sort_by_key(|(link, _)| *link);
    let found = links
        .iter()
        .filter_map(|(link, rows)| over(run, link, rows));
    found.collect()
}

fn over(run: &Run, link: &str, rows: &Select<'_>) -> Option<Finding> {
    let page = run
        .facts()
        .and_then(|facts| facts.memory.page_bytes)
        .unwrap_or(4096);
    let sent = |by, segments| {
        let words = [("sent_by", by), ("segments", segments)];
        Sent::new(&rows.clone().words(&words))
    };
    let parts: [Option<Part>; 3] = [
        sent("send", "usual").map(|sent| {
            let are_copied = sent.most < NOTHING;
            let template = if are_copied { "sent_in_pieces" } else { "sent" };
            (template, sent.figures("send"))
        }),
        sent("zero_copy", "usual").map(|sent| {
            let are_cut = sent.least < ALL && sent.segment % page != 0;
            let template = if are_cut { "sent_in_segments" } else { "sent" };
            (template, sent.figures("MSG_ZEROCOPY"))
        }),
        sent("zero_copy", "pages").map(|sent| ("sent_in_pages", sent.figures("MSG_ZEROCOPY"))),
    ];
    let parts: Vec<Part> = parts.into_iter().flatten().collect();
    let is_any = !parts.is_empty();
    let figures = figures().with("link", link).parts("parts", parts);
    is_any.then(|| Finding::new(Kind::MappedPages, rows.iter().copied(), figures))
}

/// The mapped share of the data that was sent in one way, over all sizes.
struct Sent {
    least: f64,
    most: f64,
    /// The longest segment, in bytes.
    segment: u64,
}

impl Sent {
    fn new(rows: &Select<'_>) -> Option<Sent> {
        let (least, most) = span_of(rows, "mapped")?;
        let segment = span_of(rows, "segment").map_or(0, |(_, longest)| longest as u64);
        Some(Sent {
            least,
            most,
            segment,
        })
    }

    fn figures(&self, by: &str) -> Figures {
        figures()
            .with("share", percents((self.least, self.most)))
            .with("by", by)
            .with("segment", self.segment)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{add_metric, axes, point_row, run};
    use costof_model::rows::PointRow;

    fn row(sent_by: &'static str, segments: &'static str, size: u64, share: f64) -> PointRow {
        let axes = axes!(how = "zero_copy", sent_by, segments, size);
        let mut row = point_row("copy.receive", "mapped", axes, share, (share, share));
        add_metric(
            &mut row,
            "segment",
            if segments == "pages" { 4096.0 } else { 65483.0 },
        );
        row.point.link = "loopback".into();
        row
    }

    #[test]
    fn what_is_mapped_is_reported_with_its_reason() {
        let mut run = run(&[]);
        assert_eq!(mapped_pages(&run), []);
        run.points.push(row("send", "usual", 65536, 0.0));
        run.points.push(row("zero_copy", "usual", 65536, 0.84));
        run.points.push(row("zero_copy", "usual", 1 << 20, 0.93));
        run.points.push(row("zero_copy", "pages", 65536, 0.999));
        let findings = mapped_pages(&run);
        assert_eq!(findings.len(), 1);
        assert_eq!(
            findings[0].sentence(),
            "over loopback TCP_ZEROCOPY_RECEIVE mapped and did not copy 0 % of what send sent, which lies in pieces larger than a page; 84 to 93 % of what MSG_ZEROCOPY sent, in segments of 65483 B, which is not a multiple of a page: the kernel copies the partly filled page, and the rest of any packet that begins inside a page; 100 % of what MSG_ZEROCOPY sent, in segments of whole pages"
        );
        assert_eq!(findings[0].evidence.len(), 4);
    }

    #[test]
    fn a_link_is_reported_once_though_others_lie_between() {
        let mut run = run(&[]);
        for link in ["loopback", "veth", "loopback"] {
            run.points.push(row("send", "usual", 65536, 0.0));
            run.points.last_mut().unwrap().point.link = link.into();
        }
        assert_eq!(mapped_pages(&run).len(), 2);
    }

    /// As with a network card that splits off headers.
    #[test]
    fn no_reason_is_made_up_where_all_is_mapped() {
        let mut run = run(&[]);
        run.points.push(row("send", "usual", 65536, 1.0));
        run.points[0].point.link = "remote".into();
        assert_eq!(
            mapped_pages(&run)[0].sentence(),
            "over remote TCP_ZEROCOPY_RECEIVE mapped and did not copy 100 % of what send sent"
        );
    }
}
