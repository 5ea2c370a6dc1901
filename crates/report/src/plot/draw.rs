//! A panel as SVG. kuva lays it out: scales, ticks, labels, intervals; `svg.rs` writes down what it
//! laid out.

use super::scale::tick;
use super::svg::{self, Ink};
use super::{Axis, Dot, Figure, Kind, Line, Panel, Scale};
use kuva::plot::scatter::MarkerShape;
use kuva::plot::{LinePlot, ScatterPlot};
use kuva::render::annotations::{ReferenceLine, ShadedRegion};
use kuva::render::layout::{Layout, TickFormat};
use kuva::render::plots::Plot;
use kuva::render::render::render_multiple;
use kuva::render::theme::Theme;
use std::sync::Arc;

/// For what a panel is drawn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct For {
    width: f64,
    height: f64,
    /// Whether it is a file of its own: then it has a title, a legend and its colours.
    alone: bool,
}

/// As a part of a page, which has legend and colours for all.
pub(crate) const PAGE: For = For {
    width: 520.0,
    height: 320.0,
    alone: false,
};

/// As a file of its own.
pub(crate) const FILE: For = For {
    width: 720.0,
    height: 420.0,
    alone: true,
};

/// So many series can be told apart by colour and shape.
const SHAPES: [MarkerShape; 5] = [
    MarkerShape::Circle,
    MarkerShape::Square,
    MarkerShape::Triangle,
    MarkerShape::Diamond,
    MarkerShape::Cross,
];

/// A panel of `figure` as an SVG element.
pub(crate) fn drawing(figure: &Figure, panel: &Panel, how: For) -> String {
    let panel = &only_shown(panel);
    let places = || panel.lines.iter().flat_map(|line| &line.dots);
    let (x_low, x_high) = panel.x.scale.ends(places().map(|dot| panel.x.scale.place(dot.x)));
    let heights = places().flat_map(|dot| {
        let (low, high) = dot.interval.unwrap_or((dot.y, dot.y));
        [low, dot.y, high]
    });
    let (y_low, y_high) = panel.y.scale.ends(heights);
    let plots: Vec<Plot> = panel
        .lines
        .iter()
        .flat_map(|line| plots(figure, panel, line, y_low, how))
        .collect();
    let mut layout = Layout::auto_from_plots(&plots)
        .with_width(how.width)
        .with_height(how.height)
        .with_x_label(literal(&panel.x.label))
        .with_y_label(literal(&panel.y.label))
        .with_theme(theme())
        .with_tick_size(12)
        .with_label_size(12)
        .with_x_axis_min(x_low)
        .with_x_axis_max(x_high)
        .with_y_axis_min(y_low)
        .with_y_axis_max(y_high)
        .with_y_tick_format(ticks(&panel.y))
        .with_x_tick_format(ticks(&panel.x));
    if panel.y.scale == Scale::Decades {
        layout = layout.with_log_y();
    }
    match &panel.x.scale {
        Scale::Decades => layout = layout.with_log_x(),
        Scale::Doublings => {
            // As many as have room beside each other.
            let step = ((x_high - x_low) / 7.0).ceil().max(1.0);
            layout = layout.with_x_tick_step(step);
        }
        Scale::Words(words) => {
            let words: Vec<String> = words.iter().map(|word| literal(word)).collect();
            let long = words.iter().map(|word| word.chars().count()).sum::<usize>();
            if long > 55 {
                layout = layout.with_x_tick_rotate(-30.0);
            }
            layout = layout.with_x_categories(words);
        }
        Scale::Linear => {}
    }
    if let Scale::Words(words) = &panel.y.scale {
        layout = layout.with_y_categories(words.iter().map(|word| literal(word)).collect());
    }
    for mark in &panel.marks {
        let at = panel.x.scale.place(mark.at);
        if let Some((low, high)) = mark.interval {
            let ends = [low, high].map(|end| panel.x.scale.place(end).clamp(x_low, x_high));
            let region = ShadedRegion::vertical(ends[0], ends[1]);
            layout = layout.with_shaded_region(region.with_color(Ink::MARK).with_opacity(0.12));
        }
        if (x_low..=x_high).contains(&at) {
            let line = ReferenceLine::vertical(at).with_color(Ink::MARK).with_dasharray("4 3");
            layout = layout.with_reference_line(line.with_label(literal(&mark.label)));
        }
    }
    let title = match panel.title.is_empty() {
        true => figure.title.clone(),
        false => format!("{}: {}", figure.title, panel.title),
    };
    if how.alone {
        layout = layout.with_title(literal(&title)).with_title_size(15).with_title_wrap(80);
    }
    svg::written(&render_multiple(plots, layout), &title, how.alone)
}

