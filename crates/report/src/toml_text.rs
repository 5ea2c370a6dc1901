//! TOML files that people write: a mistake is reported with its line and what stands there.

use costof_model::harmless;
use serde::de::DeserializeOwned;

/// Reads a file's text, which comes from `place`.
///
/// # Errors
/// A sentence with the line, its contents, and what is wrong; also if a text would rule a terminal.
pub fn read<T: DeserializeOwned>(place: &str, text: &str) -> Result<T, String> {
    let read: Result<T, toml::de::Error> = toml::from_str(text);
    let read = read.map_err(|error| {
        let message = error.message().trim().replace('\n', " ");
        let Some(span) = error.span() else {
            return format!("{place}: {message}");
        };
        // For an unknown key, the parser reports the place of the table.
        let key = message.strip_prefix("unknown field `").and_then(|rest| rest.split('`').next());
        let from = text.get(span.start..).unwrap_or_default();
        let further = key.and_then(|key| from.find(key)).unwrap_or(0);
        let line = line_at(text, span.start + further);
        let stands: String =
            text.lines().nth(line - 1).unwrap_or_default().trim().chars().take(80).collect();
        format!("{place}, line {line}, at `{stands}`: {message}")
    })?;
    // Its texts go to terminals and to pages, and escapes hide characters from the reader of the file.
    if let Some(text) = harmful(text) {
        return Err(format!(
            "{place}: a text has a control character, or one that reorders text: `{text}`"
        ));
    }
    Ok(read)
}

/// The line of a text that has this byte; the first is 1.
pub fn line_at(text: &str, byte: usize) -> usize {
    let before = text.as_bytes().get(..byte).unwrap_or(text.as_bytes());
    1 + before.iter().filter(|byte| **byte == b'\n').count()
}

/// The first harmful text of a file, made harmless.
fn harmful(toml: &str) -> Option<String> {
    fn find(value: &toml::Value) -> Option<String> {
        match value {
            toml::Value::String(text) => Some(harmless::lines(text)).filter(|clean| clean != text),
            toml::Value::Array(values) => values.iter().find_map(find),
            toml::Value::Table(fields) => fields.values().find_map(find),
            _ => None,
        }
    }
    find(&toml::Value::Table(toml.parse().ok()?))
}
