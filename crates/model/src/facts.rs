//! Facts: what a machine says of itself, before anything is measured.
//!
//! Plain data. Reading it is `costof-measure`'s work, judging it is `costof-findings`'. Every field
//! that a machine may not tell is an `Option`, a list or a map, so that what is not known stays
//! absent; [`Facts::unread`] says why where something stood in the way. Fields that a newer costof
//! added are ignored on reading.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Everything that one machine says of itself, and what it lets its processes inherit.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Facts {
    /// The machine's own name.
    pub host_name: Option<String>,
    /// The architecture that the reading process was built for, as Rust names it: `x86_64`.
    pub architecture: Option<String>,
    /// The processors.
    pub cpu: Cpu,
    /// The memory nodes; one on a machine with uniform memory, none where the kernel says nothing.
    pub numa: Vec<NumaNode>,
    /// Who chooses the processors' clock, and within which bounds.
    pub frequency: Frequency,
    /// What a processor does when it has nothing to do.
    pub idle: Idle,
    /// The hypervisor and the container around the reading process.
    pub virtualization: Virtualization,
    /// The operating system's kernel.
    pub kernel: Kernel,
    /// The kernel's clock sources.
    pub clock_source: ClockSource,
    /// Huge pages, transparent and reserved.
    pub huge_pages: HugePages,
    /// Main memory.
    pub memory: Memory,
    /// How busy the machine was when it was read.
    pub activity: Activity,
    /// Block devices with a size.
    pub disks: Vec<Disk>,
    /// Mounted file systems that hold files of their own, `tmpfs` and network ones included.
    pub file_systems: Vec<FileSystem>,
    /// Network devices of the reading process's network namespace.
    pub network_devices: Vec<NetworkDevice>,
    /// The performance monitoring units that the kernel offers. Source:
    /// `/sys/bus/event_source/devices`. None: that folder is not to be read.
    pub performance_units: Option<Vec<String>>,
    /// What the reading process inherited.
    pub inherited: Inherited,
    /// What is there and could not be read, each with the reason.
    pub unread: Vec<Unread>,
}

/// A fact that is there and was refused or made no sense.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Unread {
    /// The file or command that would have told.
    pub what: String,
    /// Why it did not.
    pub reason: String,
}

/// A frequency and who claims it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Advertised {
    /// The claim.
    pub hz: u64,
    /// Who claims it: `CPUID leaf 15h`, `cpufreq cpuinfo_max_freq`.
    pub source: String,
}

/// The processors.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Cpu {
    /// `GenuineIntel`, `AuthenticAMD`, `ARM`.
    pub vendor: Option<String>,
    /// `AMD EPYC`, `Cortex-A72`.
    pub model_name: Option<String>,
    /// Family, x86 only.
    pub family: Option<u32>,
    /// Model within the family (x86), or part number (aarch64).
    pub model: Option<u32>,
    /// Stepping (x86) or revision (aarch64).
    pub stepping: Option<u32>,
    /// The microcode's revision as the kernel prints it.
    pub microcode: Option<String>,
    /// Hardware threads that are online.
    pub logical_count: Option<u32>,
    /// Cores that have a thread online.
    pub physical_count: Option<u32>,
    /// Sockets that have a thread online.
    pub socket_count: Option<u32>,
    /// Which hardware threads are online.
    pub online: CpuSet,
    /// Those kept from the scheduler (`isolcpus`).
    pub isolated: CpuSet,
    /// Those without a scheduling tick while they run one thread (`nohz_full`).
    pub tickless: CpuSet,
    /// Whether any core runs more than one thread now.
    pub smt_active: Option<bool>,
    /// `on`, `off`, `forceoff`, `notsupported`, `notimplemented`.
    /// Source: Documentation/ABI/testing/sysfs-devices-system-cpu, `smt/control`.
    pub smt_control: Option<String>,
    /// One entry a core: the hardware threads that share it.
    pub cores: Vec<CpuSet>,
    /// One entry a socket.
    pub sockets: Vec<CpuSet>,
    /// The kinds of cores where they differ (hybrid, big.LITTLE); empty where all are alike.
    pub core_kinds: Vec<CoreKind>,
    /// The caches, one entry for all those that are alike.
    pub caches: Vec<Cache>,
    /// Whether the time stamp counter ticks at one rate in all states of clock and sleep.
    /// On aarch64 the generic timer does by definition.
    pub tsc_invariant: Option<bool>,
    /// The rate that the time stamp counter (aarch64: the generic timer) is said to have.
    pub tsc: Option<Advertised>,
    /// The clock that is promised without turbo.
    pub base: Option<Advertised>,
    /// The highest clock that is advertised.
    pub max: Option<Advertised>,
    /// The instruction set extensions and properties that change what things cost.
    pub flags: Vec<String>,
    /// What the kernel says of each known vulnerability: `Not affected`, `Vulnerable`,
    /// `Mitigation: …`. Source: Documentation/ABI/testing/sysfs-devices-system-cpu.
    pub vulnerabilities: BTreeMap<String, String>,
}

