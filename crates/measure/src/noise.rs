//! The noise ledger: what disturbed a launch, as its worker saw it.

use crate::clock::Clock;
use crate::core_clock::CoreClock;
use crate::distance;
use crate::facts;
use crate::gaps::Watch;
use crate::processor_ticks::{self, TICK_NS, Ticks, difference};
use costof_model::Few;
use costof_model::facts::Cgroup;
use costof_model::noise::{Gaps, Noise};
use costof_os::cpu::clock::{ClockId, now_ns};
use costof_os::sched::affinity;
use costof_os::sched::usage::{self, Usage};
use std::fs;

/// How long to watch the clock for gaps.
const WATCH_NS: f64 = 2e6;
/// At most how often.
const WATCHES: usize = 3;
/// What was recorded at the start of a launch.
pub struct Ledger {
    cpus: Vec<usize>,
    cgroup: Cgroup,
    before: Snapshot,
    /// Waiting for others is part of the measurement.
    blocks: bool,
    gaps: Option<Gaps>,
    core_clock_before_hz: Option<f64>,
    /// The CPU to which the distance is measured, and that distance at the start.
    other: Option<(usize, f64)>,
}

struct Snapshot {
    at_ns: u64,
    /// CPU time of this process's threads.
    threads_cpu_ns: u64,
    /// CPU time of its children that have ended.
    children_cpu_ns: u64,
    usage: Usage,
    wait_ns: Option<f64>,
    throttled_ns: Option<f64>,
    migrations: Option<u64>,
    ticks: Option<Vec<Ticks>>,
}

impl Ledger {
    /// Opens the ledger of a launch. Its threads and children run on `cpus`, those of other roles
    /// on `partners`; all these CPUs are measured. The other roles report what they use there
    /// ([`Noise::subtract_peer_cpu`]). If the measurement `blocks`, waiting for a CPU is not noise:
    /// a thread that was woken waits for its turn, and for the threads that share its CPU.
    pub fn open(clock: &dyn Clock, cpus: &[usize], partners: &[usize], blocks: bool) -> Ledger {
        let cgroup = facts::inherited().cgroup;
        let cpus = [cpus, partners].concat();
        let other = cpus.iter().copied().find(|cpu| Some(cpu) != cpus.first());
        let other = other.and_then(|cpu| Some((cpu, distance::round_trip_ns(clock, cpu)?)));
        Ledger {
            cpus,
            other,
            gaps: watch(clock),
            core_clock_before_hz: CoreClock::measure(clock).map(|measured| measured.hz),
            before: Snapshot::now(&cgroup),
            blocks,
            cgroup,
        }
    }

    /// Closes the ledger. Returns what disturbed the launch, and the CPU time that this worker
    /// used, in nanoseconds.
    pub fn close(self, clock: &dyn Clock) -> (Noise, f64) {
        let after = Snapshot::now(&self.cgroup);
        let before = &self.before;
        let children_ns = after.children_cpu_ns.saturating_sub(before.children_cpu_ns);
        let threads_ns = after.threads_cpu_ns.saturating_sub(before.threads_cpu_ns);
        let own_ns = (threads_ns + children_ns) as f64;
        let ticks = before.ticks.as_ref().zip(after.ticks.as_ref());
        let ticks = ticks.map(|(before, after)| difference(before, after));
        let shares = ticks.map(|ticks| shares(&ticks, &self.cpus, own_ns));
        let passed = |after: Option<f64>, before: Option<f64>| Some(after? - before?);
        let usage = after.usage.since(&before.usage);
        let noise = Noise {
            duration_ns: (after.at_ns - before.at_ns) as f64,
            steal_ns: shares.as_ref().and_then(|shares| shares.steal_ns),
            others_ns: shares.as_ref().and_then(|shares| shares.others_ns),
            others_elsewhere: shares.and_then(|shares| shares.elsewhere),
            run_queue_wait_ns: passed(after.wait_ns, before.wait_ns).filter(|_| !self.blocks),
            throttled_ns: passed(after.throttled_ns, before.throttled_ns),
            preemptions: usage.involuntary_switches,
            migrations: (after.migrations.zip(before.migrations))
                .map(|(after, before)| after.saturating_sub(before)),
            minor_faults: usage.minor_faults,
            major_faults: usage.major_faults,
            gaps: self.gaps,
            core_clock_before_hz: self.core_clock_before_hz,
            core_clock_after_hz: CoreClock::measure(clock).map(|measured| measured.hz),
            distance_ns: self.other.and_then(|(cpu, before_ns)| {
                Some((before_ns, distance::round_trip_ns(clock, cpu)?))
            }),
            core: None,
            other_core: None,
            ends: Few::new(),
        };
        (noise, own_ns)
    }
}

/// What `/proc/stat` says about a launch.
#[derive(Debug, PartialEq)]
struct Shares {
    steal_ns: Option<f64>,
    others_ns: Option<f64>,
    elsewhere: Option<f64>,
}

