//! The noise ledger: what disturbed a launch, as its worker saw it.

use crate::clock::Clock;
use crate::core_clock::CoreClock;
use crate::distance;
use crate::facts;
use crate::gaps::Watch;
use crate::grade::DISTURBED;
use crate::processor_ticks::{self, TICK_NS, Ticks, difference};
use costof_model::facts::Cgroup;
use costof_model::noise::Gaps;
use costof_model::{Few, Noise, Text};
use costof_os::cpu::clock::{ClockId, now_ns};
use costof_os::sched::affinity;
use costof_os::sched::usage::{self, Usage};
use std::collections::{BTreeMap, BTreeSet};
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
    cpu: usize,
    /// How often a probe moved its thread on purpose.
    moves: u64,
    traced: Option<bool>,
    migrations: Option<u64>,
    wait_ns: Read<f64>,
    throttled_ns: Read<Option<f64>>,
    ticks: Read<Vec<Ticks>>,
}

/// What was read, or why it is unknown.
type Read<T> = Result<T, String>;

/// What is unknown by kind, and why.
#[derive(Default)]
struct Unknown(BTreeMap<Text, String>);

impl Unknown {
    /// The value, or a note of why there is none.
    fn or_note<T>(&mut self, kinds: &[&'static str], read: Read<T>) -> Option<T> {
        let note = |why: String| {
            for kind in kinds {
                self.0.insert(Text::Borrowed(kind), why.clone());
            }
        };
        read.map_err(note).ok()
    }
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
        let duration_ns = (after.at_ns - before.at_ns) as f64;
        let mut unknown = Unknown::default();
        let spent = both(&before.ticks, &after.ticks).and_then(|[before, after]| {
            shares(&difference(before, after), &self.cpus, own_ns, duration_ns)
        });
        let shares = unknown.or_note(&["steal", "others", "neighbours"], spent);
        let waited = both(&before.wait_ns, &after.wait_ns)
            .and_then(|[before, after]| passed(*before, *after));
        let waited = (!self.blocks).then(|| unknown.or_note(&["run_queue_wait"], waited));
        let throttled =
            both(&before.throttled_ns, &after.throttled_ns).and_then(|both| match both {
                [Some(before), Some(after)] => passed(*before, *after).map(Some),
                _ => Ok(None),
            });
        let throttled = unknown.or_note(&["throttled"], throttled);
        let traced = [before.traced, after.traced].into_iter().flatten().max();
        let traced =
            unknown.or_note(&["traced"], traced.ok_or_else(|| "/proc/self/status".to_owned()));
        let core_clock_after_hz = CoreClock::measure(clock).map(|measured| measured.hz);
        let core_clock = self.core_clock_before_hz.or(core_clock_after_hz);
        let [disagree, preempted] = DISTURBED.map(str::to_owned);
        unknown.or_note(&["core_clock"], core_clock.ok_or(disagree));
        unknown.or_note(&["gaps"], self.gaps.ok_or(preempted));
        let usage = after.usage.since(&before.usage);
        // Each process has had page faults.
        let counts = [after.usage.minor_faults, after.usage.major_faults];
        let counted = (counts != [0, 0])
            .then_some(())
            .ok_or_else(|| "getrusage(2) counts nothing".to_owned());
        unknown.or_note(&["preemptions"], counted);
        let noise = Noise {
            duration_ns,
            steal_ns: shares.as_ref().map(|shares| shares.steal_ns),
            others_ns: shares.as_ref().map(|shares| shares.others_ns),
            others_elsewhere: shares.and_then(|shares| shares.elsewhere),
            run_queue_wait_ns: waited.flatten(),
            throttled_ns: throttled.flatten(),
            preemptions: usage.involuntary_switches,
            migrations: match (before.migrations, after.migrations) {
                (Some(before), Some(after)) => Some(after.saturating_sub(before)),
                // Without that count (`CONFIG_SCHED_DEBUG`), the CPU at the start and at the end shows a
                // worker that was moved away for good.
                _ if self.cpus.is_empty() || before.moves != after.moves => None,
                _ => (before.cpu != after.cpu).then_some(1),
            },
            minor_faults: usage.minor_faults,
            major_faults: usage.major_faults,
            gaps: self.gaps,
            core_clock_before_hz: self.core_clock_before_hz,
            core_clock_after_hz,
            distance_ns: self.other.and_then(|(cpu, before_ns)| {
                Some((before_ns, distance::round_trip_ns(clock, cpu)?))
            }),
            core: None,
            other_core: None,
            traced,
            unknown: unknown.0,
            ends: Few::new(),
        };
        (noise, own_ns)
    }
}

/// Both readings, if both were made.
fn both<'a, T>(before: &'a Read<T>, after: &'a Read<T>) -> Read<[&'a T; 2]> {
    let before = before.as_ref().map_err(String::clone)?;
    Ok([before, after.as_ref().map_err(String::clone)?])
}

/// By how much a count of nanoseconds grew.
fn passed(before: f64, after: f64) -> Read<f64> {
    let grew = after - before;
    (grew >= 0.0).then_some(grew).ok_or_else(|| "the kernel's count went back".to_owned())
}

/// What `/proc/stat` says about a launch.
#[derive(Debug, PartialEq)]
struct Shares {
    steal_ns: f64,
    others_ns: f64,
    /// `None` if all CPUs are measured.
    elsewhere: Option<f64>,
}

/// A file whose counts stand still over this time is not the kernel's, which counts in ticks.
const STANDS_STILL_NS: f64 = 10.0 * TICK_NS;

