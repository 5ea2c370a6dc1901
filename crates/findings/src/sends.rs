//! Points of `copy.send`, and whether they can be compared: what all findings about sends start from.

use costof_model::link::Link;
use costof_model::link_end::LinkEnd;
use costof_model::rows::PointRow;
use costof_model::run_file::Run;
use costof_model::select::Select;

pub(crate) const PROBE: &str = "copy.send";
/// Up to which share of the sends none counts as copied: a few of a connection's beginning may be.
pub(crate) const NONE: f64 = 0.005;

/// Sends, but for those of messages that were to be sent without a copy and had no room for that, since
/// they are not what they are called.
pub(crate) fn comparable(run: &Run) -> Select<'_> {
    let sends = run.select(PROBE);
    sends.filter(|row| row.word("primitive").is_some() && !falls_back(row))
}

/// Whether more than a few messages were copied at once, though the point asks for none to be.
pub(crate) fn falls_back(row: &PointRow) -> bool {
    row.median("fallbacks").is_some_and(|share| share > NONE)
}

/// How the ends of the link were in the launches of a point.
pub(crate) fn link_ends<'a>(run: &'a Run, row: &'a PointRow) -> impl Iterator<Item = &'a LinkEnd> {
    let launches = run.launches_of(&row.point);
    launches.flat_map(|launch| launch.noise.ends.values())
}

/// Whether BBR paces what TCP sends at this point over a link of this machine, which has no rate that
/// pacing could find.
pub(crate) fn is_paced(run: &Run, row: &PointRow) -> bool {
    let is_here = matches!(
        row.point.link.parse(),
        Ok(Link::Loopback | Link::Veth | Link::Sink)
    );
    let is_default =
        || link_ends(run, row).any(|end| end.congestion_control.as_deref() == Some("bbr"));
    let is_bbr = match row.word("congestion_control") {
        Some("default") => is_default(),
        asked => asked == Some("bbr"),
    };
    is_here && row.is_at("over", "tcp") && is_bbr
}
