//! `os.context_switch`: what it costs that another thread or process runs.

mod role;

use crate::cpu::vm_exit;
use crate::prelude::*;
use costof_os::ipc::token;
use role::Switcher;

words! {
    /// What runs in turn.
    pub(crate) enum Between => token::Between {
        /// two processes, so that page tables are switched too
        Processes = "processes",
        /// two threads of one process
        Threads = "threads",
    }

    /// How one end waits for the other.
    pub(crate) enum Over {
        /// a byte through a pipe for each direction
        Pipe = "pipe",
        /// a word in memory: FUTEX_WAKE, then FUTEX_WAIT
        Futex = "futex",
        /// a byte behind a std::sync::Mutex, and a Condvar, for threads alone
        Condvar = "condvar",
    }
}

pub(crate) static PROBE: Probe = Probe::new::<ContextSwitch>();

point! {
    /// What does a context switch cost, between processes or threads?
    ///
    /// A token goes back and forth between two ends, each of which blocks until it has the token. A
    /// round trip is two switches. Each switch contains one write and one read of a byte, or one
    /// FUTEX_WAKE and one FUTEX_WAIT, or a condition variable's notify_one and wait, with the
    /// lock; perf bench sched pipe prints the whole round trip. Each end is pinned; the second
    /// process is a fork of the first. The scheduling policy is the default one (SCHED_OTHER): on one CPU, the scheduler decides at each wake-up whether the woken end
    /// runs at once, and `preempted` says how often it did. The ends check each other's numbers,
    /// and all switches are counted.
    ///
    /// # Predicted from
    /// system calls (os.syscall): read twice for a pipe, getppid twice for a futex, as in a
    /// condition variable; 0.3 to 1 times an open and close for the scheduler's code; usual cycles
    /// for registers and page tables (cpu.frequency), and times for waking another CPU, in a
    /// virtual machine with exits (cpu.vm_exit)
    ///
    /// # Sources
    /// - CSE 221 System Measurement Project, 2014: 4.57 µs between processes, 2.4 µs between
    ///   threads, blocking pipes on one core
    /// - perf-bench(1), sched pipe
    /// - L. McVoy, C. Staelin, lmbench: Portable Tools for Performance Analysis, USENIX 1996,
    ///   lat_ctx
    /// - Linux Documentation/scheduler/sched-eevdf.rst; admin-guide/pm/cpuidle.rst
    ///
    /// # Needs
    /// - cpus=cross: two CPUs (--cpu)
    /// - wake=polling: root, and a cpuidle driver whose shallowest state is POLL
    pub(crate) struct ContextSwitch of "os.context_switch" {
        /// what runs in turn
        between: Between = words(),
        /// how one end waits for the other
        over: Over = words(),
        cpus: Cpus = Cpus::same_first(),
        wake: Wake = wake::of_two_ends(),
    }
}

impl Measure for ContextSwitch {
    const METRICS: &'static [Metric] = metrics! {
        /// one switch: half of the token's round trip, including the pipe's or the futex's calls
        cost: Nanoseconds Lower,
        /// with cpus=cross: a whole round trip, two switches; each is stamped
        round_trip: Nanoseconds Lower,
        /// the part of it that the pipe or the futex costs without a switch: one write and one
        /// read, or one FUTEX_WAKE and one FUTEX_WAIT, in one thread that never waits
        over_alone: Nanoseconds Lower,
        /// with cpus=same: `cost` minus `over_alone`: waking, choosing and switching
        switch_alone: Nanoseconds Lower,
        /// CPU time of one switch (getrusage): what an end takes to receive the token, with its wait, and to send it, with the wake-up
        cpu: Nanoseconds Lower,
        /// context switches of both ends as the kernel counts them (getrusage), divided by those
        /// that the token makes
        switches: One Neither,
        /// the share of switches that took the CPU from an end that had just woken the other,
        /// before it waited itself
        preempted: One Neither,
    };
    const AFTER: NameList = &["os.syscall", "cpu.vm_exit", "cpu.frequency"];
    const CROSSINGS: &'static [NameList] = &[&["between", "over", "cpus"], &["cpus", "wake"]];
    const ROUNDS: u32 = 2;
    const ROLES: &'static [StartRole] = &[alone::<_, Switcher>];

    headlines! {
        "context switch: threads, one core": { between: Between::Threads },
        "context switch: processes, one core": {},
        "context switch: processes, another core": { cpus: Cpus::Cross },
        "context switch: processes, another idle core": { cpus: Cpus::Cross, wake: Wake::Idle },
    }

    fn check_axes(point: &At<Self>) -> Result {
        if point.over == Over::Condvar && point.between == Between::Processes {
            unsupported!("a condition variable is between threads (--set between=threads)");
        }
        ends::check(point.cpus, point.wake, false)
    }

    fn processors(point: &At<Self>) -> usize {
        point.cpus.count()
    }

    fn predict(point: &At<Self>, facts: &Facts, measured: &MeasuredRows<'_>) -> Option<Prediction> {
        let call = match point.over {
            Over::Pipe => syscall::Call::Read,
            Over::Futex | Over::Condvar => syscall::Call::Getppid,
        };
        // A pipe locks and wakes besides, which is part of the kernel's code below.
        let mut cost = syscall::measured_cost(measured, call)? * 2.0;
        let open = syscall::measured_cost(measured, syscall::Call::Open)?;
        cost += (open * CODE).named("to wake, to choose and to switch");
        cost += cycles(measured, SWITCHED, "for registers, stacks and cold caches")?;
        if point.over == Over::Condvar {
            cost += cycles(measured, (30.0, 600.0), "for the lock")?;
        }
        if point.between == Between::Processes {
            cost += cycles(measured, (100.0, 600.0), "for other page tables")?;
        }
        (cost + waking(point, facts, measured)).predict("cost")
    }

    /// A round trip is two switches, plus calls, which are subtracted.
    fn derive(point: &At<Self>, reports: Vec<Report>) -> Report {
        let mut report = only(reports);
        derived::divide_cost(&mut report, 2);
        if point.cpus == Cpus::Same {
            derived::forget_disturbances(&mut report);
            if let Some(ns) = derived::difference_ns(&report, "cost", "over_alone") {
                derived::add(&mut report, "switch_alone", ns);
            }
        }
        report
    }
}

