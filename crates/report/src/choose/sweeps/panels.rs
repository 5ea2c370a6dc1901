//! The panels of a sweep: their axes, and what is done to all lines of one.

use super::{BARS_SPAN, Measured, PANELS, SERIES};
use crate::plot::{Axis, Dot, Kind, Panel, Scale, Span, ends};
use costof_model::Unit;
use std::collections::BTreeSet;

/// The vertical axis of all panels, and how the dots over this many words are drawn; over numbers, which are no
/// words, as curves.
pub(super) fn vertical(
    measured: &[Measured<'_>],
    (metric, unit): (&str, Unit),
    words: usize,
) -> (Axis, Kind) {
    let heights = measured.iter().flat_map(|(_, rows)| rows);
    let heights = heights.map(|(_, _, estimate)| estimate.median);
    let scale = Scale::of_values(heights.clone());
    let (low, high) = ends(heights);
    // Bars start at zero. If values span too large a factor, the shortest bar would be invisible.
    let are_few = scale == Scale::Linear || high.max(0.0) / low < BARS_SPAN;
    let kind = match words {
        0 => Kind::Joined,
        _ if are_few => Kind::Bars,
        _ => Kind::Dots,
    };
    let scale = if kind == Kind::Bars { Scale::Linear } else { scale };
    (Axis::new(metric.replace('_', " "), unit, scale), kind)
}

/// The panel with this title, new if there is none; `None` if the panel or the figure has no room for another
/// line.
pub(super) fn panel_with_room<'p>(
    panels: &'p mut Vec<Panel>,
    title: String,
    (x, y): (&Axis, &Axis),
) -> Option<&'p mut Panel> {
    let known = panels.iter().position(|panel| panel.title == title);
    let at = known.unwrap_or(panels.len());
    if at == PANELS {
        return None;
    }
    if at == panels.len() {
        panels.push(Panel::new(title, x.clone(), y.clone(), Vec::new()));
    }
    Some(&mut panels[at]).filter(|panel| panel.lines.len() < SERIES)
}

/// A note for readers who compare heights between panels.
pub(super) fn vertically(panels: &[Panel]) -> &'static str {
    let logarithmic = |panel: &Panel| panel.y.scale == Scale::Decades;
    let ends = |panel: &Panel| {
        let dots = panel.lines.iter().flat_map(|line| &line.dots);
        Span::new(&panel.y.scale, dots.map(|dot| dot.y))
    };
    let Some((first, others)) = panels.split_first() else {
        return "";
    };
    let mut others = others.iter();
    if others.clone().any(|panel| logarithmic(panel) != logarithmic(first)) {
        " Each panel has its own vertical axis; some are logarithmic."
    } else if others.any(|panel| ends(panel) != ends(first)) {
        " Each panel has its own vertical axis."
    } else {
        ""
    }
}

/// Removes the words for which this panel has no data.
pub(super) fn without_empty_words(panel: &mut Panel) {
    let Scale::Words(words) = &mut panel.x.scale else {
        return;
    };
    let mut dots: Vec<&mut Dot> = panel.lines.iter_mut().flat_map(|line| &mut line.dots).collect();
    let used: BTreeSet<usize> = dots.iter().map(|dot| dot.x as usize).collect();
    *words = used.iter().map(|at| words[at - 1].clone()).collect();
    for dot in &mut dots {
        dot.x = 1.0 + used.range(..dot.x as usize).count() as f64;
    }
}

/// Puts the bars of several lines at the same word side by side.
pub(super) fn beside_each_other(panel: &mut Panel) {
    let count = panel.lines.len() as f64;
    for (position, line) in panel.lines.iter_mut().enumerate() {
        let shift = (position as f64 - (count - 1.0) / 2.0) * 0.8 / count;
        line.dots.iter_mut().for_each(|dot| dot.x += shift);
    }
}

/// Shows shares in percent.
pub(super) fn in_percent(panel: &mut Panel) {
    for dot in panel.lines.iter_mut().flat_map(|line| &mut line.dots) {
        dot.y *= 100.0;
        dot.interval = dot.interval.map(|(low, high)| (100.0 * low, 100.0 * high));
    }
    panel.y.suffix = " %";
}
