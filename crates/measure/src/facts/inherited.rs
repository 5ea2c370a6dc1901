//! What this process inherited from the one that started it. Source: proc_pid_status(5),
//! proc_pid_stat(5), proc_pid_limits(5), sched(7), numa(7).

use std::collections::BTreeMap;

use costof_model::CpuSet;
use costof_model::facts::{Inherited, Rlimit, Rlimits, Seccomp};
use costof_os::process::shared_object::own_value;
use costof_os::process::stat::Stat;

use super::cgroup;
use super::folder::{Folder, field, flag, is_word_of, parsed};

/// Capabilities that matter for measuring, by bit number. Source: linux/capability.h.
const CAPABILITIES: &[(u32, &str)] = &[
    (12, "net_admin"),
    (13, "net_raw"),
    (14, "ipc_lock"),
    (19, "sys_ptrace"),
    (21, "sys_admin"),
    (23, "sys_nice"),
    (24, "sys_resource"),
    (38, "perfmon"),
    (39, "bpf"),
];

/// Environment variables that change how a program is loaded or allocates memory.
/// Source: ld.so(8), mallopt(3).
const ENVIRONMENT: &str = "\
    GLIBC_TUNABLES LD_AUDIT LD_BIND_NOW LD_DEBUG LD_PRELOAD LD_PROFILE";

/// The first user namespace has the same inode number on every machine. Source: linux/proc_ns.h,
/// `PROC_USER_INIT_INO`.
const INITIAL_USER_NAMESPACE: &str = "user:[4026531837]";

/// Everything that this process inherited.
pub(super) fn inherited(root: &Folder) -> Inherited {
    let status = root.text("/proc/self/status").unwrap_or_default();
    let text = |name| field(&status, name, ':');
    let set = |name| text(name).and_then(CpuSet::parse).unwrap_or_default();
    let schedule = schedule(&root.text("/proc/self/stat").unwrap_or_default());
    let autogroup = root.text("/proc/self/autogroup");
    let autogroup = autogroup.as_deref().and_then(|line| line.split_once(" nice "));
    Inherited {
        seccomp: text("Seccomp").map(seccomp),
        seccomp_filter_count: parsed(&status, "Seccomp_filters", ':'),
        traced: tracer(&status),
        // Real, effective, saved, and file-system user id.
        effective_user: text("Uid").and_then(|users| users.split_whitespace().nth(1)?.parse().ok()),
        capabilities: text("CapEff").and_then(capabilities),
        initial_user_namespace: root
            .link_name("/proc/self/ns/user")
            .map(|name| name == INITIAL_USER_NAMESPACE),
        cgroup: cgroup::cgroup(root),
        nice: schedule.nice,
        autogroup: autogroup.map(|(name, _)| name.to_owned()),
        autogroup_nice: autogroup.and_then(|(_, nice)| nice.trim().parse().ok()),
        scheduling_policy: schedule.policy,
        rlimits: rlimits(&root.text("/proc/self/limits").unwrap_or_default()),
        thp_allowed: text("THP_enabled").and_then(flag),
        timer_slack_ns: root.value("/proc/self/timerslack_ns"),
        allowed_cpus: set("Cpus_allowed_list"),
        environment: environment(root),
    }
}

/// Whether the process is traced, from its status.
pub(super) fn tracer(status: &str) -> Option<bool> {
    parsed(status, "TracerPid", ':').map(|tracer: u32| tracer != 0)
}

fn seccomp(mode: &str) -> Seccomp {
    match mode {
        "0" => Seccomp::Disabled,
        "1" => Seccomp::Strict,
        "2" => Seccomp::Filter,
        _ => Seccomp::Unknown,
    }
}

fn capabilities(hexadecimal: &str) -> Option<Vec<String>> {
    let bits = u64::from_str_radix(hexadecimal, 16).ok()?;
    let held = CAPABILITIES.iter().filter(|(bit, _)| bits >> bit & 1 == 1);
    Some(held.map(|(_, name)| (*name).to_owned()).collect())
}

#[derive(Debug, Default, PartialEq)]
struct Schedule {
    nice: Option<i32>,
    policy: Option<String>,
}

/// The policies by number; 4 is unused. Source: linux/sched.h.
const POLICIES: [&str; 8] = ["other", "fifo", "rr", "batch", "", "idle", "deadline", "ext"];

/// Of `/proc/self/stat`.
fn schedule(stat: &str) -> Schedule {
    let Some(stat) = Stat::parse(stat) else {
        return Schedule::default();
    };
    let policy = stat.number::<usize>(41).and_then(|policy| POLICIES.get(policy));
    Schedule {
        nice: stat.number(19),
        policy: policy.filter(|name| !name.is_empty()).map(|name| (*name).to_owned()),
    }
}

/// `Max locked memory         8388608              unlimited            bytes`.
fn rlimits(text: &str) -> Rlimits {
    let limit = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        let mut words = line.split_whitespace();
        let mut bound = || match words.next()? {
            "unlimited" => Some(None),
            number => number.parse().ok().map(Some),
        };
        Some(Rlimit { soft: bound()?, hard: bound()? })
    };
    Rlimits { locked_memory_bytes: limit("Max locked memory") }
}

fn environment(root: &Folder) -> BTreeMap<String, String> {
    let all = root.bytes("/proc/self/environ").unwrap_or_default();
    String::from_utf8_lossy(&all)
        .split('\0')
        .filter_map(|variable| variable.split_once('='))
        .filter(|(name, _)| {
            is_word_of(ENVIRONMENT, name)
                || name.starts_with("MALLOC_")
                || name.ends_with("MALLOC_CONF")
        })
        .filter_map(|(name, value)| Some((name.to_owned(), own_value(name, value)?.to_owned())))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schedule_is_read_behind_any_program_name() {
        let stat = "5311 (a) b) (c) R 5302 5302 4207 0 -1 4194304 99 0 0 0 0 0 0 0 -51 -5 1 0 53684 \
            3133440 358 18446744073709551615 1 2 3 0 0 0 0 0 0 0 0 0 17 1 50 1 0 0 0";
        let expected = Schedule { nice: Some(-5), policy: Some("fifo".to_owned()) };
        assert_eq!(schedule(stat), expected);
        for strange in ["", "1 (x", "1 (x)", "1 (x) R 1 2"] {
            assert_eq!(schedule(strange), Schedule::default(), "{strange}");
        }
    }

    #[test]
    fn an_unlimited_resource_is_not_an_unknown_one() {
        let limits = rlimits(
            "Limit  Soft Limit  Hard Limit  Units\n\
             Max locked memory         8388608              unlimited            bytes     \n",
        );
        assert_eq!(limits.locked_memory_bytes, Some(Rlimit { soft: Some(8 << 20), hard: None }));
        for strange in ["", "Max locked memory", "Max locked memory lots 20000 bytes"] {
            assert_eq!(rlimits(strange).locked_memory_bytes, None, "{strange}");
        }
    }

    #[test]
    fn capabilities_are_bits() {
        let all = capabilities("000001fffeffffff").unwrap();
        assert!(all.contains(&"perfmon".to_owned()) && !all.contains(&"sys_resource".to_owned()));
        assert_eq!(capabilities("0"), Some(Vec::new()));
        assert_eq!(capabilities("none"), None);
    }
}