/// The kernel's code of a wake-up, of choosing what runs next and of a switch, in opens and closes of
/// a file: both take half a dozen locks and search a tree.
const CODE: (f64, f64) = (0.3, 1.0);
/// Registers that are saved and restored, with those of vectors, and what is no longer in the first
/// caches, in cycles.
const SWITCHED: (f64, f64) = (500.0, 2_500.0);

/// A measured context switch between two processes through a pipe, on such CPUs.
pub(crate) fn measured_cost(cpus: Cpus, wake: Wake, measured: &MeasuredRows<'_>) -> Option<Cost> {
    let switch = ContextSwitch { between: Between::Processes, over: Over::Pipe, cpus, wake };
    expect::measured_cost(measured, &switch, "for a context switch by a pipe")
}

/// The time, without exits, until a halted CPU of a virtual machine runs again: the host's
/// scheduler, and the host's CPU leaving an idle state.
pub(super) fn resumed() -> Cost {
    Cost::new((2e3, 14e3), "until the hypervisor runs the halted CPU again")
}

/// What waking another CPU takes.
fn waking(point: &At<ContextSwitch>, facts: &Facts, measured: &MeasuredRows<'_>) -> Cost {
    const INTERRUPT: &str = "for an interrupt to the other CPU";
    let is_virtual = facts.virtualization.virtual_machine == Some(true);
    if point.cpus == Cpus::Same {
        return Cost::default();
    }
    match (point.wake, vm_exit::measured_cost(measured)) {
        (Wake::Polling, _) => Cost::new((100.0, 1e3), "until an idle loop that polls sees it"),
        // Exits to send the interrupt and to take it.
        (Wake::Awake, Some(exit)) => exit * (1.0, 2.5) + Cost::new((1e3, 4e3), INTERRUPT),
        (Wake::Awake, None) if is_virtual => Cost::new((2e3, 20e3), INTERRUPT),
        (Wake::Awake, None) => Cost::new((1e3, 4e3), INTERRUPT),
        // Exits to send the interrupt, to halt and to run again.
        (Wake::Idle, Some(exit)) if is_virtual => exit * (2.0, 3.0) + resumed(),
        (Wake::Idle, None) if is_virtual => Cost::new((5e3, 60e3), "to run a halted CPU again"),
        (Wake::Idle, _) => Cost::new((1e3, 60e3), "to leave an idle state"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{number, point, report, samples};
    use costof_model::metric::{Data, Measured};

    #[test]
    fn a_round_trip_is_two_switches_and_on_one_processor_the_calls_can_be_taken_out() {
        let headlines = ContextSwitch::headlines(&Facts::default());
        for (headline, metrics) in headlines.iter().zip([3, 3, 2, 2]) {
            let point: At<ContextSwitch> = (&point(&PROBE, headline.axes.clone())).into();
            let disturbed = |measured| Measured { disturbed: vec![0], ..measured };
            let report = report(vec![
                disturbed(samples("cost", &[(10, 40_000.0), (20, 80_000.0)])),
                disturbed(number("over_alone", 500.0)),
            ]);
            let report = ContextSwitch::derive(&point, vec![report]);
            assert_eq!(report.metrics.len(), metrics, "{point:?}");
            assert_eq!(report.metrics[0].data.costs(), [2000.0, 2000.0]);
            // On one CPU, preemption by the partner is no disturbance.
            assert_eq!(report.metrics[0].disturbed.is_empty(), point.cpus == Cpus::Same);
            if point.cpus == Cpus::Same {
                assert_eq!(report.metrics[2].data, Data::Value(1500.0));
            }
        }
    }
}
