//! Points of `copy.send`, and whether they can be compared. All findings about sends start from here.

use costof_model::{Link, LinkEnd, PointRow, Run, Select};

pub(crate) const PROBE: &str = "copy.send";
/// Up to this share, no send counts as copied: a few at the beginning of a connection may be.
pub(crate) const NONE: f64 = 0.005;

/// What to do where the kernel has no room to send without a copy.
pub(crate) const MORE_ROOM: &str =
    "raise net.core.optmem_max (sysctl) or the limit of locked memory (ulimit -l)";

/// Sends, except those that were to be sent without a copy but for which the kernel had no room. They are not
/// what their name says. Those that noise disturbed are among them: they are compared in turns, or not at all.
pub(crate) fn comparable(run: &Run) -> Select<'_> {
    let sends = run.select_any(PROBE);
    sends.filter(|row| row.word("primitive").is_some() && !falls_back(row))
}

/// Whether more than a few messages were copied at once although the point asks for no copy.
pub(crate) fn falls_back(row: &PointRow) -> bool {
    row.counted("fallbacks").is_some_and(|share| share > NONE)
}

/// How the ends of the link were set up in the launches of a point.
pub(crate) fn link_ends<'a>(run: &'a Run, row: &'a PointRow) -> impl Iterator<Item = &'a LinkEnd> {
    let launches = run.launches_of(&row.point);
    launches.flat_map(|launch| launch.noise.ends.values())
}

/// Whether BBR paces TCP at this point over a link of this machine. Such a link has no rate for BBR to find.
pub(crate) fn is_paced(run: &Run, row: &PointRow) -> bool {
    let is_here = matches!(row.point.link.parse(), Ok(Link::Loopback | Link::Veth | Link::Sink));
    let is_default =
        || link_ends(run, row).any(|end| end.congestion_control.as_deref() == Some("bbr"));
    let is_bbr = match row.word("congestion_control") {
        Some("default") => is_default(),
        asked => asked == Some("bbr"),
    };
    is_here && row.is_at("over", "tcp") && is_bbr
}
