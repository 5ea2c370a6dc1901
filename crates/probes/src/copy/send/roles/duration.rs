//! How long each round sends.

use crate::copy::send::axes::{CopySend, Pattern};
use crate::prelude::*;

/// The shortest round of a stream, where the threads of both ends need no more than two CPUs.
const MIN: Duration = Duration::from_millis(50);
/// The shortest round of an echo or trigger: a busy machine answers few, and percentiles need many.
const MIN_ECHO: Duration = Duration::from_millis(200);
/// Where a round may be longer than [`MIN`], a stream is extended by this factor: the first
/// tenths of a second of a connection may be slower. On a virtual machine with two CPUs iperf3 had
/// 1 to 2.5 GB/s then, and 4 to 6 after half a second.
const STRETCH: u32 = 6;
/// Slow start takes ten round trips to grow from ten segments to 16 MiB.
const ROUND_TRIPS: u32 = 40;
const MAX: Duration = Duration::from_secs(10);

/// Connecting, single messages and closing, per round.
const SET_UP_NS: f64 = 20e6;
/// The fewest messages of a round, and the rate of large ones in bytes per nanosecond; both rough.
const MESSAGES: f64 = 24.0;
pub(super) const BYTES_PER_NS: f64 = 2.0;

/// How long a round of the point takes at least.
pub(in crate::copy::send) fn least_ns(point: &At<CopySend>) -> f64 {
    let messages_ns = MESSAGES * point.size as f64 / BYTES_PER_NS;
    SET_UP_NS + messages_ns.max(least(point).as_nanos() as f64)
}

/// The shortest round. Threads that share a CPU need several.
fn least(point: &At<CopySend>) -> Duration {
    let turns = (point.threads as u32).div_ceil(2);
    match point.pattern {
        Pattern::Stream => MIN * turns,
        Pattern::Echo | Pattern::Trigger => MIN_ECHO.max(MIN * turns),
    }
}

/// How long a round sends that is to measure for `asked_ns`.
pub(super) fn duration(point: &At<CopySend>, asked_ns: f64, round_trip: Duration) -> Duration {
    let asked = Duration::from_nanos(asked_ns as u64);
    let gets_going = point.pattern == Pattern::Stream && point.link != "sink";
    let times = if gets_going && asked >= MIN { STRETCH } else { 1 };
    (times * asked).max(least(point)).max(ROUND_TRIPS * round_trip).min(MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use costof_measure::schedule::Precision;

    fn round_ms(pattern: Pattern, link: &'static str, asked_ns: f64, round_trip_ms: u64) -> u128 {
        let axes = CopySend { pattern, ..CopySend::default() };
        let link = link.into();
        duration(&At { axes, link }, asked_ns, Duration::from_millis(round_trip_ms)).as_millis()
    }

    #[test]
    fn a_full_run_sees_a_connection_get_going() {
        let of = |precision: Precision, rounds: u32, pattern, link| {
            let asked = precision.batch_time_per_point() / rounds;
            round_ms(pattern, link, asked.as_nanos() as f64, 0)
        };
        let full = |pattern, link| of(Precision::Full, CopySend::ROUNDS, pattern, link);
        assert_eq!(full(Pattern::Stream, "loopback"), 300);
        // A connection into a sink needs no warm-up.
        assert_eq!(full(Pattern::Stream, "sink"), 50);
        assert_eq!(full(Pattern::Echo, "loopback"), 200);
        let default = of(Precision::Default, CopySend::ROUNDS, Pattern::Stream, "loopback");
        let quick = of(Precision::Quick, 1, Pattern::Stream, "loopback");
        assert_eq!((default, quick), (50, 50));
    }

    #[test]
    fn a_long_link_has_its_round_trips_up_to_ten_seconds() {
        for (round_trip_ms, round) in [(1, 50), (100, 4_000), (1_000, 10_000)] {
            assert_eq!(round_ms(Pattern::Stream, "remote", 10e6, round_trip_ms), round);
        }
    }
}
