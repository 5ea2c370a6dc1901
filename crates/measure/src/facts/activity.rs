//! How busy the machine is. Source: proc_loadavg(5), proc_stat(5), Documentation/accounting/psi.rst.

use costof_model::facts::{Activity, Pressure};

use super::folder::Folder;
use crate::processor_ticks;

/// Load, shares of time since boot, and stalls.
pub(super) fn activity(root: &Folder) -> Activity {
    let load = root.text("/proc/loadavg").unwrap_or_default();
    let mut load = load.split_whitespace().map(|word| word.parse().ok());
    let shares = root.start("/proc/stat", 4 << 10).and_then(|stat| shares(&stat));
    Activity {
        load_1min: load.next().flatten(),
        load_5min: load.next().flatten(),
        load_15min: load.next().flatten(),
        steal_share: shares.map(|(steal, _)| steal),
        busy_share: shares.map(|(_, busy)| busy),
        cpu_pressure: pressure(root, "cpu"),
        memory_pressure: pressure(root, "memory"),
        io_pressure: pressure(root, "io"),
    }
}

/// Steal and busy time as shares of all time.
fn shares(stat: &str) -> Option<(f64, f64)> {
    let all = processor_ticks::sum(stat)?;
    let share = |ticks: u64| ticks as f64 / all.total as f64;
    (all.total > 0).then(|| (share(all.steal), share(all.busy)))
}

fn pressure(root: &Folder, what: &str) -> Option<Pressure> {
    let text = root.text(&format!("/proc/pressure/{what}"))?;
    let share = |kind: &str, window: &str| -> Option<f64> {
        let line = text.lines().find(|line| line.starts_with(kind))?;
        let percent: f64 =
            line.split_whitespace().find_map(|word| word.strip_prefix(window))?.parse().ok()?;
        Some(percent / 100.0)
    };
    Some(Pressure {
        some_10s_share: share("some", "avg10="),
        some_60s_share: share("some", "avg60="),
        full_10s_share: share("full", "avg10="),
        full_60s_share: share("full", "avg60="),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steal_is_a_share_of_all_time_and_not_busy() {
        let (steal, busy) = shares("cpu  100 0 100 600 100 0 0 100 50 0\ncpu0 1 1 1 1").unwrap();
        assert!((steal - 0.1).abs() < 1e-12 && (busy - 0.2).abs() < 1e-12);
        for strange in ["", "cpu  1 2 3", "cpu  0 0 0 0 0 0 0 0", "cpu  a b c d e f g h"] {
            assert_eq!(shares(strange), None, "{strange}");
        }
    }
}
