//! The hosts that runs measured, and the facts of each.

use crate::compare::{boot, machine_facts};
use costof_model::{Facts, Run};
use std::collections::BTreeMap;

/// A host's name and its runs.
pub(crate) type Named<'r> = (String, Vec<&'r Run>);
/// The runs of each boot of a host; `None` is a boot that is unknown.
pub(crate) type Boots<'r> = BTreeMap<Option<&'r String>, Vec<&'r Run>>;

/// The hosts of these runs, by name. Boots of one name that were measured during the same time are different machines, and
/// each is a host: `localhost (boot 5e7300a1)`.
pub(crate) fn hosts<'r>(runs: impl IntoIterator<Item = &'r Run>) -> Vec<Named<'r>> {
    let mut names: BTreeMap<String, Vec<&Run>> = BTreeMap::new();
    for run in runs {
        names.entry(run.host_name()).or_default().push(run);
    }
    let hosts = names.into_iter().flat_map(|(name, runs)| {
        let boots = boots(&runs);
        if !overlap(boots.values()) {
            return vec![(name, boots.into_values().flatten().collect())];
        }
        let of_boot = |(boot, runs): (Option<&String>, Vec<_>)| {
            let boot = boot.map_or("unknown", |boot| boot.get(..8).unwrap_or(boot));
            (format!("{name} (boot {boot})"), runs)
        };
        boots.into_iter().map(of_boot).collect()
    });
    hosts.collect()
}

/// The boots during which a host was measured.
pub(crate) fn boots<'r>(runs: &[&'r Run]) -> Boots<'r> {
    let mut boots = Boots::new();
    for run in runs {
        boots.entry(boot(run)).or_default().push(run);
    }
    boots
}

/// Whether any two of these boots were measured during the same time.
fn overlap<'r>(boots: impl Iterator<Item = &'r Vec<&'r Run>>) -> bool {
    let span = |runs: &Vec<&'r Run>| {
        let began = runs.iter().map(|run| run.run.started.as_str()).min()?;
        let ended = runs.iter().filter_map(|run| run.end.as_ref());
        Some((began, ended.map(|end| end.finished.as_str()).max()?))
    };
    let mut spans: Vec<(&str, &str)> = boots.filter_map(span).collect();
    spans.sort_unstable();
    spans.windows(2).any(|pair| pair[1].0 < pair[0].1)
}

/// The known facts of a host, by its last run.
pub(crate) fn facts_of(runs: &[&Run]) -> BTreeMap<String, String> {
    let facts = runs.last().and_then(|run| run.facts());
    facts.map(known).unwrap_or_default()
}

/// The facts on which costs depend, as far as they are known.
pub(crate) fn known(facts: &Facts) -> BTreeMap<String, String> {
    let facts = machine_facts(facts).into_iter();
    facts.filter_map(|(what, value)| Some((what, value?))).collect()
}
