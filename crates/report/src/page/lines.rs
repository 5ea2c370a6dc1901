//! Lines of text as a list.

use maud::{Markup, html};

/// Each line an item; nothing for no lines.
pub(super) fn list(text: &str) -> Markup {
    let lines: Vec<&str> = text
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .collect();
    html! {
        @if !lines.is_empty() { ul { @for line in lines { li { (line) } } } }
    }
}

/// A name of at most so many letters.
pub(super) fn shortened(name: &str, most: usize) -> String {
    match name.chars().count() > most {
        true => name.chars().take(most - 1).chain(['…']).collect(),
        false => name.to_owned(),
    }
}
