//! What here will make numbers worse or missing, and what to do about it.
//!
//! Judges facts and what was tried; looks nothing up itself, and says of nothing that it is well or
//! ill unless a fact or a trial says so. Limits are chosen so that an ordinary quiet machine passes.

pub use costof_model::facts::{Diagnosis, DiagnosisState};
use costof_model::facts::{Facts, Probed, Seccomp, Trial};

/// One thing to look at. No diagnosis: it does not exist on such a machine.
type Topic = fn(&Facts, &Probed) -> Option<Diagnosis>;

/// In the order in which they are shown: what moves all numbers first, what only some need last.
const TOPICS: &[Topic] = &[
    clock_source,
    load,
    steal,
    cpu_limits,
    hypervisor,
    frequency_scaling,
    governor,
    turbo,
    power,
    smt,
    idle_states,
    wake_up,
    priority,
    environment,
    memory_left,
    huge_pages,
    locked_memory,
    seccomp,
    mitigations,
    software_events,
    hardware_events,
    tracepoints,
    namespaces,
    io_uring,
];

/// A state below C1 costs some 10 µs to leave, which is as long as a round trip over loopback.
const DEEP_IDLE_NS: u64 = 10_000;

/// Waking an idle processor may cost this much more than an awake one before it is worth telling.
const WAKE_EXTRA_NS: f64 = 2_000.0;

/// Others' use of the processors, while trying, from which medians move.
const BUSY_SHARE: f64 = 0.05;

/// The load per processor from which a measurement meets others.
const LOAD_PER_CPU: f64 = 0.3;

/// Stolen time from which percentiles show it.
const STEAL_SHARE: f64 = 0.001;

/// The largest arena of the default plan, with what the rest needs beside it.
const MEMORY_WANTED_BYTES: u64 = (1 << 30) + (256 << 20);

/// Enough for rings, registered buffers and pinned pages of the default plan.
const LOCKED_WANTED_BYTES: u64 = 64 << 20;

/// All diagnoses, in the order of the topics.
pub fn diagnose(facts: &Facts, probed: &Probed) -> Vec<Diagnosis> {
    TOPICS
        .iter()
        .filter_map(|topic| topic(facts, probed))
        .collect()
}

fn clock_source(facts: &Facts, _: &Probed) -> Option<Diagnosis> {
    let topic = "clock source";
    let Some(current) = facts.clock_source.current.as_deref() else {
        return not_checked(
            topic,
            why(
                facts,
                "clocksource",
                "the kernel does not tell which it uses",
            ),
            "each reading of the time takes microseconds",
        );
    };
    let what = format!("the kernel keeps time by {current}");
    let counter = matches!(current, "tsc" | "arch_sys_counter");
    if counter && facts.cpu.tsc_invariant != Some(false) {
        return good(
            topic,
            what,
            "the time is read in user space, in tens of nanoseconds",
        );
    }
    if counter {
        return worse(
            topic,
            format!("{what}, whose rate follows the core clock"),
            "times are taken by CLOCK_MONOTONIC, with coarser resolution and longer batches",
            "measure longer with --full, or on a processor with constant_tsc and nonstop_tsc",
        );
    }
    let effect = match current {
        "hpet" | "acpi_pm" | "jiffies" | "refined-jiffies" => {
            "each reading of the clock enters the kernel and takes microseconds: latencies of single \
             operations are wrong by that much, and the programs on this machine pay it too"
        }
        _ => {
            "the TSC cannot be held against the kernel's clock: times are taken by CLOCK_MONOTONIC"
        }
    };
    let advice = if facts
        .clock_source
        .available
        .iter()
        .any(|source| source == "tsc")
    {
        "echo tsc | sudo tee /sys/devices/system/clocksource/clocksource0/current_clocksource"
    } else {
        "see why the kernel rejected the TSC: sudo dmesg | grep -i -e tsc -e clocksource"
    };
    worse(topic, what, effect, advice)
}

