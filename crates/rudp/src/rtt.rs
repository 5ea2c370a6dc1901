//! How long a round trip takes (RFC 9002 section 5).

use std::time::Duration;

/// Assumed until there is a measurement (RFC 9002 section 6.2.2).
const INITIAL: Duration = Duration::from_millis(333);
/// No timer waits for less than this: the resolution of a caller's own timers.
pub(crate) const GRANULARITY: Duration = Duration::from_millis(1);

#[derive(Clone, Debug)]
pub(crate) struct Rtt {
    pub(crate) latest: Duration,
    pub(crate) smoothed: Duration,
    variance: Duration,
    pub(crate) min: Option<Duration>,
}

impl Default for Rtt {
    fn default() -> Rtt {
        Rtt { latest: INITIAL, smoothed: INITIAL, variance: INITIAL / 2, min: None }
    }
}

impl Rtt {
    /// A packet was acknowledged this long after it was sent. Its receiver reports that it waited
    /// for `delay` before it acknowledged the packet (RFC 9002 section 5.3).
    pub(crate) fn sample(&mut self, latest: Duration, delay: Duration) {
        self.latest = latest;
        let Some(min) = self.min else {
            self.min = Some(latest);
            self.smoothed = latest;
            self.variance = latest / 2;
            return;
        };
        let min = min.min(latest);
        self.min = Some(min);
        // A delay is not believed if it would make the round trip shorter than the shortest.
        let adjusted = match latest.checked_sub(delay) {
            Some(adjusted) if adjusted >= min => adjusted,
            _ => latest,
        };
        let off = adjusted.abs_diff(self.smoothed);
        self.variance = (self.variance * 3 + off) / 4;
        self.smoothed = (self.smoothed * 7 + adjusted) / 8;
    }

    /// How long to wait for an acknowledgement before a probe is sent, if the receiver delays it by
    /// at most `delay` (RFC 9002 section 6.2.1).
    pub(crate) fn probe_timeout(&self, delay: Duration) -> Duration {
        self.smoothed + (self.variance * 4).max(GRANULARITY) + delay
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn the_first_sample_stands_alone_and_later_ones_weigh_an_eighth() {
        let mut rtt = Rtt::default();
        rtt.sample(100 * MS, Duration::ZERO);
        assert_eq!((rtt.smoothed, rtt.variance), (100 * MS, 50 * MS));
        rtt.sample(180 * MS, Duration::ZERO);
        assert_eq!(rtt.smoothed, 110 * MS);
        assert_eq!(rtt.variance, (150 * MS + 80 * MS) / 4);
    }

    #[test]
    fn a_delay_that_cannot_be_is_not_taken_off() {
        let mut rtt = Rtt::default();
        rtt.sample(100 * MS, Duration::ZERO);
        rtt.sample(104 * MS, 4 * MS);
        assert_eq!(rtt.smoothed, 100 * MS);
        rtt.sample(108 * MS, 90 * MS);
        assert_eq!(rtt.smoothed, 101 * MS);
        assert_eq!(rtt.min, Some(100 * MS));
    }
}
