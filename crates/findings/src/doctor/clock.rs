//! The clock that time is told by.

use costof_model::facts::{Diagnosis, Facts, Probed};

use super::words::{good, not_checked, why, worse};

pub(super) fn clock_source(facts: &Facts, _: &Probed) -> Option<Diagnosis> {
    let topic = "clock source";
    let Some(current) = facts.clock_source.current.as_deref() else {
        return not_checked(
            topic,
            why(
                facts,
                "clocksource",
                "the kernel does not tell which it uses",
            ),
            "each reading of the time takes microseconds",
        );
    };
    let what = format!("the kernel keeps time by {current}");
    let counter = matches!(current, "tsc" | "arch_sys_counter");
    if counter && facts.cpu.tsc_invariant != Some(false) {
        return good(
            topic,
            what,
            "the time is read in user space, in tens of nanoseconds",
        );
    }
    if counter {
        return worse(
            topic,
            format!("{what}, whose rate follows the core clock"),
            "times are taken by CLOCK_MONOTONIC, with coarser resolution and longer batches",
            "measure longer with `--full`, or on a processor with constant_tsc and nonstop_tsc",
        );
    }
    let effect = match current {
        "hpet" | "acpi_pm" | "jiffies" | "refined-jiffies" => {
            "each reading of the clock enters the kernel and takes microseconds: latencies of single \
             operations are wrong by that much, and the programs on this machine pay it too"
        }
        _ => {
            "the TSC cannot be held against the kernel's clock: times are taken by CLOCK_MONOTONIC"
        }
    };
    let advice = if facts
        .clock_source
        .available
        .iter()
        .any(|source| source == "tsc")
    {
        "`echo tsc | sudo tee /sys/devices/system/clocksource/clocksource0/current_clocksource`"
    } else {
        "see why the kernel rejected the TSC: `sudo dmesg | grep -i -e tsc -e clocksource`"
    };
    worse(topic, what, effect, advice)
}

#[cfg(test)]
pub(super) mod tests {
    use costof_model::facts::Unread;

    use super::super::DiagnosisState::{NotChecked, Worse};
    use super::super::sample::{Ill, after, check};

    pub(crate) const ILL: &[Ill] = &[
        ("clock source", Worse, "echo tsc", |f, _| {
            f.clock_source.current = Some("hpet".to_owned())
        }),
        ("clock source", Worse, "dmesg", |f, _| {
            f.clock_source.current = Some("kvm-clock".to_owned());
            f.clock_source.available = vec!["kvm-clock".to_owned()];
        }),
        ("clock source", Worse, "constant_tsc", |f, _| {
            f.cpu.tsc_invariant = Some(false)
        }),
    ];

    #[test]
    fn each_ill_is_told_with_what_to_do() {
        check(ILL);
    }

    #[test]
    fn a_refused_file_is_the_reason_that_is_told() {
        let refused = after("clock source", |facts, _| {
            facts.clock_source.current = None;
            facts.unread = vec![Unread {
                what: "/sys/devices/system/clocksource/clocksource0/current_clocksource".to_owned(),
                reason: "permission denied".to_owned(),
            }];
        });
        assert_eq!(refused.state, NotChecked);
        assert!(refused.what.ends_with("permission denied"), "{refused:?}");
    }
}