fn load(facts: &Facts, probed: &Probed) -> Option<Diagnosis> {
    let topic = "load";
    let effect =
        "other programs take processors, caches and memory bandwidth from what is measured";
    let advice = "see what runs with `top`, stop it, or measure on a processor that it leaves alone \
                  (--cpu LIST)";
    if let Some(busy) = probed.busy_share {
        let what = format!(
            "others used {} of the processors' time just now",
            percent(busy)
        );
        return if busy > BUSY_SHARE {
            worse(topic, what, effect, advice)
        } else {
            good(topic, what, "little is taken from what is measured")
        };
    }
    let (Some(load), Some(cpus)) = (facts.activity.load_1min, facts.cpu.logical_count) else {
        return not_checked(
            topic,
            why(facts, "loadavg", "the kernel tells no load"),
            effect,
        );
    };
    let what = format!("{load} tasks ran or waited in the last minute, on {cpus} processors");
    if load > LOAD_PER_CPU * f64::from(cpus) {
        return worse(topic, what, effect, advice);
    }
    good(topic, what, "little is taken from what is measured")
}

fn steal(facts: &Facts, probed: &Probed) -> Option<Diagnosis> {
    let topic = "steal";
    let effect = "the hypervisor stops this machine for milliseconds at a time: tails and maxima are \
                  the neighbours', and medians move between runs";
    let (share, when) = match (probed.steal_share, facts.activity.steal_share) {
        (Some(share), _) => (share, "just now"),
        (None, Some(share)) => (share, "since the start"),
        (None, None) => {
            return not_checked(
                topic,
                why(facts, "stat", "the kernel does not count it"),
                effect,
            );
        }
    };
    let what = format!(
        "the hypervisor gave {} of the processors' time to others {when}",
        percent(share)
    );
    if share > STEAL_SHARE {
        return worse(
            topic,
            what,
            effect,
            "measure at another time, or on an instance with processors of its own",
        );
    }
    let effect = match facts.virtualization.virtual_machine {
        Some(true) => "no time is missing, as far as the hypervisor tells",
        _ => "no time is missing",
    };
    good(topic, what, effect)
}

fn cpu_limits(facts: &Facts, _: &Probed) -> Option<Diagnosis> {
    let topic = "CPU limits";
    let usable = facts.usable_cpus();
    let cgroup = &facts.inherited.cgroup;
    let lift = match facts.virtualization.container.as_deref() {
        Some("kubernetes") => {
            "remove `resources.limits.cpu` from the pod, or give it whole processors with the static \
             CPU manager policy"
        }
        Some("docker" | "podman") => {
            "start the container without --cpus, --cpu-quota and --cpu-shares"
        }
        _ => "run outside of the limited group: systemd-run --scope -p CPUQuota= costof run",
    };
    if let Some(quota) = cgroup
        .cpu_quota_cpus
        .filter(|&quota| quota < usable.len().max(1) as f64)
    {
        let period_ms = cgroup.cpu_quota_period_ns.unwrap_or(100_000_000) / 1_000_000;
        let count = match cgroup.cpu_throttled_count {
            Some(count) => format!(", and has been stopped by it {count} times"),
            None => String::new(),
        };
        return worse(
            topic,
            format!("the cgroup may use {quota} processors' time of each {period_ms} ms{count}"),
            "a measurement that uses it up stands still until the period ends: rates are cut, and \
             tails last up to a period",
            lift,
        );
    }
    if let Some(weight) = cgroup.cpu_weight.filter(|&weight| weight < 50.0) {
        return worse(
            topic,
            format!("the cgroup's weight is {weight:.0} of the usual 100"),
            "other groups come first where processors are short",
            lift,
        );
    }
    if usable.len() == 1 {
        return missing(
            topic,
            format!("this process may run on processor {usable} only"),
            "points that need a second processor cannot be measured",
            "allow it another: taskset -c 0-1 costof run, or a container with --cpuset-cpus of two \
             or more",
        );
    }
    if cgroup.version.is_none() || usable.is_empty() {
        let what = why(facts, "cgroup", "no cgroup of this process can be seen");
        return not_checked(topic, what, "a quota cuts rates and lengthens tails");
    }
    good(
        topic,
        format!("no quota that can be seen, and processors {usable} to run on"),
        "nothing stops a measurement half-way",
    )
}

fn hypervisor(facts: &Facts, _: &Probed) -> Option<Diagnosis> {
    let topic = "hypervisor";
    let effect = "page faults, timers, wake-ups and I/O cost more than on the bare machine, and the \
                  last-level cache may be shared with strangers: what is claimed may not be what you get";
    match (
        facts.virtualization.virtual_machine,
        facts.virtualization.hypervisor.as_deref(),
    ) {
        (Some(true), name) => worse(
            topic,
            format!(
                "this is a virtual machine ({})",
                name.unwrap_or("of an unnamed hypervisor")
            ),
            effect,
            "take the numbers as this instance type's; compare with runs on the same type, or \
             measure on bare metal to know the processor's own",
        ),
        (Some(false), _) => good(
            topic,
            "no hypervisor is seen",
            "the costs are the machine's own",
        ),
        (None, _) => not_checked(
            topic,
            "neither processor nor firmware tell".to_owned(),
            effect,
        ),
    }
}

