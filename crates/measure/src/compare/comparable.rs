//! Decides whether the measurements of two runs can be compared, and which of their samples.

use crate::distance::is_alike;
use crate::estimate::{core_of, launch_medians};
use crate::gauge::ALONE;
use crate::schedule::MIN_LAUNCHES;
use costof_model::metric::CoreShare;
use costof_model::noise::MEASURED;
use costof_model::{LaunchPoint, Run, Selection};

/// If the core was alone for this share of a metric's samples, neighbours change the medians by no
/// more than chance does.
pub(super) const MOSTLY_ALONE: f64 = 0.9;

/// Identifies the machine of a run until it restarts.
pub(crate) fn boot(run: &Run) -> Option<&String> {
    run.attempts.last()?.boot.as_ref()
}

/// Checks that the CPUs of both sides were equally far apart. On one machine since one boot, a
/// difference means that the hypervisor moved them. Two different machines may differ in this, and
/// that is what their user wants to know.
///
/// # Errors
/// The distances, if they differ.
pub(super) fn moved(
    distances_ns: [Option<f64>; 2],
    is_same_boot: bool,
    in_turns: bool,
) -> Result<(), String> {
    let [Some(old), Some(new)] = distances_ns else {
        return Ok(());
    };
    if !is_same_boot || is_alike(old, new) {
        return Ok(());
    }
    let advice = if in_turns {
        "more launches have more pairs at the same distance (--launches)"
    } else {
        "measure both in turns (--interleave)"
    };
    Err(format!(
        "the CPUs moved (a cache line took {old:.0} ns from one to the other and \
         back before, and {new:.0} ns after): {advice}"
    ))
}

/// Which samples of both sides are compared, and whether something else used the core during them.
/// Like is compared with like: alone with alone, otherwise shared with shared, otherwise all with
/// all.
///
/// # Errors
/// If one side had the core to itself and the other hardly ever did.
pub(super) fn common(
    launches: &[Vec<&LaunchPoint>; 2],
    metric: &str,
    in_turns: bool,
) -> Result<(Selection, bool), String> {
    let sides = launches.each_ref().map(|side| core_of(side, metric));
    let selections = sides.map(|core| core.map_or(Selection::All, |core| core.selection));
    let is_mostly_alone = |core: &CoreShare| core.alone >= MOSTLY_ALONE;
    let both_give = |selection| {
        let given = |side: &Vec<_>| launch_medians(side, metric, selection).len();
        launches.iter().all(|side| given(side) >= MIN_LAUNCHES as usize)
    };
    if selections == [Selection::Alone; 2] {
        return Ok((Selection::Alone, false));
    }
    if sides.iter().flatten().all(is_mostly_alone) {
        return Ok((Selection::All, false));
    }
    if both_give(Selection::Shared) {
        return Ok((Selection::Shared, true));
    }
    let is_gauged = sides.iter().all(Option::is_some);
    match selections.iter().position(|side| *side == Selection::Alone) {
        // Launches that took turns met the same neighbours.
        Some(alone) if is_gauged && !in_turns => {
            let [had, had_not] = [["before", "after"][alone], ["after", "before"][alone]];
            Err(format!(
                "the run {had} had the core to itself, the run {had_not} never for \
                 long enough: measure both in turns (--interleave), or the run {had_not} again"
            ))
        }
        _ => Ok((Selection::All, true)),
    }
}

/// The design of the core that a run measured, if it is known.
pub(super) fn cpu(run: &Run) -> Option<(&str, u32, u32)> {
    let facts = run.attempts.last()?.hosts.get(MEASURED)?;
    Some((facts.cpu.vendor.as_deref()?, facts.cpu.family?, facts.cpu.model?))
}

/// Checks that both sides' gauges have the same floor, as cores of one design do.
///
/// # Errors
/// If one floor is higher: that core was never alone, and what its run calls alone is not.
pub(super) fn never_alone(floors: [Option<f64>; 2], is_same_cpu: bool) -> Result<(), String> {
    let [Some(old), Some(new)] = floors else {
        return Ok(());
    };
    if !is_same_cpu || old.max(new) <= old.min(new) * ALONE {
        return Ok(());
    }
    let which = if old > new { "before" } else { "after" };
    Err(format!(
        "the run {which} never had the core to itself, by the floor of its gauge ({old:.3} cycles an addition before, {new:.3} after): measure it again"
    ))
}
