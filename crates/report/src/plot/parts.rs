//! What all drawings share: their sizes, markers, intervals and hover texts.

use super::scale::Span;
use super::svg::{Svg, attribute, closed, joined};
use super::{Dot, ink};

/// Where a panel is shown.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct For {
    pub(super) width: f64,
    pub(super) height: f64,
    /// Whether it is a file of its own, which has a title, a legend and its own colours.
    pub(super) alone: bool,
}

/// A part of a page, which has one legend and one set of colours for all panels.
pub(crate) const PAGE: For = For { width: 440.0, height: 290.0, alone: false };

/// A file of its own.
pub(crate) const FILE: For = For { width: 720.0, height: 420.0, alone: true };

/// The average width of a letter, rounded up, and the height of a line of text, in pixels.
const LETTER: f64 = 7.8;
pub(super) const ROW: f64 = 14.0;
/// The gap between a label and what it labels.
pub(super) const GAP: f64 = 6.0;
/// Half of the width of a dot.
const DOT: f64 = 3.2;
/// The length of an arrow's head, and half of its width.
const ARROW: (f64, f64) = (5.0, 3.0);

/// The width of a text.
pub(super) fn wide(text: &str) -> f64 {
    text.chars().count() as f64 * LETTER
}

/// The hover texts of a page's dots: the dots' rows, if they have any, and what the rows do not say. The
/// page's script makes an element for each dot; in the file these elements would be far larger.
pub(super) fn attributes(dots: &[Dot], how: For) -> String {
    let says = |dot: &Dot| dot.row.is_some() || !dot.text.is_empty();
    if how.alone || !dots.iter().any(says) {
        return String::new();
    }
    let row = |dot: &Dot| dot.row.map_or_else(|| "-".to_owned(), |row| row.to_string());
    let rows: Vec<String> = dots.iter().map(row).collect();
    let texts: Vec<&str> = dots.iter().map(|dot| &*dot.text).collect();
    let texts =
        if texts.iter().any(|text| !text.is_empty()) { texts.join("|") } else { String::new() };
    attribute("data-p", &rows.join(" ")) + &attribute("data-t", &texts)
}

/// The part of an interval that an axis shows, with an arrow where it goes on. `at` gives the place of a
/// value, moved by this much along the axis and across it.
pub(super) fn interval(
    axis: &Span,
    (low, high): (f64, f64),
    at: impl Fn(f64, f64, f64) -> (f64, f64),
) -> String {
    let [from, to] = [low, high].map(|end| axis.within(end));
    let mut data = joined([at(from, 0.0, 0.0), at(to, 0.0, 0.0)]);
    for (end, shown, along) in [(low, from, ARROW.0), (high, to, -ARROW.0)] {
        if shown != end {
            let sides = [-ARROW.1, ARROW.1].map(|across| at(shown, along, across));
            data += &joined([sides[0], at(shown, 0.0, 0.0), sides[1]]);
        }
    }
    data
}

/// Intervals on bars of this class. They have a rim: without it they are invisible on some colours.
pub(super) fn intervals_on_bars(svg: &mut Svg, class: &str, data: &str) {
    if class != ink::LEVEL {
        svg.path(&format!("{class} rim"), "", data);
    }
    svg.path(&format!("{class} ink"), "", data);
}

/// Shapes distinguish series where colours do not: on paper, and for many people.
pub(super) fn marker(series: usize, (x, y): (f64, f64)) -> String {
    let corners: &[(f64, f64)] = match series % 4 {
        // A line of length zero, whose round ends make a dot.
        0 => return joined([(x, y)]) + "h0",
        1 => &[(-1.0, -1.0), (1.0, -1.0), (1.0, 1.0), (-1.0, 1.0)],
        2 => &[(0.0, -1.2), (1.1, 0.9), (-1.1, 0.9)],
        _ => &[(0.0, -1.3), (1.3, 0.0), (0.0, 1.3), (-1.3, 0.0)],
    };
    let corners = corners.iter();
    closed(corners.map(|(right, down)| (x + DOT * right, y + DOT * down)))
}
