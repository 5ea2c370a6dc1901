//! A machine for the tests, and its possible defects: `tests.toml`.

use super::DiagnosisState::{Good, NotChecked};
use super::*;
use crate::tests::reads;
use serde::Deserialize;
use std::sync::LazyLock;
use toml::{Table, Value};

#[derive(Deserialize)]
struct File {
    /// A quiet server, as a [`Machine`].
    quiet: Table,
    cases: Cases,
}

#[derive(Deserialize)]
struct Machine {
    facts: Facts,
    probed: Probed,
}

#[derive(Deserialize)]
struct Cases {
    unhealthy: Vec<Case>,
    dependent: Vec<Case>,
}

/// The diagnosis of a topic if a machine differs from the quiet server.
#[derive(Deserialize)]
struct Case {
    topic: String,
    state: DiagnosisState,
    /// A part of the advice.
    #[serde(default)]
    advice: String,
    #[serde(flatten)]
    change: Table,
}

static FILE: LazyLock<File> = LazyLock::new(|| toml::from_str(include_str!("tests.toml")).unwrap());

impl Case {
    fn diagnosis(&self) -> Diagnosis {
        let diagnosis = after(&self.topic, &self.change);
        assert_eq!(diagnosis.state, self.state, "{diagnosis:?}");
        diagnosis
    }
}

/// All diagnoses of the quiet server after a change.
fn changed(change: &Table) -> Vec<Diagnosis> {
    let mut machine = FILE.quiet.clone();
    apply(&mut machine, change);
    let machine: Machine = machine.try_into().unwrap();
    diagnose(&machine.facts, &machine.probed)
}

fn apply(table: &mut Table, change: &Table) {
    for (name, value) in change {
        match (table.get_mut(name), value) {
            (_, Value::String(word)) if word == "unset" => _ = table.remove(name),
            (Some(Value::Table(own)), Value::Table(change)) => apply(own, change),
            _ => _ = table.insert(name.clone(), value.clone()),
        }
    }
}

fn after(topic: &str, change: &Table) -> Diagnosis {
    let mut all = changed(change).into_iter();
    all.find(|diagnosis| diagnosis.topic == topic).unwrap()
}

/// As [`changed`], with the change in TOML, for one topic.
fn after_text(topic: &str, change: &str) -> Diagnosis {
    after(topic, &toml::from_str(change).unwrap())
}

fn assert_explained(diagnosis: &Diagnosis) {
    let is_explained = !diagnosis.what.is_empty() && !diagnosis.effect.is_empty();
    assert!(is_explained, "{diagnosis:?}");
}

#[test]
fn what_follows_is_known_of_each_topic_and_of_no_other() {
    let mut known = vec![SHARED];
    known.extend(CHECKS.map(|(name, _)| name));
    known.sort_unstable();
    assert!(TOPICS.keys().eq(&known), "{known:?}");
}

#[test]
fn each_check_names_cases_and_advice_that_there_are() {
    let checks = [
        include_str!("clock.rs"),
        include_str!("counters.rs"),
        include_str!("frequency.rs"),
        include_str!("limits.rs"),
        include_str!("memory.rs"),
        include_str!("neighbours.rs"),
        include_str!("network.rs"),
        include_str!("permissions.rs"),
        include_str!("processor.rs"),
        include_str!("verdict.rs"),
    ];
    let checks = checks.concat();
    for topic in TOPICS.values() {
        for name in topic.cases.keys().chain(topic.advice.keys()) {
            assert!(checks.contains(&format!("\"{name}\"")), "{name} is never said");
        }
    }
    let names = |call: &str| -> Vec<String> {
        let after = checks.split(call).skip(1);
        after.map(|text| text.split('"').next().unwrap().to_owned()).collect()
    };
    for name in names("case(\"") {
        assert!(TOPICS.values().any(|topic| topic.cases.contains_key(&name)), "{name}");
    }
    for name in names("advice(\"") {
        assert!(TOPICS.values().any(|topic| topic.advice.contains_key(&name)), "{name}");
    }
}

