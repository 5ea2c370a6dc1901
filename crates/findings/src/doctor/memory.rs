//! Checks how much memory there is, and of which kind.

use super::verdict::{Verdict, good, holds, missing, not_checked, unread, worse};
use costof_model::facts::{Facts, Probed, Trial};

/// The largest arena of the default plan, plus what the rest needs.
const MEMORY_WANTED_BYTES: u64 = (1 << 30) + (256 << 20);

/// Enough for rings, registered buffers and pinned pages of the default plan.
const LOCKED_WANTED_BYTES: u64 = 64 << 20;

pub(super) fn memory_left(facts: &Facts, _: &Probed) -> Option<Verdict> {
    let Some(available) = facts.available_bytes() else {
        return Some(unread(facts, "meminfo").effect("unchecked"));
    };
    let free = facts.memory.available_bytes;
    let verdict = if available >= MEMORY_WANTED_BYTES {
        good("enough")
    } else if free.is_none_or(|free| available < free) {
        missing("too_little").advice("cgroup")
    } else {
        missing("too_little")
    };
    Some(verdict.with("mib", available >> 20))
}

pub(super) fn huge_pages(facts: &Facts, probed: &Probed) -> Option<Verdict> {
    let mode = facts.huge_pages.transparent.as_deref();
    Some(match (&probed.huge_page, mode) {
        _ if facts.inherited.thp_allowed == Some(false) => {
            missing("forbidden").advice("start_elsewhere")
        }
        (_, Some("never")) => missing("off").advice("switch_on"),
        (Some(Trial::Fails { reason }), _) => missing("none").with("reason", &**reason),
        (Some(Trial::Works), _) => good("had"),
        (None, Some(mode)) => not_checked("allowed").with("mode", mode),
        (None, None) => unread(facts, "transparent_hugepage"),
    })
}

pub(super) fn locked_memory(facts: &Facts, _: &Probed) -> Option<Verdict> {
    let Some(limit) = facts.inherited.rlimits.locked_memory_bytes else {
        return Some(unread(facts, "limits"));
    };
    let is_enough = |bytes: Option<u64>| bytes.is_none_or(|bytes| bytes >= LOCKED_WANTED_BYTES);
    let is_lifted = !is_enough(limit.soft) && holds(facts, "ipc_lock");
    let verdict = match limit.hard {
        _ if is_lifted || is_enough(limit.soft) => good("limit"),
        None => worse("limit").advice("unlimit"),
        hard if is_enough(hard) => worse("limit").advice("up_to_hard"),
        Some(_) => worse("limit"),
    };
    let verdict = verdict.when("unlimited", limit.soft.is_none());
    let verdict = verdict.maybe("kib", limit.soft.map(|bytes| bytes >> 10));
    Some(verdict.when("lifted", is_lifted))
}
