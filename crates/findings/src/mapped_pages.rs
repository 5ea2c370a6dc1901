//! Which share of the received data was mapped instead of copied, and why not more.

use crate::pairs::page_bytes;
use crate::text::{self, percent, range, span};
use crate::{Finding, Kind};
use costof_model::{Run, Select};

/// Below the first share nothing counts as mapped, above the second everything does.
const NOTHING: f64 = 0.01;
const ALL: f64 = 0.99;

/// A finding for each link, by how the sender sent.
pub(crate) fn mapped_pages(run: &Run) -> Vec<Finding> {
    let rows = run.select("copy.receive");
    let mapped = rows.filter(|row| row.estimate("mapped").is_some());
    let mut links = mapped.group_with(|row| Some(&row.point.link));
    links.sort_by_key(|(link, _)| *link);
    links.iter().filter_map(|(link, rows)| over(run, link, rows)).collect()
}

fn over(run: &Run, link: &str, rows: &Select<'_>) -> Option<Finding> {
    let page = page_bytes(run);
    let parts: Vec<String> = [("send", "usual"), ("zero_copy", "usual"), ("zero_copy", "pages")].into_iter().filter_map(|(by, segments)| {
        let rows = rows.clone().words(&[("sent_by", by), ("segments", segments)]);
        let of = |metric| span(rows.iter().filter_map(|row| row.median(metric)));
        let (least, most) = of("mapped")?;
        let segment = of("segment").map_or(0, |(_, longest)| longest as u64);
        let (by, how) = match (by, segments) {
            ("send", _) if most < NOTHING => {
                ("send", ", which lies in pieces larger than a page".to_owned())
            }
            ("send", _) => ("send", String::new()),
            (_, "pages") => ("MSG_ZEROCOPY", ", in segments of whole pages".to_owned()),
            _ if least < ALL && segment % page != 0 => (
                "MSG_ZEROCOPY",
                format!(
                    ", in segments of {segment} B, which is not a multiple of a page: the kernel copies the \
                     partly filled page, and the rest of any packet that begins inside a page"
                ),
            ),
            _ => ("MSG_ZEROCOPY", String::new()),
        };
        let share = range((least, most), percent);
        Some(format!("{share} % of what {by} sent{how}"))
    }).collect();
    let (link, all) = (text::link(link), parts.join("; "));
    let sentence = format!("over {link} TCP_ZEROCOPY_RECEIVE mapped and did not copy {all}");
    let is_any = !parts.is_empty();
    is_any.then(|| Finding::new(Kind::MappedPages, rows.iter().copied(), sentence))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{add_metric, axes, point_row, reads, run};
    use costof_model::PointRow;

    fn row(sent_by: &'static str, segments: &'static str, size: u64, share: f64) -> PointRow {
        let axes = axes!(how = "zero_copy", sent_by, segments, size);
        let mut row = point_row("copy.receive", "mapped", axes, share, (share, share));
        add_metric(&mut row, "segment", if segments == "pages" { 4096.0 } else { 65483.0 });
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
        reads!(&findings);
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
        reads!(mapped_pages(&run));
    }
}
