//! Checks how much memory there is, and of which kind.

use super::verdict::{Verdict, good, holds, missing, not_checked, unread, worse};
use costof_model::facts::Trial;
use costof_model::{Facts, Probed};

/// The largest arena of the default plan, plus what the rest needs.
const MEMORY_WANTED_BYTES: u64 = (1 << 30) + (256 << 20);

/// Enough for rings, registered buffers and pinned pages of the default plan.
const LOCKED_WANTED_BYTES: u64 = 64 << 20;

pub(super) fn memory_left(facts: &Facts, _: &Probed) -> Option<Verdict> {
    let Some(available) = facts.available_bytes() else {
        let verdict = unread(facts, "meminfo", "the kernel does not report how much is left");
        return Some(verdict.effect("large sizes cannot be measured"));
    };
    let what = format!("{} MiB are available", available >> 20);
    if available >= MEMORY_WANTED_BYTES {
        return Some(good(what));
    }
    let advice = match facts.memory.available_bytes.is_none_or(|free| available < free) {
        true => "raise the memory limit of its cgroup (a container's `--memory`) to 2 GiB or more",
        false => "find what uses it with `ps aux --sort=-rss | head`",
    };
    Some(missing(
        what + ", and the default plan needs up to 1 GiB at a time",
        format!("{advice}, or choose smaller sizes (`--set size=…`)"),
    ))
}

pub(super) fn huge_pages(facts: &Facts, probed: &Probed) -> Option<Verdict> {
    let mode = facts.huge_pages.transparent.as_deref();
    Some(match (&probed.huge_page, mode) {
        _ if facts.inherited.thp_allowed == Some(false) => missing(
            "the program that started costof forbade it transparent huge pages",
            "start it from another shell or service, one that does not call prctl(PR_SET_THP_DISABLE)",
        ),
        (_, Some("never")) => missing(
            "transparent huge pages are switched off",
            "`echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled`",
        ),
        (Some(Trial::Fails { reason }), _) => missing(
            format!("the kernel gave none: {reason}"),
            "compact the memory, then try again: `echo 1 | sudo tee /proc/sys/vm/compact_memory`",
        ),
        (Some(Trial::Works), _) => good("the kernel gave one when asked"),
        (None, Some(mode)) => not_checked(format!("allowed ({mode}); costof did not try")),
        (None, None) => {
            let absent = "the kernel does not have huge pages, or does not report them";
            unread(facts, "transparent_hugepage", absent)
        }
    })
}

pub(super) fn locked_memory(facts: &Facts, _: &Probed) -> Option<Verdict> {
    let Some(limit) = facts.inherited.rlimits.locked_memory_bytes else {
        return Some(unread(facts, "limits", "the kernel does not report the limit"));
    };
    let is_enough = |bytes: Option<u64>| bytes.is_none_or(|bytes| bytes >= LOCKED_WANTED_BYTES);
    let what = match limit.soft {
        None => "no limit".to_owned(),
        Some(bytes) => format!("limited to {} KiB", bytes >> 10),
    };
    Some(match limit.hard {
        _ if is_enough(limit.soft) => good(what),
        _ if holds(facts, "ipc_lock") => good(what + ", but CAP_IPC_LOCK lifts the limit"),
        None => worse(what, "`ulimit -l unlimited`"),
        hard if is_enough(hard) => worse(what, "`ulimit -l $(ulimit -H -l)`"),
        Some(_) => worse(
            what,
            "raise it for your user in /etc/security/limits.conf (`* - memlock unlimited`) and log in again; a \
             container: `--ulimit memlock=-1`",
        ),
    })
}
