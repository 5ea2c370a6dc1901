//! SVG that a page can style. It is written compactly, since a page has many drawings.

use std::fmt::Write;

/// An SVG element while it is being written.
pub(super) struct Svg {
    text: String,
}

/// How text is aligned at its place.
#[derive(Clone, Copy, Debug)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

impl Anchor {
    fn class(self) -> &'static str {
        match self {
            Anchor::Start => "",
            Anchor::Middle => "m",
            Anchor::End => "e",
        }
    }
}

impl Svg {
    /// An element of this size in pixels; `title` names it. With a style it is a file of its own on white,
    /// else a part of a page.
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

    /// The finished element.
    pub(super) fn end(mut self) -> String {
        self.text.push_str("</svg>");
        self.text
    }

    /// A path with these classes and further attributes, `look`. Writes nothing if `data` is empty.
    pub(super) fn path(&mut self, class: &str, look: &str, data: &str) {
        if data.is_empty() {
            return;
        }
        let class = attribute("class", class);
        let _ = write!(self.text, "<path{class}{look} d=\"{data}\"/>");
    }

    /// Text at a place, with these classes, rotated by this many degrees.
    pub(super) fn text(
        &mut self,
        (x, y): (f64, f64),
        content: &str,
        anchor: Anchor,
        class: &str,
        degrees: f64,
    ) {
        let class = attribute("class", format!("{} {class}", anchor.class()).trim());
        let [x, y] = [x, y].map(round);
        let turned = if degrees == 0.0 {
            String::new()
        } else {
            format!(" transform=\"rotate({degrees} {x} {y})\"")
        };
        let content = escaped(content);
        let _ = write!(self.text, "<text{class} x=\"{x}\" y=\"{y}\"{turned}>{content}</text>");
    }

    /// Writes what `draw` writes, with this alignment for all of its text.
    pub(super) fn group(&mut self, anchor: Anchor, draw: impl FnOnce(&mut Svg)) {
        let _ = write!(self.text, "<g{}>", attribute("class", anchor.class()));
        draw(self);
        self.text.push_str("</g>");
    }
}

/// An attribute, or nothing if its value is empty.
pub(super) fn attribute(name: &str, value: &str) -> String {
    if value.is_empty() {
        return String::new();
    }
    format!(" {name}=\"{}\"", escaped(value))
}

/// Path data that joins points by lines. Each point is given relative to the one before, which is shorter
/// than absolute coordinates.
pub(super) fn joined(points: impl IntoIterator<Item = (f64, f64)>) -> String {
    // A hostile file may have values at any place.
    let tenths = |at: f64| (round(at) * 10.0).round().clamp(-1e6, 1e6) as i64;
    let mut data = String::new();
    let mut last: Option<(i64, i64)> = None;
    for (x, y) in points.into_iter().map(|(x, y)| (tenths(x), tenths(y))) {
        data += &match last {
            None => format!("M{}", pair(x, y)),
            Some((last_x, last_y)) => match (x - last_x, y - last_y) {
                (0, 0) => String::new(),
                (0, down) => format!("v{}", short(down)),
                (right, 0) => format!("h{}", short(right)),
                (right, down) => format!("l{}", pair(right, down)),
            },
        };
        last = Some((x, y));
    }
    data
}

/// Two numbers in path data: a minus sign is enough to separate them.
fn pair(x: i64, y: i64) -> String {
    let space = if y < 0 { "" } else { " " };
    format!("{}{space}{}", short(x), short(y))
}

/// A number from its tenths: `12`, `-.5`.
fn short(tenths: i64) -> String {
    let text = (tenths as f64 / 10.0).to_string();
    match text.strip_prefix("0.").or(text.strip_prefix("-0.")) {
        Some(tenth) if tenths < 0 => format!("-.{tenth}"),
        Some(tenth) => format!(".{tenth}"),
        None => text,
    }
}

/// Path data of a closed shape with these corners.
pub(super) fn closed(corners: impl IntoIterator<Item = (f64, f64)>) -> String {
    joined(corners) + "z"
}

/// Rounds to a tenth of a pixel.
fn round(value: f64) -> f64 {
    let rounded = (value * 10.0).round() / 10.0;
    if rounded.is_finite() { rounded + 0.0 } else { 0.0 }
}

/// Escapes text for elements and attributes.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            // XML allows no other control characters, nor those two.
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
        assert_eq!(joined(steps), "M1 2v1h3l1 3");
        assert_eq!(joined([(0.0, 9.0), (0.5, 8.6)]), "M0 9l.5-.4");
        assert_eq!(closed([(0.0, 0.0), (1.0, 0.0), (1.0, 1.0)]), "M0 0h1v1z");
    }

    #[test]
    fn text_cannot_become_markup() {
        assert_eq!(escaped("<b a=\"'\">&\u{1}"), "&lt;b a=&quot;&#39;&quot;&gt;&amp;\u{fffd}");
        assert_eq!(
            escaped("\t\n\r\u{b}\u{c}\u{85}\u{fffe}\u{ffff}"),
            format!("\t\n\r{}", "\u{fffd}".repeat(5))
        );
    }
}
