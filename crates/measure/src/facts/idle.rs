//! What idle CPUs do. Source: Documentation/admin-guide/pm/cpuidle.rst.

use costof_model::facts::{Idle, IdleState};

use super::folder::Folder;

/// Driver, governor and the first CPU's states.
pub(super) fn idle(root: &Folder) -> Idle {
    let cpus = root.folder("/sys/devices/system/cpu");
    let chosen = |file: &str| cpus.text(&format!("cpuidle/{file}"));
    let states = cpus.folder("cpu0/cpuidle").numbered("state");
    Idle {
        driver: chosen("current_driver").filter(|name| name != "none"),
        governor: chosen("current_governor")
            .or_else(|| chosen("current_governor_ro"))
            .filter(|name| name != "none"),
        states: states.map(|(_, folder)| state(&folder)).collect(),
    }
}

fn state(folder: &Folder) -> IdleState {
    IdleState {
        name: folder.text("name").unwrap_or_default(),
        exit_latency_ns: folder.scaled("latency", 1000),
        disabled: folder.flag("disable"),
    }
}
