//! A machine for the tests, and what can be wrong with it.

use super::DiagnosisState::{Good, Missing, NotChecked, Worse};
use super::*;
use costof_model::facts::{
    CoreLook, CpuSet, FrequencyPolicy, IdleState, Rlimit, Seccomp, SiblingThread, Trial, Unread,
};
use std::collections::BTreeMap;

/// A quiet server that one could only wish for, everything tried.
fn quiet() -> (Facts, Probed) {
    let mut facts = Facts::default();
    let all = CpuSet::parse("0-3").unwrap();
    facts.cpu.online = all.clone();
    facts.cpu.logical_count = Some(4);
    facts.cpu.cores = (0..4).map(|cpu| CpuSet::from_iter([cpu])).collect();
    facts.cpu.smt_active = Some(false);
    facts.cpu.tsc_invariant = Some(true);
    facts.cpu.vulnerabilities =
        BTreeMap::from([("meltdown".to_owned(), "Not affected".to_owned())]);
    facts.clock_source.current = Some("tsc".to_owned());
    facts.clock_source.available = vec!["tsc".to_owned(), "hpet".to_owned()];
    facts.frequency.driver = Some("intel_pstate".to_owned());
    facts.frequency.turbo_enabled = Some(false);
    facts.frequency.on_battery = Some(false);
    facts.frequency.policies = vec![FrequencyPolicy {
        cpus: all.clone(),
        governor: Some("performance".to_owned()),
        max_hz: Some(3_000_000_000),
        hardware_max_hz: Some(3_000_000_000),
        ..FrequencyPolicy::default()
    }];
    facts.idle.states = vec![IdleState {
        name: "C1".to_owned(),
        exit_latency_ns: Some(2000),
        ..IdleState::default()
    }];
    facts.virtualization.virtual_machine = Some(false);
    facts.activity.load_1min = Some(0.05);
    facts.activity.steal_share = Some(0.0);
    facts.memory.available_bytes = Some(64 << 30);
    facts.huge_pages.transparent = Some("madvise".to_owned());
    facts.performance_units = Some(vec!["cpu".to_owned(), "software".to_owned()]);
    facts.kernel.sysctls =
        BTreeMap::from([("kernel.perf_event_paranoid".to_owned(), "1".to_owned())]);
    let inherited = &mut facts.inherited;
    inherited.allowed_cpus = all;
    inherited.seccomp = Some(Seccomp::Disabled);
    inherited.nice = Some(0);
    inherited.scheduling_policy = Some("other".to_owned());
    inherited.rlimits.locked_memory_bytes = Some(Rlimit {
        soft: None,
        hard: None,
    });
    inherited.cgroup.version = Some("v2".to_owned());
    inherited.capabilities = Some(Vec::new());
    let works = Some(Trial::Works);
    let probed = Probed {
        hardware_events: works.clone(),
        software_events: works.clone(),
        kernel_events: works.clone(),
        tracepoints: works.clone(),
        user_namespaces: works.clone(),
        network_namespaces: works.clone(),
        huge_page: works.clone(),
        tun: works.clone(),
        icmp: works.clone(),
        io_uring: works,
        wake_idle_ns: Some(2500.0),
        wake_spinning_ns: Some(200.0),
        steal_share: Some(0.0),
        busy_share: Some(0.01),
        core: Some(CoreLook {
            cpu: 3,
            floor: Some(0.25),
            shared: Some(0.001),
            taken: None,
            sibling: None,
        }),
    };
    (facts, probed)
}

/// The diagnosis of one topic after a change to the quiet server.
fn after(topic: &str, change: impl FnOnce(&mut Facts, &mut Probed)) -> Diagnosis {
    let (mut facts, mut probed) = quiet();
    change(&mut facts, &mut probed);
    let all = diagnose(&facts, &probed);
    all.into_iter()
        .find(|diagnosis| diagnosis.topic == topic)
        .unwrap()
}

fn fails(reason: &str) -> Option<Trial> {
    Some(Trial::Fails {
        reason: reason.to_owned(),
    })
}

fn set(facts: &mut Facts, name: &str, value: &str) {
    facts
        .kernel
        .sysctls
        .insert(name.to_owned(), value.to_owned());
}

/// A limit of 64 KiB of locked memory, which may be raised as far as this.
fn limit_locked(facts: &mut Facts, hard: Option<u64>) {
    let soft = Some(64 << 10);
    facts.inherited.rlimits.locked_memory_bytes = Some(Rlimit { soft, hard });
}