/// Cores of one kind on a machine with several.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CoreKind {
    /// `core`, `atom`, `lowpower` (Intel), a part's name (aarch64), or `capacity 446`.
    pub name: String,
    /// Its hardware threads.
    pub cpus: CpuSet,
    /// The performance monitoring unit that counts on them.
    pub performance_unit: Option<String>,
    /// Capacity relative to the largest core's 1024.
    pub capacity: Option<u32>,
}

/// A cache, or all those that are alike.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Cache {
    /// 1 is nearest to the core.
    pub level: u32,
    /// What it holds.
    pub kind: CacheKind,
    /// Bytes of each one.
    pub size_bytes: u64,
    /// Bytes of a line.
    pub line_bytes: Option<u32>,
    /// Ways of associativity; 0 says fully associative.
    pub ways: Option<u32>,
    /// One entry a cache: the hardware threads that share it. Empty where the source does not say.
    pub shared_by: Vec<CpuSet>,
    /// Who says so.
    pub source: CacheSource,
}

/// What a cache holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CacheKind {
    /// Data only.
    Data,
    /// Instructions only.
    Instruction,
    /// Both.
    Unified,
    /// A kind that this build does not know.
    #[default]
    #[serde(other)]
    Unknown,
}

/// Who told of a cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CacheSource {
    /// `/sys/devices/system/cpu/cpu*/cache`.
    Sysfs,
    /// CPUID leaf 4 (Intel), 8000001Dh (AMD).
    Cpuid,
    /// A source that this build does not know.
    #[default]
    #[serde(other)]
    Unknown,
}

/// A memory node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NumaNode {
    /// The kernel's number for it.
    pub id: u32,
    /// The hardware threads that are near to it; none for a memory-only node.
    pub cpus: CpuSet,
    /// Memory on it.
    pub total_bytes: Option<u64>,
    /// Memory on it that nothing uses.
    pub free_bytes: Option<u64>,
    /// Distance to each node in the order of their numbers; 10 is itself.
    pub distances: Vec<u32>,
}

/// Who chooses the processors' clock, and within which bounds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Frequency {
    /// `intel_pstate`, `amd-pstate-epp`, `acpi-cpufreq`. None: the kernel does not scale the clock
    /// here (a virtual machine's never does).
    pub driver: Option<String>,
    /// `active`, `passive`, `guided`, `off`, where the driver has a mode.
    pub driver_mode: Option<String>,
    /// Whether clocks above the base are allowed.
    pub turbo_enabled: Option<bool>,
    /// One entry for all processors under the same rules.
    pub policies: Vec<FrequencyPolicy>,
    /// Whether the machine runs from a battery.
    pub on_battery: Option<bool>,
    /// `low-power`, `balanced`, `performance`. Source: `/sys/firmware/acpi/platform_profile`.
    pub platform_profile: Option<String>,
}

/// The rules for the clock of some processors.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct FrequencyPolicy {
    /// Which processors.
    pub cpus: CpuSet,
    /// `performance`, `powersave`, `schedutil`, `ondemand`.
    pub governor: Option<String>,
    /// The hint to the hardware's own governor: `performance`, `balance_performance`, `power`.
    pub energy_preference: Option<String>,
    /// The lowest clock that may be chosen.
    pub min_hz: Option<u64>,
    /// The highest clock that may be chosen.
    pub max_hz: Option<u64>,
    /// The lowest clock that the hardware has.
    pub hardware_min_hz: Option<u64>,
    /// The highest clock that the hardware has.
    pub hardware_max_hz: Option<u64>,
    /// The clock without turbo.
    pub base_hz: Option<u64>,
}

/// What a processor does when it has nothing to do.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Idle {
    /// `intel_idle`, `acpi_idle`, `haltpoll`, `psci_idle`. None: the kernel says nothing.
    pub driver: Option<String>,
    /// `menu`, `teo`, `ladder`, `haltpoll`.
    pub governor: Option<String>,
    /// The states of the first processor that has any, shallow to deep.
    pub states: Vec<IdleState>,
    /// How long a guest polls before it halts; None without haltpoll.
    pub halt_poll_ns: Option<u64>,
}

/// One idle state.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct IdleState {
    /// `POLL`, `C1E`, `C6`.
    pub name: String,
    /// The time that leaving it is said to take.
    pub exit_latency_ns: Option<u64>,
    /// The stay from which it is said to pay.
    pub residency_ns: Option<u64>,
    /// Whether it is switched off.
    pub disabled: Option<bool>,
}

/// The hypervisor and the container around the reading process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Virtualization {
    /// Whether this is a virtual machine. None: nothing here tells.
    pub virtual_machine: Option<bool>,
    /// `KVM`, `VMware`, `Hyper-V`, `Xen`, or what it calls itself.
    pub hypervisor: Option<String>,
    /// Who said so: `CPUID leaf 40000000h`, `/sys/hypervisor/type`, `DMI`.
    pub hypervisor_source: Option<String>,
    /// The maker of the machine, as its firmware says.
    pub machine_vendor: Option<String>,
    /// The model of the machine (on many clouds, the instance type), as its firmware says.
    pub machine_model: Option<String>,
    /// `docker`, `podman`, `kubernetes`, `lxc`, `wsl`, `systemd-nspawn`. None: no sign of one.
    pub container: Option<String>,
}

