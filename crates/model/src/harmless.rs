//! Text from elsewhere: a run file, a study, or a worker may be hostile, and its text goes to
//! terminals and to other files.
//!
//! Source: ECMA-48 (control characters); Unicode Standard Annex 9 (characters that reorder text).

use serde_json::Value;
use std::borrow::Cow;

/// What replaces a harmful character.
const REPLACEMENT: char = '\u{fffd}';

/// U+FEFF in UTF-8, which some editors write first (RFC 8259 section 8.1: a reader may ignore it).
pub const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Whether a character could move a terminal's cursor, or show text in another order than it has: a
/// control character (C0, C1, DEL), or a bidirectional one.
pub fn is_harmful(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// The text, with each harmful character replaced.
pub fn text(text: &str) -> String {
    let shown = |c| if is_harmful(c) { REPLACEMENT } else { c };
    text.chars().map(shown).collect()
}

/// The beginning of a text, with each harmful character replaced.
pub fn beginning(text: &str, chars_max: usize) -> String {
    match text.char_indices().nth(chars_max) {
        Some((end, _)) => self::text(&text[..end]) + "…",
        None => self::text(text),
    }
}

/// Text in lines, with each harmful character replaced except the ends of lines and tabs.
pub fn lines(lines: &str) -> String {
    let shown = |c| match c {
        '\n' | '\t' => c,
        c if is_harmful(c) => REPLACEMENT,
        c => c,
    };
    lines.chars().map(shown).collect()
}

/// Changes each text and each key in the value.
pub fn change_texts(value: &mut Value, change: impl Fn(&str) -> String + Copy) {
    match value {
        Value::String(text) => *text = change(text),
        Value::Array(values) => {
            for value in values {
                change_texts(value, change);
            }
        }
        Value::Object(fields) => {
            for (name, mut value) in std::mem::take(fields) {
                change_texts(&mut value, change);
                fields.insert(change(&name), value);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// A number in the value that no measurement gives, if there is one: nothing that is counted or timed is as
/// large.
pub fn absurd_number(value: &Value) -> Option<f64> {
    const BEYOND: f64 = 1e21;
    match value {
        Value::Number(number) => number.as_f64().filter(|number| number.abs() > BEYOND),
        Value::Array(values) => values.iter().find_map(absurd_number),
        Value::Object(fields) => fields.values().find_map(absurd_number),
        Value::Null | Value::Bool(_) | Value::String(_) => None,
    }
}

/// A line of JSON whose texts have no harmful characters, nor bytes that are not UTF-8. What is not JSON has
/// them replaced. A byte order mark before it is left out, and a CR before a line feed.
pub fn json(line: &[u8]) -> Cow<'_, [u8]> {
    let line = line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line);
    let mut read = String::from_utf8_lossy(line);
    if read.contains("\r\n") {
        read = Cow::Owned(read.replace("\r\n", "\n"));
    }
    // In JSON, control characters are escaped; most lines have no escapes at all.
    let has_harm = read.chars().any(|c| c == '\\' || (c != '\n' && is_harmful(c)));
    if has_harm {
        // Without control characters it may become JSON, whose escapes are then read.
        let shown = lines(&read);
        return Cow::Owned(match serde_json::from_str::<Value>(&shown) {
            Ok(mut value) => {
                change_texts(&mut value, text);
                value.to_string().into_bytes()
            }
            // Who reads only some of it may take it for JSON, and must find no escapes.
            Err(_) => shown.replace('\\', "\u{fffd}").into_bytes(),
        });
    }
    match read {
        Cow::Borrowed(read) => Cow::Borrowed(read.as_bytes()),
        Cow::Owned(read) => Cow::Owned(read.into_bytes()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_rules_a_terminal_is_replaced() {
        let harmless = "0.1 µs “quoted” \\ 日本 ✗";
        assert_eq!(text(harmless), harmless);
        for harm in ['\u{1b}', '\u{7}', '\r', '\n', '\u{7f}', '\u{9b}', '\u{202e}', '\u{2066}'] {
            assert_eq!(text(&format!("a{harm}b")), "a\u{fffd}b", "{harm:?}");
        }
        assert_eq!(lines("a\n\u{1b}b\n"), "a\n\u{fffd}b\n");
        assert_eq!(["µ\r", "\rµs"].map(|text| beginning(text, 2)), ["µ\u{fffd}", "\u{fffd}µ…"]);
    }

    #[test]
    fn texts_and_keys_of_json_are_harmless_however_they_are_written() {
        for line in
            [r#"{"a\u001b":["b\u001b",1.5,null]}"#, "{\"a\u{9b}\":[\"b\u{202e}\",1.5,null]}"]
        {
            let shown = json(line.as_bytes());
            assert_eq!(shown, "{\"a\u{fffd}\":[\"b\u{fffd}\",1.5,null]}".as_bytes());
        }
        // Where a byte is not UTF-8, or no text of JSON, too.
        for line in [b"{\"a\":\"\xff\\u001b\\n\"}", b"{\"a\":\"\x0f\\u001b\\n\"}"] {
            let shown = json(line);
            assert_eq!(shown, "{\"a\":\"\u{fffd}\u{fffd}\u{fffd}\"}".as_bytes());
        }
        assert_eq!(*json(b"{\"a\":\"\xff\"}"), *"{\"a\":\"\u{fffd}\"}".as_bytes());
        let shown = json(br#"{"a":"\u001b","no number":1e400}"#);
        assert_eq!(shown, "{\"a\":\"\u{fffd}u001b\",\"no number\":1e400}".as_bytes());
        let plain = "{\"a\":0.30000000000000004,\"b\":\"µ\"}\n".as_bytes();
        assert!(matches!(json(plain), Cow::Borrowed(_)));
        assert_eq!(json(b"\x1b[2J\xff\n"), "\u{fffd}[2J\u{fffd}\n".as_bytes());
    }
}
