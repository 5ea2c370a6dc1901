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
                "every system call costs tens of nanoseconds more, and some (perf_event_open, \
                 io_uring_setup, unshare) may be refused",
                "in a container: --security-opt seccomp=unconfined; in a systemd unit: remove \
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
    let tried = [
        ("user", &probed.user_namespaces),
        ("network", &probed.network_namespaces),
    ];
    let failed = tried.iter().find_map(|(kind, trial)| match trial {
        Some(Trial::Fails { reason }) => Some(format!("no {kind} namespace: {reason}")),
        _ => None,
    });
    let setting = |name: &str| facts.kernel.sysctls.get(name).map(String::as_str);
    let root = facts.inherited.effective_user == Some(0);
    let forbidden = if setting("user.max_user_namespaces") == Some("0") {
        Some((
            "user.max_user_namespaces is 0",
            "sudo sysctl user.max_user_namespaces=10000",
        ))
    } else if !root && setting("kernel.unprivileged_userns_clone") == Some("0") {
        Some((
            "kernel.unprivileged_userns_clone is 0",
            "sudo sysctl kernel.unprivileged_userns_clone=1",
        ))
    } else if !root && setting("kernel.apparmor_restrict_unprivileged_userns") == Some("1") {
        Some((
            "kernel.apparmor_restrict_unprivileged_userns is 1",
            "sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0",
        ))
    } else {
        None
    };
    match (failed, forbidden) {
        (Some(failed), Some((_, advice))) => missing(topic, failed, effect, advice),
        (Some(failed), None) => missing(
            topic,
            failed,
            effect,
            "run as root; in a container: --cap-add SYS_ADMIN --cap-add NET_ADMIN, and a seccomp profile \
             that allows unshare",
        ),
        (None, _) if tried.iter().all(|(_, trial)| trial.is_some()) => good(
            topic,
            "user and network namespaces can be made",
            "links on this machine can be made",
        ),
        (None, Some((what, advice))) => missing(topic, what.to_owned(), effect, advice),
        (None, None) => not_checked(topic, "not tried".to_owned(), effect),
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
            "sudo sysctl kernel.io_uring_disabled=0",
        )),
        (Some("1"), _) if !holds(facts, "sys_admin") => Some((
            "kernel.io_uring_disabled is 1",
            "sudo sysctl kernel.io_uring_disabled=0",
        )),
        _ => None,
    };
    match (&probed.io_uring, switched_off) {
        (Some(Trial::Works), _) => good(
            topic,
            "a ring can be set up",
            "points that use it can be measured",
        ),
        (Some(Trial::Fails { reason }), Some((_, advice))) => {
            missing(topic, reason.clone(), effect, advice)
        }
        (Some(Trial::Fails { reason }), None) => missing(
            topic,
            reason.clone(),
            effect,
            "in a container: a seccomp profile that allows io_uring_setup (--security-opt \
             seccomp=unconfined); else a kernel from 5.1",
        ),
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
        ("namespaces", Missing, "SYS_ADMIN", |_, p| {
            p.network_namespaces = fails("EPERM")
        }),
        ("namespaces", Missing, "apparmor", |f, p| {
            p.user_namespaces = fails("EACCES");
            set(f, "kernel.apparmor_restrict_unprivileged_userns", "1");
        }),
        ("namespaces", Missing, "userns_clone=1", |f, p| {
            p.user_namespaces = None;
            set(f, "kernel.unprivileged_userns_clone", "0");
        }),
        ("io_uring", Missing, "io_uring_disabled=0", |f, p| {
            p.io_uring = None;
            set(f, "kernel.io_uring_disabled", "2");
        }),
        ("io_uring", Missing, "seccomp", |_, p| {
            p.io_uring = fails("EPERM")
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
