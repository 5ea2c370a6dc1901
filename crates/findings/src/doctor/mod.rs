//! What here will make numbers worse or missing, and what to do about it.
//!
//! Judges facts and what was tried; looks nothing up itself, and says of nothing that it is well or
//! ill unless a fact or a trial says so. Limits are chosen so that an ordinary quiet machine passes.

mod clock;
mod counters;
mod frequency;
mod limits;
mod memory;
mod neighbours;
mod permissions;
mod processor;
mod words;

#[cfg(test)]
mod sample;

pub use costof_model::facts::{Diagnosis, DiagnosisState};
use costof_model::facts::{Facts, Probed};

/// One thing to look at. No diagnosis: it does not exist on such a machine.
type Topic = fn(&Facts, &Probed) -> Option<Diagnosis>;

/// In the order in which they are shown: what moves all numbers first, what only some need last.
const TOPICS: &[Topic] = &[
    clock::clock_source,
    neighbours::load,
    neighbours::steal,
    neighbours::core,
    limits::cpu_limits,
    limits::processors,
    neighbours::hypervisor,
    frequency::frequency_scaling,
    frequency::governor,
    frequency::turbo,
    frequency::power,
    processor::smt,
    processor::idle_states,
    processor::wake_up,
    limits::priority,
    limits::environment,
    memory::memory_left,
    memory::huge_pages,
    memory::locked_memory,
    permissions::seccomp,
    processor::mitigations,
    counters::software_events,
    counters::hardware_events,
    counters::tracepoints,
    permissions::namespaces,
    permissions::tun,
    permissions::icmp,
    permissions::io_uring,
];

/// All diagnoses, in the order of the topics.
pub fn diagnose(facts: &Facts, probed: &Probed) -> Vec<Diagnosis> {
    TOPICS
        .iter()
        .filter_map(|topic| topic(facts, probed))
        .map(|diagnosis| Diagnosis {
            advice: diagnosis.advice.map(|advice| for_this_user(facts, advice)),
            ..diagnosis
        })
        .collect()
}

/// Advice as this user can follow it: root needs no `sudo`, which small systems do not have, and a
/// container cannot change the kernel's settings.
fn for_this_user(facts: &Facts, advice: String) -> String {
    let settings = ["/sys/", "/proc/sys/", "sysctl", "start the kernel"];
    let of_the_host = settings.iter().any(|setting| advice.contains(setting));
    if facts.virtualization.container.is_some() {
        return match of_the_host && !advice.contains("on the host") {
            true => format!("on the host: {advice}"),
            false => advice,
        };
    }
    let is_root = facts.inherited.effective_user == Some(0)
        && facts.inherited.initial_user_namespace != Some(false);
    match is_root {
        true => advice.replace("sudo ", ""),
        false => advice,
    }
}

#[cfg(test)]
mod tests {
    use costof_model::facts::Rlimit;

    use super::DiagnosisState::{Good, NotChecked, Worse};
    use super::sample::{after, quiet, set};
    use super::*;

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

    #[test]
    fn each_topic_can_be_ill() {
        let (facts, probed) = quiet();
        let named: Vec<&str> = [
            clock::tests::ILL,
            frequency::tests::ILL,
            neighbours::tests::ILL,
            limits::tests::ILL,
            processor::tests::ILL,
            memory::tests::ILL,
            counters::tests::ILL,
            permissions::tests::ILL,
        ]
        .into_iter()
        .flatten()
        .map(|(topic, ..)| *topic)
        .collect();
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
    fn what_root_of_a_user_namespace_holds_lifts_nothing() {
        let bound = after("locked memory", |facts, _| {
            let limit = Some(64 << 10);
            facts.inherited.rlimits.locked_memory_bytes = Some(Rlimit {
                soft: limit,
                hard: limit,
            });
            facts.inherited.capabilities = Some(vec!["ipc_lock".to_owned()]);
            facts.inherited.initial_user_namespace = Some(false);
        });
        assert_eq!(bound.state, Worse);
    }

    #[test]
    fn advice_is_for_who_asks() {
        let advice = |change: fn(&mut Facts)| {
            let told = after("governor", |facts, _| {
                facts.frequency.policies[0].governor = Some("powersave".to_owned());
                change(facts);
            });
            told.advice.unwrap()
        };
        assert!(advice(|_| ()).contains("| sudo tee"));
        let root = advice(|facts| facts.inherited.effective_user = Some(0));
        assert!(root.contains("| tee"), "{root}");
        let inside = advice(|facts| facts.virtualization.container = Some("docker".to_owned()));
        assert!(inside.starts_with("on the host: "), "{inside}");
    }
}
