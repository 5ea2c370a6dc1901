//! What kuva laid out, as SVG that a page can style, with an element for each point that can be
//! hovered and focused; and shortly, since a page has many.

use super::Dot;
use super::ink::{self, class, is_bar};
use kuva::render::color::Color;
use kuva::render::render::{Primitive, Scene, TextAnchor};
use std::fmt::Write;

/// What a dot has for the writer: its row, and what that does not say.
pub(super) fn hover(dot: &Dot) -> String {
    let row = dot
        .row
        .map_or_else(|| "-".to_owned(), |row| row.to_string());
    format!("{row} {}", dot.text)
}

/// Begins the name of a mark, so that the writer knows it from other text.
const MARKED: char = '\u{2}';

/// The name of a mark, for the writer.
pub(super) fn marked(name: &str) -> String {
    format!("{MARKED}{}", name.replace('$', "\\$"))
}

/// The scene as an SVG element that `title` names; `alone` with all that it needs.
pub(super) fn written(scene: &Scene, title: &str, alone: bool) -> String {
    let mut writer = Writer {
        svg: String::with_capacity(scene.elements.len() * 40),
        alone,
        path: None,
        group: Group::None,
        bar_width: 1.0,
        width: scene.width,
        marks: Vec::new(),
    };
    let (width, height) = (round(scene.width), round(scene.height));
    let _ = match alone {
        true => write!(
            writer.svg,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
             width=\"{width}\" height=\"{height}\"><title>{}</title><style>{}</style>\
             <path d=\"M0 0H{width}V{height}H0Z\" style=\"fill:#fff;stroke:none\"/>",
            escaped(title),
            ink::STYLE
        ),
        false => write!(
            writer.svg,
            "<svg viewBox=\"0 0 {width} {height}\" role=\"group\" aria-label=\"{}\">",
            escaped(title)
        ),
    };
    for element in &scene.elements {
        writer.element(element);
    }
    writer.end_path();
    writer.svg.push_str("</svg>");
    writer.svg
}

struct Writer {
    svg: String,
    alone: bool,
    /// Lines of one look that follow each other, as one path: its attributes and its data.
    path: Option<(String, String)>,
    group: Group,
    /// How wide the bar is that follows.
    bar_width: f64,
    /// The width of the drawing.
    width: f64,
    /// From where to where the names of marks stand, and in which row.
    marks: Vec<(f64, f64, usize)>,
}

/// Whether elements belong to a point.
enum Group {
    /// They do not.
    None,
    /// They will: its attributes but for the class, which its first element has.
    Begun(String),
    /// They do, and it has this class.
    Open(&'static str),
}

impl Writer {
    fn element(&mut self, element: &Primitive) {
        match element {
            Primitive::Line {
                x1,
                y1,
                x2,
                y2,
                stroke,
                stroke_width,
                stroke_dasharray,
            } => {
                let width = if is_bar(stroke) {
                    self.bar_width
                } else {
                    *stroke_width
                };
                let look = stroked(width, stroke_dasharray.as_deref(), None);
                self.line([*x1, *y1, *x2, *y2], stroke, &look);
            }
            Primitive::Path(path) => match &path.fill {
                Some(fill) if !matches!(fill, Color::None) => {
                    self.path(fill, true, &opaque(path.opacity), &compact(&path.d));
                }
                _ => {
                    let dashes = path.stroke_dasharray.as_deref();
                    let look = stroked(path.stroke_width, dashes, path.opacity);
                    self.path(&path.stroke, false, &look, &compact(&path.d));
                }
            },
            Primitive::PolyLine {
                points,
                stroke,
                stroke_width,
                stroke_dasharray,
            } => {
                let look = stroked(*stroke_width, stroke_dasharray.as_deref(), None);
                self.path(stroke, false, &look, &joined(points));
            }
            Primitive::Rect {
                x,
                y,
                width,
                height,
                fill,
                opacity,
                ..
            } if !matches!(fill, Color::None) => {
                let [x, y, width, height] = [x, y, width, height].map(|value| round(*value));
                let data = format!("M{x} {y}h{width}v{height}h-{width}z");
                self.path(fill, true, &opaque(*opacity), &data);
            }
            // A bar is the interval of a dot that is as large as the bar is wide.
            Primitive::Circle { r, fill, .. } if is_bar(fill) => self.bar_width = 2.0 * r,
            Primitive::Circle {
                cx, cy, r, fill, ..
            } if *r > 0.0 => {
                self.end_path();
                let class = attribute(self.open(class(fill)));
                let [cx, cy, r] = [cx, cy, r].map(|value| round(*value));
                let circle = format!("<circle{class} cx=\"{cx}\" cy=\"{cy}\" r=\"{r}\"/>");
                self.svg.push_str(&circle);
            }
            Primitive::Text {
                x,
                y,
                content,
                anchor,
                rotate,
                bold,
                color,
                ..
            } => {
                let bold = if *bold { "b" } else { "" };
                let colour = color.as_ref().map(class).unwrap_or_default();
                if let Some(name) = content.strip_prefix(MARKED) {
                    return self.mark((*x, *y), name);
                }
                self.text(
                    (*x, *y),
                    content,
                    [anchored(*anchor), bold, colour],
                    *rotate,
                );
            }
            Primitive::RichText {
                x,
                y,
                spans,
                anchor,
                ..
            } => {
                let content: String = spans.iter().map(|span| span.text.as_str()).collect();
                self.text((*x, *y), &content, [anchored(*anchor), "", ""], None);
            }
            Primitive::GroupStart { title, .. } => self.begin_group(title.as_deref()),
            Primitive::GroupEnd => {
                self.end_path();
                if let Group::Open(_) = self.group {
                    self.svg.push_str("</g>");
                }
                self.group = Group::None;
            }
            _ => {}
        }
    }

