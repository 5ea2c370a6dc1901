//! Finds what will make numbers on this machine worse or missing, and what to do about it.
//!
//! Diagnoses come from facts and from trials that others made; this module looks nothing up by itself. It
//! calls nothing healthy or unhealthy unless a fact or a trial shows it. The limits are chosen so that an
//! ordinary quiet machine passes.
//!
//! Each check is a function in the file of its subject, with its place in the list below. It says which case holds;
//! what that means stands in `topics.toml`.

mod clock;
mod counters;
mod frequency;
mod limits;
mod memory;
mod neighbours;
mod network;
mod permissions;
mod processor;
mod verdict;

#[cfg(test)]
mod tests;

pub use costof_model::facts::{Diagnosis, DiagnosisState};
use costof_model::{Facts, Probed};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::LazyLock;
use verdict::Verdict;

/// Checks one topic; no verdict if this kind of machine does not have it.
type Check = fn(&Facts, &Probed) -> Option<Verdict>;

/// The topics, in the order in which they are shown: first what affects all numbers, last what affects only some.
const CHECKS: [(&str, Check); 28] = [
    ("clock source", clock::clock_source),
    ("load", neighbours::load),
    ("steal", neighbours::steal),
    ("core", neighbours::core),
    ("CPU limits", limits::cpu_limits),
    ("processors", limits::processors),
    ("hypervisor", neighbours::hypervisor),
    ("frequency scaling", frequency::frequency_scaling),
    ("governor", frequency::governor),
    ("turbo", frequency::turbo),
    ("SMT", processor::smt),
    ("idle states", processor::idle_states),
    ("priority", limits::priority),
    ("tracer", limits::tracer),
    ("environment", limits::environment),
    ("memory left", memory::memory_left),
    ("huge pages", memory::huge_pages),
    ("locked memory", memory::locked_memory),
    ("network links", network::links),
    ("seccomp", permissions::seccomp),
    ("mitigations", processor::mitigations),
    ("perf permissions", counters::software_events),
    ("hardware counters", counters::hardware_events),
    ("tracepoints", counters::tracepoints),
    ("namespaces", permissions::namespaces),
    ("TUN devices", permissions::tun),
    ("ICMP", permissions::icmp),
    ("io_uring", permissions::io_uring),
];

/// What is said of a topic.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Topic {
    /// What follows if all is good; empty if the case says it.
    good: String,
    /// What follows if it is not.
    effect: String,
    /// What may hold, by the name that the check has for it.
    cases: BTreeMap<String, Case>,
    /// What to do, where a case leaves that open, by the name that the check has for it.
    advice: BTreeMap<String, String>,
}

/// What may hold of a topic. Its texts have values in braces.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    state: DiagnosisState,
    what: String,
    /// What follows, if that is not what the topic says.
    effect: Option<String>,
    /// What to do about it, where something is worse or missing.
    advice: Option<String>,
}

/// The name of what all topics share.
const SHARED: &str = "*";

static TOPICS: LazyLock<BTreeMap<&str, Topic>> =
    LazyLock::new(|| toml::from_str(include_str!("topics.toml")).expect("a test reads it"));

/// All diagnoses, in the order of the checks.
pub fn diagnose(facts: &Facts, probed: &Probed) -> Vec<Diagnosis> {
    let checked = CHECKS.iter().filter_map(|(name, check)| {
        let mut diagnosis = check(facts, probed)?.diagnosis(name, &TOPICS[name], &TOPICS[SHARED]);
        diagnosis.advice = diagnosis.advice.map(|advice| for_this_user(facts, advice));
        Some(diagnosis)
    });
    checked.collect()
}

/// Adapts advice to this user: root needs no `sudo`, which small systems do not have, and a container cannot
/// change the kernel's settings.
fn for_this_user(facts: &Facts, advice: String) -> String {
    let settings = ["/sys/", "/proc/sys/", "sysctl", "start the kernel"];
    let is_of_host = settings.iter().any(|setting| advice.contains(setting));
    let is_root = facts.inherited.effective_user == Some(0)
        && facts.inherited.initial_user_namespace != Some(false);
    if facts.virtualization.container.is_none() {
        return if is_root { advice.replace("sudo ", "") } else { advice };
    }
    if is_of_host && !advice.contains("on the host") {
        return format!("on the host: {advice}");
    }
    advice
}
