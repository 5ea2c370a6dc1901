//! How much memory there is, and of which kind.

use costof_model::facts::{Diagnosis, Facts, Probed, Trial};

use super::words::{good, holds, missing, not_checked, why, worse};

/// The largest arena of the default plan, with what the rest needs beside it.
const MEMORY_WANTED_BYTES: u64 = (1 << 30) + (256 << 20);

/// Enough for rings, registered buffers and pinned pages of the default plan.
const LOCKED_WANTED_BYTES: u64 = 64 << 20;

pub(super) fn memory_left(facts: &Facts, _: &Probed) -> Option<Diagnosis> {
    let topic = "memory left";
    let Some(available) = facts.available_bytes() else {
        let what = why(
            facts,
            "meminfo",
            "the kernel does not tell how much is left",
        );
        return not_checked(topic, what, "large sizes cannot be measured");
    };
    let what = format!("{} MiB can be had", available >> 20);
    if available >= MEMORY_WANTED_BYTES {
        return good(topic, what, "all sizes of the default plan fit");
    }
    let bound_by_cgroup = facts
        .memory
        .available_bytes
        .is_none_or(|kernel| available < kernel);
    let advice = if bound_by_cgroup {
        "raise the memory limit of its cgroup (a container's `--memory`) to 2 GiB or more, or ask for \
         smaller sizes (`--set size=…`)"
    } else {
        "see who uses it with `ps aux --sort=-rss | head`, or ask for smaller sizes (`--set size=…`)"
    };
    missing(
        topic,
        format!("{what}, and the largest arena of the default plan takes 1 GiB"),
        "the largest sizes cannot be measured; near the end of memory the rest is slow too",
        advice,
    )
}

pub(super) fn huge_pages(facts: &Facts, probed: &Probed) -> Option<Diagnosis> {
    let topic = "huge pages";
    let effect = "points with 2 MiB pages cannot be measured";
    if facts.inherited.thp_allowed == Some(false) {
        return missing(
            topic,
            "whoever started this process forbade it transparent huge pages".to_owned(),
            effect,
            "start it from another shell or service, one that does not call prctl(PR_SET_THP_DISABLE)",
        );
    }
    let mode = facts.huge_pages.transparent.as_deref();
    if mode == Some("never") {
        return missing(
            topic,
            "transparent huge pages are switched off".to_owned(),
            effect,
            "`echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled`",
        );
    }
    match (&probed.huge_page, mode) {
        (Some(Trial::Fails { reason }), _) => missing(
            topic,
            format!("none was to be had: {reason}"),
            effect,
            "put memory together, then try again: `echo 1 | sudo tee /proc/sys/vm/compact_memory`",
        ),
        (Some(Trial::Works), _) => good(
            topic,
            "one was had when asked for",
            "both page sizes can be measured",
        ),
        (None, Some(mode)) => not_checked(
            topic,
            format!("allowed ({mode}), and none was asked for"),
            effect,
        ),
        (None, None) => {
            let what = why(
                facts,
                "transparent_hugepage",
                "the kernel does not have them, or does not tell",
            );
            not_checked(topic, what, effect)
        }
    }
}

pub(super) fn locked_memory(facts: &Facts, _: &Probed) -> Option<Diagnosis> {
    let topic = "locked memory";
    let effect = "large rings, registered buffers and zero-copy sends can fail for want of it";
    let Some(limit) = facts.inherited.rlimits.locked_memory_bytes else {
        return not_checked(
            topic,
            why(facts, "limits", "the kernel does not tell the limit"),
            effect,
        );
    };
    let (what, enough) = match limit.soft {
        None => ("no limit".to_owned(), true),
        Some(bytes) => (
            format!("limited to {} KiB", bytes >> 10),
            bytes >= LOCKED_WANTED_BYTES,
        ),
    };
    if !enough && holds(facts, "ipc_lock") {
        return good(
            topic,
            format!("{what}, and CAP_IPC_LOCK lifts it"),
            "arenas can be locked",
        );
    }
    if enough {
        return good(topic, what, "arenas can be locked");
    }
    let advice = match limit.hard {
        None => "`ulimit -l unlimited`",
        Some(hard) if hard >= LOCKED_WANTED_BYTES => "`ulimit -l $(ulimit -H -l)`",
        Some(_) => {
            "raise it for your user in /etc/security/limits.conf (`* - memlock unlimited`) and log in \
             again; a container: `--ulimit memlock=-1`"
        }
    };
    worse(topic, what, effect, advice)
}

#[cfg(test)]
pub(super) mod tests {
    use costof_model::facts::Rlimit;

    use super::super::DiagnosisState::{Missing, Worse};
    use super::super::sample::{Ill, check, fails};

    pub(crate) const ILL: &[Ill] = &[
        ("memory left", Missing, "ps aux", |f, _| {
            f.memory.available_bytes = Some(100 << 20)
        }),
        ("memory left", Missing, "container", |f, _| {
            f.inherited.cgroup.memory_limit_bytes = Some(512 << 20);
        }),
        ("huge pages", Missing, "madvise", |f, _| {
            f.huge_pages.transparent = Some("never".to_owned());
        }),
        ("huge pages", Missing, "compact", |_, p| {
            p.huge_page = fails("0 kB AnonHugePages")
        }),
        ("huge pages", Missing, "prctl", |f, _| {
            f.inherited.thp_allowed = Some(false)
        }),
        ("locked memory", Worse, "limits.conf", |f, _| {
            let limit = Some(64 << 10);
            f.inherited.rlimits.locked_memory_bytes = Some(Rlimit {
                soft: limit,
                hard: limit,
            });
        }),
        ("locked memory", Worse, "ulimit -l unlimited", |f, _| {
            let soft = Some(64 << 10);
            f.inherited.rlimits.locked_memory_bytes = Some(Rlimit { soft, hard: None });
        }),
    ];

    #[test]
    fn each_ill_is_told_with_what_to_do() {
        check(ILL);
    }
}
