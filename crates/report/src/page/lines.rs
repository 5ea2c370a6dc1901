//! Lines of text as a list.

use maud::{Markup, html};

/// Each line as an item; nothing if there are no lines.
pub(super) fn list(text: &str) -> Markup {
    let lines: Vec<&str> = text
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .collect();
    html! {
        @if !lines.is_empty() { ul { @for line in lines { li { (commands(line)) } } } }
    }
}

/// Text in which backticks enclose a command.
pub(super) fn commands(text: &str) -> Markup {
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

    #[test]
    fn commands_stand_between_backticks() {
        let shown = |text| commands(text).into_string();
        assert_eq!(shown("run `a <b>` now"), "run <code>a &lt;b&gt;</code> now");
        assert_eq!(shown("a ` b"), "a ` b");
        assert_eq!(shown("`a` b ` c"), "<code>a</code> b ` c");
    }
}