fn frequency_scaling(facts: &Facts, _: &Probed) -> Option<Diagnosis> {
    let topic = "frequency scaling";
    let frequency = &facts.frequency;
    let Some(driver) = frequency.driver.as_deref() else {
        let what = match facts.virtualization.virtual_machine {
            Some(true) => "the host chooses the core clock, out of this machine's sight",
            _ => "the kernel has no driver for it",
        };
        return not_checked(
            topic,
            what.to_owned(),
            "the core clock moves between runs (cpu.frequency measures it)",
        );
    };
    let capped = frequency.policies.iter().find(|policy| {
        matches!((policy.max_hz, policy.hardware_max_hz), (Some(max), Some(hardware)) if max < hardware)
    });
    if let Some(policy) = capped {
        let (max, hardware) = (
            policy.max_hz.unwrap_or(0),
            policy.hardware_max_hz.unwrap_or(0),
        );
        return worse(
            topic,
            format!(
                "{driver} may not choose more than {} of {} on processors {}",
                ghz(max),
                ghz(hardware),
                policy.cpus
            ),
            "everything that the core itself does takes longer than this machine can do",
            "sudo cpupower frequency-set --max $(cat \
             /sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq)",
        );
    }
    good(
        topic,
        format!("{driver} may choose the whole range"),
        "the full clock can be had",
    )
}

fn governor(facts: &Facts, _: &Probed) -> Option<Diagnosis> {
    let topic = "governor";
    let effect = "the core clock follows the load: short measurements start slow, and two runs of one \
                  thing differ";
    let mut governors: Vec<&str> = facts
        .frequency
        .policies
        .iter()
        .filter_map(|policy| policy.governor.as_deref())
        .collect();
    governors.sort_unstable();
    governors.dedup();
    if governors.is_empty() {
        // frequency_scaling has said why there is none.
        facts.frequency.driver.as_ref()?;
        let what = why(facts, "scaling_governor", "the driver names none");
        return not_checked(topic, what, effect);
    }
    let what = format!("the governor is {}", governors.join(" and "));
    if governors == ["performance"] {
        return good(topic, what, "the clock stays as high as it may");
    }
    worse(
        topic,
        what,
        effect,
        "sudo cpupower frequency-set --governor performance",
    )
}

fn turbo(facts: &Facts, _: &Probed) -> Option<Diagnosis> {
    let topic = "turbo";
    let intel = facts
        .frequency
        .driver
        .as_deref()
        .is_some_and(|driver| driver.starts_with("intel"));
    match facts.frequency.turbo_enabled {
        Some(true) => worse(
            topic,
            "clocks above the base are allowed".to_owned(),
            "the core clock depends on temperature and on how many cores are busy; estimated core \
             cycles compare better than nanoseconds",
            if intel {
                "to compare runs: echo 1 | sudo tee /sys/devices/system/cpu/intel_pstate/no_turbo; to \
                 know what users get, leave it on"
            } else {
                "to compare runs: echo 0 | sudo tee /sys/devices/system/cpu/cpufreq/boost; to know what \
                 users get, leave it on"
            },
        ),
        Some(false) => good(
            topic,
            "clocks above the base are switched off",
            "the clock is steady",
        ),
        None => {
            facts.frequency.driver.as_ref()?;
            let what = why(facts, "boost", "the driver does not tell");
            not_checked(topic, what, "the core clock depends on temperature")
        }
    }
}

fn power(facts: &Facts, _: &Probed) -> Option<Diagnosis> {
    let topic = "power";
    let effect = "clocks are kept low to save energy";
    let profile = facts.frequency.platform_profile.as_deref();
    if facts.frequency.on_battery == Some(true) {
        return worse(
            topic,
            "the machine runs from its battery".to_owned(),
            effect,
            "plug it in",
        );
    }
    if let Some(profile @ ("low-power" | "quiet" | "cool")) = profile {
        return worse(
            topic,
            format!("the platform's profile is {profile}"),
            effect,
            "powerprofilesctl set performance",
        );
    }
    facts.frequency.on_battery?;
    good(
        topic,
        "the machine runs from the mains",
        "clocks are not kept low to save energy",
    )
}

