//! Checks how much memory there is, and of which kind.

use super::verdict::{Verdict, absent, case, holds, tried};
use costof_model::{Facts, Probed};

/// The largest arena of the default plan, plus what the rest needs.
const MEMORY_WANTED_BYTES: u64 = (1 << 30) + (256 << 20);

/// Enough for rings, registered buffers and pinned pages of the default plan.
const LOCKED_WANTED_BYTES: u64 = 64 << 20;

pub(super) fn memory_left(facts: &Facts, _: &Probed) -> Option<Verdict> {
    let Some(available) = facts.available_bytes() else {
        return Some(absent(facts, "meminfo"));
    };
    let is_enough = available >= MEMORY_WANTED_BYTES;
    let is_limited = facts.memory.available_bytes.is_none_or(|free| available < free);
    let verdict = case(if is_enough { "enough" } else { "little" }).with("mib", available >> 20);
    Some(verdict.advice(if is_limited { "limit" } else { "used" }))
}

pub(super) fn huge_pages(facts: &Facts, probed: &Probed) -> Option<Verdict> {
    let mode = facts.huge_pages.transparent.as_deref();
    Some(match (&probed.huge_page, mode) {
        _ if facts.inherited.thp_allowed == Some(false) => case("forbidden"),
        (_, Some("never")) => case("never"),
        (None, None) => absent(facts, "transparent_hugepage"),
        (trial, mode) => tried(trial.as_ref()).with("mode", mode.unwrap_or("")),
    })
}

pub(super) fn locked_memory(facts: &Facts, _: &Probed) -> Option<Verdict> {
    let Some(limit) = facts.inherited.rlimits.locked_memory_bytes else {
        return Some(absent(facts, "limits"));
    };
    let is_enough = |bytes: Option<u64>| bytes.is_none_or(|bytes| bytes >= LOCKED_WANTED_BYTES);
    let shown = match limit.soft {
        None => "no limit".to_owned(),
        Some(bytes) => format!("limited to {} KiB", bytes >> 10),
    };
    let verdict = match limit.hard {
        _ if is_enough(limit.soft) => case("enough"),
        _ if holds(facts, "ipc_lock") => case("lifted"),
        None => case("low").advice("no_hard_limit"),
        hard if is_enough(hard) => case("low").advice("hard_limit"),
        Some(_) => case("low").advice("low_hard_limit"),
    };
    Some(verdict.with("limit", shown))
}
