//! Who chooses the processors' clock. Source: Documentation/admin-guide/pm/cpufreq.rst,
//! intel_pstate.rst, amd-pstate.rst.

use costof_model::facts::{Frequency, FrequencyPolicy};

use super::roots::Roots;

const CPUS: &str = "/sys/devices/system/cpu";

/// The driver, its policies, and what else bounds the clock.
pub(super) fn frequency(roots: &Roots) -> Frequency {
    let mut frequency = Frequency {
        turbo_enabled: turbo_enabled(roots),
        on_battery: on_battery(roots),
        platform_profile: roots.text("/sys/firmware/acpi/platform_profile"),
        driver_mode: ["intel_pstate", "amd_pstate"]
            .iter()
            .find_map(|driver| roots.text(&format!("{CPUS}/{driver}/status"))),
        ..Frequency::default()
    };
    for number in roots.numbered(&format!("{CPUS}/cpufreq"), "policy") {
        let folder = format!("{CPUS}/cpufreq/policy{number}");
        if frequency.driver.is_none() {
            frequency.driver = roots.text(&format!("{folder}/scaling_driver"));
        }
        merge(&mut frequency.policies, policy(roots, &folder));
    }
    frequency
}

fn policy(roots: &Roots, folder: &str) -> FrequencyPolicy {
    let hz = |file: &str| {
        let khz: u64 = roots.value(&format!("{folder}/{file}"))?;
        khz.checked_mul(1000)
    };
    FrequencyPolicy {
        cpus: roots
            .text(&format!("{folder}/affected_cpus"))
            .map(|cpus| {
                cpus.split_whitespace()
                    .filter_map(|cpu| cpu.parse().ok())
                    .collect()
            })
            .unwrap_or_default(),
        governor: roots.text(&format!("{folder}/scaling_governor")),
        energy_preference: roots.text(&format!("{folder}/energy_performance_preference")),
        min_hz: hz("scaling_min_freq"),
        max_hz: hz("scaling_max_freq"),
        hardware_min_hz: hz("cpuinfo_min_freq"),
        hardware_max_hz: hz("cpuinfo_max_freq"),
        base_hz: hz("base_frequency"),
    }
}

/// Puts processors under the same rules into one entry.
fn merge(policies: &mut Vec<FrequencyPolicy>, new: FrequencyPolicy) {
    let same = policies.iter_mut().find(|policy| {
        FrequencyPolicy {
            cpus: new.cpus.clone(),
            ..(*policy).clone()
        } == new
    });
    match same {
        Some(policy) => policy.cpus.extend(&new.cpus),
        None => policies.push(new),
    }
}

fn turbo_enabled(roots: &Roots) -> Option<bool> {
    let off = roots.flag(&format!("{CPUS}/intel_pstate/no_turbo"));
    off.map(|off| !off)
        .or_else(|| roots.flag(&format!("{CPUS}/cpufreq/boost")))
}

/// Supplies of other things than the machine (a mouse's battery) say `scope: Device`.
/// Source: Documentation/ABI/testing/sysfs-class-power.
fn on_battery(roots: &Roots) -> Option<bool> {
    let folder = "/sys/class/power_supply";
    let mut mains = None;
    let mut discharging = None;
    for name in roots.names(folder) {
        let file = |file: &str| roots.text(&format!("{folder}/{name}/{file}"));
        if file("scope").as_deref() == Some("Device") {
            continue;
        }
        match file("type").as_deref() {
            Some("Mains" | "USB") => {
                let online = file("online").as_deref() == Some("1");
                mains = Some(mains.unwrap_or(false) || online);
            }
            Some("Battery") => {
                let now = file("status").as_deref() == Some("Discharging");
                discharging = Some(discharging.unwrap_or(false) || now);
            }
            _ => {}
        }
    }
    match (mains, discharging) {
        (Some(true), _) => Some(false),
        (_, Some(discharging)) => Some(discharging),
        _ => None,
    }
}