fn smt(facts: &Facts, _: &Probed) -> Option<Diagnosis> {
    let topic = "SMT";
    let effect = "what runs on the other thread of a core takes up to half of it";
    let shared = facts.cpu.cores.iter().find(|core| core.len() > 1);
    let active = facts
        .cpu
        .smt_active
        .or_else(|| (!facts.cpu.cores.is_empty()).then_some(shared.is_some()));
    match (active, facts.virtualization.virtual_machine) {
        (Some(true), _) => {
            let example = match shared {
                Some(core) => format!(" (processors {core} are one)"),
                None => String::new(),
            };
            worse(
                topic,
                format!("cores run more than one thread{example}"),
                effect,
                "keep the other thread free: measure with --cpu on one thread of each core, or echo \
                 off | sudo tee /sys/devices/system/cpu/smt/control",
            )
        }
        (Some(false), Some(true)) => not_checked(
            topic,
            "this machine sees one thread on each core; the host does not tell whose the other is"
                .to_owned(),
            effect,
        ),
        (Some(false), _) => good(topic, "each core runs one thread", "a core is not shared"),
        (None, _) => not_checked(topic, "the kernel tells no siblings".to_owned(), effect),
    }
}

fn idle_states(facts: &Facts, _: &Probed) -> Option<Diagnosis> {
    let topic = "idle states";
    let effect = "a thread that waits is woken late: round trips and hand-overs show two modes, awake \
                  and idle";
    let deepest = facts
        .idle
        .states
        .iter()
        .filter(|state| state.disabled != Some(true))
        .max_by_key(|state| state.exit_latency_ns);
    let Some((state, latency_ns)) = deepest.and_then(|state| Some((state, state.exit_latency_ns?)))
    else {
        let what = match facts.virtualization.virtual_machine {
            Some(true) => "the kernel tells of none; a halt goes to the hypervisor",
            _ => "the kernel tells of none",
        };
        return not_checked(topic, what.to_owned(), effect);
    };
    let what = format!(
        "the deepest idle state, {}, says {} to leave it",
        state.name,
        us(latency_ns as f64)
    );
    if latency_ns >= DEEP_IDLE_NS {
        return worse(
            topic,
            what,
            effect,
            "sudo cpupower idle-set --disable-by-latency 2, and afterwards --enable-all; or compare \
             points with `wake` = awake",
        );
    }
    let effect = match facts.virtualization.virtual_machine {
        Some(true) => "as the guest is told; waking through the hypervisor is another matter",
        _ => "waking up is quick",
    };
    good(topic, what, effect)
}

fn wake_up(_: &Facts, probed: &Probed) -> Option<Diagnosis> {
    let topic = "wake-up cost";
    let effect = "whatever waits for another processor pays it: an idle machine looks slower than a \
                  busy one";
    let (Some(idle_ns), Some(awake_ns)) = (probed.wake_idle_ns, probed.wake_awake_ns) else {
        return not_checked(topic, "not tried".to_owned(), effect);
    };
    let what = format!(
        "waking a thread takes {} on an idle processor, {} on an awake one",
        us(idle_ns),
        us(awake_ns)
    );
    if idle_ns - awake_ns > WAKE_EXTRA_NS && idle_ns > 1.25 * awake_ns {
        return worse(
            topic,
            what,
            effect,
            "compare points with the same `wake`; to keep processors awake, start the kernel with \
             idle=poll (a virtual machine: cpuidle_haltpoll.force=1 \
             haltpoll.guest_halt_poll_ns=200000)",
        );
    }
    good(topic, what, "idle and awake cost nearly the same")
}