fn hold(facts: &mut Facts, capability: &str) {
    facts.inherited.capabilities = Some(vec![capability.to_owned()]);
}

/// Something else uses the core most of the time.
fn shared(probed: &mut Probed) -> &mut CoreLook {
    let core = probed.core.as_mut().unwrap();
    (core.shared, core.taken) = (Some(0.62), Some(0.345));
    core
}

/// A topic, its state and a word of its advice after this change to the quiet server.
type Unhealthy = (
    &'static str,
    DiagnosisState,
    &'static str,
    fn(&mut Facts, &mut Probed),
);

const UNHEALTHY: &[Unhealthy] = &[
    ("clock source", Worse, "echo tsc", |f, _| {
        f.clock_source.current = Some("hpet".to_owned())
    }),
    ("clock source", Worse, "dmesg", |f, _| {
        f.clock_source.current = Some("kvm-clock".to_owned());
        f.clock_source.available = vec!["kvm-clock".to_owned()];
    }),
    ("clock source", Worse, "constant_tsc", |f, _| {
        f.cpu.tsc_invariant = Some(false)
    }),
    ("load", Worse, "top", |_, p| p.busy_share = Some(0.3)),
    ("load", Worse, "--cpu", |f, p| {
        p.busy_share = None;
        f.activity.load_1min = Some(3.0);
    }),
    ("steal", Worse, "another time", |_, p| {
        p.steal_share = Some(0.02)
    }),
    ("steal", Worse, "instance", |f, p| {
        p.steal_share = None;
        f.activity.steal_share = Some(0.02);
    }),
    ("core", Worse, "--cpu", |_, p| {
        shared(p);
    }),
    ("core", Worse, "/cpu7/online", |_, p| {
        shared(p).sibling = Some(SiblingThread {
            cpu: 7,
            pid: 123,
            name: "make".to_owned(),
            used: 0.8,
        });
    }),
    ("hypervisor", Worse, "bare metal", |f, _| {
        f.virtualization.virtual_machine = Some(true)
    }),
    ("CPU limits", Worse, "--cpus", |f, _| {
        f.inherited.cgroup.cpu_quota_cpus = Some(0.5);
        f.virtualization.container = Some("docker".to_owned());
    }),
    ("CPU limits", Worse, "resources.limits", |f, _| {
        f.inherited.cgroup.cpu_quota_cpus = Some(0.5);
        f.virtualization.container = Some("kubernetes".to_owned());
    }),
    (
        "CPU limits",
        Worse,
        "echo max | sudo tee /x/cpu.max",
        |f, _| {
            f.inherited.cgroup.cpu_quota_cpus = Some(3.5);
            f.inherited.cgroup.cpu_quota_file = Some("/x/cpu.max".to_owned());
        },
    ),
    ("CPU limits", Worse, "echo -1", |f, _| {
        f.inherited.cgroup.cpu_quota_cpus = Some(3.5);
        f.inherited.cgroup.cpu_quota_file = Some("/x/cpu.cfs_quota_us".to_owned());
    }),
    ("CPU limits", Worse, "resources.requests", |f, _| {
        f.inherited.cgroup.cpu_weight = Some(2.0);
        f.virtualization.container = Some("kubernetes".to_owned());
    }),
    ("processors", Missing, "taskset -c 0-3", |f, _| {
        f.inherited.allowed_cpus = CpuSet::from_iter([2]);
    }),
    ("processors", Missing, "cpuset.cpus", |f, _| {
        f.inherited.allowed_cpus = CpuSet::from_iter([2]);
        f.inherited.cgroup.cpuset = Some(CpuSet::from_iter([2]));
    }),
    ("processors", Missing, "has no other", |f, _| {
        f.cpu.online = CpuSet::from_iter([2]);
    }),
    ("priority", Worse, "nice", |f, _| {
        f.inherited.nice = Some(10)
    }),
    ("priority", Worse, "autogroup", |f, _| {
        f.inherited.autogroup_nice = Some(5)
    }),
    ("priority", Worse, "chrt", |f, _| {
        f.inherited.scheduling_policy = Some("batch".to_owned());
    }),
    ("environment", Worse, "env -u LD_PRELOAD", |f, _| {
        f.inherited.environment = BTreeMap::from([("LD_PRELOAD".to_owned(), "x".to_owned())]);
    }),
    ("frequency scaling", Worse, "scaling_max_freq", |f, _| {
        f.frequency.policies[0].max_hz = Some(1_000_000_000);
    }),
    ("governor", Worse, "performance", |f, _| {
        f.frequency.policies[0].governor = Some("powersave".to_owned());
    }),
    ("turbo", Worse, "no_turbo", |f, _| {
        f.frequency.turbo_enabled = Some(true)
    }),
    ("turbo", Worse, "cpufreq/boost", |f, _| {
        f.frequency.driver = Some("amd-pstate-epp".to_owned());
        f.frequency.turbo_enabled = Some(true);
    }),
    ("power", Worse, "plug", |f, _| {
        f.frequency.on_battery = Some(true)
    }),
    ("power", Worse, "platform_profile", |f, _| {
        f.frequency.platform_profile = Some("low-power".to_owned());
    }),
    ("SMT", Worse, "smt/control", |f, _| {
        f.cpu.smt_active = Some(true);
        f.cpu.smt_control = Some("on".to_owned());
    }),
    ("SMT", Worse, "--cpu", |f, _| {
        f.cpu.smt_active = None;
        f.cpu.cores[0] = CpuSet::from_iter([0, 2]);
    }),
    ("idle states", Worse, "state[0]/disable", |f, _| {
        f.idle.states[0].exit_latency_ns = Some(133_000);
    }),
    ("wake-up cost", Worse, "idle=poll", |_, p| {
        p.wake_idle_ns = Some(50_000.0)
    }),
    ("wake-up cost", Worse, "haltpoll.force=1", |f, p| {
        f.virtualization.virtual_machine = Some(true);
        p.wake_idle_ns = Some(50_000.0);
    }),
    (
        "wake-up cost",
        Worse,
        "parameters/guest_halt_poll_ns",
        |f, p| {
            f.idle.driver = Some("haltpoll".to_owned());
            p.wake_idle_ns = Some(50_000.0);
        },
    ),
    ("mitigations", Worse, "mitigations=off", |f, _| {
        let mitigation = "Mitigation: PTI".to_owned();
        f.cpu
            .vulnerabilities
            .insert("meltdown".to_owned(), mitigation);
    }),
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
        limit_locked(f, Some(64 << 10));
    }),
    ("locked memory", Worse, "ulimit -l unlimited", |f, _| {
        limit_locked(f, None);
    }),
    (
        "perf permissions",
        Missing,
        "perf_event_paranoid",
        |_, p| p.software_events = fails("EACCES"),
    ),
    ("perf permissions", Missing, "PERFMON", |f, p| {
        f.inherited.seccomp = Some(Seccomp::Filter);
        p.software_events = fails("EPERM");
    }),
    ("perf permissions", Worse, "paranoid=1", |f, p| {
        p.kernel_events = fails("EACCES");
        set(f, "kernel.perf_event_paranoid", "2");
    }),
    ("perf permissions", Worse, "paranoid=1", |f, p| {
        p.software_events = None;
        p.kernel_events = None;
        set(f, "kernel.perf_event_paranoid", "2");
    }),
    ("perf permissions", Missing, "setcap", |f, p| {
        p.software_events = None;
        set(f, "kernel.perf_event_paranoid", "4");
    }),
    ("hardware counters", Missing, "pmu=on", |f, p| {
        f.virtualization.virtual_machine = Some(true);
        f.performance_units = Some(vec!["software".to_owned()]);
        p.hardware_events = fails("ENOENT");
    }),
    ("hardware counters", Missing, "dmesg", |f, p| {
        f.performance_units = Some(vec!["software".to_owned()]);
        p.hardware_events = None;
    }),
    ("hardware counters", Missing, "paranoid", |_, p| {
        p.hardware_events = fails("EACCES")
    }),
    ("tracepoints", Missing, "paranoid", |_, p| {
        p.software_events = fails("perf_event_open: EPERM");
        p.tracepoints = fails("perf_event_open: EPERM");
    }),
    ("tracepoints", Missing, "root", |_, p| {
        p.tracepoints = fails("EACCES")
    }),
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
fn each_topic_can_be_unhealthy_and_says_what_to_do() {
    for (topic, state, advice, change) in UNHEALTHY {
        let diagnosis = after(topic, change);
        assert_eq!(diagnosis.state, *state, "{diagnosis:?}");
        let given = diagnosis.advice.as_deref().unwrap_or("");
        assert!(given.contains(advice), "`{advice}` in {diagnosis:?}");
        let is_said = !diagnosis.what.is_empty() && !diagnosis.effect.is_empty();
        assert!(is_said, "{diagnosis:?}");
    }
    let (facts, probed) = quiet();
    for diagnosis in diagnose(&facts, &probed) {
        let is_it = |row: &Unhealthy| row.0 == diagnosis.topic;
        assert!(UNHEALTHY.iter().any(is_it), "{}", diagnosis.topic);
    }
}