/// The mean over `cpus`, or over all CPUs if none are named: their times are compared with the
/// elapsed time, which passed on each of them. `own_ns` is the CPU time of the worker itself.
fn shares(ticks: &[Ticks], cpus: &[usize], own_ns: f64) -> Shares {
    let (measured, others): (Vec<&Ticks>, Vec<&Ticks>) = ticks
        .iter()
        .partition(|ticks| cpus.is_empty() || cpus.contains(&ticks.cpu));
    let sum = |column: fn(&Ticks) -> u64, ticks: &[&Ticks]| {
        ticks.iter().map(|ticks| column(ticks)).sum::<u64>() as f64
    };
    let count = measured.len() as f64;
    let mean = |sum_ns: f64| (count > 0.0).then(|| sum_ns.max(0.0) / count);
    // Each CPU's difference is accurate to two ticks.
    let slack_ns = 2.0 * TICK_NS * count;
    let total_elsewhere = sum(|ticks| ticks.total, &others);
    Shares {
        steal_ns: mean(sum(|ticks| ticks.steal, &measured) * TICK_NS),
        others_ns: mean(sum(|ticks| ticks.busy, &measured) * TICK_NS - own_ns - slack_ns),
        elsewhere: (total_elsewhere > 0.0)
            .then(|| sum(|ticks| ticks.busy, &others) / total_elsewhere),
    }
}

/// Watches the clock for gaps while doing nothing else. A watch during which this thread was
/// preempted is repeated, since preemption is counted separately; `None` if every watch was
/// preempted.
fn watch(clock: &dyn Clock) -> Option<Gaps> {
    (0..WATCHES).find_map(|_| {
        let before = usage::thread();
        let gaps = watch_once(clock);
        let preempted = usage::thread().since(&before).involuntary_switches > 0;
        (!preempted).then_some(gaps)
    })
}

fn watch_once(clock: &dyn Clock) -> Gaps {
    let mut gaps = Gaps::default();
    let mut watch = Watch::begin(clock, WATCH_NS);
    for gap_ns in &mut watch {
        gaps.count += 1;
        gaps.sum_ns += gap_ns;
        gaps.longest_ns = gaps.longest_ns.max(gap_ns);
    }
    gaps.watched_ns = watch.watched_ns();
    gaps
}

impl Snapshot {
    fn now(cgroup: &Cgroup) -> Snapshot {
        let children = usage::children();
        Snapshot {
            at_ns: now_ns(ClockId::Monotonic),
            threads_cpu_ns: now_ns(ClockId::ProcessCpu),
            children_cpu_ns: children.user_ns + children.system_ns,
            usage: usage::thread(),
            wait_ns: fs::read_to_string("/proc/thread-self/schedstat")
                .ok()
                .and_then(|text| text.split_whitespace().nth(1)?.parse().ok()),
            throttled_ns: facts::throttled_ns(cgroup),
            migrations: usage::migrations()
                // A probe may move its thread on purpose.
                .map(|all| all.saturating_sub(affinity::moves())),
            ticks: processor_ticks::read(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steal_and_others_are_means_over_the_measured_processors() {
        // Each of 16 processors lost 1 of 100 ticks, and was used for 52.
        let ticks: Vec<Ticks> = (0..17)
            .map(|cpu| Ticks {
                cpu,
                busy: 52,
                softirq: 0,
                steal: 1,
                total: 100,
            })
            .collect();
        let cpus: Vec<usize> = (0..16).collect();
        let own_ns = 16.0 * 40.0 * TICK_NS;
        let named = shares(&ticks, &cpus, own_ns);
        assert_eq!(named.steal_ns, Some(TICK_NS));
        assert_eq!(named.others_ns, Some(10.0 * TICK_NS));
        assert_eq!(named.elsewhere, Some(0.52));
        let whole = shares(&ticks[..16], &[], own_ns);
        assert_eq!(whole.steal_ns, Some(TICK_NS));
        assert_eq!(whole.others_ns, Some(10.0 * TICK_NS));
        assert_eq!(whole.elsewhere, None);
        // Offline by now.
        assert_eq!(shares(&ticks, &[60], own_ns).steal_ns, None);
    }

    #[test]
    fn a_partner_that_is_busy_is_no_disturbance() {
        let ticks = [(0, 40), (1, 100), (2, 30)].map(|(cpu, busy)| Ticks {
            cpu,
            busy,
            softirq: 0,
            steal: 0,
            total: 100,
        });
        // The client used 26 ticks of the first, the server 100 of the second.
        let client = shares(&ticks, &[0, 1], 26.0 * TICK_NS);
        assert_eq!(client.elsewhere, Some(0.3));
        let mut noise = Noise {
            others_ns: client.others_ns,
            run_queue_wait_ns: Some(5.0),
            ..Noise::default()
        };
        noise.subtract_peer_cpu(100.0 * TICK_NS, 2, false);
        assert_eq!(noise.others_ns, Some(5.0 * TICK_NS));
        assert_eq!(noise.run_queue_wait_ns, Some(5.0));
        noise.subtract_peer_cpu(100.0 * TICK_NS, 2, true);
        assert_eq!(noise.others_ns, Some(0.0));
        assert_eq!(noise.run_queue_wait_ns, Some(0.0));
    }
}
