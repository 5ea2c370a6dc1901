//! An entry of a corpus: the reference of one host, from one run, which anybody may see.
//!
//! It is built from what may be in it, so that what nobody thought of is left out: points of these probes whose values are
//! numbers or the probes' own words, their medians with errors, and the facts of the host's class as known words and numbers.

use super::rows::of_hosts;
use crate::probe::{Probe, find};
use costof_model::axis::Domain;
use costof_model::facts::Facts;
use costof_model::fleet::UNKNOWN;
use costof_model::link::Link;
use costof_model::reference::{Cohort, Reference, Row, SCHEMA};
use costof_model::rows::MetricOfPoint;
use costof_model::run_file::Run;
use costof_model::unit::Unit;
use std::collections::BTreeMap;

/// The hypervisors that are named; any other one is `other`.
const HYPERVISORS: &str = "\
    ACRN|Apple Virtualization|Hyper-V|KVM|Nitro|Parallels|QEMU|QEMU without KVM|QNX|VMware|VirtualBox|Xen|bhyve";
/// Vulnerabilities, as the kernel names them. Source: Documentation/ABI/testing/sysfs-devices-system-cpu.
const VULNERABILITIES: &str = "\
    gather_data_sampling ghostwrite indirect_target_selection itlb_multihit l1tf mds meltdown mmio_stale_data \
    old_microcode reg_file_data_sampling retbleed spec_rstack_overflow spec_store_bypass spectre_v1 spectre_v2 \
    srbds tsa tsx_async_abort vmscape";
/// How the kernel begins what it says of a vulnerability.
const STATES: [&str; 4] = ["Mitigation", "Not affected", "Unknown", "Vulnerable"];
/// What the name of a CPU may have besides letters and digits, and how long it may be.
const NAME_SIGNS: &str = " ()@.,+-_/";
const NAME_LENGTH: usize = 64;

/// The entry of a run: of the points of these probes, those with a number of grade A to C and its interval.
pub fn entry(run: &Run, probes: &[&Probe]) -> Reference {
    let rows = of_hosts(&[(String::new(), vec![run])]);
    let rows = rows.filter_map(|of| {
        let [measured] = &of.runs.get(&0)?[..] else {
            return None;
        };
        let of_row = MetricOfPoint { label: None, ..MetricOfPoint::new(of.row, of.estimate) };
        is_own(&of_row, of.row.method, probes).then_some(Row {
            of: of_row,
            method: of.row.method,
            better: of.estimate.better,
            usual: of.estimate.median,
            spread: 0.0,
            degrees: 1.0,
            error: measured.reading.error,
            launch: measured.launch,
            hosts: 1,
            runs: 1,
        })
    });
    let facts = run.facts().map(class).unwrap_or_default();
    let precision = ["quick", "full"].into_iter().find(|word| run.run.plan.precision == *word);
    Reference {
        reference_schema: SCHEMA,
        costof: env!("CARGO_PKG_VERSION").to_owned(),
        precision: precision.unwrap_or("default").to_owned(),
        by: facts.iter().map(|(what, _)| what.clone()).collect(),
        cohorts: vec![Cohort { facts, hosts: 1, runs: 1, rows: rows.collect() }],
    }
}

/// Whether a row is what one of these probes measures within one host, with values that only the probe could have chosen.
fn is_own(of: &MetricOfPoint, method: u32, probes: &[&Probe]) -> bool {
    let point = &of.point;
    let Some(info) = find(probes, &point.probe).map(|probe| &probe.info) else {
        return false;
    };
    let primary = info.primary();
    let is_link = |link: Link| link != Link::Remote && link.to_string() == *point.link;
    let mut values = point.axes.0.iter();
    info.method == method
        && primary.name == of.metric
        && (point.link == "none" || point.link.parse().is_ok_and(is_link))
        && values.all(|(name, value)| {
            info.axis(name).is_ok_and(|axis| match axis.domain {
                Domain::Place { .. } => axis.defaults().contains(value),
                _ => axis.allows(value),
            })
        })
}

