//! The clock that times are read from.

use super::verdict::{Verdict, good, unread, worse};
use costof_model::{Facts, Probed};

pub(super) fn clock_source(facts: &Facts, _: &Probed) -> Option<Verdict> {
    let Some(current) = facts.clock_source.current.as_deref() else {
        let absent = "the kernel does not report its clock source";
        return Some(unread(facts, "clocksource", absent));
    };
    let is_steady = facts.cpu.tsc_invariant != Some(false);
    let kept_by = format!("the kernel's clock source is {current}");
    let mut available = facts.clock_source.available.iter();
    let advice = match available.any(|source| source == "tsc") {
        true => {
            "`echo tsc | sudo tee /sys/devices/system/clocksource/clocksource0/current_clocksource`"
        }
        false => {
            "see why the kernel rejected the TSC: `sudo dmesg | grep -i -e tsc -e clocksource`"
        }
    };
    Some(match current {
        "tsc" | "arch_sys_counter" if is_steady => good(kept_by),
        "tsc" | "arch_sys_counter" => worse(
            kept_by + ", whose rate follows the core clock",
            "measure longer with `--full`, or on a CPU with constant_tsc and nonstop_tsc",
        )
        .effect("costof uses CLOCK_MONOTONIC, whose resolution is coarser, and longer batches"),
        "hpet" | "acpi_pm" | "jiffies" | "refined-jiffies" => worse(kept_by, advice).effect(
            "each clock reading enters the kernel and takes microseconds: latencies of single operations are wrong \
             by that much, and every program on this machine pays it",
        ),
        _ => worse(kept_by, advice).effect(
            "the TSC cannot be compared with the kernel's clock: costof uses CLOCK_MONOTONIC",
        ),
    })
}
