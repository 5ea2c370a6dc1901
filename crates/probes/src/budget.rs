//! How long the points of a probe may take beyond what every run has.

use costof_measure::schedule::Precision;
use std::time::Duration;

/// So many seconds with `--quick` and by default; nothing of its own with `--full`.
pub(crate) fn seconds(precision: Precision, quick: u64, default: u64) -> Duration {
    match precision {
        Precision::Quick => Duration::from_secs(quick),
        Precision::Default => Duration::from_secs(default),
        Precision::Full => Duration::ZERO,
    }
}
