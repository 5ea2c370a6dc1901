//! The section of each probe: its question, the plots of what was varied, and the numbers behind them.

use super::figures;
use crate::choose;
use crate::names::{self, points_counted};
use crate::plot::Figure;
use crate::rows::Rows;
use crate::study::Drawn;
use crate::table::{interval, prediction};
use crate::tables::TABLES;
use costof_model::link::mark;
use costof_model::{AxisValue, counted};
use maud::{Markup, html};
use std::collections::BTreeSet;

/// How many bytes of plots a page has: visible ones, and ones that the reader unfolds. A page of 300 points
/// of `copy` then stays under 500 kB including their numbers.
const DRAWN: [usize; 2] = [160_000, 80_000];
/// The average size in bytes of a dot, and of a panel without its dots.
const DOT: usize = 50;
const PANEL: usize = 1000;
/// A table has at most this many rows; the rest of a huge or hostile run is only in the file.
const ROWS: usize = 5000;

pub(super) fn title(rows: &Rows<'_>) -> String {
    let (probes, points) = (rows.by_probe().len(), points_counted(rows.all().len()));
    format!("Plots and numbers: {points} of {}", counted(probes, "probe"))
}

/// The section of a probe. `chosen` are its figures, `left_out` is how many more there are.
pub(super) fn section(
    rows: &Rows<'_>,
    ladder: Option<&Figure>,
    chosen: &[Chosen<'_>],
    left_out: usize,
) -> Markup {
    html! {
        (figures::figures(ladder.into_iter()))
        @for (probe, positions, figures) in chosen {
            div.probe {
                h3 { (probe) }
                @if let Some(info) = rows.info(probe) { p.question { (info.question) } }
                (figures::figures(figures.iter().filter(|figure| !figure.folded)))
                (figures::figures(figures.iter().filter(|figure| figure.folded)))
                @let not_drawn = positions.len() - choose::drawable(rows, positions).len();
                @if not_drawn > 0 {
                    p.quiet { (points_counted(not_drawn)) " not drawn: a plot has room for "
                        (choose::AXES) " axes." }
                }
                (table(rows, probe, positions))
            }
        }
        @if left_out > 0 {
            p.quiet { (left_out) " more plots would make this page too large: "
                code { "costof export --format svg --out DIR" } " writes all." }
        }
    }
}

/// A probe, the positions of its rows, and its figures.
pub(super) type Chosen<'a> = (&'a str, Vec<usize>, Vec<Figure>);

/// The figures of all probes, as far as a page has room, and how many were left out. Those that the plots of a
/// study show already are not there again.
pub(super) fn chosen<'a>(rows: &Rows<'a>, shown: &[Drawn]) -> (Vec<Chosen<'a>>, usize) {
    let mut room = Room::default();
    let is_shown = |figure: &Figure| {
        let mut shown = shown.iter().flatten();
        shown.any(|shown| shown.name.ends_with(&*figure.name))
    };
    let probes = rows.by_probe().into_iter().map(|(probe, positions)| {
        let mut figures = choose::probe_figures(rows, probe, &positions);
        figures.retain(|figure| !is_shown(figure) && room.has_for(figure));
        (probe, positions, figures)
    });
    (probes.collect(), room.left_out)
}

/// The plots on a page so far.
#[derive(Default)]
struct Room {
    /// In bytes: visible plots, and those that the reader unfolds.
    drawn: [usize; 2],
    /// Figures for which there was no room.
    left_out: usize,
}

impl Room {
    /// Reserves room for a figure; false if there is too little.
    fn has_for(&mut self, figure: &Figure) -> bool {
        let lines = figure.panels.iter().flat_map(|panel| &panel.lines);
        let dots: usize = lines.map(|line| line.dots.len()).sum();
        let takes = dots * DOT + figure.panels.len() * PANEL;
        let kind = usize::from(figure.folded);
        let has_room = self.drawn[kind] + takes <= DRAWN[kind];
        match has_room {
            true => self.drawn[kind] += takes,
            false => self.left_out += 1,
        }
        has_room
    }
}

