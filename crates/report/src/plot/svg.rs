//! SVG that a page can style, written shortly, since a page has many.

use std::fmt::Write;

/// An SVG element in the making.
pub(super) struct Svg {
    text: String,
}

/// How text stands at its place.
#[derive(Clone, Copy, Debug)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

impl Svg {
    /// An element of this size, in pixels, that `title` names. With a style it is a file of its own, on
    /// white; without, a part of a page.
    pub(super) fn new(width: f64, height: f64, title: &str, style: Option<&str>) -> Svg {
        let title = escaped(title);
        let text = match style {
            Some(style) => format!(
                "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
                 width=\"{width}\" height=\"{height}\"><title>{title}</title><style>{style}</style>\
                 <path d=\"M0 0H{width}V{height}H0Z\" style=\"fill:#fff;stroke:none\"/>"
            ),
            None => format!(
                "<svg viewBox=\"0 0 {width} {height}\" role=\"group\" aria-label=\"{title}\">"
            ),
        };
        Svg { text }
    }

    /// The element.
    pub(super) fn end(mut self) -> String {
        self.text.push_str("</svg>");
        self.text
    }

    /// A path of these classes; `look` are further attributes.
    pub(super) fn path(&mut self, class: &str, look: &str, data: &str) {
        let class = attribute("class", class);
        let _ = write!(self.text, "<path{class}{look} d=\"{data}\"/>");
    }

    /// A filled circle.
    pub(super) fn circle(&mut self, (x, y): (f64, f64), radius: f64) {
        let [x, y] = [x, y].map(round);
        let _ = write!(self.text, "<circle cx=\"{x}\" cy=\"{y}\" r=\"{radius}\"/>");
    }

    /// Text at a place, of these classes, turned by so many degrees.
    pub(super) fn text(
        &mut self,
        (x, y): (f64, f64),
        content: &str,
        anchor: Anchor,
        class: &str,
        degrees: f64,
    ) {
        let anchor = match anchor {
            Anchor::Start => "",
            Anchor::Middle => "m",
            Anchor::End => "e",
        };
        let class = attribute("class", format!("{anchor} {class}").trim());
        let [x, y] = [x, y].map(round);
        let turned = if degrees == 0.0 {
            String::new()
        } else {
            format!(" transform=\"rotate({degrees} {x} {y})\"")
        };
        let content = escaped(content);
        let _ = write!(
            self.text,
            "<text{class} x=\"{x}\" y=\"{y}\"{turned}>{content}</text>"
        );
    }

    /// What `draw` draws, as one element of these classes that a reader can hover and focus; `data` are its
    /// attributes.
    pub(super) fn group(
        &mut self,
        class: &str,
        data: &[(&str, &str)],
        draw: impl FnOnce(&mut Svg),
    ) {
        self.text.push_str("<g");
        self.text.push_str(&attribute("class", class));
        for (name, value) in data {
            self.text.push_str(&attribute(name, value));
        }
        self.text.push('>');
        draw(self);
        self.text.push_str("</g>");
    }
}

fn attribute(name: &str, value: &str) -> String {
    if value.is_empty() {
        return String::new();
    }
    format!(" {name}=\"{}\"", escaped(value))
}

/// Points joined by a line, as path data. What lies on a level or an upright is written shorter.
pub(super) fn joined(points: impl IntoIterator<Item = (f64, f64)>) -> String {
    let mut data = String::new();
    let mut last: Option<(f64, f64)> = None;
    for (x, y) in points.into_iter().map(|(x, y)| (round(x), round(y))) {
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

/// A closed shape with these corners, as path data.
pub(super) fn closed(corners: impl IntoIterator<Item = (f64, f64)>) -> String {
    joined(corners) + "Z"
}

/// To a tenth of a pixel.
fn round(value: f64) -> f64 {
    let rounded = (value * 10.0).round() / 10.0;
    if rounded.is_finite() {
        rounded + 0.0
    } else {
        0.0
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
        let steps = [(1.0, 2.0), (1.0, 3.0), (4.0, 3.0), (5.0, 6.04)];
        assert_eq!(joined(steps), "M1 2V3H4L5 6");
        assert_eq!(closed([(0.0, 0.0), (1.0, 0.0), (1.0, 1.0)]), "M0 0H1V1Z");
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
