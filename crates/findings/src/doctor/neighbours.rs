//! Checks who else uses this machine: programs, and other machines on the same host.

use super::verdict::{Verdict, good, is_virtual, not_checked, percent, unread, worse};
use crate::text::{maybe, when};
use costof_model::{Facts, Probed, alone, counted};

/// The share of the CPUs' time that others use during the trial, from which medians change.
const BUSY_SHARE: f64 = 0.05;

/// The load per CPU from which other programs disturb a measurement.
const LOAD_PER_CPU: f64 = 0.3;

/// The share of stolen time from which percentiles change.
const STEAL_SHARE: f64 = 0.001;

/// If a core is shared for a smaller part of the time, no number that is shown changes.
const CORE_SHARE: f64 = 0.02;

pub(super) fn load(facts: &Facts, probed: &Probed) -> Option<Verdict> {
    let (is_much, what) =
        match (probed.busy_share, facts.activity.load_1min, facts.cpu.logical_count) {
            (Some(busy), ..) => {
                let share = percent(busy);
                (
                    busy > BUSY_SHARE,
                    format!("other processes used {share} of the CPU time just now"),
                )
            }
            (_, Some(load), Some(cpus)) => (
                load > LOAD_PER_CPU * f64::from(cpus),
                format!(
                    "{load} tasks ran or waited in the last minute, on {}",
                    counted(cpus, "CPU")
                ),
            ),
            _ => return Some(unread(facts, "loadavg", "the kernel reports no load")),
        };
    let advice = "find what runs with `top`, stop it, or measure on a CPU that it does not use (`--cpu LIST`)";
    Some(if is_much { worse(what, advice) } else { good(what) })
}

pub(super) fn steal(facts: &Facts, _: &Probed) -> Option<Verdict> {
    let Some(share) = facts.activity.steal_share else {
        return Some(unread(facts, "/proc/stat", "the kernel does not count stolen time"));
    };
    let what = format!(
        "the hypervisor took CPU time from this machine: {} since the start",
        percent(share)
    );
    let advice = "measure at another time, or on an instance with dedicated CPUs";
    Some(if share > STEAL_SHARE {
        worse(what, advice)
    } else if is_virtual(facts) {
        good(what).effect("no time is missing, as far as the hypervisor says")
    } else {
        good(what)
    })
}

pub(super) fn core(facts: &Facts, probed: &Probed) -> Option<Verdict> {
    let Some(look) = &probed.core else {
        return Some(not_checked("the core of the measured CPU was not checked"));
    };
    let cpu = look.cpu;
    let (Some(floor), Some(shared)) = (look.floor, look.shared) else {
        return Some(not_checked(format!(
            "costof cannot see whether anything else uses the core of CPU {cpu}: the gauge's readings scatter, and \
             costof does not know this type of core"
        )));
    };
    let is_shared = shared >= CORE_SHARE;
    let taken = maybe(look.taken.filter(|_| is_shared), |taken| {
        format!(" and took {} of its execution slots then", percent(taken))
    });
    let used = format!(
        "something else used the core of CPU {cpu} for {} of the time just now{taken} (gauge floor: {floor:.3} cycles \
         an addition)",
        percent(shared)
    );
    let alone = alone::said(&probed.alone, "the last second");
    let alone = maybe(Some(alone).filter(|said| !said.is_empty()), |said| format!("; {said}"));
    Some(match &look.sibling {
        _ if !is_shared => good(used + &alone),
        None => worse(
            used + when(
                is_virtual(facts),
                ": most likely another virtual machine on the core's second hardware thread",
            ) + &alone,
            "measure on another CPU (`--cpu LIST`), at another time, or on an instance with dedicated cores; costof \
             uses the batches that had the core to themselves",
        ),
        Some(thread) => {
            let (name, pid, other) = (&thread.name, thread.pid, thread.cpu);
            let share = percent(thread.used);
            worse(
                format!(
                    "{used}: {name} (process {pid}) ran on CPU {other}, which shares the core, for {share} of the \
                     time{alone}"
                ),
                format!(
                    "stop {name} or move it (`sudo taskset -apc CPU {pid}`), measure on another core (`--cpu LIST`), \
                     keep everything else off this one (start the kernel with isolcpus={cpu},{other}), or `echo 0 | \
                     sudo tee /sys/devices/system/cpu/cpu{other}/online`"
                ),
            )
        }
    })
}

pub(super) fn hypervisor(facts: &Facts, _: &Probed) -> Option<Verdict> {
    let name = facts.virtualization.hypervisor.as_deref();
    Some(match facts.virtualization.virtual_machine {
        Some(true) => worse(
            format!("this is a virtual machine ({})", name.unwrap_or("of an unnamed hypervisor")),
            "the numbers are those of this instance type: compare them with runs on the same type, or measure on bare \
             metal to know the hardware's own",
        ),
        Some(false) => good("there is no sign of a hypervisor"),
        None => not_checked("neither the CPU nor the firmware says whether there is one"),
    })
}