/// The operating system's kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Kernel {
    /// `6.18.44-generic`.
    pub release: Option<String>,
    /// `#1 SMP PREEMPT_DYNAMIC …`.
    pub version: Option<String>,
    /// What it was started with.
    pub command_line: Option<String>,
    /// The options of its build that change what things cost, without `CONFIG_`; `n` is "not set".
    pub config: BTreeMap<String, String>,
    /// The file that told of them. None: no such file is to be read.
    pub config_source: Option<String>,
    /// The settings that change what things cost or what may be measured, by their dotted names;
    /// a list's parts stand apart by one blank.
    pub sysctls: BTreeMap<String, String>,
    /// `none`, `voluntary`, `full`, `lazy`, where the kernel chooses at start and tells.
    pub preemption: Option<String>,
    /// Whether it is a real-time kernel (PREEMPT_RT).
    pub real_time: Option<bool>,
    /// `none`, `integrity`, `confidentiality`. Source: kernel_lockdown(7).
    pub lockdown: Option<String>,
    /// Changes at each start of the machine; two hosts with one boot id are one machine.
    pub boot_id: Option<String>,
}

/// The kernel's clock sources.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ClockSource {
    /// `tsc`, `kvm-clock`, `hpet`, `arch_sys_counter`.
    pub current: Option<String>,
    /// Those that it could change to.
    pub available: Vec<String>,
}

/// Huge pages, transparent and reserved.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct HugePages {
    /// `always`, `madvise`, `never`. Source: Documentation/admin-guide/mm/transhuge.rst.
    pub transparent: Option<String>,
    /// `always`, `defer`, `defer+madvise`, `madvise`, `never`.
    pub transparent_defrag: Option<String>,
    /// The same for shared memory.
    pub transparent_shared: Option<String>,
    /// Bytes of a transparent huge page.
    pub transparent_size_bytes: Option<u64>,
    /// Whether the daemon that merges pages may defragment.
    pub khugepaged_defrag: Option<bool>,
    /// How long that daemon sleeps between scans.
    pub khugepaged_sleep_ns: Option<u64>,
    /// The reserved pools.
    pub pools: Vec<HugePagePool>,
}

/// A pool of reserved huge pages.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct HugePagePool {
    /// Bytes of a page.
    pub page_bytes: u64,
    /// Pages in the pool.
    pub total: Option<u64>,
    /// Pages that nobody holds.
    pub free: Option<u64>,
    /// Pages that may be added when asked for.
    pub overcommit: Option<u64>,
}

/// Main memory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Memory {
    /// What the kernel manages.
    pub total_bytes: Option<u64>,
    /// What could be had without swapping, as the kernel estimates. [`Facts::available_bytes`]
    /// also knows the cgroup's limit.
    pub available_bytes: Option<u64>,
    /// Bytes of an ordinary page.
    pub page_bytes: Option<u64>,
    /// Swap space.
    pub swap_total_bytes: Option<u64>,
    /// Swap space that is not used.
    pub swap_free_bytes: Option<u64>,
    /// The modules in the machine, as its firmware says (SMBIOS type 17). Empty where it does not.
    pub dimms: Vec<Dimm>,
    /// Channels with a module in them, where the modules' places name their channel.
    pub channel_count: Option<u32>,
}

/// A memory module. Source: SMBIOS Reference Specification (DSP0134) 3.7, section 7.18.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Dimm {
    /// Its place: `DIMM_A1`.
    pub place: Option<String>,
    /// Its bank: `P0 CHANNEL A`.
    pub bank: Option<String>,
    /// Its size.
    pub size_bytes: Option<u64>,
    /// `DDR4`, `DDR5`, `LPDDR5`.
    pub kind: Option<String>,
    /// The transfers per second that it can do.
    pub speed_transfers_per_s: Option<u64>,
    /// The transfers per second that it is set to.
    pub configured_transfers_per_s: Option<u64>,
    /// Bits of data moved at once.
    pub width_bits: Option<u32>,
    /// Its maker.
    pub manufacturer: Option<String>,
    /// Its maker's name for it.
    pub part_number: Option<String>,
}

/// How busy the machine was when it was read.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Activity {
    /// Tasks that ran or waited to, the last minute's average.
    pub load_1min: Option<f64>,
    /// The same over five minutes.
    pub load_5min: Option<f64>,
    /// The same over fifteen minutes.
    pub load_15min: Option<f64>,
    /// The share of all processor time since the start that the hypervisor gave to others.
    pub steal_share: Option<f64>,
    /// The share of all processor time since the start in which processors were not idle.
    pub busy_share: Option<f64>,
    /// Stalls for a processor.
    pub cpu_pressure: Option<Pressure>,
    /// Stalls for memory.
    pub memory_pressure: Option<Pressure>,
    /// Stalls for disks.
    pub io_pressure: Option<Pressure>,
}

