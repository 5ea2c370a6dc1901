//! A panel as SVG.

use super::area::Area;
use super::scale::Span;
use super::svg::{Anchor, Svg, attribute, closed, joined};
use super::{Dot, Figure, Kind, Panel, ink, rows};

/// Where a panel is shown.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct For {
    pub(super) width: f64,
    pub(super) height: f64,
    /// The total width of bars in rows.
    pub(super) rows_width: f64,
    /// Whether it is a file of its own, which has a title, a legend and its own colours.
    alone: bool,
}

/// A part of a page, which has one legend and one set of colours for all panels.
pub(crate) const PAGE: For = For {
    width: 440.0,
    height: 290.0,
    rows_width: 360.0,
    alone: false,
};

/// A file of its own.
pub(crate) const FILE: For = For {
    width: 720.0,
    height: 420.0,
    rows_width: 720.0,
    alone: true,
};

/// The average width of a letter, rounded up, and the height of a line of text, in pixels.
const LETTER: f64 = 7.8;
pub(super) const ROW: f64 = 14.0;
/// The gap between a label and what it labels.
pub(super) const GAP: f64 = 6.0;
/// Letters in a line of the title.
const TITLE_LETTERS: usize = 80;
/// Half of the width of a dot.
const DOT: f64 = 3.2;
/// What a panel without a mark says.
const NOTHING: &str = "nothing to draw: no value is a number that these axes can show";
/// The length of an arrow's head, and half of its width.
const ARROW: (f64, f64) = (5.0, 3.0);

/// The width of a text.
pub(super) fn wide(text: &str) -> f64 {
    text.chars().count() as f64 * LETTER
}

/// A panel of `figure` as an SVG element.
pub(crate) fn drawing(figure: &Figure, panel: &Panel, how: For) -> String {
    let panel = &only_shown(panel);
    let title = match panel.title.is_empty() {
        true => figure.title.clone(),
        false => format!("{}: {}", figure.title, panel.title),
    };
    let lines = if how.alone { lines(&title) } else { Vec::new() };
    let top = match lines.len() {
        0 => 0.0,
        rows => 18.0 + ROW * rows as f64,
    };
    let in_rows = panel.lines.iter().any(|line| line.kind == Kind::Rows);
    let legend: Vec<(usize, &str)> = match how.alone && !in_rows {
        true => figure.legend().collect(),
        false => Vec::new(),
    };
    let (width, height) = match in_rows {
        true => (how.rows_width, top + rows::height(panel)),
        false => (how.width + legend_width(&legend), how.height),
    };
    let mut svg = Svg::new(width, height, &title, how.alone.then_some(ink::STYLE));
    for (row, line) in lines.iter().enumerate() {
        let place = (width / 2.0, 20.0 + ROW * row as f64);
        svg.text(place, line, Anchor::Middle, "b", 0.0);
    }
    if in_rows {
        rows::draw(&mut svg, figure, panel, how, top);
        return svg.end();
    }
    let area = Area::new(panel, how, top + ROW);
    area.axes(&mut svg, panel, how);
    area.marks(&mut svg, panel);
    for line in &panel.lines {
        area.line(&mut svg, figure, panel, line, how);
    }
    if panel.lines.is_empty() {
        let (x, y) = (how.width / 2.0, how.height / 2.0);
        svg.text((x, y), NOTHING, Anchor::Middle, "", 0.0);
    }
    for (row, (series, name)) in legend.into_iter().enumerate() {
        let (x, y) = (how.width, area.top + 10.0 + (ROW + 3.0) * row as f64);
        svg.path(&ink::markers(series), "", &marker(series, (x, y - 4.0)));
        svg.text((x + 10.0, y), name, Anchor::Start, "", 0.0);
    }
    svg.end()
}

/// The width of a legend beside a panel; 0 without names.
fn legend_width(names: &[(usize, &str)]) -> f64 {
    let widest = names.iter().map(|(_, name)| wide(name)).reduce(f64::max);
    widest.map_or(0.0, |widest| 16.0 + widest)
}

/// A title broken into lines.
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

