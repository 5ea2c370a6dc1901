//! Every kind of finding that there is.

/// All of them, those of a subject together.
pub const KINDS: [&str; 44] = [
    // Memory.
    "memory_levels",
    "cache_smaller_than_claimed",
    "cache_larger_than_claimed",
    "cache_reference_too_dear",
    "small_pages",
    "tlb_reach",
    "sequential_mebibyte",
    "memory_modules_share",
    // Processors and the kernel.
    "core_shared",
    "vm_exit",
    "vm_page_faults",
    "vm_waking",
    "scaling",
    "fork_growth",
    "second_thread",
    // Files.
    "file_device",
    "file_cache_size",
    "remote_file_limit",
    "remote_read_parts",
    // Between two ends.
    "round_trip_wake_ups",
    "round_trip_resting",
    "round_trip_modes",
    "bandwidth_limit",
    "window_limit",
    "loss_starves",
    "round_trips_above_a_second",
    "reliable_round_trip",
    "reliable_ends",
    "rpc_ladder",
    "rpc_load",
    // Copies.
    "zero_copy",
    "zero_copy_price",
    "one_copy_crossover",
    "zero_copy_crossover",
    "crossover_disturbed",
    "cache_pollution",
    "thread_scaling",
    "mapped_pages",
    "unexpected",
    // Whatever was measured.
    "ways_cross",
    "dominant_part",
    "missing_term",
    "modes",
    "prediction_score",
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// What stands between `before` and `after`, wherever it does.
    fn between<'a>(
        text: &'a str,
        before: &'a str,
        after: &'a str,
    ) -> impl Iterator<Item = &'a str> {
        let rest = text.split(before).skip(1);
        rest.filter_map(move |rest| Some(rest.split_once(after)?.0))
    }

    #[test]
    fn they_are_those_that_the_sources_use() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src");
        let mut used = BTreeSet::new();
        for file in std::fs::read_dir(folder).unwrap() {
            let path = file.unwrap().path();
            if path.extension().is_none_or(|extension| extension != "rs") {
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap();
            let (code, _) = text.split_once("#[cfg(test)]").unwrap_or((&text, ""));
            // Other names that are shared are those of probes, which have dots.
            let named: Vec<(&str, &str)> = between(code, "pub(crate) const ", "\";")
                .filter_map(|constant| constant.split_once(": &str = \""))
                .filter(|(_, value)| !value.contains('.'))
                .collect();
            used.extend(named.iter().map(|(_, kind)| (*kind).to_owned()));
            let lines = code.lines().map(str::trim);
            let kinds =
                lines.filter_map(|line| line.strip_prefix("kind: ")?.strip_suffix(".into(),"));
            for kind in kinds {
                match kind.strip_prefix('"') {
                    Some(kind) => {
                        used.insert(kind.trim_end_matches('"').to_owned());
                    }
                    // One of those that have a name.
                    None => assert!(
                        kind == "(*kind)" || named.iter().any(|(name, _)| *name == kind),
                        "{}: {kind} is no name of a kind",
                        path.display()
                    ),
                }
            }
        }
        let known: BTreeSet<String> = KINDS.map(str::to_owned).into();
        assert_eq!(known, used);
        assert_eq!(known.len(), KINDS.len());
    }
}
