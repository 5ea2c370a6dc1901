//! A plot as data: its axes and their contents, not how they are drawn.

mod area;
mod draw;
mod ink;
mod parts;
mod scale;
mod svg;

use costof_model::Unit;
pub(crate) use draw::{drawing, sign};
#[cfg(test)]
pub(crate) use ink::STYLE as FILE_STYLE;
pub(crate) use parts::{FILE, PAGE};
pub(crate) use scale::{Scale, Span, number, tick};

/// Plots that belong together: panels that share their series.
#[derive(Clone, Debug, Default)]
pub(crate) struct Figure {
    /// Its name among the figures of a run: `copy.send-throughput-by-size`.
    pub(crate) name: String,
    /// The heading.
    pub(crate) title: String,
    /// Notes for the reader, in sentences.
    pub(crate) about: String,
    /// The series of all panels, in the order of their colours.
    pub(crate) series: Vec<String>,
    /// The plots.
    pub(crate) panels: Vec<Panel>,
    /// What it lacks of what a study asks for, each with its reason.
    pub(crate) left_out: Vec<String>,
    /// Whether the reader unfolds it.
    pub(crate) folded: bool,
    /// The axis of the probe that was varied, and the metric that is drawn over it; empty if the figure shows
    /// something else.
    pub(crate) axis: String,
    pub(crate) metric: String,
}

impl Figure {
    /// The series that have a line, with their positions; none if there is only one possible.
    pub(crate) fn legend(&self) -> impl Iterator<Item = (usize, &str)> {
        let drawn = |series: usize| {
            let mut lines = self.panels.iter().flat_map(|panel| &panel.lines);
            lines.any(|line| line.series == series)
        };
        let series = self.series.iter().enumerate();
        series
            .filter(move |(position, _)| self.series.len() > 1 && drawn(*position))
            .map(|(position, name)| (position, &**name))
    }
}

/// One pair of axes, and the lines between them.
#[derive(Clone, Debug)]
pub(crate) struct Panel {
    /// What distinguishes it from the figure's other panels; empty if it is the only one.
    pub(crate) title: String,
    pub(crate) x: Axis,
    pub(crate) y: Axis,
    pub(crate) lines: Vec<Line>,
    /// Places on the horizontal axis.
    pub(crate) marks: Vec<Mark>,
}

impl Panel {
    /// A panel without marks.
    pub(crate) fn new(title: impl Into<String>, x: Axis, y: Axis, lines: Vec<Line>) -> Panel {
        Panel { title: title.into(), x, y, lines, marks: Vec::new() }
    }
}

impl Line {
    pub(crate) fn new(series: usize, kind: Kind, dots: impl IntoIterator<Item = Dot>) -> Line {
        Line { series, kind, dots: dots.into_iter().collect() }
    }
}

/// The smallest and the largest value; without values, infinity and minus infinity.
pub(crate) fn ends(values: impl Iterator<Item = f64>) -> (f64, f64) {
    values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
        (low.min(value), high.max(value))
    })
}

impl Axis {
    pub(crate) fn new(label: impl Into<String>, unit: Unit, scale: Scale) -> Axis {
        Axis { label: label.into(), unit, suffix: "", scale }
    }
}

/// An axis.
#[derive(Clone, Debug)]
pub(crate) struct Axis {
    pub(crate) label: String,
    pub(crate) unit: Unit,
    /// What follows each value; empty, or ` %` for shares in percent.
    pub(crate) suffix: &'static str,
    pub(crate) scale: Scale,
}

/// One series in a panel.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    /// The position of the series in the figure.
    pub(crate) series: usize,
    pub(crate) kind: Kind,
    pub(crate) dots: Vec<Dot>,
}

/// How dots are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Dots, joined by a line.
    Joined,
    /// Dots alone.
    Dots,
    /// A line of steps without dots.
    Steps,
    /// A bar from the horizontal axis to each.
    Bars,
    /// Squares whose shade shows their heat.
    Cells,
}

/// A point on a plot.
#[derive(Clone, Debug, Default)]
pub(crate) struct Dot {
    pub(crate) x: f64,
    pub(crate) y: f64,
    /// The interval of `y`.
    pub(crate) interval: Option<(f64, f64)>,
    /// The position of its row in the run, if it has one.
    pub(crate) row: Option<usize>,
    /// Text that the row does not have.
    pub(crate) text: String,
    /// The heat of a cell, from 0 to 1.
    pub(crate) heat: f64,
}

/// A mark on the horizontal axis.
#[derive(Clone, Debug)]
pub(crate) struct Mark {
    pub(crate) at: f64,
    pub(crate) interval: Option<(f64, f64)>,
    pub(crate) label: String,
}
