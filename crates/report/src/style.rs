//! How a run is printed: as wide as the terminal, coloured or not, with or without its notes.

use crate::text::{printable, wrapped};

/// How a run is printed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Style {
    /// The width of the terminal in columns; none if the text does not go to a terminal. Then nothing is left
    /// out, and each sentence is one line.
    pub width: Option<usize>,
    /// Whether the output understands colours.
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

    /// Text broken into lines that fit the terminal.
    pub fn prose(self, text: &str) -> String {
        let broken = |line: &str| {
            let indent = line.len() - line.trim_start_matches(' ').len();
            let (indent, line) = line.split_at(indent);
            wrapped(self.columns(), &printable(line), indent)
        };
        text.lines().map(broken).collect()
    }

    /// A sentence. On a terminal it has at most as many lines as a reader takes in at a glance.
    pub(crate) fn cut(self, sentence: &str) -> String {
        const MAX: usize = 2;
        let width = self.width.map(|width| width.saturating_sub(" …".len()));
        let wrapped = Style { width, ..self }.prose(sentence);
        let lines: Vec<&str> = wrapped.lines().collect();
        match lines.get(..MAX) {
            Some(first) if lines.len() > MAX => format!("{} …\n", first.join("\n")),
            _ => wrapped,
        }
    }
}
