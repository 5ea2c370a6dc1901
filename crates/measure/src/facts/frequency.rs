//! What determines the CPUs' clock. Source: Documentation/admin-guide/pm/cpufreq.rst,
//! intel_pstate.rst, amd-pstate.rst.

use costof_model::facts::{Frequency, FrequencyPolicy};

use super::folder::Folder;

/// The driver, its policies, and other bounds on the clock.
pub(super) fn frequency(root: &Folder) -> Frequency {
    let cpus = root.folder("/sys/devices/system/cpu");
    let mut frequency = Frequency { turbo_enabled: turbo_enabled(&cpus), ..Frequency::default() };
    for (_, folder) in cpus.folder("cpufreq").numbered("policy") {
        if frequency.driver.is_none() {
            frequency.driver = folder.text("scaling_driver");
        }
        merge(&mut frequency.policies, policy(&folder));
    }
    frequency
}

fn policy(folder: &Folder) -> FrequencyPolicy {
    let hz = |file: &str| folder.scaled(file, 1000);
    FrequencyPolicy {
        cpus: folder.numbers("affected_cpus"),
        governor: folder.text("scaling_governor"),
        max_hz: hz("scaling_max_freq"),
        hardware_max_hz: hz("cpuinfo_max_freq"),
    }
}

/// Merges CPUs with the same policy into one entry.
fn merge(policies: &mut Vec<FrequencyPolicy>, new: FrequencyPolicy) {
    let same = policies
        .iter_mut()
        .find(|policy| FrequencyPolicy { cpus: new.cpus.clone(), ..(*policy).clone() } == new);
    match same {
        Some(policy) => policy.cpus.extend(&new.cpus),
        None => policies.push(new),
    }
}

fn turbo_enabled(cpus: &Folder) -> Option<bool> {
    let off = cpus.flag("intel_pstate/no_turbo");
    off.map(|off| !off).or_else(|| cpus.flag("cpufreq/boost"))
}
