//! The clock that the cores run at.

use costof_model::facts::{Diagnosis, Facts, Probed};

use super::words::{ghz, good, not_checked, why, worse};

pub(super) fn frequency_scaling(facts: &Facts, _: &Probed) -> Option<Diagnosis> {
    let topic = "frequency scaling";
    let frequency = &facts.frequency;
    let Some(driver) = frequency.driver.as_deref() else {
        let what = match facts.virtualization.virtual_machine {
            Some(true) => "the host chooses the core clock, out of this machine's sight",
            _ => "the kernel has no driver for it",
        };
        return not_checked(
            topic,
            what.to_owned(),
            "the core clock moves between runs (cpu.frequency measures it)",
        );
    };
    let capped = frequency.policies.iter().find(|policy| {
        matches!((policy.max_hz, policy.hardware_max_hz), (Some(max), Some(hardware)) if max < hardware)
    });
    if let Some(policy) = capped {
        let (max, hardware) = (
            policy.max_hz.unwrap_or(0),
            policy.hardware_max_hz.unwrap_or(0),
        );
        return worse(
            topic,
            format!(
                "{driver} may not choose more than {} of {} on processors {}",
                ghz(max),
                ghz(hardware),
                policy.cpus
            ),
            "everything that the core itself does takes longer than this machine can do",
            "`cat /sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq | sudo tee \
             /sys/devices/system/cpu/cpufreq/policy*/scaling_max_freq`",
        );
    }
    good(
        topic,
        format!("{driver} may choose the whole range"),
        "the full clock can be had",
    )
}

pub(super) fn governor(facts: &Facts, _: &Probed) -> Option<Diagnosis> {
    let topic = "governor";
    let effect = "the core clock follows the load: short measurements start slow, and two runs of one \
                  thing differ";
    let mut governors: Vec<&str> = facts
        .frequency
        .policies
        .iter()
        .filter_map(|policy| policy.governor.as_deref())
        .collect();
    governors.sort_unstable();
    governors.dedup();
    if governors.is_empty() {
        // frequency_scaling has said why there is none.
        facts.frequency.driver.as_ref()?;
        let what = why(facts, "scaling_governor", "the driver names none");
        return not_checked(topic, what, effect);
    }
    let what = format!("the governor is {}", governors.join(" and "));
    if governors == ["performance"] {
        return good(topic, what, "the clock stays as high as it may");
    }
    worse(
        topic,
        what,
        effect,
        "`echo performance | sudo tee /sys/devices/system/cpu/cpufreq/policy*/scaling_governor`",
    )
}

pub(super) fn turbo(facts: &Facts, _: &Probed) -> Option<Diagnosis> {
    let topic = "turbo";
    let intel = facts
        .frequency
        .driver
        .as_deref()
        .is_some_and(|driver| driver.starts_with("intel"));
    match facts.frequency.turbo_enabled {
        Some(true) => worse(
            topic,
            "clocks above the base are allowed".to_owned(),
            "the core clock depends on temperature and on how many cores are busy; estimated core \
             cycles compare better than nanoseconds",
            if intel {
                "to compare runs: `echo 1 | sudo tee /sys/devices/system/cpu/intel_pstate/no_turbo`; to \
                 know what users get, leave it on"
            } else {
                "to compare runs: `echo 0 | sudo tee /sys/devices/system/cpu/cpufreq/boost`; to know what \
                 users get, leave it on"
            },
        ),
        Some(false) => good(
            topic,
            "clocks above the base are switched off",
            "the clock is steady",
        ),
        None => {
            facts.frequency.driver.as_ref()?;
            let what = why(facts, "boost", "the driver does not tell");
            not_checked(topic, what, "the core clock depends on temperature")
        }
    }
}

pub(super) fn power(facts: &Facts, _: &Probed) -> Option<Diagnosis> {
    let topic = "power";
    let effect = "clocks are kept low to save energy";
    let profile = facts.frequency.platform_profile.as_deref();
    if facts.frequency.on_battery == Some(true) {
        return worse(
            topic,
            "the machine runs from its battery".to_owned(),
            effect,
            "plug it in",
        );
    }
    if let Some(profile @ ("low-power" | "quiet" | "cool")) = profile {
        return worse(
            topic,
            format!("the platform's profile is {profile}"),
            effect,
            "`echo performance | sudo tee /sys/firmware/acpi/platform_profile`",
        );
    }
    facts.frequency.on_battery?;
    good(
        topic,
        "the machine runs from the mains",
        "clocks are not kept low to save energy",
    )
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::DiagnosisState::Worse;
    use super::super::sample::{Ill, check};

    pub(crate) const ILL: &[Ill] = &[
        ("frequency scaling", Worse, "scaling_max_freq", |f, _| {
            f.frequency.policies[0].max_hz = Some(1_000_000_000);
        }),
        ("governor", Worse, "performance", |f, _| {
            f.frequency.policies[0].governor = Some("powersave".to_owned());
        }),
        ("turbo", Worse, "no_turbo", |f, _| {
            f.frequency.turbo_enabled = Some(true)
        }),
        ("turbo", Worse, "cpufreq/boost", |f, _| {
            f.frequency.driver = Some("amd-pstate-epp".to_owned());
            f.frequency.turbo_enabled = Some(true);
        }),
        ("power", Worse, "plug", |f, _| {
            f.frequency.on_battery = Some(true)
        }),
        ("power", Worse, "platform_profile", |f, _| {
            f.frequency.platform_profile = Some("low-power".to_owned());
        }),
    ];

    #[test]
    fn each_ill_is_told_with_what_to_do() {
        check(ILL);
    }
}
