//! Computes throughput and CPU time from checkpoints, over all flows together.

use super::Checkpoint;

/// A KiB in bytes.
pub const KIB: f64 = 1024.0;
/// The share at the beginning that does not count.
const RAMP: f64 = 1.0 / 3.0;
/// The most windows.
const WINDOWS: usize = 24;
/// A window has at least this many checkpoints, so that their positions do not matter.
const CHECKPOINTS_PER_WINDOW: usize = 4;

/// A time span, in nanoseconds of the checkpoints' clock.
pub type Stretch = (f64, f64);

/// What threads used in a time span.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Used {
    /// CPU time per KiB of payload, in nanoseconds.
    pub cpu_ns_per_kib: f64,
    /// The share of the time in which they ran, averaged over the threads.
    pub running: f64,
}

/// The time during which all flows ran, without its first third; `None` if there is no such time,
/// or nothing arrived in it.
pub fn settled(flows: &[&[Checkpoint]]) -> Option<Stretch> {
    let (begin, end) = together(flows)?;
    let settled = (begin + RAMP * (end - begin), end);
    let something_arrived = || bytes_at(flows, settled.1) - bytes_at(flows, settled.0) >= KIB;
    (end > begin && something_arrived()).then_some(settled)
}

/// As [`settled`], with the first third: for transfers too short to settle.
pub fn whole(flows: &[&[Checkpoint]]) -> Option<Stretch> {
    let (begin, end) = together(flows)?;
    let something_arrived = || bytes_at(flows, end) > bytes_at(flows, begin);
    (end > begin && something_arrived()).then_some((begin, end))
}

/// From the last flow's start to the first flow's end.
fn together(flows: &[&[Checkpoint]]) -> Option<Stretch> {
    if flows.iter().any(|checkpoints| checkpoints.is_empty()) {
        return None;
    }
    let first = flows.iter().filter_map(|checkpoints| checkpoints.first());
    let last = flows.iter().filter_map(|checkpoints| checkpoints.last());
    let begin = first.map(|checkpoint| checkpoint.at_ns).max()?;
    let end = last.map(|checkpoint| checkpoint.at_ns).min()?;
    Some((begin as f64, end as f64))
}

/// Payload that arrived, in bytes per second, stalls included.
pub fn throughput(flows: &[&[Checkpoint]], (begin, end): Stretch) -> f64 {
    (bytes_at(flows, end) - bytes_at(flows, begin)) / (end - begin) * 1e9
}

/// Windows in which equally many KiB arrived: how many KiB, and how long that took in nanoseconds.
pub fn windows(flows: &[&[Checkpoint]], (begin, end): Stretch) -> Vec<(u64, f64)> {
    let before = bytes_at(flows, begin);
    let all = ((bytes_at(flows, end) - before) / KIB) as usize;
    let checkpoints = flows.iter().map(|checkpoints| inside(checkpoints, (begin, end)));
    let count = (checkpoints.min().unwrap_or(0) / CHECKPOINTS_PER_WINDOW).min(WINDOWS);
    // Fewer windows than KiB per window, so that the remainder is less than a window.
    let count = count.min(all.isqrt()).max(1);
    let each = (all / count).max(1);
    let times: Vec<f64> = (0..=all / each)
        .map(|window| time_of(flows, before + (window * each) as f64 * KIB, (begin, end)))
        .collect();
    let lasting = times.windows(2).map(|ends| ends[1] - ends[0]);
    lasting.map(|ns| (each as u64, ns)).collect()
}

/// When this many bytes had arrived, found by bisection.
fn time_of(flows: &[&[Checkpoint]], bytes: f64, (mut early, mut late): Stretch) -> f64 {
    for _ in 0..60 {
        let middle = f64::midpoint(early, late);
        if bytes_at(flows, middle) < bytes {
            early = middle;
        } else {
            late = middle;
        }
    }
    late
}

fn bytes_at(flows: &[&[Checkpoint]], at: f64) -> f64 {
    let bytes = |checkpoints: &&[Checkpoint]| value_at(checkpoints, at, |one| one.bytes);
    flows.iter().map(bytes).sum()
}

/// What the flows' threads used.
pub fn used(flows: &[&[Checkpoint]], (begin, end): Stretch) -> Used {
    let difference = |field: fn(&Checkpoint) -> u64| -> f64 {
        let of_one = |checkpoints: &&[Checkpoint]| {
            value_at(checkpoints, end, field) - value_at(checkpoints, begin, field)
        };
        flows.iter().map(of_one).sum()
    };
    let cpu_ns = difference(|checkpoint| checkpoint.cpu_ns);
    Used {
        cpu_ns_per_kib: cpu_ns / (difference(|checkpoint| checkpoint.bytes) / KIB).max(1.0),
        running: (cpu_ns / (flows.len() as f64 * (end - begin))).min(1.0),
    }
}

/// Payload of a flow until its last checkpoint, in bytes.
pub fn bytes(checkpoints: &[Checkpoint]) -> u64 {
    checkpoints.last().map_or(0, |checkpoint| checkpoint.bytes)
}

fn inside(checkpoints: &[Checkpoint], (begin, end): Stretch) -> usize {
    let within = |checkpoint: &&Checkpoint| (begin..=end).contains(&(checkpoint.at_ns as f64));
    checkpoints.iter().filter(within).count()
}