/// The share of time, from 0 to 1, in which tasks stood still for want of something.
/// Source: Documentation/accounting/psi.rst.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Pressure {
    /// At least one task, last 10 s.
    pub some_10s_share: Option<f64>,
    /// At least one task, last 60 s.
    pub some_60s_share: Option<f64>,
    /// All tasks at once, last 10 s.
    pub full_10s_share: Option<f64>,
    /// All tasks at once, last 60 s.
    pub full_60s_share: Option<f64>,
}

/// A block device.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Disk {
    /// The kernel's name: `nvme0n1`.
    pub name: String,
    /// The maker's name for it.
    pub model: Option<String>,
    /// What it is.
    pub kind: DiskKind,
    /// `raid1`, where it is an array of the kernel's.
    pub raid: Option<String>,
    /// The disks that it is made of (an array, an encrypted or logical volume).
    pub parts: Vec<String>,
    /// Its size.
    pub size_bytes: Option<u64>,
    /// The I/O scheduler in use: `none`, `mq-deadline`.
    pub scheduler: Option<String>,
    /// What the device says of seeking; a virtual disk's word on it means nothing.
    pub rotational: Option<bool>,
    /// `write back` or `write through`: whether a flush has work to do.
    pub write_cache: Option<String>,
    /// The smallest unit that may be addressed.
    pub logical_block_bytes: Option<u64>,
    /// The smallest unit that is written without reading.
    pub physical_block_bytes: Option<u64>,
    /// How far the kernel reads ahead.
    pub read_ahead_bytes: Option<u64>,
}

/// What a block device is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DiskKind {
    /// Platters that turn.
    Rotational,
    /// Solid state behind SATA or SAS.
    Ssd,
    /// NVMe, which on clouds may be a network volume too (`model` then tells).
    Nvme,
    /// A virtual machine's disk; what lies behind it is unknown.
    Virtual,
    /// An SD card or eMMC.
    Mmc,
    /// An array of the kernel's (md).
    Raid,
    /// A mapped volume: encrypted, logical (dm).
    Mapped,
    /// A file served as a disk.
    Loop,
    /// Memory served as a disk (zram, brd, pmem).
    Memory,
    /// None of these.
    #[default]
    #[serde(other)]
    Unknown,
}

/// A mounted file system.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct FileSystem {
    /// Where it is mounted.
    pub mount_point: String,
    /// `ext4`, `xfs`, `btrfs`, `overlay`, `tmpfs`, `nfs4`.
    pub kind: String,
    /// The disk that it lies on, by [`Disk::name`].
    pub disk: Option<String>,
    /// How it is mounted, the file system's own options included.
    pub options: String,
}

/// A network device.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NetworkDevice {
    /// The kernel's name: `eth0`.
    pub name: String,
    /// `ethernet`, `loopback`, or the kind of a virtual one: `veth`, `bridge`, `ifb`.
    pub kind: Option<String>,
    /// The driver: `virtio_net`, `mlx5_core`, `ena`.
    pub driver: Option<String>,
    /// The link's rate, where the driver tells.
    pub speed_bits_per_s: Option<u64>,
    /// The largest packet.
    pub mtu_bytes: Option<u32>,
    /// `up`, `down`, `unknown`.
    pub state: Option<String>,
    /// The queue discipline at its root: `fq`, `fq_codel`, `pfifo_fast`, `noqueue`.
    pub queue_discipline: Option<String>,
    /// Queues to send from.
    pub send_queue_count: Option<u32>,
    /// Queues to receive into.
    pub receive_queue_count: Option<u32>,
    /// The largest packet that segmentation offload takes.
    pub gso_max_bytes: Option<u32>,
    /// The largest packet that receive offload makes.
    pub gro_max_bytes: Option<u32>,
    /// The offloads that change what sending and receiving cost, and whether each is on, by
    /// `ethtool`'s names. Empty where `ethtool` is not installed.
    pub offloads: BTreeMap<String, bool>,
}