/// The mean over `cpus`, or over all CPUs if none are named: their times are compared with the
/// elapsed time, which passed on each of them. `own_ns` is the CPU time of the worker itself.
///
/// # Errors
/// The counts of a measured CPU are impossible, so that nothing is known.
fn shares(ticks: &[Ticks], cpus: &[usize], own_ns: f64, duration_ns: f64) -> Read<Shares> {
    let (measured, others): (Vec<&Ticks>, Vec<&Ticks>) =
        ticks.iter().partition(|ticks| cpus.is_empty() || cpus.contains(&ticks.cpu));
    let sum = |column: fn(&Ticks) -> u64, ticks: &[&Ticks]| {
        ticks.iter().map(|ticks| column(ticks)).sum::<u64>() as f64
    };
    let wanted: BTreeSet<&usize> = cpus.iter().collect();
    if measured.is_empty() || measured.len() < wanted.len() {
        return Err("/proc/stat lacks a measured CPU, or its counts went back".to_owned());
    }
    if duration_ns > STANDS_STILL_NS && measured.iter().any(|ticks| ticks.total == 0) {
        return Err("/proc/stat stands still".to_owned());
    }
    let count = measured.len() as f64;
    let mean = |sum_ns: f64| sum_ns.max(0.0) / count;
    // Each CPU's difference is accurate to two ticks.
    let slack_ns = 2.0 * TICK_NS * count;
    let total_elsewhere = sum(|ticks| ticks.total, &others);
    Ok(Shares {
        steal_ns: mean(sum(|ticks| ticks.steal, &measured) * TICK_NS),
        others_ns: mean(sum(|ticks| ticks.busy, &measured) * TICK_NS - own_ns - slack_ns),
        elsewhere: (total_elsewhere > 0.0)
            .then(|| sum(|ticks| ticks.busy, &others) / total_elsewhere),
    })
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
            children_cpu_ns: children.cpu_ns(),
            usage: usage::thread(),
            cpu: affinity::current_cpu(),
            moves: affinity::moves(),
            traced: facts::traced(),
            wait_ns: waited_ns(),
            throttled_ns: facts::throttled_ns(cgroup),
            migrations: usage::migrations()
                // A probe may move its thread on purpose.
                .map(|all| all.saturating_sub(affinity::moves())),
            ticks: processor_ticks::read(),
        }
    }
}

/// For how long the calling thread has waited for a CPU so far, in nanoseconds. Source:
/// Documentation/scheduler/sched-stats.rst.
fn waited_ns() -> Read<f64> {
    const FILE: &str = "/proc/thread-self/schedstat";
    let text = fs::read_to_string(FILE).map_err(|error| format!("{FILE}: {error}"))?;
    let wait = text.split_whitespace().nth(1).and_then(|ns| ns.parse().ok());
    wait.ok_or_else(|| format!("{FILE} does not say"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steal_and_others_are_means_over_the_measured_processors() {
        // Each of 16 processors lost 1 of 100 ticks, and was used for 52.
        let ticks: Vec<Ticks> =
            (0..17).map(|cpu| Ticks { cpu, busy: 52, softirq: 0, steal: 1, total: 100 }).collect();
        let cpus: Vec<usize> = (0..16).collect();
        let own_ns = 16.0 * 40.0 * TICK_NS;
        let duration_ns = 100.0 * TICK_NS;
        let named = shares(&ticks, &cpus, own_ns, duration_ns).unwrap();
        assert_eq!(named.steal_ns, TICK_NS);
        assert_eq!(named.others_ns, 10.0 * TICK_NS);
        assert_eq!(named.elsewhere, Some(0.52));
        let whole = shares(&ticks[..16], &[], own_ns, duration_ns).unwrap();
        assert_eq!(whole.steal_ns, TICK_NS);
        assert_eq!(whole.others_ns, 10.0 * TICK_NS);
        assert_eq!(whole.elsewhere, None);
        // Offline by now; and a file that stands still, unless there was no time for a tick.
        assert!(shares(&ticks, &[3, 60], own_ns, duration_ns).is_err());
        let still = [Ticks { busy: 0, steal: 0, total: 0, ..ticks[0] }];
        assert!(shares(&still, &[0], own_ns, duration_ns).is_err());
        assert!(shares(&still, &[0, 0], own_ns, TICK_NS).is_ok());
        assert!(shares(&[], &[], own_ns, duration_ns).is_err());
    }

    #[test]
    fn what_cannot_be_read_is_noted_with_its_reason() {
        let mut unknown = Unknown::default();
        let hidden: Read<f64> = Err("it is hidden".to_owned());
        let read = both(&hidden, &Ok(5.0)).and_then(|[before, after]| passed(*before, *after));
        assert_eq!(unknown.or_note(&["steal", "others"], read), None);
        assert_eq!(unknown.or_note(&["gone_back"], passed(7.0, 5.0)), None);
        assert_eq!(unknown.or_note(&["known"], passed(5.0, 7.0)), Some(2.0));
        let kinds: Vec<&str> = unknown.0.keys().map(|kind| &**kind).collect();
        assert_eq!(kinds, ["gone_back", "others", "steal"]);
        assert_eq!(unknown.0["steal"], "it is hidden");
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
        let client = shares(&ticks, &[0, 1], 26.0 * TICK_NS, 100.0 * TICK_NS).unwrap();
        assert_eq!(client.elsewhere, Some(0.3));
        let mut noise = Noise {
            others_ns: Some(client.others_ns),
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
