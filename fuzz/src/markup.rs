//! Reads pages and drawings as strictly as they are written: elements and attributes are those that
//! costof itself writes, all are closed in their order, and all else is text.

use costof_model::harmless;

const ELEMENTS: &str = "a b body br code dd details div dl dt figcaption figure g h1 h2 h3 h4 head header \
    html i input label li main meta nav ol p path pre rect script section small span style summary svg table tbody td \
    text th thead title tr ul";
/// Elements that have no end.
const VOID: [&str; 3] = ["meta", "br", "input"];
const ATTRIBUTES: &str = "aria-hidden aria-label charset checked class colspan content d data-p data-t height hidden \
    href http-equiv id lang name opacity open role scope stroke-dasharray stroke-width style tabindex \
    transform type viewBox width x xmlns y";
const SCRIPT: &str = include_str!("../../crates/report/src/page/script.js");

/// Asserts that a page or drawing is nothing else.
pub(crate) fn check(text: &str) {
    let mut rest = text.strip_prefix("<!DOCTYPE html>").unwrap_or(text);
    let mut open: Vec<&str> = Vec::new();
    while let Some(start) = rest.find('<') {
        check_text(&rest[..start]);
        let end = rest[start..].find('>').map(|end| start + end);
        let end = end.unwrap_or_else(|| panic!("a tag has no end: {}", around(rest, start)));
        let tag = &rest[start + 1..end];
        rest = &rest[end + 1..];
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name), "what ends is not what began: {}", around(rest, 0));
            continue;
        }
        let (tag, is_closed) = tag.strip_suffix('/').map_or((tag, false), |tag| (tag, true));
        let name = tag.split(' ').next().unwrap_or_default();
        assert!(is_word_of(ELEMENTS, name), "no element of ours: <{tag}>");
        check_attributes(&tag[name.len()..]);
        if is_closed || VOID.contains(&name) {
            continue;
        }
        open.push(name);
        if let "script" | "style" = name {
            let end = rest.find("</").expect("it ends");
            assert!(name == "style" || rest[..end] == *SCRIPT, "a foreign script");
            rest = &rest[end..];
        }
    }
    check_text(rest);
    assert_eq!(open, [""; 0], "elements are left open");
}

fn check_attributes(mut rest: &str) {
    while let Some(attribute) = rest.strip_prefix(' ') {
        let name = attribute.split(['=', ' ']).next().unwrap_or_default();
        assert!(is_word_of(ATTRIBUTES, name), "no attribute of ours: {attribute}");
        rest = &attribute[name.len()..];
        let Some(value) = rest.strip_prefix("=\"") else {
            continue;
        };
        let end = value.find('"').unwrap_or_else(|| panic!("{attribute} has no end"));
        let (value, after) = value.split_at(end);
        check_text(value);
        assert!(name != "href" || value.starts_with('#'), "a foreign link: {value}");
        rest = &after[1..];
    }
    assert_eq!(rest, "", "it stands among attributes");
}

/// Text has no harmful characters, and what would be markup is escaped.
fn check_text(text: &str) {
    let harm = text.chars().find(|c| harmless::is_harmful(*c) && !['\n', '\t'].contains(c));
    assert_eq!(harm, None, "{text:?}");
    for (at, _) in text.match_indices('&') {
        let end = text[at..].find(';').map(|end| &text[at + 1..at + end]);
        let is_known = end
            .is_some_and(|name| is_word_of("amp lt gt quot nbsp", name) || name.starts_with('#'));
        assert!(is_known, "no reference: {}", around(text, at));
    }
}

fn is_word_of(words: &str, word: &str) -> bool {
    words.split_whitespace().any(|known| known == word)
}

fn around(text: &str, at: usize) -> String {
    text[at..].chars().take(100).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_ours_is_refused() {
        check("<!DOCTYPE html><p class=\"a\">a &lt; b<br></p><svg><path d=\"M0\"/></svg>");
        for foreign in [
            "<img>",
            "<p onclick=\"x\"></p>",
            "<p>",
            "<p></b></p>",
            "<a href=\"http://x\"></a>",
            "<script>alert(1)</script>",
            "a & b",
            "a \u{1b}[2J",
            "<p class=\"a\"b\"></p>",
            "1 < 2",
        ] {
            assert!(std::panic::catch_unwind(|| check(foreign)).is_err(), "{foreign}");
        }
    }
}