fn priority(facts: &Facts, _: &Probed) -> Option<Diagnosis> {
    let topic = "priority";
    let effect = "others run first: waits and tails are longer";
    let inherited = &facts.inherited;
    match (
        inherited.scheduling_policy.as_deref(),
        inherited.nice,
        inherited.autogroup_nice,
    ) {
        (Some(policy @ ("idle" | "batch")), _, _) => worse(
            topic,
            format!("the scheduling policy is {policy}"),
            effect,
            "chrt --other 0 costof run",
        ),
        (_, Some(nice), _) if nice > 0 => worse(
            topic,
            format!("the nice value is {nice}"),
            effect,
            "start it without `nice`, or: sudo renice -n 0 -p $$",
        ),
        (_, _, Some(nice)) if nice > 0 => worse(
            topic,
            format!("the autogroup's nice value is {nice}"),
            effect,
            "sudo sh -c \"echo 0 > /proc/$$/autogroup\"",
        ),
        (Some(policy), Some(nice), _) => good(
            topic,
            format!("policy {policy}, nice value {nice}"),
            "it has its turn like everything else",
        ),
        _ => not_checked(
            topic,
            why(facts, "/proc/self/stat", "the kernel does not tell"),
            effect,
        ),
    }
}

fn environment(facts: &Facts, _: &Probed) -> Option<Diagnosis> {
    let topic = "environment";
    let names: Vec<&str> = facts
        .inherited
        .environment
        .keys()
        .map(String::as_str)
        .collect();
    if !names.is_empty() {
        let unset: Vec<String> = names.iter().map(|name| format!("-u {name}")).collect();
        return worse(
            topic,
            format!(
                "{} changes how programs are loaded or get memory",
                names.join(", ")
            ),
            "starting programs, allocation and calls into libraries may cost something else than usual",
            &format!("env {} costof run", unset.join(" ")),
        );
    }
    if let Some(reason) = facts.why_unread("environ") {
        let effect = "a preloaded library changes what calls cost";
        return not_checked(topic, format!("/proc/self/environ: {reason}"), effect);
    }
    None
}

fn memory_left(facts: &Facts, _: &Probed) -> Option<Diagnosis> {
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
    let advice = if facts.inherited.cgroup.memory_limit_bytes.is_some() {
        "raise the container's memory limit to 2 GiB or more, or ask for smaller sizes (--set size=…)"
    } else {
        "see who uses it with `ps aux --sort=-rss | head`, or ask for smaller sizes (--set size=…)"
    };
    missing(
        topic,
        format!("{what}, and the largest arena of the default plan takes 1 GiB"),
        "the largest sizes cannot be measured; near the end of memory the rest is slow too",
        advice,
    )
}