    fn begin_group(&mut self, title: Option<&str>) {
        self.end_path();
        let (row, text) = title
            .and_then(|title| title.split_once(' '))
            .unwrap_or_default();
        let mut attributes = String::new();
        if !self.alone {
            let _ = write!(attributes, " data-p=\"{row}\"");
            if !text.is_empty() {
                let _ = write!(attributes, " data-t=\"{}\"", escaped(text));
            }
        }
        self.group = Group::Begun(attributes);
    }

    /// The class that an element has to name: none where its group has it already.
    fn open(&mut self, class: &'static str) -> &'static str {
        if let Group::Begun(attributes) = &self.group {
            let group = format!("<g{}{attributes}>", attribute(class));
            self.svg.push_str(&group);
            self.group = Group::Open(class);
        }
        match self.group {
            Group::Open(known) if known == class => "",
            _ => class,
        }
    }

    fn line(&mut self, ends: [f64; 4], stroke: &Color, look: &str) {
        let [x1, y1, x2, y2] = ends.map(round);
        // Intervals have no caps: where many stand beside each other, caps are all that is seen.
        let is_interval = !matches!(self.group, Group::None) || class(stroke).ends_with(" ink");
        if is_interval && x1 != x2 {
            return;
        }
        let end = match (x1 == x2, y1 == y2) {
            (true, _) => format!("V{y2}"),
            (false, true) => format!("H{x2}"),
            (false, false) => format!("L{x2} {y2}"),
        };
        self.path(stroke, false, look, &format!("M{x1} {y1}{end}"));
    }

    /// A piece of a path, joined to the one before where they look alike.
    fn path(&mut self, colour: &Color, is_filled: bool, look: &str, data: &str) {
        if let Group::Begun(_) = self.group {
            self.end_path();
        }
        let class = self.open(class(colour));
        let class = match (class, is_filled) {
            (class, false) => class.to_owned(),
            ("", true) => "f".to_owned(),
            (class, true) => format!("{class} f"),
        };
        let look = format!("{}{look}", attribute(&class));
        match &mut self.path {
            Some((known, path)) if *known == look => path.push_str(data),
            _ => {
                self.end_path();
                self.path = Some((look, data.to_owned()));
            }
        }
    }

    fn end_path(&mut self) {
        if let Some((look, data)) = self.path.take() {
            let _ = write!(self.svg, "<path{look} d=\"{data}\"/>");
        }
    }

    /// The name of a mark, in a row where no other one's stands, and inside of the drawing.
    fn mark(&mut self, (x, y): (f64, f64), name: &str) {
        const LETTER: f64 = 6.4;
        const ROW: f64 = 14.0;
        let long = name.chars().count() as f64 * LETTER;
        let x = x.min(self.width - 8.0 - long).max(0.0);
        let ends = (x, x + long);
        let is_free = |row: &usize| {
            let mut others = self.marks.iter().filter(|(.., other)| other == row);
            others.all(|(low, high, _)| ends.1 < *low || *high < ends.0)
        };
        let row = (0..=self.marks.len()).find(is_free).unwrap_or_default();
        self.marks.push((ends.0, ends.1, row));
        self.text((x, y + ROW * row as f64), name, ["", "", ink::MARK], None);
    }

    /// Text ends no path: ticks are one, although their labels stand between them.
    fn text(&mut self, (x, y): (f64, f64), content: &str, classes: [&str; 3], turned: Option<f64>) {
        let classes: Vec<&str> = classes
            .into_iter()
            .filter(|class| !class.is_empty())
            .collect();
        let class = attribute(&classes.join(" "));
        let (x, y) = (round(x), round(y));
        let turned = turned
            .map(|angle| format!(" transform=\"rotate({} {x} {y})\"", round(angle)))
            .unwrap_or_default();
        let content = escaped(&content.replace("\\$", "$"));
        let _ = write!(
            self.svg,
            "<text{class} x=\"{x}\" y=\"{y}\"{turned}>{content}</text>"
        );
    }
}

fn anchored(anchor: TextAnchor) -> &'static str {
    match anchor {
        TextAnchor::Start => "",
        TextAnchor::Middle => "m",
        TextAnchor::End => "e",
    }
}

fn attribute(class: &str) -> String {
    match class.is_empty() {
        true => String::new(),
        false => format!(" class=\"{class}\""),
    }
}

/// How a line is drawn, as attributes.
fn stroked(width: f64, dashes: Option<&str>, opacity: Option<f64>) -> String {
    let mut look = String::new();
    if (width - 1.0).abs() > 0.05 {
        let _ = write!(look, " stroke-width=\"{}\"", round(width));
    }
    if let Some(dashes) = dashes.filter(|dashes| !dashes.is_empty()) {
        let _ = write!(look, " stroke-dasharray=\"{}\"", escaped(dashes));
    }
    look + &opaque(opacity)
}

fn opaque(opacity: Option<f64>) -> String {
    let opacity = opacity.map(|opacity| (opacity * 100.0).round() / 100.0);
    opacity.map_or_else(String::new, |opacity| format!(" opacity=\"{opacity}\""))
}

/// Points joined by a line, as path data. What lies on a level or an upright is written shorter.
fn joined(points: &[(f64, f64)]) -> String {
    let mut data = String::new();
    let mut last: Option<(f64, f64)> = None;
    for (x, y) in points.iter().map(|(x, y)| (round(*x), round(*y))) {
        let _ = match last {
            None => write!(data, "M{x} {y}"),
            Some(last) if last == (x, y) => Ok(()),
            Some((last, _)) if last == x => write!(data, "V{y}"),
            Some((_, last)) if last == y => write!(data, "H{x}"),
            Some(_) => write!(data, "L{x} {y}"),
        };
        last = Some((x, y));
    }
    data
}

/// Path data without the blanks that it does not need, to a tenth of a pixel.
fn compact(data: &str) -> String {
    let mut short = String::with_capacity(data.len() / 2);
    let mut after_number = false;
    for part in data.split_whitespace() {
        let (letters, number) = match part.find(|c: char| !c.is_ascii_alphabetic()) {
            Some(at) => part.split_at(at),
            None => (part, ""),
        };
        if !letters.is_empty() {
            short.push_str(letters);
            after_number = false;
        }
        if let Ok(number) = number.parse::<f64>() {
            if after_number {
                short.push(' ');
            }
            let _ = write!(short, "{}", round(number));
            after_number = true;
        } else {
            short.push_str(number);
        }
    }
    short
}

/// To a tenth of a pixel.
fn round(value: f64) -> f64 {
    let rounded = (value * 10.0).round() / 10.0;
    match rounded.is_finite() {
        true => rounded + 0.0,
        false => 0.0,
    }
}

/// Text that means nothing but itself, in elements and attributes.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            // XML has no other controls, nor those two.
            '\t' | '\n' | '\r' => escaped.push(c),
            '\u{fffe}' | '\u{ffff}' => escaped.push('\u{fffd}'),
            c if c.is_control() => escaped.push('\u{fffd}'),
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_written_shortly() {
        assert_eq!(compact("M 1.234 5 L 10.06 -2 Z"), "M1.2 5L10.1 -2Z");
        let steps = [(1.0, 2.0), (1.0, 3.0), (4.0, 3.0), (5.0, 6.0)];
        assert_eq!(joined(&steps), "M1 2V3H4L5 6");
    }

    #[test]
    fn text_cannot_become_markup() {
        assert_eq!(
            escaped("<b a=\"'\">&\u{1}"),
            "&lt;b a=&quot;&#39;&quot;&gt;&amp;\u{fffd}"
        );
        assert_eq!(
            escaped("\t\n\r\u{b}\u{c}\u{85}\u{fffe}\u{ffff}"),
            format!("\t\n\r{}", "\u{fffd}".repeat(5))
        );
    }
}
