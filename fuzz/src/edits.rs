//! Changes to a text of lines with tokens (JSON, TOML): bytes choose them. Most of what comes out still
//! parses, so that its values get further than bytes would.

use arbitrary::{Result, Unstructured};

/// Numbers that break arithmetic.
const NUMBERS: [&str; 14] = [
    "0",
    "-1",
    "-0.0",
    "1",
    "2",
    "0.5",
    "1e308",
    "-1e308",
    "5e-324",
    "1e-300",
    "4294967296",
    "18446744073709551615",
    "18446744073709551616",
    "9007199254740993",
];
/// Values of other types, and texts that would be markup or rule a terminal.
const VALUES: [&str; 12] = [
    "null",
    "true",
    "[]",
    "{}",
    "[[]]",
    r#""""#,
    r#"" ""#,
    r#""0""#,
    r#""\u001b[2J\u009b\u202e""#,
    r#""</script><img src=x onerror=alert(1)>""#,
    r#""\" onload=\"alert(1) ' & ]]>""#,
    r#""../../a/b\\c\n,;=|""#,
];
/// At most this many changes are made.
const MAX: usize = 8;

/// The text with some of its tokens and lines changed.
pub(crate) fn edited(text: &str, bytes: &[u8]) -> String {
    let mut choices = Unstructured::new(bytes);
    let mut tokens: Vec<String> = tokens(text).map(str::to_owned).collect();
    for _ in 0..MAX {
        if choices.is_empty() || edit(&mut tokens, &mut choices).is_err() {
            break;
        }
    }
    tokens.concat()
}

fn edit(tokens: &mut Vec<String>, choices: &mut Unstructured<'_>) -> Result<()> {
    let at = choices.choose_index(tokens.len())?;
    // What stands between values is left as it is.
    let is_value =
        |token: &String| token.starts_with(|c: char| c.is_alphanumeric() || "-\"".contains(c));
    let at = at + tokens[at..].iter().position(is_value).unwrap_or(0);
    let is_end = |token: &String| token == "\n";
    match choices.int_in_range(0..=9_u8)? {
        0..=2 => (*choices.choose(&NUMBERS)?).clone_into(&mut tokens[at]),
        3 | 4 => (*choices.choose(&VALUES)?).clone_into(&mut tokens[at]),
        5 => tokens[at] = serde_json::json!(choices.arbitrary::<String>()?).to_string(),
        6 => tokens[at] = choices.arbitrary::<i64>()?.to_string(),
        7 => tokens[at] = choices.choose(tokens)?.clone(),
        what => {
            let start = tokens[..at].iter().rposition(is_end).map_or(0, |end| end + 1);
            let end = tokens[at..].iter().position(is_end);
            let end = end.map_or(tokens.len(), |end| at + end + 1);
            let line: Vec<String> = tokens[start..end].to_vec();
            if what == 8 {
                tokens.drain(start..end);
            } else {
                let to = choices.choose_index(tokens.len())?;
                let to = tokens[..to].iter().rposition(is_end).map_or(0, |end| end + 1);
                tokens.splice(to..to, line);
            }
        }
    }
    Ok(())
}

/// Quoted texts, words, numbers, and what stands between them, letter by letter.
fn tokens(mut text: &str) -> impl Iterator<Item = &str> {
    std::iter::from_fn(move || {
        let first = text.chars().next()?;
        let is_part = |c: char| c.is_alphanumeric() || "_-+.".contains(c);
        let length = match first {
            '"' => 1 + quoted(&text[1..]),
            first if is_part(first) => text.find(|c| !is_part(c)).unwrap_or(text.len()),
            first => first.len_utf8(),
        };
        let (token, rest) = text.split_at(length);
        text = rest;
        Some(token)
    })
}

/// Up to the quote that ends a text, with it.
fn quoted(text: &str) -> usize {
    let mut is_escaped = false;
    let end = text.find(|c| {
        let ends = c == '"' && !is_escaped || c == '\n';
        is_escaped = c == '\\' && !is_escaped;
        ends
    });
    end.map_or(text.len(), |end| end + usize::from(text[end..].starts_with('"')))
}
