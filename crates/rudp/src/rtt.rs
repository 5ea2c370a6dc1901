//! How long a round trip takes (RFC 9002 section 5).

use std::time::Duration;

/// Assumed until something was measured (RFC 9002 section 6.2.2).
const INITIAL: Duration = Duration::from_millis(333);
/// No timer waits for less: what a caller's own timers can tell apart.
pub(crate) const GRANULARITY: Duration = Duration::from_millis(1);

#[derive(Clone, Debug)]
pub(crate) struct Rtt {
    pub(crate) latest: Duration,
    pub(crate) smoothed: Duration,
    variation: Duration,
    pub(crate) least: Option<Duration>,
}

impl Rtt {
    pub(crate) fn new() -> Rtt {
        Rtt {
            latest: INITIAL,
            smoothed: INITIAL,
            variation: INITIAL / 2,
            least: None,
        }
    }

    /// A packet was acknowledged so long after it was sent, and its receiver says
    /// that it waited for `delay` of that before it acknowledged it (RFC 9002
    /// section 5.3).
    pub(crate) fn sample(&mut self, latest: Duration, delay: Duration) {
        self.latest = latest;
        let Some(least) = self.least else {
            self.least = Some(latest);
            self.smoothed = latest;
            self.variation = latest / 2;
            return;
        };
        let least = least.min(latest);
        self.least = Some(least);
        // A delay that would make the round trip faster than the fastest is not believed.
        let adjusted = match latest.checked_sub(delay) {
            Some(adjusted) if adjusted >= least => adjusted,
            _ => latest,
        };
        let off = adjusted.abs_diff(self.smoothed);
        self.variation = (self.variation * 3 + off) / 4;
        self.smoothed = (self.smoothed * 7 + adjusted) / 8;
    }

    /// How long an acknowledgement may take before it is asked for again, where
    /// the receiver waits for at most `delay` (RFC 9002 section 6.2.1).
    pub(crate) fn probe_timeout(&self, delay: Duration) -> Duration {
        self.smoothed + (self.variation * 4).max(GRANULARITY) + delay
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn the_first_sample_stands_alone_and_later_ones_weigh_an_eighth() {
        let mut rtt = Rtt::new();
        rtt.sample(100 * MS, Duration::ZERO);
        assert_eq!((rtt.smoothed, rtt.variation), (100 * MS, 50 * MS));
        rtt.sample(180 * MS, Duration::ZERO);
        assert_eq!(rtt.smoothed, 110 * MS);
        assert_eq!(rtt.variation, (150 * MS + 80 * MS) / 4);
    }

    #[test]
    fn a_delay_that_cannot_be_is_not_taken_off() {
        let mut rtt = Rtt::new();
        rtt.sample(100 * MS, Duration::ZERO);
        rtt.sample(104 * MS, 4 * MS);
        assert_eq!(rtt.smoothed, 100 * MS);
        rtt.sample(108 * MS, 90 * MS);
        assert_eq!(rtt.smoothed, 101 * MS);
        assert_eq!(rtt.least, Some(100 * MS));
    }
}
