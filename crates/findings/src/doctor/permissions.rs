//! Which facilities of the kernel this process may use.

use costof_model::facts::{Diagnosis, Facts, Probed, Seccomp, Trial};

use super::words::{good, holds, missing, not_checked, why, worse};

pub(super) fn seccomp(facts: &Facts, _: &Probed) -> Option<Diagnosis> {
    let topic = "seccomp";
    match facts.inherited.seccomp {
        Some(Seccomp::Disabled) => good(
            topic,
            "system calls are not filtered",
            "they cost what they cost",
        ),
        Some(Seccomp::Filter | Seccomp::Strict) => {
            let filters = match facts.inherited.seccomp_filter_count {
                Some(count) if count > 1 => format!("{count} filters"),
                _ => "a filter".to_owned(),
            };
            worse(
                topic,
                format!("each system call passes {filters}"),
                "every system call costs more, and some may be refused",
                "in a container: `--security-opt seccomp=unconfined`; in a systemd unit: remove \
                 SystemCallFilter=",
            )
        }
        Some(Seccomp::Unknown) | None => not_checked(
            topic,
            why(facts, "status", "the kernel does not tell its mode"),
            "a filter adds to every system call",
        ),
    }
}

pub(super) fn namespaces(facts: &Facts, probed: &Probed) -> Option<Diagnosis> {
    let topic = "namespaces";
    let effect = "links between two ends on this machine (veth, sink, emulated ones) cannot be made; \
                  loopback remains";
    let setting = |name: &str| facts.kernel.sysctls.get(name).map(String::as_str);
    let root = facts.inherited.effective_user == Some(0);
    let forbidden = if setting("user.max_user_namespaces") == Some("0") {
        Some((
            "user.max_user_namespaces is 0",
            "`sudo sysctl user.max_user_namespaces=10000`",
        ))
    } else if !root && setting("kernel.unprivileged_userns_clone") == Some("0") {
        Some((
            "kernel.unprivileged_userns_clone is 0",
            "`sudo sysctl kernel.unprivileged_userns_clone=1`",
        ))
    } else if !root && setting("kernel.apparmor_restrict_unprivileged_userns") == Some("1") {
        Some((
            "kernel.apparmor_restrict_unprivileged_userns is 1",
            "`sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0`",
        ))
    } else {
        None
    };
    match (&probed.network_namespaces, forbidden) {
        (Some(Trial::Works), _) => good(
            topic,
            "user and network namespaces can be made",
            "links on this machine can be made",
        ),
        (Some(Trial::Fails { reason }), Some((setting, advice))) => {
            missing(topic, format!("{reason} ({setting})"), effect, advice)
        }
        (Some(Trial::Fails { reason }), None) => {
            missing(topic, reason.clone(), effect, namespace_advice(facts))
        }
        (None, Some((what, advice))) => missing(topic, what.to_owned(), effect, advice),
        (None, None) => not_checked(topic, "not tried".to_owned(), effect),
    }
}

fn namespace_advice(facts: &Facts) -> &'static str {
    let root = facts.inherited.effective_user == Some(0);
    match facts.inherited.seccomp {
        Some(Seccomp::Filter) => {
            "let its seccomp filter allow unshare: in a container, `--cap-add SYS_ADMIN --cap-add \
             NET_ADMIN`; in a systemd unit, no SystemCallFilter= and RestrictNamespaces= that forbid it"
        }
        _ if !root => "run as root",
        _ => {
            "give it CAP_SYS_ADMIN (a container: `--cap-add SYS_ADMIN --cap-add NET_ADMIN`), on a kernel \
             with CONFIG_NET_NS=y"
        }
    }
}

pub(super) fn tun(_: &Facts, probed: &Probed) -> Option<Diagnosis> {
    let topic = "TUN devices";
    let effect = "emulated links (lan, wan, spelt out) need netem, which not every kernel has";
    match &probed.tun {
        Some(Trial::Works) => good(topic, "they can be had", "links can be emulated"),
        Some(Trial::Fails { reason }) => missing(
            topic,
            reason.clone(),
            effect,
            "`sudo modprobe tun`; in a container: `--device /dev/net/tun`",
        ),
        None => not_checked(topic, "not tried".to_owned(), effect),
    }
}

