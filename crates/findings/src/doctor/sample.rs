//! A machine for the tests, and what can be wrong with it.

use std::collections::BTreeMap;

use costof_model::facts::{
    CoreLook, CpuSet, Facts, FrequencyPolicy, IdleState, Probed, Rlimit, Seccomp, Trial,
};

use super::{Diagnosis, DiagnosisState, diagnose};

/// A quiet server that one could only wish for, everything tried.
pub(super) fn quiet() -> (Facts, Probed) {
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
pub(super) fn after(topic: &str, change: impl FnOnce(&mut Facts, &mut Probed)) -> Diagnosis {
    let (mut facts, mut probed) = quiet();
    change(&mut facts, &mut probed);
    let all = diagnose(&facts, &probed);
    all.into_iter()
        .find(|diagnosis| diagnosis.topic == topic)
        .unwrap()
}

pub(super) fn fails(reason: &str) -> Option<Trial> {
    Some(Trial::Fails {
        reason: reason.to_owned(),
    })
}

/// What is wrong, the topic that says so, its state, and a word of its advice.
pub(super) type Ill = (
    &'static str,
    DiagnosisState,
    &'static str,
    fn(&mut Facts, &mut Probed),
);

pub(super) fn set(facts: &mut Facts, name: &str, value: &str) {
    facts
        .kernel
        .sysctls
        .insert(name.to_owned(), value.to_owned());
}

/// Each ill is told by its topic, in its state, with its word of advice.
pub(super) fn check(ills: &[Ill]) {
    for (topic, state, advice, change) in ills {
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