/// What a process is given by whoever started it, and what changes its costs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Inherited {
    /// Whether its system calls are filtered.
    pub seccomp: Option<Seccomp>,
    /// How many filters each call passes.
    pub seccomp_filter_count: Option<u32>,
    /// Whether it can gain no privileges by executing a program.
    pub no_new_privileges: Option<bool>,
    /// The user that it acts as; 0 is root.
    pub effective_user: Option<u32>,
    /// The capabilities in effect that matter for measuring: `ipc_lock`, `net_admin`, `perfmon`,
    /// `sys_admin`, `sys_nice`, `sys_resource` … None: not told.
    pub capabilities: Option<Vec<String>>,
    /// Its cgroup and what that allows.
    pub cgroup: Cgroup,
    /// Its nice value, from −20 to 19.
    pub nice: Option<i32>,
    /// The autogroup that its nice value counts within. Source: sched(7).
    pub autogroup: Option<String>,
    /// The autogroup's own nice value.
    pub autogroup_nice: Option<i32>,
    /// `other`, `fifo`, `rr`, `batch`, `idle`, `deadline`, `ext`.
    pub scheduling_policy: Option<String>,
    /// Its real-time priority; 0 without one.
    pub real_time_priority: Option<u32>,
    /// Its resource limits.
    pub rlimits: Rlimits,
    /// Whether it may have transparent huge pages (`PR_SET_THP_DISABLE` not set).
    pub thp_allowed: Option<bool>,
    /// How late the kernel may wake it so that timers meet.
    pub timer_slack_ns: Option<u64>,
    /// `default`, `bind:0`, `interleave:0-1`, `prefer:1`. Source: numa(7).
    pub numa_policy: Option<String>,
    /// Its resident memory when it was read.
    pub resident_bytes: Option<u64>,
    /// The most resident memory that it has had.
    pub resident_peak_bytes: Option<u64>,
    /// The processors that it may run on.
    pub allowed_cpus: CpuSet,
    /// The memory nodes that it may have memory on.
    pub allowed_nodes: CpuSet,
    /// Its threads when it was read.
    pub thread_count: Option<u32>,
    /// The environment variables that change how it runs: `LD_PRELOAD`, `GLIBC_TUNABLES`,
    /// `MALLOC_*` …
    pub environment: BTreeMap<String, String>,
    /// Its execution domain's flags in hexadecimal. Source: personality(2).
    pub personality: Option<String>,
    /// Whether its address space is laid out at random.
    pub address_randomized: Option<bool>,
    /// What the kernel says of speculative store bypass for this process: `vulnerable`,
    /// `thread force mitigated`, `not vulnerable`. Seccomp may switch the mitigation on.
    pub store_bypass: Option<String>,
    /// The same for indirect branches.
    pub indirect_branch: Option<String>,
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

/// A process's cgroup and what it allows, the tightest of all groups around it that can be seen.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Cgroup {
    /// `v1`, `v2`, or `hybrid` (v1 controllers beside a v2 tree). None: no cgroups can be seen, and
    /// nothing is known of limits.
    pub version: Option<String>,
    /// The group's path (of the processor controller).
    pub path: Option<String>,
    /// The processors' worth of time that it may use. None: no quota.
    pub cpu_quota_cpus: Option<f64>,
    /// The period in which the quota is used up and given again.
    pub cpu_quota_period_ns: Option<u64>,
    /// How many periods have ended with the quota used up since the group was made.
    pub cpu_throttled_count: Option<u64>,
    /// Its weight among its siblings, in v2's terms: 100 is the default, from 1 to 10,000
    /// (v1's shares ÷ 10.24).
    pub cpu_weight: Option<f64>,
    /// The processors that it may run on. None: the controller says nothing.
    pub cpuset: Option<CpuSet>,
    /// The memory that it may use. None: no limit.
    pub memory_limit_bytes: Option<u64>,
    /// The memory that the limiting group uses now, less the file pages that the kernel drops first.
    pub memory_used_bytes: Option<u64>,
    /// The tasks that it may have. None: no limit.
    pub task_limit: Option<u64>,
}

/// A process's resource limits; None where the kernel did not tell. Source: getrlimit(2).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Rlimits {
    /// Memory that it may lock.
    pub locked_memory_bytes: Option<Rlimit>,
    /// File descriptors.
    pub open_files: Option<Rlimit>,
    /// Processes of its user.
    pub processes: Option<Rlimit>,
    /// Its stack.
    pub stack_bytes: Option<Rlimit>,
    /// Its address space.
    pub address_space_bytes: Option<Rlimit>,
}

/// A resource limit. None inside says unlimited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Rlimit {
    /// What holds now.
    pub soft: Option<u64>,
    /// How far the process may raise it.
    pub hard: Option<u64>,
}

/// What only trying tells: may costof do this here, and what does waking up cost?
/// `None` says that it was not tried.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Probed {
    /// Counting cycles by perf_event_open(2).
    pub hardware_events: Option<Trial>,
    /// Counting page faults or context switches by perf_event_open(2).
    pub software_events: Option<Trial>,
    /// Reading a tracepoint's id, or counting it.
    pub tracepoints: Option<Trial>,
    /// Making a user namespace.
    pub user_namespaces: Option<Trial>,
    /// Making a network namespace (inside a new user namespace, or as root).
    pub network_namespaces: Option<Trial>,
    /// Getting a huge page for an arena.
    pub huge_page: Option<Trial>,
    /// Setting up an io_uring.
    pub io_uring: Option<Trial>,
    /// The time from waking a thread until it runs, its processor idle.
    pub wake_idle_ns: Option<f64>,
    /// The same with its processor kept awake.
    pub wake_awake_ns: Option<f64>,
    /// The share of processor time that the hypervisor gave to others while this was tried.
    pub steal_share: Option<f64>,
    /// The share of processor time that others used while this was tried.
    pub busy_share: Option<f64>,
}