pub(super) fn icmp(_: &Facts, probed: &Probed) -> Option<Diagnosis> {
    let topic = "ICMP";
    let effect = "net.ping cannot be measured";
    match &probed.icmp {
        Some(Trial::Works) => good(
            topic,
            "echo requests can be sent",
            "net.ping can be measured",
        ),
        Some(Trial::Fails { reason }) => missing(
            topic,
            reason.clone(),
            effect,
            "`sudo sysctl net.ipv4.ping_group_range=\"0 2147483647\"`",
        ),
        None => not_checked(topic, "not tried".to_owned(), effect),
    }
}

pub(super) fn io_uring(facts: &Facts, probed: &Probed) -> Option<Diagnosis> {
    let topic = "io_uring";
    let effect = "points that use io_uring cannot be measured";
    let disabled = facts
        .kernel
        .sysctls
        .get("kernel.io_uring_disabled")
        .map(String::as_str);
    let built = facts.kernel.config.get("IO_URING").map(String::as_str);
    let switched_off = match (disabled, built) {
        (_, Some("n")) => Some((
            "this kernel was built without it",
            "start a kernel with CONFIG_IO_URING=y",
        )),
        (Some("2"), _) => Some((
            "kernel.io_uring_disabled is 2",
            "`sudo sysctl kernel.io_uring_disabled=0`",
        )),
        (Some("1"), _) if !holds(facts, "sys_admin") => Some((
            "kernel.io_uring_disabled is 1",
            "`sudo sysctl kernel.io_uring_disabled=0`",
        )),
        _ => None,
    };
    match (&probed.io_uring, switched_off) {
        (Some(Trial::Works), _) => good(
            topic,
            "a ring can be set up",
            "points that use it can be measured",
        ),
        (Some(Trial::Fails { reason }), Some((what, advice))) => {
            missing(topic, format!("{reason} ({what})"), effect, advice)
        }
        (Some(Trial::Fails { reason }), None) => {
            let advice = match facts.inherited.seccomp {
                Some(Seccomp::Filter) => {
                    "let its seccomp filter allow io_uring_setup: in a container, `--security-opt \
                     seccomp=unconfined`; in a systemd unit, no SystemCallFilter= that forbids it"
                }
                _ => "start a kernel from 5.1 on, with CONFIG_IO_URING=y",
            };
            missing(topic, reason.clone(), effect, advice)
        }
        (None, Some((what, advice))) => missing(topic, what.to_owned(), effect, advice),
        (None, None) => not_checked(topic, "not tried".to_owned(), effect),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use costof_model::facts::Seccomp;

    use super::super::DiagnosisState::{Missing, Worse};
    use super::super::sample::{Ill, check, fails, set};

    pub(crate) const ILL: &[Ill] = &[
        ("seccomp", Worse, "unconfined", |f, _| {
            f.inherited.seccomp = Some(Seccomp::Filter)
        }),
        ("namespaces", Missing, "run as root", |_, p| {
            p.network_namespaces = fails("EPERM")
        }),
        ("namespaces", Missing, "SYS_ADMIN", |f, p| {
            f.inherited.effective_user = Some(0);
            p.network_namespaces = fails("EPERM");
        }),
        ("namespaces", Missing, "RestrictNamespaces", |f, p| {
            f.inherited.seccomp = Some(Seccomp::Filter);
            p.network_namespaces = fails("EPERM");
        }),
        ("namespaces", Missing, "apparmor", |f, p| {
            p.network_namespaces = fails("EACCES");
            set(f, "kernel.apparmor_restrict_unprivileged_userns", "1");
        }),
        ("namespaces", Missing, "userns_clone=1", |f, p| {
            p.network_namespaces = None;
            set(f, "kernel.unprivileged_userns_clone", "0");
        }),
        ("TUN devices", Missing, "modprobe tun", |_, p| {
            p.tun = fails("/dev/net/tun: ENOENT")
        }),
        ("ICMP", Missing, "ping_group_range", |_, p| {
            p.icmp = fails("EACCES")
        }),
        ("io_uring", Missing, "io_uring_disabled=0", |f, p| {
            p.io_uring = None;
            set(f, "kernel.io_uring_disabled", "2");
        }),
        ("io_uring", Missing, "seccomp", |f, p| {
            f.inherited.seccomp = Some(Seccomp::Filter);
            p.io_uring = fails("EPERM");
        }),
        ("io_uring", Missing, "5.1", |_, p| {
            p.io_uring = fails("ENOSYS")
        }),
        ("io_uring", Missing, "CONFIG_IO_URING", |f, p| {
            p.io_uring = None;
            f.kernel
                .config
                .insert("IO_URING".to_owned(), "n".to_owned());
        }),
    ];

    #[test]
    fn each_ill_is_told_with_what_to_do() {
        check(ILL);
    }
}
