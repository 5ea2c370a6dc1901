//! A panel with two axes: its margins, ticks, marks and lines.

use super::parts::{self, For, GAP, ROW, attributes, marker, wide};
use super::scale::{Span, tick};
use super::svg::{Anchor, Svg, closed, joined};
use super::{Axis, Dot, Figure, Kind, Line, Panel, Scale, ink};

/// If the words of an axis have more letters together, they are drawn slanted below it.
const LETTERS_IN_LINE: usize = 46;
const SLANT_DEGREES: f64 = -30.0;
/// How far a slanted word reaches to the left and down, as shares of its length.
const SLANT: (f64, f64) = (0.87, 0.5);
/// A margin takes at most this share of a panel, however long the names in a run file are.
const MARGIN: f64 = 0.4;

/// About how many labels the vertical axis has.
const ROWS: usize = 7;

/// About how many labels the horizontal axis has.
fn columns(how: For) -> usize {
    ((how.width / 70.0) as usize).min(8)
}

/// The area between the axes: its place in pixels, and its range of values.
pub(super) struct Area {
    width: f64,
    left: f64,
    right: f64,
    pub(super) top: f64,
    bottom: f64,
    x: Span,
    y: Span,
}

impl Area {
    /// An area that leaves room for the longest labels.
    pub(super) fn new(panel: &Panel, how: For, top: f64) -> Area {
        let (x, y) = spans(panel);
        let ticks = y.ticks(ROWS).into_iter();
        let beside =
            ticks.map(|at| wide(&label(&panel.y, at))).fold(0.0, f64::max).min(MARGIN * how.width);
        let mut area = Area {
            width: how.width,
            left: ROW + 2.0 * GAP + beside,
            right: how.width - 2.0 * GAP,
            top,
            bottom: how.height - 3.0 * ROW,
            x,
            y,
        };
        area.make_room_below(panel, how);
        area
    }

    /// Moves the ends of the horizontal axis inward until none of its labels is cut.
    fn make_room_below(&mut self, panel: &Panel, how: For) {
        let is_slanted = is_slanted(panel);
        for at in self.x.ticks(columns(how)) {
            let (share, long) = (self.x.share(at), wide(&label(&panel.x, at)));
            if is_slanted {
                let starts = SLANT.0 * long - share * self.right;
                self.left = self.left.max(starts / (1.0 - share));
                let bottom = how.height - 3.0 * ROW - SLANT.1 * long;
                self.bottom = self.bottom.min(bottom);
            } else if share > 0.0 {
                let ends = how.width - 2.0 - long / 2.0 - self.left * (1.0 - share);
                self.right = self.right.min(ends / share);
            }
        }
        self.left = self.left.min(MARGIN * how.width).ceil();
        self.right = self.right.max((1.0 - MARGIN) * how.width).floor();
        self.bottom = self.bottom.max((1.0 - MARGIN) * how.height).floor();
    }

    fn at_x(&self, value: f64) -> f64 {
        self.left + (self.right - self.left) * self.x.share(value)
    }

    fn at_y(&self, value: f64) -> f64 {
        self.bottom - (self.bottom - self.top) * self.y.share(value)
    }

    pub(super) fn axes(&self, svg: &mut Svg, panel: &Panel, how: For) {
        let (columns, rows) = (self.x.ticks(columns(how)), self.y.ticks(ROWS));
        let mut grid = String::new();
        for x in columns.iter().map(|at| self.at_x(*at).round()) {
            grid += &joined([(x, self.top), (x, self.bottom)]);
        }
        for y in rows.iter().map(|at| self.at_y(*at).round()) {
            grid += &joined([(self.left, y), (self.right, y)]);
        }
        let corner = (self.left, self.bottom);
        let axes = joined([(self.left, self.top), corner, (self.right, self.bottom)]);
        svg.path(ink::GRID, "", &grid);
        svg.path(ink::AXIS, "", &axes);
        let (anchor, degrees) = match is_slanted(panel) {
            true => (Anchor::End, SLANT_DEGREES),
            false => (Anchor::Middle, 0.0),
        };
        svg.group(anchor, |svg| {
            for at in columns {
                let place = (self.at_x(at).round(), self.bottom + 2.0 + ROW);
                svg.text(place, &label(&panel.x, at), Anchor::Start, "", degrees);
            }
        });
        svg.group(Anchor::End, |svg| {
            for at in rows {
                let place = (self.left - GAP, self.at_y(at).round() + 4.0);
                svg.text(place, &label(&panel.y, at), Anchor::Start, "", 0.0);
            }
        });
        let below = ((self.left + self.right) / 2.0, how.height - GAP);
        svg.text(below, &panel.x.label, Anchor::Middle, "", 0.0);
        let beside = (12.0, (self.top + self.bottom) / 2.0);
        svg.text(beside, &panel.y.label, Anchor::Middle, "", -90.0);
    }

