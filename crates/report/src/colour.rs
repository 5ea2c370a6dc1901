//! The colours of text on a terminal.

use anstyle::{AnsiColor, Style};
use costof_model::Grade;

pub(crate) const BAD: Style = AnsiColor::Red.on_default();
pub(crate) const BOLD: Style = Style::new().bold();
pub(crate) const DIM: Style = Style::new().dimmed();

pub(crate) const fn grade(grade: Grade) -> Style {
    match grade {
        Grade::A | Grade::B => AnsiColor::Green.on_default(),
        Grade::C => AnsiColor::Yellow.on_default(),
        Grade::D => BAD,
    }
}

/// Each line of a text in a colour.
pub(crate) fn painted(text: &str, style: Style) -> String {
    format!("{style}{text}{style:#}")
}
