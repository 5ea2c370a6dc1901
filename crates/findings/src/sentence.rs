//! Renders findings as sentences. Each finder's `SENTENCES` has a TOML table of templates for each of its
//! kinds.
//!
//! `sentence` is the template of the finding, `advice` that of what to do about it. `{name}` stands for a
//! figure. `[…]` is left out if a figure in it is absent. If a figure has parts, the templates of the parts
//! are joined by commas, or by the text after a bar: `{parts|; }`. A part can also use the figures of the
//! whole. `{link}` is marked if the link is emulated. `{low} to {high}` is one of the two where they read the
//! same.

use crate::Kind;
use crate::figures::{Figures, Part, Value};
use costof_model::emulated::mark;
use costof_model::unit::span;
use std::collections::HashMap;
use std::sync::LazyLock;

/// What follows `{low}` in a range.
const TO_HIGH: &str = " to {high}";

pub(crate) type Templates = HashMap<String, String>;

static SENTENCES: LazyLock<HashMap<String, Templates>> = LazyLock::new(|| {
    toml::from_str(&crate::SENTENCES.concat()).expect("a test reads the templates")
});

/// Renders a template of a kind with these figures; none if the kind has no such template.
pub(crate) fn render(kind: Kind, template: &str, figures: &Figures) -> Option<String> {
    let templates = SENTENCES.get(kind.name())?;
    let text = templates.get(template)?;
    let rendered = fill(templates, text, &[figures]);
    debug_assert!(rendered.is_ok(), "{}: no figure {rendered:?}", kind.name());
    Some(rendered.unwrap_or_else(|absent| format!("{}: {absent} is unknown", kind.name())))
}

/// Fills in the figures of a text. Each comes from the first of `scopes` that has it.
///
/// # Errors
/// The name of the first figure outside of all brackets that is absent.
pub(crate) fn fill(
    templates: &Templates,
    text: &str,
    scopes: &[&Figures],
) -> Result<String, String> {
    let mut filled = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(['{', '[']) {
        filled += &rest[..at];
        let (inside, end) = (
            &rest[at + 1..],
            if rest[at..].starts_with('{') {
                '}'
            } else {
                ']'
            },
        );
        let (inside, after) = inside.split_once(end).unwrap_or((inside, ""));
        match end {
            '}' if inside == "low" && after.starts_with(TO_HIGH) => {
                let ends = [
                    value(templates, "low", scopes)?,
                    value(templates, "high", scopes)?,
                ];
                filled += &span(&ends[0], " to ", &ends[1]);
                rest = &after[TO_HIGH.len()..];
                continue;
            }
            '}' => filled += &value(templates, inside, scopes)?,
            _ => filled += &fill(templates, inside, scopes).unwrap_or_default(),
        }
        rest = after;
    }
    Ok(filled + rest)
}

fn value(templates: &Templates, name: &str, scopes: &[&Figures]) -> Result<String, String> {
    let (name, separator) = name.split_once('|').unwrap_or((name, ", "));
    let mut known = scopes.iter().filter_map(|figures| figures.get(name));
    match known.next().ok_or(name)? {
        Value::Parts(parts) => {
            let part = |(template, own): &Part| {
                let text = templates.get(*template).ok_or(*template)?;
                let scopes: Vec<&Figures> =
                    [own].into_iter().chain(scopes.iter().copied()).collect();
                fill(templates, text, &scopes)
            };
            let parts: Result<Vec<String>, String> = parts.iter().map(part).collect();
            Ok(parts?.join(separator))
        }
        link if name == "link" => Ok(format!("{link}{}", mark(&link.to_string()))),
        value => Ok(value.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::{figures, ns};
    use std::collections::BTreeSet;

    #[test]
    fn every_kind_has_a_sentence_and_every_sentence_a_kind() {
        let kinds: BTreeSet<&str> = Kind::ALL.iter().map(|kind| kind.name()).collect();
        let tables: BTreeSet<&str> = SENTENCES.keys().map(String::as_str).collect();
        assert_eq!(kinds, tables);
        assert!(
            SENTENCES
                .values()
                .all(|table| table.contains_key("sentence"))
        );
    }

    #[test]
    fn figures_brackets_and_parts_are_filled_in() {
        let templates: Templates = [("one", "{name} at {time}[ of {whole}]")]
            .map(|(name, text)| (name.to_owned(), text.to_owned()))
            .into();
        let parts = ["a", "b"].map(|name| ("one", figures().with("name", name)));
        let all = figures()
            .with("time", ns(1500.0))
            .parts("parts", parts.to_vec())
            .when("holds", true);
        let filled = |text| fill(&templates, text, &[&all]);
        assert_eq!(
            filled("{parts|; }[{holds}, sure][, {absent}]."),
            Ok("a at 1.50 µs; b at 1.50 µs, sure.".to_owned())
        );
        assert_eq!(filled("{absent}"), Err("absent".to_owned()));
        for (low, high, shown) in [
            (1.5e9, 1.6e9, "1.50 s to 1.60 s"),
            (1.5e9, 1.5e9 + 1.0, "1.50 s"),
        ] {
            let range = figures().with("low", ns(low)).with("high", ns(high));
            let filled = fill(&templates, "({low} to {high})", &[&range]);
            assert_eq!(filled, Ok(format!("({shown})")));
        }
    }
}
