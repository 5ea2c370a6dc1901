//! What kuva laid out, as SVG that a page can style: colours are classes, so that light, dark and
//! paper have their own; each point is an element that can be hovered and focused.

use super::Dot;
use kuva::render::color::Color;
use kuva::render::render::{Primitive, Scene, TextAnchor};
use std::fmt::Write;

/// Colours, as names that become classes.
pub(crate) struct Ink;

impl Ink {
    pub(super) const AXIS: &'static str = "axis";
    pub(super) const GRID: &'static str = "grid";
    pub(super) const MARK: &'static str = "mark";
    /// How many series have a colour of their own; the ones after them have other shapes.
    pub(super) const COLOURS: usize = 8;

    /// How many shades cells have.
    pub(super) const SHADES: usize = 8;

    /// The shade for a heat from 0 to 1.
    pub(super) fn shade(heat: f64) -> &'static str {
        const SHADES: [&str; Ink::SHADES] = ["h0", "h1", "h2", "h3", "h4", "h5", "h6", "h7"];
        let shade = (heat * Ink::SHADES as f64) as usize;
        SHADES[shade.min(Ink::SHADES - 1)]
    }

    pub(super) fn series(position: usize) -> &'static str {
        const SERIES: [&str; Ink::COLOURS] = ["s0", "s1", "s2", "s3", "s4", "s5", "s6", "s7"];
        SERIES[position % Ink::COLOURS]
    }
}

/// The colours of a file of its own: on white, as in a paper.
const STYLE: &str = "text{font:12px Helvetica,Arial,sans-serif;fill:#222}.e{text-anchor:end}\
.m{text-anchor:middle}.b{font-weight:bold}path,line{fill:none;stroke:var(--c)}\
.f{fill:var(--c);stroke:none}.axis{--c:#555}.grid{--c:#ddd}.mark{--c:#666}.s0{--c:#0060a8}\
.s1{--c:#d1520a}.s2{--c:#0a7d55}.s3{--c:#b34a8e}.s4{--c:#a87a00}.s5{--c:#2f95c4}.s6{--c:#6b52b5}\
.s7{--c:#555}text.mark{fill:#555}.h0{--c:#e8f0f8}.h1{--c:#cfe0f0}\
.h2{--c:#b0cce6}.h3{--c:#8cb4d9}.h4{--c:#6598c8}.h5{--c:#427bb3}.h6{--c:#275f99}.h7{--c:#12437a}";

/// What a dot has for the writer: its row, and what that does not say.
pub(super) fn hover(dot: &Dot) -> String {
    let row = dot.row.map_or_else(|| "-".to_owned(), |row| row.to_string());
    format!("{row} {}", dot.text)
}

