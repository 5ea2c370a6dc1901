//! What idle processors do. Source: Documentation/admin-guide/pm/cpuidle.rst,
//! Documentation/virt/guest-halt-polling.rst.

use costof_model::facts::{Idle, IdleState};

use super::roots::Roots;

/// Driver, governor and the first processor's states.
pub(super) fn idle(roots: &Roots) -> Idle {
    let folder = "/sys/devices/system/cpu/cpuidle";
    Idle {
        driver: roots
            .text(&format!("{folder}/current_driver"))
            .filter(|name| name != "none"),
        governor: roots
            .text(&format!("{folder}/current_governor"))
            .or_else(|| roots.text(&format!("{folder}/current_governor_ro")))
            .filter(|name| name != "none"),
        states: states(roots),
        halt_poll_ns: roots.value("/sys/module/haltpoll/parameters/guest_halt_poll_ns"),
    }
}

fn states(roots: &Roots) -> Vec<IdleState> {
    let folder = "/sys/devices/system/cpu/cpu0/cpuidle";
    roots
        .numbered(folder, "state")
        .into_iter()
        .map(|number| {
            let state = format!("{folder}/state{number}");
            let ns = |file: &str| {
                let us: u64 = roots.value(&format!("{state}/{file}"))?;
                us.checked_mul(1000)
            };
            IdleState {
                name: roots.text(&format!("{state}/name")).unwrap_or_default(),
                exit_latency_ns: ns("latency"),
                residency_ns: ns("residency"),
                disabled: roots.flag(&format!("{state}/disable")),
            }
        })
        .collect()
}
