//! Checks which facilities of the kernel this process may use.

use super::verdict::{
    Verdict, good, holds, is_filtered, sysctl, tried, tried_despite, unread, worse,
};
use costof_model::facts::{Facts, Probed, Seccomp};

pub(super) fn seccomp(facts: &Facts, _: &Probed) -> Option<Verdict> {
    Some(match facts.inherited.seccomp {
        Some(Seccomp::Disabled) => good("none"),
        Some(Seccomp::Filter | Seccomp::Strict) => {
            let count = facts.inherited.seccomp_filter_count.map(u64::from);
            let several = count.filter(|count| *count > 1);
            worse("filtered")
                .maybe("count", several)
                .when("one", several.is_none())
        }
        Some(Seccomp::Unknown) | None => unread(facts, "status").effect("unchecked"),
    })
}

/// A setting that can forbid namespaces, the value that forbids them, one that allows them, and whether it
/// applies to root too.
const NAMESPACE_SETTINGS: [(&str, &str, &str, bool); 3] = [
    ("user.max_user_namespaces", "0", "10000", true),
    ("kernel.unprivileged_userns_clone", "0", "1", false),
    (
        "kernel.apparmor_restrict_unprivileged_userns",
        "1",
        "0",
        false,
    ),
];

pub(super) fn namespaces(facts: &Facts, probed: &Probed) -> Option<Verdict> {
    let is_root = facts.inherited.effective_user == Some(0);
    let mut settings = NAMESPACE_SETTINGS.into_iter();
    let forbids = settings.find(|(name, value, _, binds_root)| {
        (*binds_root || !is_root) && sysctl(facts, name) == Some(value)
    });
    let cause = forbids.map(|(name, value, ..)| (format!("{name} is {value}"), "change"));
    let advice = if is_filtered(facts) {
        "allow"
    } else if is_root {
        "advice"
    } else {
        "root"
    };
    let verdict = tried_despite(probed.network_namespaces.as_ref(), cause, advice);
    Some(match forbids {
        Some((name, _, wanted, _)) => verdict.with("setting", name).with("wanted", wanted),
        None => verdict,
    })
}

pub(super) fn tun(_: &Facts, probed: &Probed) -> Option<Verdict> {
    Some(tried(probed.tun.as_ref()))
}

pub(super) fn icmp(_: &Facts, probed: &Probed) -> Option<Verdict> {
    Some(tried(probed.icmp.as_ref()))
}

pub(super) fn io_uring(facts: &Facts, probed: &Probed) -> Option<Verdict> {
    let disabled = sysctl(facts, "kernel.io_uring_disabled");
    let built = facts.kernel.config.get("IO_URING").map(String::as_str);
    let off = match (built, disabled) {
        (Some("n"), _) => Some(("this kernel was built without it".to_owned(), "build")),
        (_, Some("1")) if holds(facts, "sys_admin") => None,
        (_, Some(level @ ("1" | "2"))) => {
            Some((format!("kernel.io_uring_disabled is {level}"), "enable"))
        }
        _ => None,
    };
    let advice = if is_filtered(facts) {
        "allow"
    } else {
        "advice"
    };
    Some(tried_despite(probed.io_uring.as_ref(), off, advice))
}
