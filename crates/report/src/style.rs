//! How a run is printed: as wide as the terminal, coloured or not, with or without its notes.

use crate::text::{printable, wrapped_at};

/// How a run is printed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Style {
    /// The columns of the terminal; none where the text goes elsewhere: then nothing is left out, and a
    /// sentence is a line.
    pub width: Option<usize>,
    /// Whether colours are understood there.
    pub colour: bool,
    /// Whether each row shows its point besides its label.
    pub ids: bool,
    /// Whether notes are printed in full, instead of their number.
    pub notes: bool,
}

impl Style {
    pub(crate) fn columns(self) -> usize {
        self.width.unwrap_or(usize::MAX)
    }

    /// Lines of text, none longer than the terminal.
    pub(crate) fn prose(self, text: &str) -> String {
        let wrapped = |line: &str| {
            let indent = line.len() - line.trim_start_matches(' ').len();
            let (indent, line) = line.split_at(indent);
            wrapped_at(self.columns(), &printable(line), indent)
        };
        text.lines().map(wrapped).collect()
    }

    /// A sentence, of which a terminal shows as many lines as are read at a glance.
    pub(crate) fn cut(self, sentence: &str) -> String {
        const MOST: usize = 2;
        let width = self.width.map(|width| width.saturating_sub(" …".len()));
        let wrapped = Style { width, ..self }.prose(sentence);
        let lines: Vec<&str> = wrapped.lines().collect();
        match lines.get(..MOST) {
            Some(first) if lines.len() > MOST => format!("{} …\n", first.join("\n")),
            _ => wrapped,
        }
    }
}
