//! The clock that times are read from.

use super::verdict::{Verdict, absent, case};
use costof_model::{Facts, Probed};

pub(super) fn clock_source(facts: &Facts, _: &Probed) -> Option<Verdict> {
    let Some(current) = facts.clock_source.current.as_deref() else {
        return Some(absent(facts, "clocksource"));
    };
    let is_steady = facts.cpu.tsc_invariant != Some(false);
    let has_tsc = facts.clock_source.available.iter().any(|source| source == "tsc");
    let advice = if has_tsc { "switch" } else { "rejected" };
    let verdict = match current {
        "tsc" | "arch_sys_counter" if is_steady => case("steady"),
        "tsc" | "arch_sys_counter" => case("follows_clock"),
        "hpet" | "acpi_pm" | "jiffies" | "refined-jiffies" => case("slow").advice(advice),
        _ => case("other").advice(advice),
    };
    Some(verdict.with("current", current))
}
