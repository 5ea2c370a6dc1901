//! Breaks prose into lines of a readable length.

use costof_model::harmless;

/// The width of explanatory text in columns, unless the terminal is narrower: longer lines are hard to read.
pub const COLUMNS: usize = 88;

/// Breaks `line` into lines of at most this many columns. Each is indented, and all after the first by two
/// more columns. Text between backticks is never broken, so that a user can copy a command as a whole; it may
/// be longer than a line.
pub fn wrapped(columns: usize, line: &str, indent: &str) -> String {
    let mut text = String::from(indent);
    let mut column = indent.chars().count();
    for (position, word) in words(line).into_iter().enumerate() {
        let width = word.chars().count();
        if position > 0 && column + 1 + width > columns {
            text.push_str(&format!("\n{indent}  "));
            column = indent.chars().count() + 2;
        } else if position > 0 {
            text.push(' ');
            column += 1;
        }
        text.push_str(word);
        column += width;
    }
    text.push('\n');
    text
}

/// The same behind a head, which takes the place of the first line's indent.
pub fn hanging(columns: usize, head: &str, line: &str) -> String {
    let indent = " ".repeat(head.chars().count());
    let text = wrapped(columns, line, &indent);
    format!("{head}{}", &text[indent.len()..])
}

/// The words of a text. A blank between two backticks does not separate words.
fn words(line: &str) -> Vec<&str> {
    let mut words = Vec::new();
    let mut rest = line.trim_start();
    while !rest.is_empty() {
        let end = end_of_word(rest);
        words.push(&rest[..end]);
        rest = rest[end..].trim_start();
    }
    words
}

/// The end of the first word. A backtick without a partner is an ordinary character.
fn end_of_word(text: &str) -> usize {
    let mut from = 0;
    loop {
        let end = text[from..].find(char::is_whitespace).map_or(text.len(), |end| from + end);
        let opened = text[from..end].match_indices('`').count() % 2 == 1;
        let last = text[..end].rfind('`').unwrap_or(end);
        match text[end..].find('`') {
            Some(closing) if opened && last >= from => from = end + closing + 1,
            _ => return end,
        }
    }
}

/// Text after a blank line; nothing if it is empty.
pub(crate) fn paragraph(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!("\n{text}") }
}

/// Text of a run file without characters that control a terminal.
pub(crate) fn printable(text: &str) -> String {
    harmless::text(text)
}

/// The same for text in lines; it keeps the ends of the lines.
pub(crate) fn printable_lines(text: &str) -> String {
    let lines = text.lines();
    lines.map(|line| printable(line) + "\n").collect()
}

/// The maximum length of a sentence from a run file when it is shown; a hostile file may have longer ones.
pub(crate) const SENTENCES: usize = 4000;

/// A name of at most this many letters.
pub(crate) fn shortened(name: &str, most: usize) -> String {
    match name.char_indices().nth(most) {
        Some(_) => name.chars().take(most - 1).chain(['…']).collect(),
        None => name.to_owned(),
    }
}

/// The text with a capital first letter.
pub fn capital(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().into_iter().flat_map(char::to_uppercase);
    first.chain(letters).collect()
}

/// A file name that is valid in any folder, of at most this many letters, whatever the names in a run are.
pub(crate) fn file_name(name: &str, most: usize) -> String {
    let safe = name.chars().take(most).map(|c| match c {
        'a'..='z' | 'A'..='Z' | '0'..='9' | '-' | '_' | '.' => c,
        _ => '-',
    });
    safe.collect::<String>().trim_start_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_wrapped_between_words() {
        let text = wrapped(COLUMNS, &"seven77 ".repeat(30), "  ");
        assert!(text.lines().all(|line| line.chars().count() <= COLUMNS));
        assert_eq!(text.split_whitespace().count(), 30);
        assert!(text.starts_with("  seven77 ") && text.contains("\n    seven77 "));
        assert_eq!(wrapped(COLUMNS, "", "  "), "  \n");
        assert_eq!(hanging(9, "µ: ", "one two"), "µ: one\n     two\n");
    }

    #[test]
    fn a_file_name_leads_nowhere_else() {
        assert_eq!(file_name("../a b/ü<c>.d", 100), "-a-b---c-.d");
        assert_eq!(file_name("copy.send-by-size", 9), "copy.send");
        assert_eq!((shortened("abcd", 3), capital("über")), ("ab…".to_owned(), "Über".to_owned()));
    }

    #[test]
    fn a_command_is_never_cut() {
        assert_eq!(
            words("run `a 1 | b x`, then `b c`d e"),
            ["run", "`a 1 | b x`,", "then", "`b c`d", "e"]
        );
        assert_eq!(words("a `b c"), ["a", "`b", "c"]);
        assert_eq!(words("µ `µ µ`"), ["µ", "`µ µ`"]);
        let command = format!("`{}`", "x ".repeat(60));
        assert!(wrapped(COLUMNS, &format!("do {command} now"), "").contains(&command));
    }
}