/// What came of trying.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum Trial {
    /// It works.
    Works,
    /// It does not, and why: `perf_event_open: ENOENT`.
    Fails {
        /// The operation and the error.
        reason: String,
    },
}

/// What stands here in the way of good numbers, or does not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Diagnosis {
    /// The thing looked at: `governor`, `idle states`.
    pub topic: String,
    /// How it stands.
    pub state: DiagnosisState,
    /// What is so here, or why it could not be checked.
    pub what: String,
    /// Which numbers become worse or missing, or what is well.
    pub effect: String,
    /// What to do about it, as a command where there is one.
    pub advice: Option<String>,
}

/// How one thing stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DiagnosisState {
    /// It does no harm.
    Good,
    /// Numbers are noisier, or differ from what this machine could do.
    Worse,
    /// Some numbers cannot be had.
    Missing,
    /// Nothing here tells.
    NotChecked,
}

/// A set of processors or memory nodes, written as the kernel writes it: `0-3,8`.
/// Source: cpuset(7), "List format".
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CpuSet(BTreeSet<u32>);

/// The highest number that a list may name; a larger one is a mistake, and a range up to it would
/// eat the memory.
const CPU_LIMIT: u32 = 1 << 16;

impl CpuSet {
    /// Reads the kernel's list format, strides (`0-6:2/3`) left out. None: it is not one.
    pub fn parse(text: &str) -> Option<Self> {
        let mut cpus = BTreeSet::new();
        for part in text.trim().split(',').filter(|part| !part.is_empty()) {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last): (u32, u32) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
            if first > last || last >= CPU_LIMIT {
                return None;
            }
            cpus.extend(first..=last);
        }
        Some(Self(cpus))
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether this one is among them.
    pub fn contains(&self, cpu: u32) -> bool {
        self.0.contains(&cpu)
    }

    /// In rising order.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.0.iter().copied()
    }

    /// The lowest.
    pub fn first(&self) -> Option<u32> {
        self.0.first().copied()
    }

    /// Adds all of another set.
    pub fn extend(&mut self, other: &Self) {
        self.0.extend(&other.0);
    }
}

impl FromIterator<u32> for CpuSet {
    fn from_iter<I: IntoIterator<Item = u32>>(cpus: I) -> Self {
        Self(cpus.into_iter().collect())
    }
}

impl fmt::Display for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut cpus = self.iter().peekable();
        let mut separator = "";
        while let Some(first) = cpus.next() {
            let mut last = first;
            while cpus.peek() == Some(&(last + 1)) {
                last += 1;
                cpus.next();
            }
            write!(f, "{separator}{first}")?;
            if last > first {
                write!(f, "-{last}")?;
            }
            separator = ",";
        }
        Ok(())
    }
}

impl Serialize for CpuSet {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for CpuSet {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| {
            serde::de::Error::custom(format!(
                "`{text}` is not a list of processors such as 0-3,8"
            ))
        })
    }
}

/// Parts of the kernel's command line that change what things cost and name nobody.
const COST_PARAMETERS: &[&str] = &[
    "clocksource",
    "cpuidle.governor",
    "cpuidle.off",
    "cpuidle_haltpoll.force",
    "default_hugepagesz",
    "haltpoll.guest_halt_poll_ns",
    "hugepages",
    "hugepagesz",
    "idle",
    "intel_idle.max_cstate",
    "intel_iommu",
    "intel_pstate",
    "amd_pstate",
    "iommu",
    "irqaffinity",
    "isolcpus",
    "kpti",
    "lockdown",
    "maxcpus",
    "mem",
    "mitigations",
    "nmi_watchdog",
    "nohz",
    "nohz_full",
    "nokaslr",
    "nopti",
    "nosmt",
    "nosoftlockup",
    "nospectre_v1",
    "nospectre_v2",
    "numa_balancing",
    "preempt",
    "processor.max_cstate",
    "psi",
    "pti",
    "rcu_nocbs",
    "retbleed",
    "skew_tick",
    "spec_store_bypass_disable",
    "spectre_v2",
    "threadirqs",
    "transparent_hugepage",
    "tsc",
];

impl Facts {
    /// The data cache (own or unified) that the machine claims at a level; the first kind of core
    /// where they differ.
    pub fn claimed_cache(&self, level: u32) -> Option<&Cache> {
        self.cpu.caches.iter().find(|cache| {
            cache.level == level && matches!(cache.kind, CacheKind::Data | CacheKind::Unified)
        })
    }

    /// The data cache that the machine claims at a level for one processor, which on a hybrid
    /// machine differs between processors.
    pub fn claimed_cache_of(&self, level: u32, cpu: u32) -> Option<&Cache> {
        self.cpu
            .caches
            .iter()
            .filter(|cache| matches!(cache.kind, CacheKind::Data | CacheKind::Unified))
            .find(|cache| {
                cache.level == level && cache.shared_by.iter().any(|set| set.contains(cpu))
            })
            .or_else(|| self.claimed_cache(level))
    }

