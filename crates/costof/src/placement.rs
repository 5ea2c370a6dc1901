//! Which processors do what: decided once per run, written down, reusable by `--cpu`.

use crate::error::{Error, wrong};
use costof_model::Text;
use costof_model::facts::Facts;
use costof_model::noise::Placement;
use costof_os::affinity;
use std::collections::BTreeMap;

/// The placement of a run: the measured processor as `--cpu` says it, else one
/// of the fastest kind that usually has little else to do; the controller on
/// the others, where there are any.
pub(crate) fn decide(asked: Option<&str>, facts: &Facts) -> Result<Placement, Error> {
    let allowed = affinity::allowed()
        .map_err(|error| wrong(format!("cannot read the allowed processors: {error}")))?;
    let measured = match asked {
        Some(list) => parse(list, &allowed)?,
        None => vec![usual(&allowed, facts)],
    };
    let others: Vec<usize> = allowed
        .into_iter()
        .filter(|cpu| !measured.contains(cpu))
        .collect();
    Ok(Placement(BTreeMap::from([
        (Text::Borrowed("only"), measured),
        (Text::Borrowed("controller"), others),
    ])))
}

/// The last of the processors with the greatest capacity: the first ones
/// usually serve the machine's interrupts.
fn usual(allowed: &[usize], facts: &Facts) -> usize {
    let capacity = |cpu: usize| {
        facts
            .cpu
            .core_kinds
            .iter()
            .find(|kind| kind.cpus.contains(cpu as u32))
            .and_then(|kind| kind.capacity)
            .unwrap_or(0)
    };
    allowed
        .iter()
        .copied()
        .max_by_key(|cpu| (capacity(*cpu), *cpu))
        .unwrap_or(0)
}

/// `2,4-6` as processors, all of them allowed.
fn parse(list: &str, allowed: &[usize]) -> Result<Vec<usize>, Error> {
    let mut cpus = Vec::new();
    for part in list.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (Ok(first), Ok(last)) = (first.trim().parse(), last.trim().parse::<usize>()) else {
            return Err(wrong(format!(
                "--cpu takes processors such as 1 or 2,4-6, not `{list}`"
            )));
        };
        // Bounded by what is allowed, however great the numbers are.
        if first > last || !allowed.contains(&first) || !allowed.contains(&last) {
            return Err(wrong(format!(
                "--cpu {part}: this process may use the processors {}",
                allowed
                    .iter()
                    .map(ToString::to_string)
                    .collect::<Vec<_>>()
                    .join(", ")
            )));
        }
        cpus.extend((first..=last).filter(|cpu| allowed.contains(cpu)));
    }
    cpus.dedup();
    Ok(cpus)
}

/// Moves the controller off the measured processors, where there are others.
pub(crate) fn leave_the_measured(placement: &Placement) {
    match placement.0.get("controller") {
        // Best effort: a controller that waits hardly disturbs.
        Some(cpus) if !cpus.is_empty() => drop(affinity::pin(cpus)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processor_lists_are_read_within_what_is_allowed() {
        let allowed = [0, 1, 2, 3, 8];
        assert_eq!(parse("1", &allowed).unwrap(), [1]);
        assert_eq!(parse("0,2-3,8", &allowed).unwrap(), [0, 2, 3, 8]);
        for bad in ["", "x", "3-1", "4", "0-18446744073709551615", "-1"] {
            let error = parse(bad, &allowed).unwrap_err().to_string();
            assert!(error.contains("--cpu"), "{bad}: {error}");
        }
    }
}
