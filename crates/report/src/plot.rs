//! A plot as data: what stands on its axes, not how it is drawn.

mod area;
mod draw;
mod ink;
mod rows;
mod scale;
mod svg;

use costof_model::unit::Unit;
pub(crate) use draw::{FILE, PAGE, drawing};
#[cfg(test)]
pub(crate) use ink::STYLE as FILE_STYLE;
pub(crate) use scale::{Scale, Span, number, tick};

/// Plots that belong together: panels with the same series.
#[derive(Clone, Debug, Default)]
pub(crate) struct Figure {
    /// Names it among the figures of a run: `copy.send-throughput-by-size`.
    pub(crate) name: String,
    /// What it shows, as a heading.
    pub(crate) title: String,
    /// What a reader has to know of it, in sentences.
    pub(crate) about: String,
    /// The series of all panels, in the order of their colours.
    pub(crate) series: Vec<String>,
    /// What is drawn.
    pub(crate) panels: Vec<Panel>,
    /// Whether the reader unfolds it.
    pub(crate) folded: bool,
    /// The axis of a probe that was varied, and the metric that is drawn over it; empty where it shows
    /// something else.
    pub(crate) axis: String,
    pub(crate) metric: String,
}

/// One pair of axes, and what is drawn between them.
#[derive(Clone, Debug)]
pub(crate) struct Panel {
    /// What sets it apart from the others of its figure; empty where it is the only one.
    pub(crate) title: String,
    pub(crate) x: Axis,
    pub(crate) y: Axis,
    pub(crate) lines: Vec<Line>,
    /// Places on the horizontal axis.
    pub(crate) marks: Vec<Mark>,
}

impl Panel {
    /// One without marks.
    pub(crate) fn new(title: impl Into<String>, x: Axis, y: Axis, lines: Vec<Line>) -> Panel {
        Panel {
            title: title.into(),
            x,
            y,
            lines,
            marks: Vec::new(),
        }
    }
}

impl Line {
    pub(crate) fn new(series: usize, kind: Kind, dots: impl IntoIterator<Item = Dot>) -> Line {
        Line {
            series,
            kind,
            dots: dots.into_iter().collect(),
        }
    }
}

/// The least and the greatest; of no values, the wrong way round.
pub(crate) fn ends(values: impl Iterator<Item = f64>) -> (f64, f64) {
    values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
        (low.min(value), high.max(value))
    })
}

impl Axis {
    pub(crate) fn new(label: impl Into<String>, unit: Unit, scale: Scale) -> Axis {
        Axis {
            label: label.into(),
            unit,
            scale,
        }
    }
}

/// An axis.
#[derive(Clone, Debug)]
pub(crate) struct Axis {
    pub(crate) label: String,
    pub(crate) unit: Unit,
    pub(crate) scale: Scale,
}

/// What is drawn of a series.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    /// The position of its series in the figure.
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
    /// A bar in a row of its own for each, beside its word, with its value.
    Rows,
    /// Squares whose shade says how hot they are.
    Cells,
}

/// A point on a plot.
#[derive(Clone, Debug, Default)]
pub(crate) struct Dot {
    pub(crate) x: f64,
    pub(crate) y: f64,
    /// The interval of `y`.
    pub(crate) interval: Option<(f64, f64)>,
    /// Which row of the run it shows, by its position, where it is one.
    pub(crate) row: Option<usize>,
    /// What the row does not say of it.
    pub(crate) text: String,
    /// From 0 to 1, of a cell.
    pub(crate) heat: f64,
}

/// A place on the horizontal axis that means something.
#[derive(Clone, Debug)]
pub(crate) struct Mark {
    pub(crate) at: f64,
    pub(crate) interval: Option<(f64, f64)>,
    pub(crate) label: String,
}
