//! Checks the clock frequency of the cores.

use super::verdict::{Verdict, good, is_virtual, not_checked, unread, worse};
use costof_model::{Facts, Probed};

fn ghz(hz: u64) -> String {
    format!("{:.2} GHz", hz as f64 / 1e9)
}

pub(super) fn frequency_scaling(facts: &Facts, _: &Probed) -> Option<Verdict> {
    let Some(driver) = facts.frequency.driver.as_deref() else {
        let what = match is_virtual(facts) {
            true => "the host sets the core clock, and this machine cannot see it",
            false => "the kernel has no driver for it",
        };
        let moves = "the core clock changes between runs (cpu.frequency measures it)";
        return Some(not_checked(what).effect(moves));
    };
    let capped = facts.frequency.policies.iter().find_map(|policy| {
        let (max, hardware) = (policy.max_hz?, policy.hardware_max_hz?);
        (max < hardware).then_some((ghz(max), ghz(hardware), &policy.cpus))
    });
    Some(match capped {
        None => good(format!("{driver} may use the whole range")),
        Some((max, hardware, cpus)) => worse(
            format!("{driver} is limited to {max} of {hardware} on CPUs {cpus}"),
            "`cat /sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq | sudo tee \
             /sys/devices/system/cpu/cpufreq/policy*/scaling_max_freq`",
        ),
    })
}

pub(super) fn governor(facts: &Facts, _: &Probed) -> Option<Verdict> {
    let policies = facts.frequency.policies.iter();
    let mut governors: Vec<&str> =
        policies.filter_map(|policy| policy.governor.as_deref()).collect();
    governors.sort_unstable();
    governors.dedup();
    let is = format!("the governor is {}", governors.join(" and "));
    Some(match governors.as_slice() {
        [] => {
            // If there is no driver, `frequency_scaling` reports why.
            facts.frequency.driver.as_ref()?;
            unread(facts, "scaling_governor", "the driver reports no governor")
        }
        ["performance"] => good(is),
        _ => worse(
            is,
            "`echo performance | sudo tee /sys/devices/system/cpu/cpufreq/policy*/scaling_governor`",
        ),
    })
}

pub(super) fn turbo(facts: &Facts, _: &Probed) -> Option<Verdict> {
    let driver = facts.frequency.driver.as_deref();
    let off = match driver {
        Some(driver) if driver.starts_with("intel") => {
            "`echo 1 | sudo tee /sys/devices/system/cpu/intel_pstate/no_turbo`"
        }
        _ => "`echo 0 | sudo tee /sys/devices/system/cpu/cpufreq/boost`",
    };
    let advice = format!("to compare runs: {off}; to know what users get, leave it on");
    Some(match facts.frequency.turbo_enabled {
        Some(true) => worse("clocks above the base clock are allowed", advice),
        Some(false) => good("clocks above the base clock are switched off"),
        None => {
            driver?;
            let verdict = unread(facts, "boost", "the driver does not report it");
            verdict.effect("the core clock depends on temperature")
        }
    })
}