/// A value at a time between the first and the last checkpoint, by linear interpolation.
fn value_at(checkpoints: &[Checkpoint], at: f64, field: fn(&Checkpoint) -> u64) -> f64 {
    let after = checkpoints.partition_point(|checkpoint| (checkpoint.at_ns as f64) < at);
    let right = &checkpoints[after.min(checkpoints.len() - 1)];
    let left = &checkpoints[after.saturating_sub(1)];
    let (from, to) = (left.at_ns as f64, right.at_ns as f64);
    let share = if to > from { ((at - from) / (to - from)).clamp(0.0, 1.0) } else { 0.0 };
    field(left) as f64 + share * (field(right) as f64 - field(left) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checkpoints every millisecond from `begin_ms`, with `kib` KiB per millisecond, and the
    /// thread running half of the time.
    fn steady(begin_ms: u64, checkpoints: u64, kib: u64) -> Vec<Checkpoint> {
        (0..checkpoints)
            .map(|number| Checkpoint {
                at_ns: (begin_ms + number) * 1_000_000,
                cpu_ns: number * 500_000,
                bytes: number * kib * 1024,
            })
            .collect()
    }

    #[test]
    fn the_ramp_is_left_out_and_flows_are_added_up() {
        let (one, other) = (steady(0, 91, 1000), steady(0, 201, 3000));
        let flows = [&one[..], &other[..]];
        let settled = settled(&flows).unwrap();
        assert_eq!(settled, (30e6, 90e6));
        let windows = windows(&flows, settled);
        assert_eq!(windows.len(), 15);
        assert!((throughput(&flows, settled) - 4.096e9).abs() < 1.0);
        for (kib, ns) in windows {
            assert!((ns / kib as f64 - 250.0).abs() < 0.1, "{kib} {ns}");
        }
        let used = used(&flows, settled);
        assert!((used.cpu_ns_per_kib - 250.0).abs() < 0.1, "{used:?}");
        assert!((used.running - 0.5).abs() < 0.001, "{used:?}");
    }

    #[test]
    fn what_lies_between_marks_is_on_the_line() {
        let checkpoints = steady(10, 3, 10);
        let at = |ms: f64| value_at(&checkpoints, ms * 1e6, |checkpoint| checkpoint.bytes) / 1024.0;
        assert_eq!((at(10.0), at(10.5), at(11.75), at(12.0)), (0.0, 5.0, 17.5, 20.0));
    }

    #[test]
    fn a_stall_is_in_the_throughput_and_in_a_window() {
        let mut checkpoints = steady(0, 97, 100);
        for checkpoint in &mut checkpoints[40..61] {
            checkpoint.bytes = 39 * 100 * 1024;
        }
        let flows = [&checkpoints[..]];
        let settled = settled(&flows).unwrap();
        assert!((throughput(&flows, settled) - 100.0 * 1024.0 * 1e3).abs() < 1.0);
        let windows = windows(&flows, settled);
        let ns: f64 = windows.iter().map(|(_, ns)| ns).sum();
        assert!((ns - 64e6).abs() < 1e3, "{ns}");
        assert!(windows.iter().all(|(kib, _)| *kib == windows[0].0));
        assert!(windows.iter().any(|(_, ns)| *ns > 20e6));
    }

    #[test]
    fn little_that_came_is_in_no_more_windows_than_much() {
        for kib in 1..2000 {
            let checkpoints: Vec<Checkpoint> = (0..200)
                .map(|number| Checkpoint {
                    at_ns: number * 1_000_000,
                    cpu_ns: 0,
                    bytes: number * kib * 1024 / 199,
                })
                .collect();
            let windows = windows(&[&checkpoints], (0.0, 199e6));
            let all: u64 = windows.iter().map(|(kib, _)| kib).sum();
            assert!((1..=WINDOWS).contains(&windows.len()), "{kib} {windows:?}");
            assert!(all + windows[0].0 > kib, "{kib} {windows:?}");
        }
    }

    #[test]
    fn of_little_nothing_is_left_out() {
        let checkpoints: Vec<Checkpoint> = steady(0, 4, 1)
            .into_iter()
            .map(|checkpoint| Checkpoint { bytes: checkpoint.bytes / 16, ..checkpoint })
            .collect();
        assert_eq!(settled(&[&checkpoints]), None);
        let all = whole(&[&checkpoints]).unwrap();
        assert_eq!(all, (0.0, 3e6));
        assert!((throughput(&[&checkpoints], all) - 64e3).abs() < 1.0);
        assert_eq!(whole(&[&steady(0, 4, 0)]), None);
    }

    #[test]
    fn no_time_in_common_and_no_bytes_say_nothing() {
        assert_eq!(settled(&[&[]]), None);
        assert_eq!(settled(&[&steady(0, 1, 1)]), None);
        assert_eq!(settled(&[&steady(0, 8, 0)]), None);
        let (one, other) = (steady(0, 100, 1), steady(200, 100, 1));
        assert_eq!(settled(&[&one, &other]), None);
        assert!(settled(&[&steady(0, 8, 1)]).is_some());
    }
}
