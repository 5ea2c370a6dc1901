//! The clock that times are read from.

use super::verdict::{Verdict, good, unread, worse};
use costof_model::facts::{Facts, Probed};

pub(super) fn clock_source(facts: &Facts, _: &Probed) -> Option<Verdict> {
    let Some(current) = facts.clock_source.current.as_deref() else {
        return Some(unread(facts, "clocksource"));
    };
    let is_steady = facts.cpu.tsc_invariant != Some(false);
    let has_tsc = facts
        .clock_source
        .available
        .iter()
        .any(|source| source == "tsc");
    let advice = if has_tsc { "choose_tsc" } else { "see_why" };
    let verdict = match current {
        "tsc" | "arch_sys_counter" if is_steady => good("kept_by"),
        "tsc" | "arch_sys_counter" => worse("varies").effect("coarse").advice("measure_longer"),
        "hpet" | "acpi_pm" | "jiffies" | "refined-jiffies" => {
            worse("kept_by").effect("enters_kernel").advice(advice)
        }
        _ => worse("kept_by").effect("not_comparable").advice(advice),
    };
    Some(verdict.with("current", current))
}
