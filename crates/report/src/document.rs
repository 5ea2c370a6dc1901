//! A report as a tree of parts, which is written as text for a terminal, as HTML for a page, or as Markdown.
//!
//! A report says what it has, and in which order; how a part looks, and what has to be escaped in it, is
//! decided here. JSON is no form of this tree: it is the result itself, as the models serialise it.

use crate::grid::{Grid, escaped};
use crate::text::{hanging, printable_lines, wrapped};
use maud::{Markup, html};

/// A part of a report. In paragraphs and lists, backticks enclose a command; Markdown shows them as characters.
pub(crate) enum Part {
    /// A heading; level 1 is the title of a report.
    Heading(u8, String),
    /// Lines of prose; spaces before one indent it. A page shows them in this class.
    Paragraph(&'static str, String),
    /// Lines that belong to what stands before them, below which a terminal indents them. A page shows the list
    /// in this class.
    List(&'static str, Vec<String>),
    /// A table and its name.
    Table(String, Grid),
    /// A thing and what is known of it.
    Entry(Entry),
    /// A section that the reader of a page unfolds. A terminal shows only what comes first, so not this.
    Folded { id: &'static str, title: String, parts: Vec<Part> },
    /// Bars, plots and maps, which only a page has.
    Drawing(Markup),
    /// What only a terminal shows.
    Terminal(Vec<Part>),
    /// What a terminal has no room for.
    Document(Vec<Part>),
}

/// A thing, such as a host or a change, which a page folds.
#[derive(Default)]
pub(crate) struct Entry {
    /// What a page refers to it by.
    pub(crate) id: Option<String>,
    /// The word that sorts it: a verdict, a day.
    pub(crate) label: String,
    pub(crate) name: String,
    /// What is said about it in one line; may be empty.
    pub(crate) about: String,
    /// Whether a page shows it unfolded.
    pub(crate) is_open: bool,
    pub(crate) details: Vec<Part>,
}

impl Part {
    pub(crate) fn paragraph(text: impl Into<String>) -> Part {
        Part::Paragraph("", text.into())
    }

    /// The lines of a text as a list, if there are any.
    pub(crate) fn lines(text: &str) -> Option<Part> {
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned);
        let lines: Vec<String> = lines.collect();
        (!lines.is_empty()).then_some(Part::List("", lines))
    }

    /// A section that the reader of a page unfolds; none if it has no parts.
    pub(crate) fn folded(
        id: &'static str,
        title: &str,
        parts: impl IntoIterator<Item = Part>,
    ) -> Option<Part> {
        let (title, parts) = (title.to_owned(), Vec::from_iter(parts));
        (!parts.is_empty()).then_some(Part::Folded { id, title, parts })
    }
}

/// The first of these lines, and how many there are besides.
pub(crate) fn first(lines: impl Iterator<Item = String>, most: usize, more: &str) -> Vec<String> {
    let mut lines: Vec<String> = lines.collect();
    let others = lines.len().saturating_sub(most);
    lines.truncate(most);
    lines.extend((others > 0).then(|| format!("and {others} {more}")));
    lines
}

/// The text for a terminal, in lines of at most this many columns.
pub(crate) fn text(parts: &[Part], columns: usize) -> String {
    let mut text = Text { written: String::new(), columns, indent: 2, is_after_heading: false };
    text.add(parts);
    printable_lines(&text.written)
}

/// What a terminal shows, as far as it is written.
struct Text {
    written: String,
    columns: usize,
    /// How far lists are indented.
    indent: usize,
    is_after_heading: bool,
}

impl Text {
    fn add(&mut self, parts: &[Part]) {
        for part in parts {
            let is_after_heading = std::mem::take(&mut self.is_after_heading);
            match part {
                Part::Heading(level, heading) => {
                    self.indent = 2 * usize::from(level - 1);
                    self.is_after_heading = true;
                    if *level < 3 {
                        self.apart();
                    }
                    self.line(heading, self.indent.saturating_sub(2));
                    if *level == 1 {
                        self.apart();
                    }
                }
                Part::Paragraph(_, lines) if lines.is_empty() => {}
                Part::Paragraph(_, lines) => {
                    self.apart();
                    lines.lines().for_each(|line| self.line(line, 0));
                }
                Part::List(_, lines) => lines.iter().for_each(|line| self.line(line, self.indent)),
                Part::Table(_, grid) => {
                    if !is_after_heading {
                        self.apart();
                    }
                    self.written += &grid.text();
                }
                Part::Entry(entry) => {
                    self.apart();
                    let head = format!("{}  ", entry.label);
                    self.written += &hanging(self.columns, &head, &entry.line());
                    let around = std::mem::replace(&mut self.indent, head.chars().count());
                    self.add(&entry.details);
                    self.indent = around;
                }
                Part::Terminal(parts) => self.add(parts),
                Part::Folded { .. } | Part::Drawing(_) | Part::Document(_) => {
                    self.is_after_heading = is_after_heading;
                }
            }
        }
    }

    /// Writes a line, indented by this much more than it is.
    fn line(&mut self, line: &str, indent: usize) {
        let line = " ".repeat(indent) + line;
        let words = line.trim_start_matches(' ');
        let indent = &line[..line.len() - words.len()];
        self.written += &wrapped(self.columns, words, indent);
    }

    /// Begins after an empty line.
    fn apart(&mut self) {
        apart(&mut self.written);
    }
}

/// Ends a text with an empty line, unless it is empty.
fn apart(text: &mut String) {
    if !text.is_empty() && !text.ends_with("\n\n") {
        text.push('\n');
    }
}

impl Entry {
    /// Its name, and what is said about it.
    fn line(&self) -> String {
        match &*self.about {
            "" => self.name.clone(),
            about => format!("{}: {about}", self.name),
        }
    }
}

/// Markdown, for a README, an issue or a report.
pub(crate) fn markdown(parts: &[Part]) -> String {
    let mut text = String::new();
    add_markdown(&mut text, parts);
    text
}

fn add_markdown(text: &mut String, parts: &[Part]) {
    for part in parts {
        match part {
            Part::Heading(level, heading) => {
                apart(text);
                let heading = escaped(heading);
                *text += &match level {
                    1 => format!("# {heading}\n\n"),
                    2 => format!("## {heading}\n\n"),
                    _ => format!("**{heading}**\n\n"),
                };
            }
            Part::Paragraph(_, lines) => {
                apart(text);
                *text += &format!("{}\n", escaped(lines));
            }
            Part::List(_, lines) => {
                let items = lines.iter().map(|line| format!("- {}\n", escaped(line)));
                text.extend(items);
            }
            Part::Table(_, grid) => {
                apart(text);
                *text += &(grid.markdown() + "\n");
            }
            Part::Entry(entry) => {
                *text +=
                    &format!("- {}: {}\n", escaped(entry.label.trim_end()), escaped(&entry.line()));
            }
            Part::Folded { parts, .. } | Part::Document(parts) => add_markdown(text, parts),
            Part::Drawing(_) | Part::Terminal(_) => {}
        }
    }
}

/// The parts on a page, where a heading of level 1 has this level.
pub(crate) fn page(parts: &[Part], title: u8) -> Markup {
    html! { @for part in parts { @match part {
        Part::Heading(level, heading) => @match level + title - 1 {
            1 => h1 { (heading) },
            2 => h2 { (heading) },
            3 => h3 { (heading) },
            _ => h4 { (heading) },
        },
        Part::Paragraph(class, lines) => @for line in lines.lines() { p class=[some(class)] { (commands(line)) } },
        Part::List(class, lines) => @if !lines.is_empty() {
            ul class=[some(class)] { @for line in lines { li { (commands(line)) } } }
        },
        Part::Table(name, grid) => (scroll(name, &grid.html())),
        Part::Entry(entry) => (of_entry(entry, &page(&entry.details, title))),
        Part::Folded { id, title: summary, parts } => (folded(id, summary, &page(parts, title))),
        Part::Drawing(markup) => (markup),
        Part::Document(parts) => (page(parts, title)),
        Part::Terminal(_) => {},
    } } }
}

/// An entry that unfolds, or a line if there is nothing to unfold.
fn of_entry(entry: &Entry, details: &Markup) -> Markup {
    let head = html! {
        b { (entry.name) } ": " (entry.label.trim_end())
        @if !entry.about.is_empty() { ": " (entry.about) }
    };
    let id = entry.id.as_deref();
    html! {
        @if details.0.is_empty() { p id=[id] { (head) } }
        @else { details id=[id] open[entry.is_open] { summary { (head) } (details) } }
    }
}

/// A table of a page that scrolls within its frame, also by keyboard.
pub(crate) fn scroll(name: &str, table: &Markup) -> Markup {
    html! { div.scroll role="region" tabindex="0" aria-label=(name) { table { (table) } } }
}

/// A section of a page that the reader unfolds.
pub(crate) fn folded(id: &str, title: &str, content: &Markup) -> Markup {
    html! {
        details.section id=(id) {
            summary { h2 { (title) } }
            (content)
        }
    }
}

/// The lines of a text, as a list of a page; nothing if there are none.
pub(crate) fn list(text: &str) -> Markup {
    page(Part::lines(text).as_slice(), 1)
}

/// A class, unless it is empty.
fn some(class: &str) -> Option<&str> {
    Some(class).filter(|class| !class.is_empty())
}

/// Text of a page in which backticks enclose a command.
pub(crate) fn commands(text: &str) -> Markup {
    let parts: Vec<&str> = text.split('`').collect();
    // A backtick without a partner is an ordinary character.
    let pairs = (parts.len() - 1) / 2 * 2;
    html! {
        @for (position, part) in parts.iter().enumerate() {
            @if position > pairs { "`" (part) }
            @else if position % 2 == 1 { code { (part) } }
            @else { (part) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grid::Align;

    #[test]
    fn a_report_has_a_form_for_each_place() {
        let mut grid = Grid::new([("", Align::Left), ("n", Align::Right)]);
        grid.add(["<a>".to_owned(), "1".to_owned()]);
        let entry = Entry {
            id: Some("e".to_owned()),
            label: "odd ".to_owned(),
            name: "host".to_owned(),
            about: "slow".to_owned(),
            details: vec![Part::List("", first((0..3).map(|at| at.to_string()), 1, "more"))],
            ..Entry::default()
        };
        let parts = [
            Part::Heading(1, "title".to_owned()),
            Part::List("", vec!["head".to_owned()]),
            Part::Heading(2, "table".to_owned()),
            Part::Table("name".to_owned(), grid),
            Part::List("quiet", vec!["run `x <b>`".to_owned()]),
            Part::Entry(entry),
            Part::Terminal(vec![Part::paragraph("terminal\u{1b}")]),
            Part::Document(vec![Part::paragraph("document")]),
            Part::Folded {
                id: "f",
                title: "more".to_owned(),
                parts: vec![Part::paragraph("unfolded")],
            },
            Part::Drawing(html! { svg {} }),
        ];
        let expected = "\
title

head

table
      n
 <a>  1
  run `x <b>`

odd   host: slow
      0
      and 2 more

terminal\u{fffd}
";
        assert_eq!(text(&parts, 80), expected);
        let expected = "\
# title

- head

## table

| | n |
|---|--:|
| &lt;a> | 1 |

- run \\`x &lt;b>\\`
- odd: host: slow

document

unfolded
";
        assert_eq!(markdown(&parts), expected);
        let expected = "<h2>title</h2><ul><li>head</li></ul><h3>table</h3>\
            <div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"name\"><table>\
            <thead><tr><td></td><th scope=\"col\" class=\"v\">n</th></tr></thead>\
            <tbody><tr><td>&lt;a&gt;</td><td class=\"v\">1</td></tr></tbody></table></div>\
            <ul class=\"quiet\"><li>run <code>x &lt;b&gt;</code></li></ul>\
            <details id=\"e\"><summary><b>host</b>: odd: slow</summary>\
            <ul><li>0</li><li>and 2 more</li></ul></details><p>document</p>\
            <details class=\"section\" id=\"f\"><summary><h2>more</h2></summary><p>unfolded</p></details><svg></svg>";
        assert_eq!(page(&parts, 2).into_string(), expected);
        let bare = Entry {
            id: Some("e".to_owned()),
            label: "normal ".to_owned(),
            name: "host".to_owned(),
            details: vec![Part::Terminal(Vec::new()), Part::List("", Vec::new())],
            ..Entry::default()
        };
        let expected = "<p id=\"e\"><b>host</b>: normal</p>";
        assert_eq!(page(&[Part::Entry(bare)], 2).into_string(), expected);
    }

    #[test]
    fn commands_stand_between_backticks() {
        let shown = |text| commands(text).into_string();
        assert_eq!(shown("run `a <b>` now"), "run <code>a &lt;b&gt;</code> now");
        assert_eq!(shown("a ` b"), "a ` b");
        assert_eq!(shown("`a` b ` c"), "<code>a</code> b ` c");
    }
}
