//! How busy the machine is. Source: proc_loadavg(5), proc_stat(5).

use costof_model::facts::Activity;

use super::folder::Folder;
use crate::processor_ticks;

/// Load, and shares of time since boot.
pub(super) fn activity(root: &Folder) -> Activity {
    let load = root.text("/proc/loadavg").unwrap_or_default();
    let shares = root.start("/proc/stat", 4 << 10).and_then(|stat| shares(&stat));
    Activity {
        load_1min: load.split_whitespace().next().and_then(|word| word.parse().ok()),
        steal_share: shares.map(|(steal, _)| steal),
        busy_share: shares.map(|(_, busy)| busy),
    }
}

/// Steal and busy time as shares of all time.
fn shares(stat: &str) -> Option<(f64, f64)> {
    let all = processor_ticks::sum(stat)?;
    let share = |ticks: u64| ticks as f64 / all.total as f64;
    (all.total > 0).then(|| (share(all.steal), share(all.busy)))
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
