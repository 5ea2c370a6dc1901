//! Checks the clock frequency of the cores.

use super::verdict::{Verdict, good, is_virtual, not_checked, unread, worse};
use costof_model::facts::{Facts, Probed};

fn ghz(hz: u64) -> String {
    format!("{:.2} GHz", hz as f64 / 1e9)
}

pub(super) fn frequency_scaling(facts: &Facts, _: &Probed) -> Option<Verdict> {
    let Some(driver) = facts.frequency.driver.as_deref() else {
        let what = if is_virtual(facts) {
            "host"
        } else {
            "no_driver"
        };
        return Some(not_checked(what).effect("moves"));
    };
    let capped = facts.frequency.policies.iter().find_map(|policy| {
        let (max, hardware) = (policy.max_hz?, policy.hardware_max_hz?);
        (max < hardware).then_some((max, hardware, &policy.cpus))
    });
    let verdict = match capped {
        None => good("whole"),
        Some((max, hardware, cpus)) => worse("capped")
            .with("max", ghz(max))
            .with("hardware", ghz(hardware))
            .with("cpus", cpus.to_string()),
    };
    Some(verdict.with("driver", driver))
}

pub(super) fn governor(facts: &Facts, _: &Probed) -> Option<Verdict> {
    let policies = facts.frequency.policies.iter();
    let mut governors: Vec<&str> = policies
        .filter_map(|policy| policy.governor.as_deref())
        .collect();
    governors.sort_unstable();
    governors.dedup();
    let verdict = match governors.as_slice() {
        [] => {
            // If there is no driver, `frequency_scaling` reports why.
            facts.frequency.driver.as_ref()?;
            unread(facts, "scaling_governor")
        }
        ["performance"] => good("is"),
        _ => worse("is"),
    };
    Some(verdict.with("governors", governors.join(" and ")))
}

pub(super) fn turbo(facts: &Facts, _: &Probed) -> Option<Verdict> {
    let driver = facts.frequency.driver.as_deref();
    let is_intel = driver.is_some_and(|driver| driver.starts_with("intel"));
    Some(match facts.frequency.turbo_enabled {
        Some(true) => worse("on").advice(if is_intel { "intel" } else { "advice" }),
        Some(false) => good("off"),
        None => {
            driver?;
            unread(facts, "boost").effect("unchecked")
        }
    })
}

pub(super) fn power(facts: &Facts, _: &Probed) -> Option<Verdict> {
    let frequency = &facts.frequency;
    Some(match frequency.platform_profile.as_deref() {
        _ if frequency.on_battery == Some(true) => worse("battery").advice("plug_in"),
        Some(profile @ ("low-power" | "quiet" | "cool")) => {
            worse("profile").with("profile", profile)
        }
        _ => {
            frequency.on_battery?;
            good("mains")
        }
    })
}