#[test]
fn a_quiet_server_is_good_throughout() {
    let (facts, probed) = quiet();
    for diagnosis in diagnose(&facts, &probed) {
        assert_eq!(diagnosis.state, Good, "{diagnosis:?}");
    }
}

#[test]
fn what_was_not_checked_is_neither_good_nor_bad() {
    for diagnosis in diagnose(&Facts::default(), &Probed::default()) {
        assert_eq!(diagnosis.state, NotChecked, "{diagnosis:?}");
        let is_said = !diagnosis.what.is_empty() && !diagnosis.effect.is_empty();
        assert!(is_said, "{diagnosis:?}");
    }
}

#[test]
fn states_depend_on_capabilities_quotas_and_hypervisors() {
    type Case = (&'static str, DiagnosisState, fn(&mut Facts, &mut Probed));
    let cases: &[Case] = &[
        ("locked memory", Good, |f, _| {
            limit_locked(f, Some(64 << 10));
            hold(f, "ipc_lock");
        }),
        ("perf permissions", Good, |f, _| {
            set(f, "kernel.perf_event_paranoid", "4");
            hold(f, "perfmon");
        }),
        // What root of a user namespace holds lifts nothing.
        ("locked memory", Worse, |f, _| {
            limit_locked(f, Some(64 << 10));
            hold(f, "ipc_lock");
            f.inherited.initial_user_namespace = Some(false);
        }),
        // A quota of all processors is none.
        ("CPU limits", Good, |f, _| {
            f.inherited.cgroup.cpu_quota_cpus = Some(4.0)
        }),
        // A virtual machine does not know what else runs on its cores.
        ("SMT", NotChecked, |f, _| {
            f.virtualization.virtual_machine = Some(true)
        }),
    ];
    for (topic, state, change) in cases {
        let diagnosis = after(topic, change);
        assert_eq!(diagnosis.state, *state, "{diagnosis:?}");
    }
}

#[test]
fn advice_is_for_this_user() {
    let advice = |change: fn(&mut Facts)| {
        let diagnosis = after("governor", |facts, _| {
            facts.frequency.policies[0].governor = Some("powersave".to_owned());
            change(facts);
        });
        diagnosis.advice.unwrap()
    };
    assert!(advice(|_| ()).contains("| sudo tee"));
    let root = advice(|facts| facts.inherited.effective_user = Some(0));
    assert!(root.contains("| tee"), "{root}");
    let inside = advice(|facts| facts.virtualization.container = Some("docker".to_owned()));
    assert!(inside.starts_with("on the host: "), "{inside}");
}

#[test]
fn a_refused_file_is_the_reason() {
    let refused = after("clock source", |facts, _| {
        facts.clock_source.current = None;
        facts.unread = vec![Unread {
            what: "/sys/devices/system/clocksource/clocksource0/current_clocksource".to_owned(),
            reason: "permission denied".to_owned(),
        }];
    });
    assert_eq!(refused.state, NotChecked);
    assert!(refused.what.ends_with("permission denied"), "{refused:?}");
}

#[test]
fn what_uses_the_core_is_as_likely_as_the_machine_says() {
    let guest = after("core", |f, p| {
        f.virtualization.virtual_machine = Some(true);
        shared(p);
    });
    assert_eq!(
        guest.what,
        "something else used the core of CPU 3 for 62.0 % of the time just now and took 34.5 % of \
         its execution slots then (by a gauge with a floor of 0.250 cycles an addition): most \
         likely another virtual machine on its second hardware thread"
    );
    let sibling = UNHEALTHY.iter().find(|row| row.2.contains("cpu7")).unwrap();
    let visible = after("core", sibling.3);
    let ran = ": on CPU 7, which shares it, ran make (process 123) for 80.0 % of the time";
    assert!(visible.what.ends_with(ran), "{visible:?}");
    let bare = after("core", |_, p| _ = shared(p));
    assert!(bare.what.ends_with("an addition)"), "{bare:?}");
    let unknown = after("core", |_, p| {
        let core = p.core.as_mut().unwrap();
        (core.floor, core.shared) = (None, None);
    });
    assert_eq!(unknown.state, NotChecked);
    assert!(unknown.what.contains("on CPU 3 the floor"), "{unknown:?}");
}
