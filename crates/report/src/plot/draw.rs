//! A panel as SVG.

use super::area::Area;
use super::parts::{For, ROW, marker, wide};
use super::svg::{Anchor, Svg};
use super::{Figure, Panel, ink};

/// Letters in a line of the title.
const TITLE_LETTERS: usize = 80;
/// What a panel without a mark says.
const NOTHING: &str = "nothing to draw: no value is a number that these axes can show";
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
    let legend: Vec<(usize, &str)> = if how.alone { figure.legend().collect() } else { Vec::new() };
    let width = how.width + legend_width(&legend);
    let mut svg = Svg::new(width, how.height, &title, how.alone.then_some(ink::STYLE));
    for (row, line) in lines.iter().enumerate() {
        let place = (width / 2.0, 20.0 + ROW * row as f64);
        svg.text(place, line, Anchor::Middle, "b", 0.0);
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

/// The sign of a series in a page's legend: its marker on a piece of line, in the colour of the element around it.
pub(crate) fn sign(series: usize) -> String {
    format!(
        "<svg viewBox=\"-8 -8 16 16\" aria-hidden=\"true\"><path d=\"M-8 0h16\"/><path class=\"{}\" d=\"{}\"/></svg>",
        ink::shape(series),
        marker(series, (0.0, 0.0))
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plot::{Axis, Dot, FILE, Kind, Line, PAGE, Scale};
    use costof_model::Unit;

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
        let line = Line { series: 0, kind, dots: vec![dot(1.0), dot(2.0)] };
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
        for (kind, said) in
            [(Kind::Joined, both), (Kind::Dots, both), (Kind::Bars, both), (Kind::Cells, alone)]
        {
            let svg = drawn(kind, PAGE);
            assert!(svg.contains(said), "{kind:?}: {svg}");
            assert!(!drawn(kind, FILE).contains("data-p"), "{kind:?}");
        }
        assert!(drawn(Kind::Cells, PAGE).contains("class=\"h7 f\""));
        assert!(!drawn(Kind::Steps, PAGE).contains("data-p"));
    }

    #[test]
    fn an_interval_sets_no_scale_and_ends_in_an_arrow_where_it_leaves_the_frame() {
        let arrow = "l3-5l3 5";
        for kind in [Kind::Joined, Kind::Bars] {
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
