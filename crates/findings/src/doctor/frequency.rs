//! Checks the clock frequency of the cores.

use super::verdict::{Verdict, absent, case, is_virtual};
use costof_model::{Facts, Probed};

fn ghz(hz: u64) -> String {
    format!("{:.2} GHz", hz as f64 / 1e9)
}

pub(super) fn frequency_scaling(facts: &Facts, _: &Probed) -> Option<Verdict> {
    let Some(driver) = facts.frequency.driver.as_deref() else {
        return Some(case(if is_virtual(facts) { "hidden" } else { "no_driver" }));
    };
    let capped = facts.frequency.policies.iter().find_map(|policy| {
        let (max, hardware) = (policy.max_hz?, policy.hardware_max_hz?);
        let capped = || {
            let capped = case("capped").with("cpus", &policy.cpus);
            capped.with("max", ghz(max)).with("hardware", ghz(hardware))
        };
        (max < hardware).then(capped)
    });
    Some(capped.unwrap_or_else(|| case("whole")).with("driver", driver))
}

pub(super) fn governor(facts: &Facts, _: &Probed) -> Option<Verdict> {
    let policies = facts.frequency.policies.iter();
    let mut governors: Vec<&str> =
        policies.filter_map(|policy| policy.governor.as_deref()).collect();
    governors.sort_unstable();
    governors.dedup();
    let verdict = match governors.as_slice() {
        [] => {
            // If there is no driver, `frequency_scaling` reports why.
            facts.frequency.driver.as_ref()?;
            absent(facts, "scaling_governor")
        }
        ["performance"] => case("performance"),
        _ => case("other"),
    };
    Some(verdict.with("governors", governors.join(" and ")))
}

pub(super) fn turbo(facts: &Facts, _: &Probed) -> Option<Verdict> {
    let driver = facts.frequency.driver.as_deref();
    let is_intel = driver.is_some_and(|driver| driver.starts_with("intel"));
    Some(match facts.frequency.turbo_enabled {
        Some(true) => case("on").advice(if is_intel { "intel" } else { "others" }),
        Some(false) => case("off"),
        None => {
            driver?;
            absent(facts, "boost")
        }
    })
}