/// The numbers of a probe's points.
fn table(rows: &Rows<'_>, probe: &str, positions: &[usize]) -> Markup {
    let (axes, axes_left_out) = varied(rows, probe, positions);
    let links: BTreeSet<&str> = positions.iter().map(|at| &*rows.row(*at).point.link).collect();
    let primary = rows.row(positions[0]).primary.to_string();
    let mut metrics: Vec<&str> = vec![&primary];
    let is_measured = |name: &str| {
        let mut measured = positions.iter().map(|at| rows.row(*at).estimate(name));
        measured.any(|estimate| estimate.is_some())
    };
    let others = TABLES.metrics.iter().map(|(name, _)| *name);
    metrics.extend(others.filter(|name| *name != primary && is_measured(name)));
    let tail = positions.iter().any(|at| {
        rows.row(*at).primary().is_some_and(|estimate| estimate.percentile(99.0).is_some())
    });
    let is_labelled = positions.iter().any(|at| rows.row(*at).label.is_some());
    let count = positions.len();
    html! {
        details.numbers {
            summary { "The numbers (" (points_counted(count)) ")" }
            div.scroll role="region" tabindex="0" aria-label={ "The numbers of " (probe) } { table {
                thead { tr {
                    @for axis in &axes { th { (axis.replace('_', " ")) } }
                    @if links.len() > 1 { th { "link" } }
                    @if is_labelled { th { "what" } }
                    @for metric in &metrics { th { (metric.replace('_', " ")) } }
                    @if tail { th { "p99" } }
                    th { "predicted" } th { "grade" }
                } }
                tbody {
                    @for at in positions.iter().take(ROWS) {
                        @let row = rows.row(*at);
                        tr id={ "p" (at) } {
                            @for axis in &axes { (head(&axis_value(rows, probe, axis, row.point.axes.0.get(axis.as_str())))) }
                            @if links.len() > 1 { th { (row.point.link) (mark(&row.point.link)) } }
                            @if is_labelled { (head(row.label.as_deref().unwrap_or_default())) }
                            @for metric in &metrics { td {
                                @if let Some(estimate) = row.estimate(metric) {
                                    (names::shown_median(estimate))
                                    @if estimate.is_usable() { small { (interval(estimate)) } }
                                }
                            } }
                            @if tail { td { @if let Some(estimate) = row.primary().filter(|estimate| estimate.is_usable()) {
                                @if let Some(value) = estimate.percentile(99.0) { (estimate.unit.display(value)) }
                            } } }
                            td { (prediction(row)) }
                            td { (row.grade) }
                        }
                    }
                }
            } }
            @if axes_left_out > 0 { p.quiet { "and " (axes_left_out) " more axes in the run file" } }
            @if count > ROWS { p.quiet { "and " (count - ROWS) " more in the run file" } }
        }
        @if let Some(info) = rows.info(probe) {
            @let is_measured = |name: &str| positions.iter().any(|at| rows.row(*at).estimate(name).is_some());
            details.how {
                summary { "Method and sources" }
                p { (info.how) }
                @for metric in info.metrics.iter().filter(|metric| is_measured(&metric.name)) {
                    p { b { (metric.name.replace('_', " ")) } " " (metric.about) }
                }
                ul { @for source in info.sources.iter() { li { (source) } } }
            }
        }
    }
}

/// A heading for what a row is about; none if it has no text.
fn head(text: &str) -> Markup {
    html! { @if text.is_empty() { td {} } @else { th { (text) } } }
}

/// The axes on which the points differ, in the probe's order. A table has room for a limited number of
/// columns; the second value is the number of axes that were not checked because of that.
fn varied(rows: &Rows<'_>, probe: &str, positions: &[usize]) -> (Vec<String>, usize) {
    let values = |axis: &str| {
        let values = positions.iter().map(|at| rows.row(*at).point.axes.0.get(axis));
        values.collect::<BTreeSet<_>>().len()
    };
    let names: Vec<&str> = match rows.info(probe) {
        Some(info) => info.axes.iter().map(|axis| &*axis.name).collect(),
        None => {
            let axes = positions.iter().flat_map(|at| rows.row(*at).point.axes.0.keys());
            let axes: BTreeSet<&str> = axes.map(|name| &**name).collect();
            axes.into_iter().collect()
        }
    };
    let shown = names.iter().take(choose::AXES).filter(|axis| values(axis) > 1);
    let left_out = names.len().saturating_sub(choose::AXES);
    (shown.map(ToString::to_string).collect(), left_out)
}

fn axis_value(rows: &Rows<'_>, probe: &str, axis: &str, value: Option<&AxisValue>) -> String {
    let Some(value) = value else {
        return String::new();
    };
    let known = rows.axis(probe, axis);
    known.map_or_else(|| value.to_string(), |axis| axis.display(value))
}
