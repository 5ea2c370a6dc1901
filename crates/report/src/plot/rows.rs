//! A plot of two or three categories: each has a row with its word, its bar and its value.

use super::parts::{self, For, GAP, attributes, wide};
use super::scale::Span;
use super::svg::{Anchor, Svg, joined};
use super::{Dot, Figure, Line, Panel, Scale, ink};

/// The height of a row, and half of the height of its bar, in pixels.
const ROW: f64 = 20.0;
const HALF_BAR: f64 = 6.0;
/// A word takes at most this share of a row, however long the names in a run file are.
const WORD: f64 = 0.45;

/// The total height of the rows.
pub(super) fn height(panel: &Panel) -> f64 {
    ROW * rows(panel).len() as f64 + GAP
}

/// Each bar with its word, sorted by word, then in the order of the lines.
fn rows(panel: &Panel) -> Vec<(&str, &Line, &Dot)> {
    let Scale::Words(words) = &panel.x.scale else {
        return Vec::new();
    };
    let dots = || panel.lines.iter().flat_map(|line| line.dots.iter().map(move |dot| (line, dot)));
    let words = words.iter().enumerate();
    let rows = words.flat_map(|(position, word)| {
        let of_word = dots().filter(move |(_, dot)| dot.x as usize == position + 1);
        of_word.map(move |(line, dot)| (&**word, line, dot))
    });
    rows.collect()
}

pub(super) fn draw(svg: &mut Svg, figure: &Figure, panel: &Panel, how: For, top: f64) {
    let rows = rows(panel);
    let span = Span::new(&Scale::Linear, rows.iter().map(|(.., dot)| dot.y));
    let value = |dot: &Dot| panel.y.unit.display(dot.y) + panel.y.suffix;
    let widest = |widths: &mut dyn Iterator<Item = f64>| widths.fold(0.0, f64::max);
    let words = widest(&mut rows.iter().map(|(word, ..)| wide(word)));
    let left = words.min(WORD * how.rows_width) + GAP;
    let right = how.rows_width - GAP - widest(&mut rows.iter().map(|(.., dot)| wide(&value(dot))));
    let at_x = |value: f64| left + (right - left) * span.share(value);
    let mut before = "";
    let bottom = top + ROW * rows.len() as f64;
    for (row, (word, line, dot)) in rows.into_iter().enumerate() {
        let y = top + ROW * (row as f64 + 0.5);
        if word != before {
            svg.text((left - GAP, y + 4.0), word, Anchor::End, "", 0.0);
        }
        before = word;
        let look = format!(
            " stroke-width=\"{}\"{}",
            2.0 * HALF_BAR,
            attributes(std::slice::from_ref(dot), how)
        );
        let bar = joined([(at_x(0.0), y), (at_x(dot.y), y)]);
        let class = ink::bars(line.series, figure.series.len());
        svg.path(&class, &look, &bar);
        if let Some(ends) = dot.interval {
            let at = |value, along, across| (at_x(value) + along, y + across);
            parts::intervals_on_bars(svg, &class, &parts::interval(&span, ends, at));
        }
        svg.text((how.rows_width, y + 4.0), &value(dot), Anchor::End, "", 0.0);
    }
    svg.path(ink::AXIS, "", &joined([(at_x(0.0), top), (at_x(0.0), bottom)]));
}
