//! What a process inherits from the one that started it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::CpuSet;

/// What a process inherits from the one that started it, and what changes its costs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Inherited {
    /// Whether its system calls are filtered.
    pub seccomp: Option<Seccomp>,
    /// How many filters each call passes.
    pub seccomp_filter_count: Option<u32>,
    /// Whether another process traces it (ptrace(2)), such as strace(1) or a debugger.
    pub traced: Option<bool>,
    /// Its effective user id; 0 is root.
    pub effective_user: Option<u32>,
    /// The capabilities in effect that matter for measuring: `ipc_lock`, `net_admin`, `perfmon`,
    /// `sys_admin`, `sys_nice`, `sys_resource` … None: not reported.
    pub capabilities: Option<Vec<String>>,
    /// Whether its capabilities apply to the whole machine. In rootless containers, for example,
    /// they apply only to what belongs to the container's own user namespace. Source:
    /// user_namespaces(7).
    pub initial_user_namespace: Option<bool>,
    /// Its cgroup and the cgroup's limits.
    pub cgroup: Cgroup,
    /// Its nice value, from −20 to 19.
    pub nice: Option<i32>,
    /// The autogroup within which its nice value counts. Source: sched(7).
    pub autogroup: Option<String>,
    /// The autogroup's own nice value.
    pub autogroup_nice: Option<i32>,
    /// `other`, `fifo`, `rr`, `batch`, `idle`, `deadline`, `ext`.
    pub scheduling_policy: Option<String>,
    /// Its resource limits.
    pub rlimits: Rlimits,
    /// Whether it may have transparent huge pages (`PR_SET_THP_DISABLE` not set).
    pub thp_allowed: Option<bool>,
    /// By how much the kernel may delay its timers to combine them with others.
    pub timer_slack_ns: Option<u64>,
    /// The CPUs that it may run on.
    pub allowed_cpus: CpuSet,
    /// The environment variables that change how it runs: `LD_PRELOAD`, `GLIBC_TUNABLES`,
    /// `MALLOC_*` …
    pub environment: BTreeMap<String, String>,
}

/// Whether system calls are filtered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Seccomp {
    /// No filter.
    Disabled,
    /// Only read, write and exit.
    Strict,
    /// Each call passes a program.
    Filter,
    /// A mode that this build does not know.
    #[default]
    #[serde(other)]
    Unknown,
}

/// A process's cgroup and its limits: the tightest of all visible groups around it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Cgroup {
    /// `v1`, `v2`, or `hybrid` (v1 controllers next to a v2 tree). `None`: no cgroup is visible,
    /// and no limit is known.
    pub version: Option<String>,
    /// The group's path (of the CPU controller).
    pub path: Option<String>,
    /// Whether it may have a CPU quota that cannot be seen: the files of its group are hidden.
    pub cpu_hidden: bool,
    /// The CPU time that it may use, in CPUs. None: no visible quota.
    pub cpu_quota_cpus: Option<f64>,
    /// The file that sets that quota; it may belong to an outer group.
    pub cpu_quota_file: Option<String>,
    /// The period after which the quota is renewed.
    pub cpu_quota_period_ns: Option<u64>,
    /// How many periods have ended with the quota used up since the group was made.
    pub cpu_throttled_count: Option<u64>,
    /// Its weight among its siblings, in v2's terms: 100 is the default, from 1 to 10,000
    /// (v1's shares ÷ 10.24).
    pub cpu_weight: Option<f64>,
    /// The CPUs that it may run on. None: the controller reports nothing.
    pub cpuset: Option<CpuSet>,
    /// The memory that it may use. None: no limit.
    pub memory_limit_bytes: Option<u64>,
    /// How much of that is used now, minus the file pages that the kernel drops first. If a group around it has less
    /// left, this is the limit minus what that group has left.
    pub memory_used_bytes: Option<u64>,
}

impl Cgroup {
    /// What is left of the limit. None: no limit.
    pub fn memory_left_bytes(&self) -> Option<u64> {
        Some(self.memory_limit_bytes?.saturating_sub(self.memory_used_bytes.unwrap_or(0)))
    }
}

/// A process's resource limits; None where the kernel did not report them. Source: getrlimit(2).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Rlimits {
    /// Memory that it may lock.
    pub locked_memory_bytes: Option<Rlimit>,
}

/// A resource limit. `None` inside means unlimited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Rlimit {
    /// The current limit.
    pub soft: Option<u64>,
    /// Up to where the process may raise it.
    pub hard: Option<u64>,
}
