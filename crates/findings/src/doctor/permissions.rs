//! Checks which facilities of the kernel this process may use.

use super::verdict::{Verdict, absent, case, holds, is_filtered, sysctl, tried, tried_despite};
use costof_model::facts::Seccomp;
use costof_model::{Facts, Probed};

pub(super) fn seccomp(facts: &Facts, _: &Probed) -> Option<Verdict> {
    Some(match facts.inherited.seccomp {
        Some(Seccomp::Disabled) => case("none"),
        Some(Seccomp::Filter | Seccomp::Strict) => {
            let count = match facts.inherited.seccomp_filter_count {
                Some(count) if count > 1 => format!("{count} filters"),
                _ => "a filter".to_owned(),
            };
            case("filtered").with("count", count)
        }
        Some(Seccomp::Unknown) | None => absent(facts, "status"),
    })
}

/// A setting that can forbid namespaces, the value that forbids them, one that allows them, and whether it
/// applies to root too.
const NAMESPACE_SETTINGS: [(&str, &str, &str, bool); 3] = [
    ("user.max_user_namespaces", "0", "10000", true),
    ("kernel.unprivileged_userns_clone", "0", "1", false),
    ("kernel.apparmor_restrict_unprivileged_userns", "1", "0", false),
];

pub(super) fn namespaces(facts: &Facts, probed: &Probed) -> Option<Verdict> {
    let is_root = facts.inherited.effective_user == Some(0);
    let mut settings = NAMESPACE_SETTINGS.into_iter();
    let forbids = settings.find(|(name, value, _, binds_root)| {
        (*binds_root || !is_root) && sysctl(facts, name) == Some(value)
    });
    let setting = forbids.map(|(name, value, wanted, _)| {
        (case("setting").with("wanted", format!("{name}={wanted}")), format!("{name} is {value}"))
    });
    let verdict = tried_despite(probed.network_namespaces.as_ref(), setting);
    Some(verdict.advice(match (is_filtered(facts), is_root) {
        (true, _) => "filter",
        (false, true) => "root",
        (false, false) => "user",
    }))
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
    let setting = match (built, disabled) {
        (Some("n"), _) => Some((case("not_built"), "this kernel was built without it".to_owned())),
        (_, Some("1")) if holds(facts, "sys_admin") => None,
        (_, Some(level @ ("1" | "2"))) => {
            Some((case("setting"), format!("kernel.io_uring_disabled is {level}")))
        }
        _ => None,
    };
    let verdict = tried_despite(probed.io_uring.as_ref(), setting);
    Some(verdict.advice(if is_filtered(facts) { "filter" } else { "kernel" }))
}