    /// The data cache farthest from the cores.
    pub fn last_level_cache(&self) -> Option<&Cache> {
        self.cpu
            .caches
            .iter()
            .filter(|cache| matches!(cache.kind, CacheKind::Data | CacheKind::Unified))
            .max_by_key(|cache| (cache.level, cache.size_bytes))
    }

    /// The memory that this process can have: what the kernel has, or what the cgroup leaves.
    pub fn available_bytes(&self) -> Option<u64> {
        let cgroup = &self.inherited.cgroup;
        let left = cgroup
            .memory_limit_bytes
            .map(|limit| limit.saturating_sub(cgroup.memory_used_bytes.unwrap_or(0)));
        match (self.memory.available_bytes, left) {
            (Some(kernel), Some(cgroup)) => Some(kernel.min(cgroup)),
            (kernel, cgroup) => kernel.or(cgroup),
        }
    }

    /// The processors that this process can use: those that are online and that it may run on.
    pub fn usable_cpus(&self) -> CpuSet {
        let allowed = &self.inherited.allowed_cpus;
        if allowed.is_empty() {
            return self.cpu.online.clone();
        }
        if self.cpu.online.is_empty() {
            return allowed.clone();
        }
        allowed
            .iter()
            .filter(|cpu| self.cpu.online.contains(*cpu))
            .collect()
    }

    /// Whether the kernel offers a unit that counts cycles. None: it could not be looked up.
    pub fn has_performance_unit(&self) -> Option<bool> {
        let units = self.performance_units.as_ref()?;
        Some(units.iter().any(|unit| {
            matches!(
                unit.as_str(),
                "cpu" | "cpu_core" | "cpu_atom" | "cpu_lowpower"
            ) || unit.starts_with("armv8")
                || unit.starts_with("armv9")
                || unit.starts_with("apple_")
        }))
    }

    /// Why a fact is absent, by a part of its file's name.
    pub fn why_unread(&self, what: &str) -> Option<&str> {
        let unread = self
            .unread
            .iter()
            .find(|unread| unread.what.contains(what))?;
        Some(&unread.reason)
    }

    /// The same without what names a machine, a person or a network: host name, boot id, paths
    /// (cgroups, mount points, libraries), and all of the kernel's command line that is not known
    /// to change costs.
    #[must_use]
    pub fn anonymous(&self) -> Self {
        let mut facts = self.clone();
        facts.host_name = None;
        facts.kernel.boot_id = None;
        facts.kernel.command_line = facts.kernel.command_line.map(|line| cost_parameters(&line));
        facts.inherited.cgroup.path = None;
        facts.inherited.autogroup = None;
        for value in facts.inherited.environment.values_mut() {
            *value = without_folders(value);
        }
        for file_system in &mut facts.file_systems {
            if file_system.mount_point != "/" {
                file_system.mount_point = "…".to_owned();
            }
            file_system.options = without_values(&file_system.options);
        }
        for device in &mut facts.network_devices {
            device.name = without_hardware_address(&device.name);
        }
        for unread in &mut facts.unread {
            unread.what = without_names(&unread.what);
            unread.reason = unread
                .reason
                .split(':')
                .next_back()
                .unwrap_or("")
                .trim()
                .to_owned();
        }
        facts
    }
}

/// The parts of the kernel's command line that change costs; a value that is no plain word, number
/// or list goes too.
fn cost_parameters(line: &str) -> String {
    let kept: Vec<&str> = line
        .split_whitespace()
        .take_while(|part| *part != "--")
        .filter(|part| COST_PARAMETERS.contains(&part.split('=').next().unwrap_or(part)))
        .collect();
    kept.join(" ")
}

/// A list of library paths, each reduced to the file's name.
fn without_folders(value: &str) -> String {
    let parts: Vec<&str> = value
        .split([':', ' '])
        .map(|part| part.rsplit('/').next().unwrap_or(part))
        .collect();
    parts.join(":")
}

/// Mount options; those whose value is a path, an address or a list of them keep their name only.
fn without_values(options: &str) -> String {
    let parts: Vec<&str> = options
        .split(',')
        .map(|option| match option.split_once('=') {
            Some((name, value)) if value.contains(['/', '.', ':']) => name,
            _ => option,
        })
        .collect();
    parts.join(",")
}

/// `enx…` names carry the hardware address.
/// Source: systemd.net-naming-scheme(7).
fn without_hardware_address(name: &str) -> String {
    match name.get(..3) {
        Some(prefix @ ("enx" | "wlx" | "wwx")) => format!("{prefix}…"),
        _ => name.to_owned(),
    }
}

