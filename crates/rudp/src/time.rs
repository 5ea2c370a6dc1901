//! Points in time on the caller's clock.

use std::ops::Add;
use std::time::Duration;

/// A point in time: nanoseconds since a moment that the caller chooses.
///
/// It must not go backwards between two calls. If it does, time stands still for the protocol;
/// nothing panics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(u64);

impl Time {
    /// The point in time this many nanoseconds after the caller's zero.
    pub const fn from_nanos(ns: u64) -> Time {
        Time(ns)
    }

    /// Nanoseconds since the caller's zero.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// How long ago the other time was; zero if it is in the future.
    pub const fn since(self, earlier: Time) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Time {
    type Output = Time;

    fn add(self, duration: Duration) -> Time {
        let seconds = duration.as_secs().saturating_mul(1_000_000_000);
        let ns = seconds.saturating_add(duration.subsec_nanos().into());
        Time(self.0.saturating_add(ns))
    }
}

/// The earliest of the times that are set.
pub(crate) fn earliest<const N: usize>(times: [Option<Time>; N]) -> Option<Time> {
    times.into_iter().flatten().min()
}
