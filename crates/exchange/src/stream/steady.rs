//! Computes from checkpoints the rate at which a transfer settles, and when it has reached that
//! rate.

use super::Checkpoint;
use super::windows::{self, Stretch};
use std::time::Duration;

/// The share of the time that is left to settle in.
const SETTLES: f64 = 0.5;
/// The resolution, in parts of the time, at which the rate is found to be reached.
const PARTS: usize = 40;
/// Over how many of them in a row.
const IN_A_ROW: usize = 4;
/// From which share of the steady rate on it counts as reached.
const REACHED: f64 = 0.9;
/// Within how many of the parts something arrives, if at all: longer is a stall.
const NEXT: f64 = 2.0;

/// The result of a transfer of one flow.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Steady {
    /// When it counts, in nanoseconds of the checkpoints' clock.
    pub stretch: Stretch,
    /// Payload in a second, stalls included.
    pub throughput: f64,
    /// How long it took until the rate was first there, in nanoseconds.
    pub start_up_ns: f64,
}

/// The second half of a transfer that lasted so long from its first checkpoint on, and how long it took until
/// nine tenths of that half's rate were reached for a tenth of the time; `None` if nothing arrived in that
/// half.
///
/// Both ends of the half move to the next arrival, where that is soon: over a long path a whole window
/// arrives at once in each round trip, of which there are few, and one more or less would fall into the
/// half by chance.
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

/// The first arrival from this time on.
fn arrival_after(checkpoints: &[Checkpoint], from: f64) -> Option<f64> {
    let mut pairs = checkpoints.windows(2);
    let arrival =
        pairs.find(|pair| pair[1].at_ns as f64 >= from && pair[1].bytes > pair[0].bytes)?;
    Some(arrival[1].at_ns as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A checkpoint every 10 ms, as many bytes a second at each time as `rate` says.
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

    /// The sender goes on for longer than it counts, and the last message may be the last that comes.
    #[test]
    fn only_its_own_time_counts_all_of_it() {
        let long = steady(&checkpoints(600, |_| 1e6), LASTS).unwrap();
        assert!((long.throughput - 1e6).abs() < 10.0, "{long:?}");
        let starved = steady(&checkpoints(301, |_| 1e6), LASTS).unwrap();
        assert!((starved.throughput - 0.5e6).abs() < 10.0, "{starved:?}");
    }

    /// A window of ten each 190 ms, and a checkpoint each 10 ms.
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
            assert!(
                (throughput - 10.0 / 0.19).abs() < 1e-6,
                "{throughput} of {lasts_ms} ms"
            );
        }
    }

    #[test]
    fn a_stall_counts_wherever_it_is() {
        for stall in [1.5..3.0, 2.2..3.7, 3.5..5.0] {
            let checkpoints = checkpoints(
                601,
                |second| if stall.contains(&second) { 0.0 } else { 1e6 },
            );
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