/// A file's path without the parts that users, containers and hardware addresses name.
fn without_names(path: &str) -> String {
    if let Some((before, _)) = path.split_once("/cgroup/") {
        return format!("{before}/cgroup/…");
    }
    let parts: Vec<String> = path.split('/').map(without_hardware_address).collect();
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_sets_read_and_write_the_kernels_list_format() {
        let set = CpuSet::parse("0-3,8,10-11\n").unwrap();
        assert_eq!(set.len(), 7);
        assert!(set.contains(10) && !set.contains(9));
        assert_eq!(set.to_string(), "0-3,8,10-11");
        assert_eq!(CpuSet::parse(""), Some(CpuSet::default()));
        for wrong in ["a", "3-1", "-", "0-4294967295", "1-2-3", "(null)"] {
            assert_eq!(CpuSet::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn facts_survive_the_run_file_and_unknown_fields_are_ignored() {
        let facts = sample();
        let text = serde_json::to_string(&facts).unwrap();
        assert_eq!(serde_json::from_str::<Facts>(&text).unwrap(), facts);
        let newer = r#"{"invented":1,"cpu":{"caches":[{"level":4,"kind":"holographic","new":2}]},
            "inherited":{"seccomp":"dreaming"}}"#;
        let read: Facts = serde_json::from_str(newer).unwrap();
        assert_eq!(read.cpu.caches[0].kind, CacheKind::Unknown);
        assert_eq!(read.inherited.seccomp, Some(Seccomp::Unknown));
        assert_eq!(
            serde_json::from_str::<Facts>("{}").unwrap(),
            Facts::default()
        );
    }

    #[test]
    fn the_claimed_caches_are_those_that_hold_data() {
        let facts = sample();
        assert_eq!(
            facts.claimed_cache(1).map(|cache| cache.size_bytes),
            Some(48 << 10)
        );
        assert_eq!(
            facts.claimed_cache_of(1, 4).map(|cache| cache.size_bytes),
            Some(32 << 10)
        );
        assert_eq!(
            facts.claimed_cache_of(1, 99).map(|cache| cache.size_bytes),
            Some(48 << 10)
        );
        assert_eq!(facts.last_level_cache().map(|cache| cache.level), Some(3));
        assert_eq!(facts.claimed_cache(4), None);
    }

    #[test]
    fn available_memory_is_the_smaller_of_kernel_and_cgroup() {
        let mut facts = sample();
        assert_eq!(facts.available_bytes(), Some(1000));
        facts.inherited.cgroup.memory_limit_bytes = Some(500);
        facts.inherited.cgroup.memory_used_bytes = Some(100);
        assert_eq!(facts.available_bytes(), Some(400));
        facts.memory.available_bytes = None;
        assert_eq!(facts.available_bytes(), Some(400));
    }

    #[test]
    fn anonymous_facts_name_nobody() {
        let mut facts = sample();
        facts.kernel.command_line = Some(
            "root=UUID=secret ip=10.1.2.3 isolcpus=2-3 mitigations=auto,nosmt -- --addr secret"
                .to_owned(),
        );
        facts.inherited.cgroup.path = Some("/user.slice/secret".to_owned());
        facts.inherited.environment =
            BTreeMap::from([("LD_PRELOAD".to_owned(), "/home/secret/libx.so".to_owned())]);
        facts.file_systems = vec![FileSystem {
            mount_point: "/home/secret".to_owned(),
            options: "rw,addr=10.1.2.3,lowerdir=/var/secret,noatime".to_owned(),
            ..FileSystem::default()
        }];
        facts.network_devices = vec![NetworkDevice {
            name: "enx001122334455".to_owned(),
            ..NetworkDevice::default()
        }];
        facts.unread = vec![Unread {
            what: "/sys/fs/cgroup/user.slice/secret/cpu.max".to_owned(),
            reason: "permission denied".to_owned(),
        }];
        let anonymous = facts.anonymous();
        let text = serde_json::to_string(&anonymous).unwrap();
        for word in ["secret", "10.1.2.3", "001122334455", "laptop-of"] {
            assert!(!text.contains(word), "{word} in {text}");
        }
        assert_eq!(
            anonymous.kernel.command_line.as_deref(),
            Some("isolcpus=2-3 mitigations=auto,nosmt")
        );
        assert_eq!(anonymous.inherited.environment["LD_PRELOAD"], "libx.so");
        assert_eq!(
            anonymous.file_systems[0].options,
            "rw,addr,lowerdir,noatime"
        );
        assert_eq!(anonymous.cpu, facts.cpu);
    }

    fn sample() -> Facts {
        let cache = |level, kind, size_bytes, cpus: &str| Cache {
            level,
            kind,
            size_bytes,
            line_bytes: Some(64),
            ways: Some(8),
            shared_by: vec![CpuSet::parse(cpus).unwrap()],
            source: CacheSource::Sysfs,
        };
        Facts {
            host_name: Some("laptop-of-somebody".to_owned()),
            cpu: Cpu {
                online: CpuSet::parse("0-7").unwrap(),
                caches: vec![
                    cache(1, CacheKind::Instruction, 64 << 10, "0-1"),
                    cache(1, CacheKind::Data, 48 << 10, "0-1"),
                    cache(1, CacheKind::Data, 32 << 10, "4"),
                    cache(3, CacheKind::Unified, 32 << 20, "0-7"),
                ],
                ..Cpu::default()
            },
            memory: Memory {
                available_bytes: Some(1000),
                ..Memory::default()
            },
            ..Facts::default()
        }
    }
}
