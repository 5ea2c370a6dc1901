//! Suggests the name that the user probably meant.

use crate::ProbeInfo;

/// `, did you mean …?` if a known name is close to `text`; otherwise empty.
pub fn hint<'a>(text: &str, known: impl Iterator<Item = &'a str>) -> String {
    known
        .map(|name| (strsim::jaro_winkler(text, name), name))
        .filter(|(likeness, _)| *likeness > 0.75)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map_or_else(String::new, |(_, name)| format!(", did you mean `{name}`?"))
}

/// A sentence for a word that names none of these probes, with the present name if it is an old one, else with the nearest
/// name. `names` has all that would be right.
pub(crate) fn no_probe<'a>(
    word: &str,
    probes: &[&ProbeInfo],
    names: impl Iterator<Item = &'a str>,
) -> String {
    let mut aliases =
        probes.iter().flat_map(|info| info.aliases.iter().map(move |alias| (info, alias)));
    match aliases.find(|(_, alias)| alias.probe() == word) {
        Some((info, alias)) => format!(
            "`{word}` is now {}, such as `{}` (`costof explain {0}` has all old names)",
            info.id, alias.is
        ),
        None => format!(
            "there is no probe `{word}`{} (`costof list` shows them all)",
            hint(word, names)
        ),
    }
}