/// The panel without what its axes cannot show.
fn only_shown(panel: &Panel) -> Panel {
    let mut shown = panel.clone();
    let (x, y) = (&panel.x.scale, &panel.y.scale);
    for line in &mut shown.lines {
        line.dots.retain(|dot| x.shows(dot.x) && y.shows(dot.y));
        for dot in &mut line.dots {
            // An interval that goes below nothing ends where the axis does.
            dot.interval = dot.interval.and_then(|(low, high)| {
                let low = if y.shows(low) { low } else { dot.y };
                y.shows(high).then_some((low.min(dot.y), high.max(dot.y)))
            });
        }
    }
    shown.lines.retain(|line| !line.dots.is_empty());
    shown.marks.retain(|mark| x.shows(mark.at));
    shown
}

/// What kuva draws of a line.
fn plots(figure: &Figure, panel: &Panel, line: &Line, floor: f64, how: For) -> Vec<Plot> {
    let colour = Ink::series(line.series);
    let at = |dot: &Dot| (panel.x.scale.place(dot.x), dot.y);
    let name = figure.series.get(line.series);
    // A figure of one series has no legend: its title says what it is.
    let name = name.filter(|name| how.alone && figure.series.len() > 1 && !name.is_empty());
    let named = |plot: LinePlot| match name {
        Some(name) => plot.with_legend(literal(name)),
        None => plot,
    };
    let path = || LinePlot::new().with_color(colour).with_stroke_width(1.6);
    let dots = || {
        let intervals = line.dots.iter().map(|dot| {
            let (low, high) = dot.interval.unwrap_or((dot.y, dot.y));
            (dot.y - low, high - dot.y)
        });
        let shape = SHAPES[line.series / Ink::COLOURS % SHAPES.len()];
        let plot = ScatterPlot::new()
            .with_data(line.dots.iter().map(at))
            .with_y_err_asymmetric(intervals)
            .with_color(colour)
            .with_size(3.2)
            .with_marker(shape)
            .with_tooltip_labels(line.dots.iter().map(svg::hover));
        match name.filter(|_| line.kind == Kind::Dots) {
            Some(name) => plot.with_legend(literal(name)),
            None => plot,
        }
    };
    match line.kind {
        Kind::Joined => {
            let path = named(path().with_data(line.dots.iter().map(at)));
            vec![path.into(), dots().into()]
        }
        Kind::Dots => vec![dots().into()],
        Kind::Cells => {
            let columns = panel.x.scale.ends(std::iter::empty());
            let rows = panel.y.scale.ends(std::iter::empty());
            let side = [(how.width, columns), (how.height, rows)];
            let side = side.map(|(length, (low, high))| length * 0.36 / (high - low).max(1.0));
            let cells = dots()
                .with_marker(MarkerShape::Square)
                .with_size(side[0].min(side[1]).max(1.0))
                .with_colors(line.dots.iter().map(|dot| Ink::shade(dot.heat)));
            vec![cells.into()]
        }
        Kind::Steps => vec![named(path().with_data(line.dots.iter().map(at))).into()],
        Kind::Bars => {
            let series = figure.series.len().max(1) as f64;
            let places = panel.x.scale.ends(std::iter::empty());
            let each = how.width * 0.8 / (places.1 - places.0).max(1.0) / (series + 0.6);
            let bars = line.dots.iter().enumerate().map(|(position, dot)| {
                let (x, y) = at(dot);
                let bar = LinePlot::new()
                    .with_data([(x, floor.max(f64::MIN_POSITIVE)), (x, y)])
                    .with_color(colour)
                    .with_stroke_width(each.clamp(2.0, 26.0));
                let bar = if position == 0 { named(bar) } else { bar };
                Plot::from(bar)
            });
            bars.chain([dots().into()]).collect()
        }
    }
}

fn ticks(axis: &Axis) -> TickFormat {
    let (unit, scale) = (axis.unit, axis.scale.clone());
    TickFormat::Custom(Arc::new(move |place| match scale {
        Scale::Doublings => tick(unit, place.exp2()),
        _ => tick(unit, place),
    }))
}

/// kuva reads `$…$` as mathematics; nothing of ours is.
fn literal(text: &str) -> String {
    text.replace('$', "\\$")
}

fn theme() -> Theme {
    Theme {
        background: "none".into(),
        axis_color: Ink::AXIS.into(),
        grid_color: Ink::GRID.into(),
        tick_color: Ink::AXIS.into(),
        text_color: "none".into(),
        legend_bg: "none".into(),
        legend_border: "none".into(),
        ..Theme::light()
    }
}
