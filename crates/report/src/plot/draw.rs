//! A panel as SVG.

use super::scale::{Span, tick};
use super::svg::{Anchor, Svg, closed, joined};
use super::{Axis, Dot, Figure, Kind, Line, Panel, Scale, ink};

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

/// How wide a letter is and how high a row of text, in pixels.
const LETTER: f64 = 6.4;
const ROW: f64 = 14.0;
/// Between a tick's label and its axis.
const GAP: f64 = 6.0;
/// Words longer than this together, in letters, stand aslant below their axis.
const LETTERS_IN_LINE: usize = 60;
const SLANT_DEGREES: f64 = -30.0;
/// Letters in a line of the title.
const TITLE_LETTERS: usize = 80;
/// Half of how wide a dot is.
const DOT: f64 = 3.2;
const THICK: &str = " stroke-width=\"1.6\"";

/// A panel of `figure` as an SVG element.
pub(crate) fn drawing(figure: &Figure, panel: &Panel, how: For) -> String {
    let panel = &only_shown(panel);
    let title = if panel.title.is_empty() {
        figure.title.clone()
    } else {
        format!("{}: {}", figure.title, panel.title)
    };
    let style = how.alone.then_some(ink::STYLE);
    let mut svg = Svg::new(how.width, how.height, &title, style);
    let legend: &[String] = if how.alone && figure.series.len() > 1 {
        &figure.series
    } else {
        &[]
    };
    let title = if how.alone { lines(&title) } else { Vec::new() };
    for (row, line) in title.iter().enumerate() {
        let place = (how.width / 2.0, 20.0 + ROW * row as f64);
        svg.text(place, line, Anchor::Middle, "b", 0.0);
    }
    let area = Area::new(panel, how, title.len(), legend);
    area.axes(&mut svg, panel, how);
    area.marks(&mut svg, panel, how);
    for line in &panel.lines {
        area.line(&mut svg, figure, panel, line, how);
    }
    for (row, name) in legend.iter().enumerate() {
        let (x, y) = (
            area.right + 14.0,
            area.top + 10.0 + (ROW + 3.0) * row as f64,
        );
        svg.group(&ink::series(row), &[], |svg| marker(svg, row, (x, y - 4.0)));
        svg.text((x + 10.0, y), name, Anchor::Start, "", 0.0);
    }
    svg.end()
}

