//! Spreads packets over time, so that a window does not leave in one burst
//! (RFC 9002 section 7.7).
//!
//! A bucket of bytes fills at the rate. It holds at most what the rate gives in a millisecond, or
//! two packets. A packet may leave while the bucket is not empty; if it takes more than there is,
//! the bucket pays that back before the next packet.

use crate::time::Time;
use std::time::Duration;

/// The longest burst: what the rate gives in this time.
const BURST: Duration = Duration::from_millis(1);

#[derive(Debug, Default)]
pub(crate) struct Pacer {
    /// Bytes that may leave; negative if more was taken.
    budget: f64,
    filled_at: Option<Time>,
}

impl Pacer {
    fn most(rate: f64, packet: usize) -> f64 {
        (rate * BURST.as_secs_f64()).max(2.0 * packet as f64)
    }

    /// The earliest time at which packets of this size may leave at this rate in bytes per second;
    /// `None` if they may leave at once.
    pub(crate) fn waits_until(&mut self, now: Time, rate: f64, packet: usize) -> Option<Time> {
        let most = Pacer::most(rate, packet);
        let gained = match self.filled_at {
            Some(at) => now.since(at).as_secs_f64() * rate,
            None => most,
        };
        self.filled_at = Some(self.filled_at.map_or(now, |at| at.max(now)));
        self.budget = (self.budget + gained).min(most);
        if self.budget > 0.0 {
            return None;
        }
        // Half a burst at a time: a timer for each packet would cost more than it gains.
        let wait = (most / 2.0 - self.budget) / rate;
        Some(now + Duration::from_secs_f64(wait.min(1.0)))
    }

    /// Nothing is in flight, so the next packet starts a new burst.
    pub(crate) fn begin_anew(&mut self) {
        *self = Pacer::default();
    }

    pub(crate) fn sent(&mut self, bytes: usize) {
        self.budget -= bytes as f64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_kept_and_no_burst_is_longer_than_a_millisecond() {
        let (rate, packet) = (12.5e6, 1000);
        let mut pacer = Pacer::default();
        let mut now = Time::default();
        let (mut sent, mut largest) = (0, 0);
        let end = Time::from_nanos(1_000_000_000);
        while now < end {
            let mut burst = 0;
            now = loop {
                match pacer.waits_until(now, rate, packet) {
                    Some(next) => break next,
                    None => {
                        pacer.sent(packet);
                        burst += packet;
                    }
                }
            };
            sent += burst;
            largest = largest.max(burst);
        }
        assert!((sent as f64 / rate - 1.0).abs() < 0.005, "{sent} bytes in a second");
        assert!(largest <= 12_500 + packet, "{largest} bytes at once");
    }

    #[test]
    fn what_was_not_sent_is_not_saved_up() {
        let mut pacer = Pacer::default();
        let later = Time::from_nanos(60_000_000_000);
        assert_eq!(pacer.waits_until(Time::default(), 1e6, 100), None);
        let mut burst = 0;
        while pacer.waits_until(later, 1e6, 100).is_none() {
            pacer.sent(100);
            burst += 100;
        }
        assert_eq!(burst, 1000);
    }
}
