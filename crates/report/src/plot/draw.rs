//! A panel as SVG. kuva lays it out: scales, ticks, labels, intervals; `svg.rs` writes down what it
//! laid out.

use super::scale::tick;
use super::{Axis, Dot, Figure, Kind, Line, Panel, Scale, ink, svg};
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

/// Shapes tell series apart where colours do not: on paper, and for many eyes.
const SHAPES: [MarkerShape; 4] = [
    MarkerShape::Circle,
    MarkerShape::Square,
    MarkerShape::Triangle,
    MarkerShape::Diamond,
];

/// A panel of `figure` as an SVG element.
pub(crate) fn drawing(figure: &Figure, panel: &Panel, how: For) -> String {
    let panel = &only_shown(panel);
    let places = || panel.lines.iter().flat_map(|line| &line.dots);
    let (mut x_low, x_high) = panel
        .x
        .scale
        .ends(places().map(|dot| panel.x.scale.place(dot.x)));
    if panel.x.scale == Scale::Linear {
        // Room for what stands at nothing.
        x_low -= 0.02 * (x_high - x_low);
    }
    let heights = places().flat_map(|dot| {
        let (low, high) = dot.interval.unwrap_or((dot.y, dot.y));
        [low, dot.y, high]
    });
    let (y_low, mut y_high) = panel.y.scale.ends(heights);
    // Marks have their names above what is drawn.
    for _ in &panel.marks {
        y_high *= match panel.y.scale {
            Scale::Decades => (y_high / y_low).powf(0.05),
            _ => 1.05,
        };
    }
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
            let longest = words.iter().map(|word| word.chars().count()).max();
            if longest.unwrap_or(0) * words.len() > 60 {
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
            layout = layout.with_shaded_region(region.with_color(ink::MARK).with_opacity(0.12));
        }
        if (x_low..=x_high).contains(&at) {
            let line = ReferenceLine::vertical(at)
                .with_color(ink::MARK)
                .with_dasharray("4 3");
            layout = layout.with_reference_line(line.with_label(svg::marked(&mark.label)));
        }
    }
    let title = match panel.title.is_empty() {
        true => figure.title.clone(),
        false => format!("{}: {}", figure.title, panel.title),
    };
    if how.alone {
        layout = layout
            .with_title(literal(&title))
            .with_title_size(15)
            .with_title_wrap(80);
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
    let colour = ink::series(line.series);
    let shift = aside(panel, line);
    let at = |dot: &Dot| {
        let place = panel.x.scale.place(dot.x);
        match panel.x.scale {
            Scale::Decades => (place * shift.exp(), dot.y),
            _ => (place + shift, dot.y),
        }
    };
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
        let shape = SHAPES[line.series % SHAPES.len()];
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
                .with_colors(line.dots.iter().map(|dot| ink::shade(dot.heat)));
            vec![cells.into()]
        }
        Kind::Steps => vec![named(path().with_data(line.dots.iter().map(at))).into()],
        Kind::Bars => {
            // A bar is an interval from the axis up, of a dot as large as the bar is wide: so the bar
            // is the element that is hovered. The writer draws no such dot.
            let series = figure.series.len().max(1) as f64;
            let places = panel.x.scale.ends(std::iter::empty());
            let each = how.width * 0.66 / (places.1 - places.0).max(1.0) / (series + 0.4);
            let bars = ScatterPlot::new()
                .with_data(line.dots.iter().map(at))
                .with_y_err_asymmetric(line.dots.iter().map(|dot| (dot.y - floor, 0.0)))
                .with_color(ink::bar(line.series))
                .with_size(each.clamp(2.0, 40.0) / 2.0)
                .with_tooltip_labels(line.dots.iter().map(svg::hover));
            let intervals = line.dots.iter().map(|dot| {
                let (low, high) = dot.interval.unwrap_or((dot.y, dot.y));
                (dot.y - low, high - dot.y)
            });
            let intervals = ScatterPlot::new()
                .with_data(line.dots.iter().map(at))
                .with_y_err_asymmetric(intervals)
                .with_color(ink::interval(line.series))
                .with_size(0.0);
            let legend = named(path());
            vec![legend.into(), bars.into(), intervals.into()]
        }
    }
}

/// How far a line is drawn beside its place, so that intervals of several do not hide each other: a
/// few pixels.
fn aside(panel: &Panel, line: &Line) -> f64 {
    if line.kind != Kind::Joined || panel.lines.len() < 2 {
        return 0.0;
    }
    let scale = &panel.x.scale;
    let dots = panel.lines.iter().flat_map(|line| &line.dots);
    let (low, high) = scale.ends(dots.map(|dot| scale.place(dot.x)));
    let span = match scale {
        Scale::Decades => (high / low).ln(),
        _ => high - low,
    };
    let position = panel
        .lines
        .iter()
        .position(|other| other.series == line.series);
    let middle = (panel.lines.len() - 1) as f64 / 2.0;
    (position.unwrap_or(0) as f64 - middle) * span * 0.007
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
        axis_color: ink::AXIS.into(),
        grid_color: ink::GRID.into(),
        tick_color: ink::AXIS.into(),
        text_color: "none".into(),
        legend_bg: "none".into(),
        legend_border: "none".into(),
        ..Theme::light()
    }
}