    /// Marks on the horizontal axis with their intervals. Their names are put into rows so that none overlaps
    /// another.
    pub(super) fn marks(&self, svg: &mut Svg, panel: &Panel) {
        let mut names: Vec<(f64, f64, usize)> = Vec::new();
        for mark in &panel.marks {
            if let Some((low, high)) = mark.interval {
                let [low, high] = [low, high].map(|end| self.at_x(self.x.within(end)));
                let corners =
                    [(low, self.top), (high, self.top), (high, self.bottom), (low, self.bottom)];
                svg.path(&format!("{} f", ink::MARK), " opacity=\"0.12\"", &closed(corners));
            }
            if self.x.within(mark.at) != mark.at {
                continue;
            }
            let x = self.at_x(mark.at);
            let upright = joined([(x, self.top), (x, self.bottom)]);
            svg.path(ink::MARK, " stroke-dasharray=\"4 3\"", &upright);
            let long = wide(&mark.label);
            let from = (x + 4.0).min(self.width - 8.0 - long).max(0.0);
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

    pub(super) fn line(
        &self,
        svg: &mut Svg,
        figure: &Figure,
        panel: &Panel,
        line: &Line,
        how: For,
    ) {
        let shift = aside(panel, line);
        let at = |dot: &Dot| (self.at_x(dot.x) + shift, self.at_y(dot.y));
        let intervals: String = line.dots.iter().map(|dot| self.interval(dot, shift)).collect();
        let class = ink::series(line.series);
        let curve = line.dots.iter().map(at);
        let curve = match line.kind {
            Kind::Joined => joined(curve),
            // A page has many of these, and nobody sees fractions of a pixel.
            Kind::Steps => joined(curve.map(|(x, y)| (x.round(), y.round()))),
            _ => String::new(),
        };
        svg.path(&class, " stroke-width=\"1.6\"", &curve);
        let said = attributes(&line.dots, how);
        match line.kind {
            Kind::Steps => {}
            Kind::Joined | Kind::Dots => {
                svg.path(&class, "", &intervals);
                let dots = line.dots.iter().map(|dot| marker(line.series, at(dot)));
                svg.path(&ink::markers(line.series), &said, &dots.collect::<String>());
            }
            Kind::Cells => line.dots.iter().for_each(|dot| self.cell(svg, dot, how)),
            Kind::Bars => {
                let width = self.column() * 0.8 / (panel.lines.len() as f64 + 0.4);
                let look = format!(" stroke-width=\"{:.1}\"{said}", width.clamp(2.0, 40.0));
                let bar = |(x, y)| joined([(x, self.bottom), (x, y)]);
                let bars = line.dots.iter().map(|dot| bar(at(dot)));
                let class = ink::bars(line.series, figure.series.len());
                svg.path(&class, &look, &bars.collect::<String>());
                parts::intervals_on_bars(svg, &class, &intervals);
            }
        }
    }

    /// The part of a dot's interval between the axes, with an arrow where it goes beyond.
    fn interval(&self, dot: &Dot, shift: f64) -> String {
        let Some(interval) = dot.interval else {
            return String::new();
        };
        let x = self.at_x(dot.x) + shift;
        parts::interval(&self.y, interval, |value, along, across| {
            (x + across, self.at_y(value) - along)
        })
    }

    fn cell(&self, svg: &mut Svg, dot: &Dot, how: For) {
        let (x, y) = (self.at_x(dot.x), self.at_y(dot.y));
        let row = (self.bottom - self.top) / self.y.steps();
        let half = 0.5 * self.column().min(row);
        let corners = [
            (x - half, y - half),
            (x + half, y - half),
            (x + half, y + half),
            (x - half, y + half),
        ];
        let class = format!("{} f", ink::shade(dot.heat));
        svg.path(&class, &attributes(std::slice::from_ref(dot), how), &closed(corners));
    }

    /// The width of the column that belongs to a word of the horizontal axis.
    fn column(&self) -> f64 {
        (self.right - self.left) / self.x.steps()
    }
}

/// The values that both axes show. Only medians determine them: one very wide interval would press all the
/// other lines flat.
fn spans(panel: &Panel) -> (Span, Span) {
    let dots = || panel.lines.iter().flat_map(|line| &line.dots);
    let mut x = Span::new(&panel.x.scale, dots().map(|dot| dot.x));
    if panel.x.scale == Scale::Linear {
        // Leave room for a dot at zero.
        x.widen_below(0.02);
    }
    let mut y = Span::new(&panel.y.scale, dots().map(|dot| dot.y));
    // The names of marks stand above the lines.
    y.widen_above(0.05 * panel.marks.len() as f64);
    (x, y)
}

fn label(axis: &Axis, value: f64) -> String {
    match &axis.scale {
        Scale::Words(words) => words.get(value as usize - 1).cloned().unwrap_or_default(),
        Scale::Doublings | Scale::Decades | Scale::Linear | Scale::LinearSizes => {
            tick(axis.unit, value) + axis.suffix
        }
    }
}

fn is_slanted(panel: &Panel) -> bool {
    let Scale::Words(words) = &panel.x.scale else {
        return false;
    };
    let longest = words.iter().map(|word| word.chars().count()).max();
    longest.unwrap_or(0) * words.len() > LETTERS_IN_LINE
}

/// How far a line is moved sideways, in pixels, so that the intervals of several lines do not hide each
/// other.
fn aside(panel: &Panel, line: &Line) -> f64 {
    if line.kind != Kind::Joined {
        return 0.0;
    }
    let is_it = |other: &Line| other.series == line.series;
    let position = panel.lines.iter().position(is_it).unwrap_or(0);
    (position as f64 - (panel.lines.len() - 1) as f64 / 2.0) * 3.0
}
