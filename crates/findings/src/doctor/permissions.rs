//! Checks which facilities of the kernel this process may use.

use super::verdict::{
    Verdict, good, holds, is_filtered, sysctl, tried, tried_despite, unread, worse,
};
use costof_model::facts::Seccomp;
use costof_model::{Facts, Probed};

pub(super) fn seccomp(facts: &Facts, _: &Probed) -> Option<Verdict> {
    Some(match facts.inherited.seccomp {
        Some(Seccomp::Disabled) => good("system calls are not filtered"),
        Some(Seccomp::Filter | Seccomp::Strict) => {
            let count = match facts.inherited.seccomp_filter_count {
                Some(count) if count > 1 => format!("{count} filters"),
                _ => "a filter".to_owned(),
            };
            let advice = "in a container: `--security-opt seccomp=unconfined`; in a systemd unit: remove \
                          SystemCallFilter=";
            worse(format!("each system call passes {count}"), advice)
        }
        Some(Seccomp::Unknown) | None => {
            let verdict = unread(facts, "status", "the kernel does not report its mode");
            verdict.effect("a filter makes every system call slower")
        }
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
        (format!("{name} is {value}"), format!("`sudo sysctl {name}={wanted}`"))
    });
    let advice = if is_filtered(facts) {
        "let its seccomp filter allow unshare: in a container, `--cap-add SYS_ADMIN --cap-add NET_ADMIN`; in a \
         systemd unit, no SystemCallFilter= and RestrictNamespaces= that forbid it"
    } else if is_root {
        "give it CAP_SYS_ADMIN (a container: `--cap-add SYS_ADMIN --cap-add NET_ADMIN`), on a kernel with \
         CONFIG_NET_NS=y"
    } else {
        "run as root"
    };
    let works = "user and network namespaces can be made";
    Some(tried_despite(probed.network_namespaces.as_ref(), works, setting, advice))
}

pub(super) fn tun(_: &Facts, probed: &Probed) -> Option<Verdict> {
    let advice = "`sudo modprobe tun`; in a container: `--device /dev/net/tun`";
    Some(tried(probed.tun.as_ref(), "they can be opened", advice))
}

pub(super) fn icmp(_: &Facts, probed: &Probed) -> Option<Verdict> {
    let advice = "`sudo sysctl net.ipv4.ping_group_range=\"0 2147483647\"`";
    Some(tried(probed.icmp.as_ref(), "echo requests can be sent", advice))
}

pub(super) fn io_uring(facts: &Facts, probed: &Probed) -> Option<Verdict> {
    let disabled = sysctl(facts, "kernel.io_uring_disabled");
    let built = facts.kernel.config.get("IO_URING").map(String::as_str);
    let setting = match (built, disabled) {
        (Some("n"), _) => Some((
            "this kernel was built without it".to_owned(),
            "start a kernel with CONFIG_IO_URING=y".to_owned(),
        )),
        (_, Some("1")) if holds(facts, "sys_admin") => None,
        (_, Some(level @ ("1" | "2"))) => Some((
            format!("kernel.io_uring_disabled is {level}"),
            "`sudo sysctl kernel.io_uring_disabled=0`".to_owned(),
        )),
        _ => None,
    };
    let advice = match is_filtered(facts) {
        true => {
            "let its seccomp filter allow io_uring_setup: in a container, `--security-opt seccomp=unconfined`; in a \
             systemd unit, no SystemCallFilter= that forbids it"
        }
        false => "use Linux 5.1 or later, with CONFIG_IO_URING=y",
    };
    let works = "a ring can be set up";
    Some(tried_despite(probed.io_uring.as_ref(), works, setting, advice))
}