fn huge_pages(facts: &Facts, probed: &Probed) -> Option<Diagnosis> {
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
            "echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled",
        );
    }
    match (&probed.huge_page, mode) {
        (Some(Trial::Fails { reason }), _) => missing(
            topic,
            format!("none was to be had: {reason}"),
            effect,
            "put memory together, then try again: echo 1 | sudo tee /proc/sys/vm/compact_memory",
        ),
        (Some(Trial::Works), _) => good(
            topic,
            "one was had when asked for",
            "both page sizes can be measured",
        ),
        (None, Some(mode)) => not_checked(
            topic,
            format!("allowed ({mode}), and none was asked for yet"),
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

fn locked_memory(facts: &Facts, _: &Probed) -> Option<Diagnosis> {
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
        None => "ulimit -l unlimited",
        Some(hard) if hard >= LOCKED_WANTED_BYTES => "ulimit -l $(ulimit -H -l)",
        Some(_) => {
            "raise it for your user in /etc/security/limits.conf (`* - memlock unlimited`) and log in \
             again; a container: --ulimit memlock=-1"
        }
    };
    worse(topic, what, effect, advice)
}

fn seccomp(facts: &Facts, _: &Probed) -> Option<Diagnosis> {
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

/// Words in the kernel's descriptions that stand for work at each entry, exit or indirect branch.
const COSTLY_MITIGATIONS: &[&str] = &[
    "PTI",
    "Clear CPU buffers",
    "Retpolines",
    "untrained return thunk",
    "Safe RET",
    "IBPB on",
    "Mitigation: IBRS",
];

fn mitigations(facts: &Facts, _: &Probed) -> Option<Diagnosis> {
    let topic = "mitigations";
    let effect = "entering and leaving the kernel, switching contexts and calling through pointers in it \
                  cost more";
    if facts.cpu.vulnerabilities.is_empty() {
        return not_checked(
            topic,
            why(facts, "vulnerabilities", "the kernel tells of none"),
            effect,
        );
    }
    let costly: Vec<String> = COSTLY_MITIGATIONS
        .iter()
        .filter_map(|word| {
            let found = facts
                .cpu
                .vulnerabilities
                .iter()
                .find(|(_, told)| told.contains(word))?;
            let word = word.trim_start_matches("Mitigation: ");
            Some(format!("{word} ({})", found.0))
        })
        .collect();
    if costly.is_empty() {
        return good(
            topic,
            "none that costs much is on",
            "the kernel is entered at its plain price",
        );
    }
    worse(
        topic,
        format!("on: {}", costly.join(", ")),
        effect,
        "it is part of what this machine costs: leave it on, and compare only with machines that have \
         the same; a laboratory without secrets may start the kernel with mitigations=off",
    )
}

fn software_events(facts: &Facts, probed: &Probed) -> Option<Diagnosis> {
    let topic = "perf permissions";
    let effect = "counts of context switches, migrations and page faults are missing, and with them the \
                  causes of bad grades";
    let paranoid: Option<i64> = facts
        .kernel
        .sysctls
        .get("kernel.perf_event_paranoid")
        .and_then(|level| level.parse().ok());
    let level = paranoid.map_or_else(String::new, |level| {
        format!(" (perf_event_paranoid is {level})")
    });
    match (&probed.software_events, paranoid) {
        (Some(Trial::Fails { reason }), _) => missing(
            topic,
            format!("{reason}{level}"),
            effect,
            perf_advice(facts),
        ),
        (_, Some(2)) if !may_perf(facts) => worse(
            topic,
            format!("events count in user space only{level}"),
            "what happens inside the kernel is not counted",
            perf_advice(facts),
        ),
        (Some(Trial::Works), _) => good(
            topic,
            format!("software events count{level}"),
            "causes of bad grades are known",
        ),
        (None, Some(paranoid)) if paranoid > 2 && !may_perf(facts) => missing(
            topic,
            format!("the kernel refuses them{level}"),
            effect,
            perf_advice(facts),
        ),
        (None, _) => not_checked(topic, format!("not tried{level}"), effect),
    }
}

fn hardware_events(facts: &Facts, probed: &Probed) -> Option<Diagnosis> {
    let topic = "hardware counters";
    let effect = "cycles, instructions and cache misses are missing; core cycles are estimated from the \
                  clock instead";
    let virtual_machine = facts.virtualization.virtual_machine == Some(true);
    let no_unit = "there is no performance monitoring unit";
    let unit_advice = if virtual_machine {
        "ask for an instance type with a virtual PMU (a metal or whole-socket one); on your own KVM \
         host, give the guest `-cpu host,pmu=on`"
    } else {
        "see whether the firmware switched it off, and what the kernel says: sudo dmesg | grep -i -e pmu \
         -e 'Performance Events'"
    };
    match (&probed.hardware_events, facts.has_performance_unit()) {
        (Some(Trial::Works), _) => good(
            topic,
            "cycles can be counted",
            "nanoseconds have their reasons beside them",
        ),
        (Some(Trial::Fails { reason }), Some(false)) => {
            missing(topic, format!("{no_unit} ({reason})"), effect, unit_advice)
        }
        (Some(Trial::Fails { reason }), _) => missing(
            topic,
            format!("cycles cannot be counted: {reason}"),
            effect,
            perf_advice(facts),
        ),
        (None, Some(false)) => missing(topic, no_unit.to_owned(), effect, unit_advice),
        (None, _) => not_checked(topic, "counting was not tried".to_owned(), effect),
    }
}

fn tracepoints(_: &Facts, probed: &Probed) -> Option<Diagnosis> {
    let topic = "tracepoints";
    let effect =
        "that a system call entered the kernel is shown by its cost only, not by counting entries";
    match &probed.tracepoints {
        Some(Trial::Works) => good(
            topic,
            "they can be counted",
            "entries into the kernel are counted",
        ),
        Some(Trial::Fails { reason }) => missing(
            topic,
            reason.clone(),
            effect,
            "run as root, or: sudo mount -o remount,mode=755 /sys/kernel/tracing && sudo sysctl \
             kernel.perf_event_paranoid=-1",
        ),
        None => not_checked(topic, "not tried".to_owned(), effect),
    }
}

fn namespaces(facts: &Facts, probed: &Probed) -> Option<Diagnosis> {
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

fn io_uring(facts: &Facts, probed: &Probed) -> Option<Diagnosis> {
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

fn perf_advice(facts: &Facts) -> &'static str {
    match facts.inherited.seccomp {
        Some(Seccomp::Filter) => {
            "in a container: --cap-add PERFMON and a seccomp profile that allows perf_event_open; on the \
             host: sudo sysctl kernel.perf_event_paranoid=1"
        }
        _ => {
            "sudo sysctl kernel.perf_event_paranoid=1, or only for this program: sudo setcap \
             cap_perfmon=ep $(command -v costof)"
        }
    }
}

/// Whether perf_event_paranoid does not bind this process. Source: perf_event_open(2).
fn may_perf(facts: &Facts) -> bool {
    holds(facts, "perfmon") || holds(facts, "sys_admin")
}

fn holds(facts: &Facts, capability: &str) -> bool {
    let held = facts.inherited.capabilities.as_ref();
    held.is_some_and(|held| held.iter().any(|name| name == capability))
}

/// Why a fact is absent: it was refused, or what holds where it simply is not there.
fn why(facts: &Facts, file: &str, otherwise: &str) -> String {
    match facts
        .unread
        .iter()
        .find(|unread| unread.what.contains(file))
    {
        Some(unread) => format!("{}: {}", unread.what, unread.reason),
        None => otherwise.to_owned(),
    }
}

fn percent(share: f64) -> String {
    match share * 100.0 {
        0.0 => "0 %".to_owned(),
        percent if percent < 0.1 => "less than 0.1 %".to_owned(),
        percent => format!("{percent:.1} %"),
    }
}

fn us(ns: f64) -> String {
    format!("{:.1} µs", ns / 1e3)
}

fn ghz(hz: u64) -> String {
    format!("{:.2} GHz", hz as f64 / 1e9)
}

fn good(topic: &str, what: impl Into<String>, effect: &str) -> Option<Diagnosis> {
    diagnosis(topic, DiagnosisState::Good, what.into(), effect, None)
}

fn worse(topic: &str, what: String, effect: &str, advice: &str) -> Option<Diagnosis> {
    diagnosis(topic, DiagnosisState::Worse, what, effect, Some(advice))
}

fn missing(topic: &str, what: String, effect: &str, advice: &str) -> Option<Diagnosis> {
    diagnosis(topic, DiagnosisState::Missing, what, effect, Some(advice))
}

/// What follows is only possible, and says so.
fn not_checked(topic: &str, what: String, effect: &str) -> Option<Diagnosis> {
    let effect = format!("at worst, {effect}");
    diagnosis(topic, DiagnosisState::NotChecked, what, &effect, None)
}

fn diagnosis(
    topic: &str,
    state: DiagnosisState,
    what: String,
    effect: &str,
    advice: Option<&str>,
) -> Option<Diagnosis> {
    Some(Diagnosis {
        topic: topic.to_owned(),
        state,
        what,
        effect: effect.to_owned(),
        advice: advice.map(str::to_owned),
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use costof_model::facts::{CpuSet, FrequencyPolicy, IdleState, Rlimit, Unread};

    use super::DiagnosisState::{Good, Missing, NotChecked, Worse};
    use super::*;

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
            tracepoints: works.clone(),
            user_namespaces: works.clone(),
            network_namespaces: works.clone(),
            huge_page: works.clone(),
            io_uring: works,
            wake_idle_ns: Some(2500.0),
            wake_awake_ns: Some(2000.0),
            steal_share: Some(0.0),
            busy_share: Some(0.01),
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

    #[test]
    fn a_quiet_server_is_good_throughout() {
        let (facts, probed) = quiet();
        for diagnosis in diagnose(&facts, &probed) {
            assert_eq!(diagnosis.state, Good, "{diagnosis:?}");
        }
    }

    #[test]
    fn nothing_is_said_of_what_was_not_checked() {
        for diagnosis in diagnose(&Facts::default(), &Probed::default()) {
            assert_eq!(diagnosis.state, NotChecked, "{diagnosis:?}");
            assert!(
                !diagnosis.what.is_empty() && !diagnosis.effect.is_empty(),
                "{diagnosis:?}"
            );
        }
    }

    /// What is wrong, the topic that says so, its state, and a word of its advice.
    type Ill = (
        &'static str,
        DiagnosisState,
        &'static str,
        fn(&mut Facts, &mut Probed),
    );

    const ILL: &[Ill] = &[
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
        ("CPU limits", Worse, "--cpus", |f, _| {
            f.inherited.cgroup.cpu_quota_cpus = Some(0.5);
            f.virtualization.container = Some("docker".to_owned());
        }),
        ("CPU limits", Worse, "resources.limits", |f, _| {
            f.inherited.cgroup.cpu_weight = Some(2.0);
            f.virtualization.container = Some("kubernetes".to_owned());
        }),
        ("CPU limits", Missing, "taskset", |f, _| {
            f.inherited.allowed_cpus = CpuSet::from_iter([2]);
        }),
        ("hypervisor", Worse, "bare metal", |f, _| {
            f.virtualization.virtual_machine = Some(true)
        }),
        ("frequency scaling", Worse, "--max", |f, _| {
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
        ("power", Worse, "powerprofilesctl", |f, _| {
            f.frequency.platform_profile = Some("low-power".to_owned());
        }),
        ("SMT", Worse, "smt/control", |f, _| {
            f.cpu.smt_active = Some(true)
        }),
        ("SMT", Worse, "--cpu", |f, _| {
            f.cpu.smt_active = None;
            f.cpu.cores[0] = CpuSet::from_iter([0, 2]);
        }),
        ("idle states", Worse, "idle-set", |f, _| {
            f.idle.states[0].exit_latency_ns = Some(133_000);
        }),
        ("wake-up cost", Worse, "idle=poll", |_, p| {
            p.wake_idle_ns = Some(50_000.0)
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
        ("seccomp", Worse, "unconfined", |f, _| {
            f.inherited.seccomp = Some(Seccomp::Filter)
        }),
        ("mitigations", Worse, "mitigations=off", |f, _| {
            let told = "Mitigation: PTI".to_owned();
            f.cpu.vulnerabilities.insert("meltdown".to_owned(), told);
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
        ("perf permissions", Worse, "paranoid=1", |f, _| {
            set(f, "kernel.perf_event_paranoid", "2")
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
        ("tracepoints", Missing, "root", |_, p| {
            p.tracepoints = fails("EACCES")
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

    fn set(facts: &mut Facts, name: &str, value: &str) {
        facts
            .kernel
            .sysctls
            .insert(name.to_owned(), value.to_owned());
    }

    #[test]
    fn each_ill_is_told_by_its_topic_with_what_to_do() {
        for (topic, state, advice, change) in ILL {
            let diagnosis = after(topic, change);
            assert_eq!(diagnosis.state, *state, "{diagnosis:?}");
            let told = diagnosis.advice.as_deref().unwrap_or("");
            assert!(told.contains(advice), "`{advice}` in {diagnosis:?}");
            assert!(
                !diagnosis.what.is_empty() && !diagnosis.effect.is_empty(),
                "{diagnosis:?}"
            );
        }
    }

    #[test]
    fn each_topic_can_be_ill() {
        let (facts, mut probed) = quiet();
        probed.wake_idle_ns = Some(1e6);
        let named: Vec<&str> = ILL.iter().map(|(topic, ..)| *topic).collect();
        for diagnosis in diagnose(&facts, &probed) {
            assert!(
                named.contains(&diagnosis.topic.as_str()),
                "{}",
                diagnosis.topic
            );
        }
    }

    #[test]
    fn capabilities_lift_limits() {
        let lifted = after("locked memory", |facts, _| {
            let limit = Some(64 << 10);
            facts.inherited.rlimits.locked_memory_bytes = Some(Rlimit {
                soft: limit,
                hard: limit,
            });
            facts.inherited.capabilities = Some(vec!["ipc_lock".to_owned()]);
        });
        assert_eq!(lifted.state, Good);
        let root = after("perf permissions", |facts, _| {
            set(facts, "kernel.perf_event_paranoid", "4");
            facts.inherited.capabilities = Some(vec!["perfmon".to_owned()]);
        });
        assert_eq!(root.state, Good);
    }

    #[test]
    fn a_quota_of_all_processors_is_none() {
        let whole = after("CPU limits", |facts, _| {
            facts.inherited.cgroup.cpu_quota_cpus = Some(4.0);
        });
        assert_eq!(whole.state, Good);
    }

    #[test]
    fn a_refused_file_is_the_reason_that_is_told() {
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
    fn a_virtual_machine_does_not_know_who_shares_its_cores() {
        let smt = after("SMT", |facts, _| {
            facts.virtualization.virtual_machine = Some(true)
        });
        assert_eq!(smt.state, NotChecked);
    }
}