/// The panel without the values that its axes cannot show.
fn only_shown(panel: &Panel) -> Panel {
    let mut shown = panel.clone();
    let (x, y) = (&panel.x.scale, &panel.y.scale);
    for line in &mut shown.lines {
        line.dots.retain(|dot| x.shows(dot.x) && y.shows(dot.y));
        for dot in &mut line.dots {
            // An interval that reaches below zero ends at the end of the axis.
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

/// The hover texts of a page's dots: the dots' rows, if they have any, and what the rows do not say. The
/// page's script makes an element for each dot; in the file these elements would be far larger.
pub(super) fn attributes(dots: &[Dot], how: For) -> String {
    let says = |dot: &Dot| dot.row.is_some() || !dot.text.is_empty();
    if how.alone || !dots.iter().any(says) {
        return String::new();
    }
    let row = |dot: &Dot| {
        dot.row
            .map_or_else(|| "-".to_owned(), |row| row.to_string())
    };
    let rows: Vec<String> = dots.iter().map(row).collect();
    let texts: Vec<&str> = dots.iter().map(|dot| &*dot.text).collect();
    let texts = if texts.iter().any(|text| !text.is_empty()) {
        texts.join("|")
    } else {
        String::new()
    };
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

/// The sign of a series in a page's legend: its marker on a piece of line, in the colour of the element around it.
pub(crate) fn sign(series: usize) -> String {
    format!(
        "<svg viewBox=\"-8 -8 16 16\" aria-hidden=\"true\"><path d=\"M-8 0h16\"/><path class=\"{}\" d=\"{}\"/></svg>",
        ink::shape(series),
        marker(series, (0.0, 0.0))
    )
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plot::{Axis, Line, Scale};
    use costof_model::unit::Unit;

    fn figure(kind: Kind, scale: Scale) -> Figure {
        let axis = |scale| Axis::new("cost", Unit::Nanoseconds, scale);
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
        let alone = " data-p=\"7\" data-t=\"as &lt;measured&gt;\"";
        let both = " data-p=\"7 7\" data-t=\"as &lt;measured&gt;|as &lt;measured&gt;\"";
        for (kind, said) in [
            (Kind::Joined, both),
            (Kind::Dots, both),
            (Kind::Bars, both),
            (Kind::Rows, alone),
            (Kind::Cells, alone),
        ] {
            let svg = drawn(kind, PAGE);
            assert!(svg.contains(said), "{kind:?}: {svg}");
            assert!(!drawn(kind, FILE).contains("data-p"), "{kind:?}");
        }
        assert!(drawn(Kind::Cells, PAGE).contains("class=\"h7 f\""));
        assert!(!drawn(Kind::Steps, PAGE).contains("data-p"));
    }

    #[test]
    fn an_interval_sets_no_scale_and_ends_in_an_arrow_where_it_leaves_the_frame() {
        for (kind, arrow) in [(Kind::Joined, "l3-5l3 5"), (Kind::Rows, "l5 3l-5 3")] {
            let words = Scale::Words(vec!["a".into(), "b".into()]);
            let mut figure = figure(kind, words);
            let usual = drawing(&figure, &figure.panels[0], PAGE);
            assert!(!usual.contains(arrow), "{usual}");
            figure.panels[0].lines[0].dots[1].interval = Some((19.0, 1e6));
            let wide = drawing(&figure, &figure.panels[0], PAGE);
            assert_eq!(wide.matches(arrow).count(), 1, "{wide}");
            let labels = |svg: &str| svg.matches("</text>").count();
            assert_eq!(labels(&wide), labels(&usual), "the scale is the same");
        }
    }

    #[test]
    fn a_row_has_its_word_before_its_bar_and_its_value_behind() {
        let svg = drawn(Kind::Rows, PAGE);
        for text in [
            ">a</text>",
            ">10.0 ns</text>",
            ">b</text>",
            ">20.0 ns</text>",
        ] {
            assert!(svg.contains(text), "{text}: {svg}");
        }
        assert!(svg.contains("viewBox=\"0 0 360 46\""), "{svg}");
    }

    #[test]
    fn no_label_is_cut() {
        let longest = "a word of two dozen letters";
        let words = [longest, "b", "c", "d", "e", "f", "g", "h"];
        let figure = figure(Kind::Dots, Scale::Words(words.map(str::to_owned).to_vec()));
        let svg = drawing(&figure, &figure.panels[0], PAGE);
        let (before, _) = svg.split_once(&format!(">{longest}<")).unwrap();
        let place = before.rsplit("rotate(-30 ").next().unwrap();
        let x: f64 = place.split(' ').next().unwrap().parse().unwrap();
        assert!(x + 1.0 >= 0.87 * wide(longest), "{svg}");
    }

    #[test]
    fn what_an_axis_cannot_show_is_left_out() {
        let mut figure = figure(Kind::Dots, Scale::Decades);
        figure.panels[0].lines[0].dots[0].x = 0.0;
        let svg = drawing(&figure, &figure.panels[0], PAGE);
        assert_eq!(svg.matches("h0").count(), 1);
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