#[test]
fn each_topic_can_be_unhealthy_and_says_what_to_do() {
    for case in &FILE.cases.unhealthy {
        let (diagnosis, advice) = (case.diagnosis(), &case.advice);
        let given = diagnosis.advice.as_deref().unwrap_or("");
        assert!(given.contains(advice), "`{advice}` in {diagnosis:?}");
        assert_explained(&diagnosis);
    }
    for diagnosis in changed(&Table::new()) {
        let mut topics = FILE.cases.unhealthy.iter().map(|case| &case.topic);
        assert!(topics.any(|topic| *topic == diagnosis.topic), "{diagnosis:?}");
    }
}

#[test]
fn a_quiet_server_is_good_throughout() {
    for diagnosis in changed(&Table::new()) {
        assert_eq!(diagnosis.state, Good, "{diagnosis:?}");
    }
}

#[test]
fn what_was_not_checked_is_neither_good_nor_bad() {
    for diagnosis in diagnose(&Facts::default(), &Probed::default()) {
        assert_eq!(diagnosis.state, NotChecked, "{diagnosis:?}");
        assert_explained(&diagnosis);
    }
}

#[test]
fn states_depend_on_capabilities_quotas_and_hypervisors() {
    for case in &FILE.cases.dependent {
        case.diagnosis();
    }
}

#[test]
fn advice_is_for_this_user() {
    let advice = |change: &str| {
        let policies = "facts.frequency.policies = [{ governor = 'powersave' }]\n";
        let diagnosis = after_text("governor", &format!("{policies}{change}"));
        diagnosis.advice.unwrap()
    };
    assert!(advice("").contains("| sudo tee"));
    let root = advice("facts.inherited.effective_user = 0");
    assert!(root.contains("| tee"), "{root}");
    let inside = advice("facts.virtualization.container = 'docker'");
    assert!(inside.starts_with("on the host: "), "{inside}");
}

#[test]
fn a_refused_file_is_the_reason() {
    let refused = after_text(
        "clock source",
        "facts.clock_source.current = 'unset'
         facts.unread = [{ reason = 'permission denied', what = \
         '/sys/devices/system/clocksource/clocksource0/current_clocksource' }]",
    );
    assert_eq!(refused.state, NotChecked);
    assert!(refused.what.ends_with("permission denied"), "{refused:?}");
}

#[test]
fn what_uses_the_core_is_as_likely_as_the_machine_says() {
    const SHARED: &str = "probed.core.shared = 0.62\nprobed.core.taken = 0.345\n";
    let guest = format!("{SHARED}facts.virtualization.virtual_machine = true");
    reads!([after_text("core", &guest).what]);
    let alone = "probed.alone = [{ cpu = 0, alone = 0.012 }, { cpu = 3, alone = 0.58 }]\n";
    let named = after_text("core", &format!("{alone}{guest}"));
    let shares = "; CPU 3 was alone 58 % of the last second, CPU 0 1 %";
    assert!(named.what.ends_with(shares), "{named:?}");
    let mut unhealthy = FILE.cases.unhealthy.iter();
    let sibling = unhealthy.find(|case| case.advice.contains("cpu7"));
    let visible = sibling.unwrap().diagnosis();
    for part in ["process 123", "CPU 7", "80.0 %"] {
        assert!(visible.what.contains(part), "{visible:?}");
    }
    let bare = after_text("core", SHARED);
    assert!(bare.what.ends_with("an addition)"), "{bare:?}");
    let unknown = after_text("core", "probed.core.floor = 'unset'\nprobed.core.shared = 'unset'");
    assert_eq!(unknown.state, NotChecked);
    assert!(unknown.what.contains("core of CPU 3"), "{unknown:?}");
}