/// A title in lines.
fn lines(title: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in title.split(' ') {
        match lines.last_mut() {
            Some(line) if line.chars().count() + word.chars().count() < TITLE_LETTERS => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
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

/// What stands between the axes: where, in pixels, and which values.
struct Area {
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
    x: Span,
    y: Span,
}

impl Area {
    fn new(panel: &Panel, how: For, title_rows: usize, legend: &[String]) -> Area {
        let (x, y) = spans(panel);
        let widest =
            |texts: &mut dyn Iterator<Item = usize>| texts.max().unwrap_or(0) as f64 * LETTER;
        let labels = y.ticks(7);
        let labels = widest(&mut labels.iter().map(|at| label(&panel.y, *at).chars().count()));
        let legend_width = if legend.is_empty() {
            0.0
        } else {
            24.0 + widest(&mut legend.iter().map(|name| name.chars().count()))
        };
        let below = match &panel.x.scale {
            Scale::Words(words) if is_slanted(words) => {
                0.55 * widest(&mut words.iter().map(|word| word.chars().count()))
            }
            _ => 0.0,
        };
        Area {
            left: 28.0 + labels.min(how.width * 0.4),
            right: how.width - 16.0 - legend_width.min(how.width * 0.4),
            top: 12.0
                + if title_rows == 0 {
                    0.0
                } else {
                    18.0 + ROW * title_rows as f64
                },
            bottom: how.height - 44.0 - below.min(how.height * 0.4),
            x,
            y,
        }
    }

    fn at_x(&self, value: f64) -> f64 {
        self.left + (self.right - self.left) * self.x.share(value)
    }

    fn at_y(&self, value: f64) -> f64 {
        self.bottom - (self.bottom - self.top) * self.y.share(value)
    }

    fn axes(&self, svg: &mut Svg, panel: &Panel, how: For) {
        let (columns, rows) = (self.x.ticks(8), self.y.ticks(7));
        let mut grid = String::new();
        let mut ticks = joined([
            (self.left, self.top),
            (self.left, self.bottom),
            (self.right, self.bottom),
        ]);
        for x in columns.iter().map(|at| self.at_x(*at)) {
            grid += &joined([(x, self.top), (x, self.bottom)]);
            ticks += &joined([(x, self.bottom), (x, self.bottom + 4.0)]);
        }
        for y in rows.iter().map(|at| self.at_y(*at)) {
            grid += &joined([(self.left, y), (self.right, y)]);
            ticks += &joined([(self.left - 4.0, y), (self.left, y)]);
        }
        svg.path(ink::GRID, "", &grid);
        svg.path(ink::AXIS, "", &ticks);
        let slanted = matches!(&panel.x.scale, Scale::Words(words) if is_slanted(words));
        for at in columns {
            let (place, text) = (
                (self.at_x(at), self.bottom + 4.0 + ROW),
                label(&panel.x, at),
            );
            if slanted {
                svg.text(place, &text, Anchor::End, "", SLANT_DEGREES);
            } else {
                svg.text(place, &text, Anchor::Middle, "", 0.0);
            }
        }
        for at in rows {
            let place = (self.left - GAP, self.at_y(at) + 4.0);
            svg.text(place, &label(&panel.y, at), Anchor::End, "", 0.0);
        }
        let middle = (self.left + self.right) / 2.0;
        svg.text(
            (middle, how.height - 6.0),
            &panel.x.label,
            Anchor::Middle,
            "",
            0.0,
        );
        let middle = (self.top + self.bottom) / 2.0;
        svg.text((12.0, middle), &panel.y.label, Anchor::Middle, "", -90.0);
    }

    /// Places on the horizontal axis, with their intervals, and their names in rows where no other one's
    /// stands.
    fn marks(&self, svg: &mut Svg, panel: &Panel, how: For) {
        let mut names: Vec<(f64, f64, usize)> = Vec::new();
        for mark in &panel.marks {
            if let Some((low, high)) = mark.interval {
                let [low, high] = [low, high].map(|end| self.at_x(self.x.within(end)));
                let corners = [
                    (low, self.top),
                    (high, self.top),
                    (high, self.bottom),
                    (low, self.bottom),
                ];
                svg.path(
                    &format!("{} f", ink::MARK),
                    " opacity=\"0.12\"",
                    &closed(corners),
                );
            }
            if self.x.within(mark.at) != mark.at {
                continue;
            }
            let x = self.at_x(mark.at);
            let upright = joined([(x, self.top), (x, self.bottom)]);
            svg.path(ink::MARK, " stroke-dasharray=\"4 3\"", &upright);
            let long = mark.label.chars().count() as f64 * LETTER;
            let from = (x + 4.0).min(how.width - 8.0 - long).max(0.0);
            let is_free = |row: &usize| {
                let mut others = names.iter().filter(|(.., other)| other == row);
                others.all(|(low, high, _)| from + long < *low || *high < from)
            };
            let row = (0..=names.len()).find(is_free).unwrap_or_default();
            names.push((from, from + long, row));
            let place = (from, self.top + 12.0 + ROW * row as f64);
            svg.text(place, &mark.label, Anchor::Start, ink::MARK, 0.0);
        }
    }

    fn line(&self, svg: &mut Svg, figure: &Figure, panel: &Panel, line: &Line, how: For) {
        let class = &*ink::series(line.series);
        let shift = aside(panel, line);
        let at = |dot: &Dot| (self.at_x(dot.x) + shift, self.at_y(dot.y));
        if matches!(line.kind, Kind::Joined | Kind::Steps) {
            svg.path(class, THICK, &joined(line.dots.iter().map(at)));
        }
        for dot in &line.dots {
            let (x, y) = at(dot);
            let interval = dot
                .interval
                .map(|(low, high)| joined([(x, self.at_y(low)), (x, self.at_y(high))]));
            match line.kind {
                Kind::Steps => {}
                Kind::Joined | Kind::Dots => element(svg, class, dot, how, |svg| {
                    if let Some(interval) = &interval {
                        svg.path("", "", interval);
                    }
                    marker(svg, line.series, (x, y));
                }),
                Kind::Cells => element(svg, "", dot, how, |svg| {
                    let half = 0.5 * self.column().min(self.row());
                    let corners = [
                        (x - half, y - half),
                        (x + half, y - half),
                        (x + half, y + half),
                        (x - half, y + half),
                    ];
                    svg.path(&format!("{} f", ink::shade(dot.heat)), "", &closed(corners));
                }),
                Kind::Bars => {
                    let width = self.column() * 0.8 / (figure.series.len().max(1) as f64 + 0.4);
                    let look = format!(" stroke-width=\"{:.1}\"", width.clamp(2.0, 40.0));
                    let bar = joined([(x, self.bottom), (x, y)]);
                    element(svg, &format!("{class} bar"), dot, how, |svg| {
                        svg.path("", &look, &bar)
                    });
                    if let Some(interval) = interval {
                        svg.path(&format!("{class} ink"), "", &interval);
                    }
                }
            }
        }
    }

    /// How wide what stands at a word of the horizontal axis is.
    fn column(&self) -> f64 {
        (self.right - self.left) / self.x.steps()
    }

    fn row(&self) -> f64 {
        (self.bottom - self.top) / self.y.steps()
    }
}

/// Which values both axes show.
fn spans(panel: &Panel) -> (Span, Span) {
    let dots = || panel.lines.iter().flat_map(|line| &line.dots);
    let mut x = Span::new(&panel.x.scale, dots().map(|dot| dot.x));
    if panel.x.scale == Scale::Linear {
        // Room for what stands at nothing.
        x.widen_below(0.02);
    }
    let heights = dots().flat_map(|dot| {
        let (low, high) = dot.interval.unwrap_or((dot.y, dot.y));
        [low, dot.y, high]
    });
    let mut y = Span::new(&panel.y.scale, heights);
    // Marks have their names above what is drawn.
    y.widen_above(0.05 * panel.marks.len() as f64);
    (x, y)
}

fn label(axis: &Axis, value: f64) -> String {
    match &axis.scale {
        Scale::Words(words) => words.get(value as usize - 1).cloned().unwrap_or_default(),
        Scale::Doublings | Scale::Decades | Scale::Linear => tick(axis.unit, value),
    }
}

fn is_slanted(words: &[String]) -> bool {
    let longest = words.iter().map(|word| word.chars().count()).max();
    longest.unwrap_or(0) * words.len() > LETTERS_IN_LINE
}

/// A dot as an element that can be hovered, of a row where it is one.
fn element(svg: &mut Svg, class: &str, dot: &Dot, how: For, draw: impl FnOnce(&mut Svg)) {
    if how.alone {
        return svg.group(class, &[], draw);
    }
    let row = dot
        .row
        .map_or_else(|| "-".to_owned(), |row| row.to_string());
    svg.group(class, &[("data-p", &row), ("data-t", &dot.text)], draw);
}

/// Shapes tell series apart where colours do not: on paper, and for many eyes.
fn marker(svg: &mut Svg, series: usize, (x, y): (f64, f64)) {
    let corners: &[(f64, f64)] = match series % 4 {
        0 => return svg.circle((x, y), DOT),
        1 => &[(-1.0, -1.0), (1.0, -1.0), (1.0, 1.0), (-1.0, 1.0)],
        2 => &[(0.0, -1.2), (1.1, 0.9), (-1.1, 0.9)],
        _ => &[(0.0, -1.3), (1.3, 0.0), (0.0, 1.3), (-1.3, 0.0)],
    };
    let corners = corners
        .iter()
        .map(|(right, down)| (x + DOT * right, y + DOT * down));
    svg.path("f", "", &closed(corners));
}

/// How far a line is drawn beside its place, so that intervals of several do not hide each other, in
/// pixels.
fn aside(panel: &Panel, line: &Line) -> f64 {
    if line.kind != Kind::Joined {
        return 0.0;
    }
    let is_it = |other: &Line| other.series == line.series;
    let position = panel.lines.iter().position(is_it).unwrap_or(0);
    (position as f64 - (panel.lines.len() - 1) as f64 / 2.0) * 3.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use costof_model::unit::Unit;

    fn figure(kind: Kind, scale: Scale) -> Figure {
        let axis = |scale| Axis {
            label: "cost".into(),
            unit: Unit::Nanoseconds,
            scale,
        };
        let dot = |x: f64| Dot {
            x,
            y: 10.0 * x,
            interval: Some((9.0 * x, 11.0 * x)),
            row: Some(7),
            text: "as <measured>".into(),
            heat: 0.99,
        };
        let line = Line {
            series: 0,
            kind,
            dots: vec![dot(1.0), dot(2.0)],
        };
        let panel = Panel {
            title: String::new(),
            x: axis(scale),
            y: axis(Scale::Linear),
            lines: vec![line],
            marks: Vec::new(),
        };
        Figure {
            title: "cost by words".into(),
            series: vec!["one".into()],
            panels: vec![panel],
            ..Figure::default()
        }
    }

    fn drawn(kind: Kind, how: For) -> String {
        let words = Scale::Words(vec!["a".into(), "b".into()]);
        let figure = figure(kind, words);
        drawing(&figure, &figure.panels[0], how)
    }

    #[test]
    fn a_point_of_a_page_can_be_hovered_and_says_its_row() {
        for (kind, class) in [
            (Kind::Joined, "s0"),
            (Kind::Dots, "s0"),
            (Kind::Bars, "s0 bar"),
            (Kind::Cells, ""),
        ] {
            let svg = drawn(kind, PAGE);
            let class = if class.is_empty() {
                String::new()
            } else {
                format!(" class=\"{class}\"")
            };
            let group = format!("<g{class} data-p=\"7\" data-t=\"as &lt;measured&gt;\">");
            assert_eq!(svg.matches(&group).count(), 2, "{kind:?}: {svg}");
            assert!(!drawn(kind, FILE).contains("data-p"), "{kind:?}");
        }
        assert!(drawn(Kind::Cells, PAGE).contains("class=\"h7 f\""));
        assert!(!drawn(Kind::Steps, PAGE).contains("<g"));
    }

    #[test]
    fn what_an_axis_cannot_show_is_left_out() {
        let mut figure = figure(Kind::Dots, Scale::Decades);
        figure.panels[0].lines[0].dots[0].x = 0.0;
        let svg = drawing(&figure, &figure.panels[0], PAGE);
        assert_eq!(svg.matches("<g").count(), 1);
        figure.panels[0].lines[0].dots[1].x = f64::NAN;
        let svg = drawing(&figure, &figure.panels[0], PAGE);
        assert!(svg.ends_with("</svg>") && !svg.contains("NaN"), "{svg}");
    }

    #[test]
    fn a_long_title_has_several_lines() {
        let words = vec!["words"; 40].join(" ");
        assert!(lines(&words).iter().all(|line| line.len() <= TITLE_LETTERS));
        assert_eq!(lines(&words).join(" "), words);
    }
}
