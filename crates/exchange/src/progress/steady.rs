//! From checkpoints: the rate at which a transfer settles, and how long it takes to reach it.

use super::Checkpoint;
use super::windows::{self, Stretch};
use std::time::Duration;

/// The share of the time that does not count, in which the rate settles.
const SETTLES: f64 = 0.5;
/// The number of parts into which the time is divided to find when the rate is reached.
const PARTS: usize = 40;
/// In how many parts in a row the rate must be reached.
const IN_A_ROW: usize = 4;
/// The share of the steady rate that counts as reached.
const REACHED: f64 = 0.9;
/// A pause of more than this many parts is a stall.
const NEXT: f64 = 2.0;

/// The result of a transfer of one flow.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Steady {
    /// The time that counts, by the checkpoints' clock, in nanoseconds.
    pub stretch: Stretch,
    /// Payload in bytes per second, stalls included.
    pub throughput: f64,
    /// From the first checkpoint until the rate was reached, in nanoseconds.
    pub start_up_ns: f64,
}

/// The steady rate of a transfer that lasted `lasts` from its first checkpoint on: that of its
/// second half. The rate counts as reached when it has been nine tenths of that for a tenth of the
/// time. `None` if nothing arrived in the second half.
///
/// Both ends of the half move to the next arrival, unless that is a stall away: over a long path, a
/// whole window arrives at once in each round trip, and with few round trips one window more or
/// less would be a matter of chance.
pub fn steady(checkpoints: &[Checkpoint], lasts: Duration) -> Option<Steady> {
    let begin = checkpoints.first()?.at_ns as f64;
    let lasts = lasts.as_nanos() as f64;
    let (middle, end) = (begin + SETTLES * lasts, begin + lasts);
    if lasts <= 0.0 {
        return None;
    }
    let half = windows::throughput(&[checkpoints], (middle, end));
    if half <= 0.0 {
        return None;
    }
    let part = lasts / PARTS as f64;
    let soon = |from| arrival_after(checkpoints, from).filter(|at| at - from <= NEXT * part);
    let stretch = match (soon(middle), soon(end)) {
        (Some(middle), Some(end)) => (middle, end),
        _ => (middle, end),
    };
    let reaches = |number: &usize| {
        let from = begin + *number as f64 * part;
        let rate = windows::throughput(&[checkpoints], (from, from + IN_A_ROW as f64 * part));
        rate >= REACHED * half
    };
    let parts = (0..=PARTS - IN_A_ROW).find(reaches)?;
    Some(Steady {
        stretch,
        throughput: windows::throughput(&[checkpoints], stretch),
        start_up_ns: parts as f64 * part,
    })
}

fn arrival_after(checkpoints: &[Checkpoint], from: f64) -> Option<f64> {
    let mut pairs = checkpoints.windows(2);
    let arrival =
        pairs.find(|pair| pair[1].at_ns as f64 >= from && pair[1].bytes > pair[0].bytes)?;
    Some(arrival[1].at_ns as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A checkpoint every 10 ms, at `rate` bytes per second.
    fn checkpoints(count: u64, rate: impl Fn(f64) -> f64) -> Vec<Checkpoint> {
        let mut bytes = 0.0;
        (0..count)
            .map(|number| {
                let checkpoint = Checkpoint {
                    at_ns: 5_000_000_000 + number * 10_000_000,
                    cpu_ns: 0,
                    bytes: bytes as u64,
                };
                bytes += 0.01 * rate(number as f64 * 0.01);
                checkpoint
            })
            .collect()
    }

    const LASTS: Duration = Duration::from_secs(4);

    #[test]
    fn a_rate_that_is_there_at_once_needs_no_start() {
        let steady = steady(&checkpoints(401, |_| 1e6), LASTS).unwrap();
        assert!((steady.throughput - 1e6).abs() < 10.0, "{steady:?}");
        assert_eq!(steady.start_up_ns, 0.0);
    }

    #[test]
    fn what_begins_slowly_is_not_in_the_rate() {
        let checkpoints = checkpoints(401, |second| if second < 1.0 { 1e5 } else { 1e6 });
        let steady = steady(&checkpoints, LASTS).unwrap();
        assert!((steady.throughput - 1e6).abs() < 10.0, "{steady:?}");
        assert!((0.9e9..=1.0e9).contains(&steady.start_up_ns), "{steady:?}");
    }

    /// The sender continues after the time that counts, and no message may arrive then.
    #[test]
    fn only_its_own_time_counts_all_of_it() {
        let long = steady(&checkpoints(600, |_| 1e6), LASTS).unwrap();
        assert!((long.throughput - 1e6).abs() < 10.0, "{long:?}");
        let starved = steady(&checkpoints(301, |_| 1e6), LASTS).unwrap();
        assert!((starved.throughput - 0.5e6).abs() < 10.0, "{starved:?}");
    }

    /// A window of ten messages every 190 ms, and a checkpoint every 10 ms.
    #[test]
    fn bursts_are_not_counted_by_chance() {
        let checkpoints: Vec<Checkpoint> = (0..1000)
            .map(|number| Checkpoint {
                at_ns: number * 10_000_000,
                cpu_ns: 0,
                bytes: 10 * (1 + number / 19),
            })
            .collect();
        for lasts_ms in 3800..3990 {
            let lasts = Duration::from_millis(lasts_ms);
            let throughput = steady(&checkpoints, lasts).unwrap().throughput;
            assert!((throughput - 10.0 / 0.19).abs() < 1e-6, "{throughput} of {lasts_ms} ms");
        }
    }

    #[test]
    fn a_stall_counts_wherever_it_is() {
        for stall in [1.5..3.0, 2.2..3.7, 3.5..5.0] {
            let checkpoints =
                checkpoints(601, |second| if stall.contains(&second) { 0.0 } else { 1e6 });
            let within = (stall.end.min(4.0) - stall.start.max(2.0)) / 2.0;
            let throughput = steady(&checkpoints, LASTS).unwrap().throughput;
            let expected = 1e6 * (1.0 - within);
            assert!(
                (throughput / expected - 1.0).abs() < 0.02,
                "{throughput} of {expected} with a stall at {stall:?}"
            );
        }
    }

    #[test]
    fn what_did_not_arrive_has_no_rate() {
        assert_eq!(steady(&[], LASTS), None);
        assert_eq!(steady(&checkpoints(401, |_| 0.0), LASTS), None);
        assert_eq!(steady(&checkpoints(401, |_| 1e6), Duration::ZERO), None);
        let early = checkpoints(401, |second| if second < 1.0 { 1e6 } else { 0.0 });
        assert_eq!(steady(&early, LASTS), None);
    }
}