/// The facts of a host's class, each as known words or numbers.
pub(crate) fn class(facts: &Facts) -> Vec<(String, String)> {
    let number = |count: usize| (count > 0).then(|| count.to_string());
    let processors = facts.cpu.logical_count.map(|count| count.to_string());
    let class = [
        ("processor", facts.cpu.model_name.as_deref().and_then(model_name)),
        ("microcode", facts.cpu.microcode.clone().filter(|version| is_hex(version))),
        ("processors", processors),
        ("NUMA nodes", number(facts.numa.len())),
        ("memory", facts.memory.total_bytes.and_then(size_class)),
        ("kernel", facts.kernel.release.as_deref().and_then(version)),
        ("hypervisor", facts.virtualization.hypervisor.as_deref().map(hypervisor)),
        ("mitigations", mitigations(&facts.cpu.vulnerabilities)),
    ];
    let known =
        |(what, value): (&str, Option<String>)| (what.to_owned(), value.unwrap_or(UNKNOWN.into()));
    class.into_iter().map(known).collect()
}

fn model_name(name: &str) -> Option<String> {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || NAME_SIGNS.contains(c);
    (name.len() <= NAME_LENGTH && name.chars().all(is_allowed)).then(|| name.to_owned())
}

fn is_hex(version: &str) -> bool {
    let digits = version.strip_prefix("0x").unwrap_or_default();
    (1..=16).contains(&digits.len()) && digits.chars().all(|c| c.is_ascii_hexdigit())
}

/// Up to 16GiB, and so on in powers of two.
fn size_class(bytes: u64) -> Option<String> {
    let class = bytes.checked_next_power_of_two()?;
    Some(format!("up to {}", Unit::Bytes.display(class as f64)))
}

/// The numbers with which a kernel's release begins: `6.8.0-31`. What follows may be anybody's word.
fn version(release: &str) -> Option<String> {
    let end = release.find(|c: char| !c.is_ascii_digit() && c != '.' && c != '-');
    let numbers = release[..end.unwrap_or(release.len())].trim_end_matches(['.', '-']);
    (numbers.contains('.') && numbers.len() <= NAME_LENGTH).then(|| numbers.to_owned())
}

fn hypervisor(name: &str) -> String {
    HYPERVISORS.split('|').find(|known| *known == name).unwrap_or("other").to_owned()
}

/// What is done about each known vulnerability, without how.
fn mitigations(vulnerabilities: &BTreeMap<String, String>) -> Option<String> {
    let known = VULNERABILITIES.split_whitespace().filter_map(|name| {
        let said = vulnerabilities.get(name)?;
        let state = STATES.into_iter().find(|state| said.starts_with(state))?;
        Some(format!("{name}: {state}"))
    });
    let known: Vec<String> = known.collect();
    (!known.is_empty()).then(|| known.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_anybody_may_have_written_is_no_fact_of_a_class() {
        for (release, expected) in [
            ("6.18.44", Some("6.18.44")),
            ("6.8.0-31-generic", Some("6.8.0-31")),
            ("6.1.0-secret-10", Some("6.1.0")),
            ("5.14.0-427.el9_4.x86_64", Some("5.14.0-427")),
            ("secret", None),
            ("6.secret", None),
            ("", None),
        ] {
            assert_eq!(version(release).as_deref(), expected, "{release}");
        }
        assert_eq!(hypervisor("KVM"), "KVM");
        assert_eq!(hypervisor("KVM of secret"), "other");
        assert!(is_hex("0x2b000590") && !is_hex("0xsecret") && !is_hex("0x") && !is_hex("12"));
        assert_eq!(model_name("Intel(R) Xeon(R) CPU @ 2.70GHz").unwrap().len(), 30);
        assert_eq!(model_name("a\u{1b}[2J"), None);
        assert_eq!(size_class(15 << 30).as_deref(), Some("up to 16GiB"));
        assert_eq!(size_class(16 << 30).as_deref(), Some("up to 16GiB"));
        assert_eq!(size_class(u64::MAX), None);
        let said = [("mds", "Mitigation: by secret"), ("secret", "Vulnerable"), ("l1tf", "secret")];
        let said = said.map(|(name, how)| (name.to_owned(), how.to_owned()));
        assert_eq!(mitigations(&said.into()).as_deref(), Some("mds: Mitigation"));
    }
}