/// The scene as an SVG element that `title` names; `alone` with all that it needs.
pub(super) fn written(scene: &Scene, title: &str, alone: bool) -> String {
    let mut writer = Writer {
        svg: String::with_capacity(scene.elements.len() * 40),
        alone,
        path: None,
    };
    let (width, height) = (round(scene.width), round(scene.height));
    let _ = match alone {
        true => write!(
            writer.svg,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
             width=\"{width}\" height=\"{height}\"><title>{}</title><style>{STYLE}</style>\
             <path d=\"M0 0H{width}V{height}H0Z\" style=\"fill:#fff;stroke:none\"/>",
            escaped(title)
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
    /// Lines of one look that follow each other, as one path.
    path: Option<(String, String)>,
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
                let look = look(stroke, *stroke_width, stroke_dasharray.as_deref(), None);
                let data = format!("M{} {}L{} {}", round(*x1), round(*y1), round(*x2), round(*y2));
                self.path(look, &data);
            }
            Primitive::Path(path) => {
                let look = match &path.fill {
                    Some(fill) if !matches!(fill, Color::None) => filled(fill, path.opacity),
                    _ => look(
                        &path.stroke,
                        path.stroke_width,
                        path.stroke_dasharray.as_deref(),
                        path.opacity,
                    ),
                };
                self.path(look, &compact(&path.d));
            }
            Primitive::PolyLine {
                points,
                stroke,
                stroke_width,
                stroke_dasharray,
            } => {
                let mut data = String::new();
                for (position, (x, y)) in points.iter().enumerate() {
                    let step = if position == 0 { 'M' } else { 'L' };
                    let _ = write!(data, "{step}{} {}", round(*x), round(*y));
                }
                let look = look(stroke, *stroke_width, stroke_dasharray.as_deref(), None);
                self.path(look, &data);
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
                self.path(filled(fill, *opacity), &data);
            }
            Primitive::Circle { cx, cy, r, fill, .. } => {
                self.end_path();
                let class = class(fill);
                let [cx, cy, r] = [cx, cy, r].map(|value| round(*value));
                let _ = write!(
                    self.svg,
                    "<circle class=\"{class} f\" cx=\"{cx}\" cy=\"{cy}\" r=\"{r}\"/>"
                );
            }
            Primitive::CircleBatch { cx, cy, r, fill, .. } => {
                for (cx, cy) in cx.iter().zip(cy) {
                    self.element(&Primitive::Circle {
                        cx: *cx,
                        cy: *cy,
                        r: *r,
                        fill: fill.clone(),
                        fill_opacity: None,
                        stroke: None,
                        stroke_width: None,
                    });
                }
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
            } => self.text((*x, *y), content, *anchor, *rotate, *bold, color.as_ref()),
            Primitive::RichText {
                x,
                y,
                spans,
                anchor,
                color,
                ..
            } => {
                let content: String = spans.iter().map(|span| span.text.as_str()).collect();
                self.text((*x, *y), &content, *anchor, None, false, color.as_ref());
            }
            Primitive::GroupStart { title, .. } => {
                self.end_path();
                let (row, text) = title
                    .as_deref()
                    .and_then(|title| title.split_once(' '))
                    .unwrap_or_default();
                let _ = match (self.alone, text.is_empty()) {
                    (true, _) => write!(self.svg, "<g>"),
                    (false, true) => write!(self.svg, "<g tabindex=\"0\" data-p=\"{row}\">"),
                    (false, false) => write!(
                        self.svg,
                        "<g tabindex=\"0\" data-p=\"{row}\" data-t=\"{}\">",
                        escaped(text)
                    ),
                };
            }
            Primitive::GroupEnd => {
                self.end_path();
                self.svg.push_str("</g>");
            }
            _ => {}
        }
    }

    /// A piece of a path, joined to the one before where they look alike.
    fn path(&mut self, look: String, data: &str) {
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
            let _ = write!(self.svg, "<path {look} d=\"{data}\"/>");
        }
    }

    fn text(
        &mut self,
        (x, y): (f64, f64),
        content: &str,
        anchor: TextAnchor,
        rotate: Option<f64>,
        bold: bool,
        colour: Option<&Color>,
    ) {
        self.end_path();
        let mut classes = vec![match anchor {
            TextAnchor::Start => "",
            TextAnchor::Middle => "m",
            TextAnchor::End => "e",
        }];
        if bold {
            classes.push("b");
        }
        let class = colour.map(class).unwrap_or_default();
        classes.push(class);
        classes.retain(|class| !class.is_empty());
        let class = match classes.is_empty() {
            true => String::new(),
            false => format!(" class=\"{}\"", classes.join(" ")),
        };
        let (x, y) = (round(x), round(y));
        let turned = rotate
            .map(|angle| format!(" transform=\"rotate({} {x} {y})\"", round(angle)))
            .unwrap_or_default();
        let content = escaped(&content.replace("\\$", "$"));
        let _ = write!(
            self.svg,
            "<text{class} x=\"{x}\" y=\"{y}\"{turned}>{content}</text>"
        );
    }
}

/// How a line looks, as attributes.
fn look(stroke: &Color, width: f64, dashes: Option<&str>, opacity: Option<f64>) -> String {
    let mut look = format!("class=\"{}\"", class(stroke));
    if (width - 1.0).abs() > 0.05 {
        let _ = write!(look, " stroke-width=\"{}\"", round(width));
    }
    if let Some(dashes) = dashes.filter(|dashes| !dashes.is_empty()) {
        let _ = write!(look, " stroke-dasharray=\"{}\"", escaped(dashes));
    }
    if let Some(opacity) = opacity {
        let _ = write!(look, " opacity=\"{}\"", (opacity * 100.0).round() / 100.0);
    }
    look
}

fn filled(fill: &Color, opacity: Option<f64>) -> String {
    let opacity = opacity.map(|opacity| format!(" opacity=\"{opacity}\""));
    format!("class=\"{} f\"{}", class(fill), opacity.unwrap_or_default())
}

/// The class that a colour stands for; none of it comes from a run.
fn class(colour: &Color) -> &'static str {
    let Color::Css(name) = colour else {
        return "";
    };
    let series = (0..Ink::COLOURS).map(Ink::series);
    let shades = (0..Ink::SHADES).map(|shade| Ink::shade(shade as f64 / Ink::SHADES as f64));
    let mut known = [Ink::AXIS, Ink::GRID, Ink::MARK].into_iter().chain(series).chain(shades);
    known.find(|known| *known == &**name).unwrap_or_default()
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
            // XML has no others.
            c if c.is_control() && !c.is_whitespace() => escaped.push('\u{fffd}'),
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
    }

    #[test]
    fn text_cannot_become_markup() {
        assert_eq!(
            escaped("<b a=\"'\">&\u{1}"),
            "&lt;b a=&quot;&#39;&quot;&gt;&amp;\u{fffd}"
        );
    }

    #[test]
    fn a_colour_of_a_run_is_no_class() {
        assert_eq!(class(&Color::from("s3")), "s3");
        assert_eq!(class(&Color::from("x\" onload=\"y")), "");
    }
}
