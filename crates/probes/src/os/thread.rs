//! `os.thread`: what creating a thread and joining it cost.

use crate::os::context_switch::{Between, ContextSwitch, Over};
use crate::prelude::*;
use costof_os::sched::threads::{ThreadApi, start};

words! {
    /// The interface.
    pub(crate) enum How => ThreadApi {
        /// pthread_create and pthread_join of the C library
        Pthread = "pthread",
        /// Rust's std::thread, which runs on it and adds allocations and an alternative signal stack
        Std = "std",
    }

    /// Where the thread may run.
    pub(crate) enum Cpus {
        /// on its creator's CPU, as it inherits
        Same = "same",
        /// on either of two CPUs, one of which its creator uses: the kernel chooses, mostly an
        /// idle one
        Any = "any",
    }
}

pub(crate) static PROBE: Probe = Probe::new::<Thread>();

point! {
    /// What does it cost to create a thread that does nothing, and to join it?
    ///
    /// Threads are created and joined one after the other. The time is read before the creation,
    /// after it, and after the join; each thread returns the number of its CPU, which shows that it
    /// ran. The C
    /// library reuses the stacks of ended threads, so the cost does not include mapping one. On one
    /// CPU it includes two context switches: to the new thread when its creator waits, and back.
    ///
    /// # Predicted from
    /// six system calls (os.syscall); making and ending a thread, which takes 3 to 10 times an open
    /// and close; two context switches between threads (os.context_switch), on one CPU or to an
    /// idle one
    ///
    /// # Sources
    /// - pthread_create(3), pthread_join(3)
    /// - CSE 221 System Measurement Project, 2014: creating and joining a kernel thread 7.37 µs, sd
    ///   0.16
    ///
    /// # Needs
    /// - for any: two CPUs
    pub(crate) struct Thread of "os.thread" {
        /// the interface
        how: How = words(),
        /// where the thread may run
        cpus: Cpus = words(),
    }
}

impl Measure for Thread {
    const METRICS: &'static [Metric] = metrics! {
        /// from before the creation until the thread has ended and was joined
        latency: Nanoseconds Lower,
        /// the part of it until the creating call has returned
        call: Nanoseconds Lower,
        /// the share of threads that ran on another CPU than their creator began on
        crossed: One Neither,
    };
    const AFTER: NameList = &["os.syscall", "os.context_switch"];
    const CROSSINGS: &'static [NameList] = &[&["how", "cpus"]];
    const ROUNDS: u32 = 2;
    const ROLES: &'static [StartRole] = &[alone::<_, Creator>];

    headlines! {
        "thread: create and join": {},
    }

    fn processors(point: &At<Self>) -> usize {
        match point.cpus {
            Cpus::Any => 2,
            Cpus::Same => 1,
        }
    }

    fn predict(point: &At<Self>, _: &Facts, measured: &MeasuredRows<'_>) -> Option<Prediction> {
        // Blocking and restoring signals, clone, waiting, waking, giving back the stack.
        let calls = syscall::measured_cost(measured, syscall::Call::Getppid)? * 6.0;
        let open = syscall::measured_cost(measured, syscall::Call::Open)?;
        let made = calls + (open * MADE).named("to make and to end a thread");
        let here = switch(measured, ends::Cpus::Same, Wake::Awake, SWITCH_NS);
        let switches = match point.cpus {
            Cpus::Same => here * 2.0,
            // One or two context switches to an idle CPU.
            Cpus::Any => {
                let there = switch(measured, ends::Cpus::Cross, Wake::Idle, SWITCH_TO_IDLE_NS);
                let least = (2.0 * here.range.0).min(there.range.0);
                (here.max(there) * 2.0).at_least(least)
            }
        };
        (made + switches).predict("latency")
    }
}

#[derive(Default)]
struct Creator {
    /// The worker's own CPU.
    home: Option<usize>,
    started: u64,
    crossed: u64,
}

impl Setup<Thread> for Creator {
    const BLOCKS: bool = true;

    fn set_up(point: &At<Thread>, launch: &Launch) -> Result<Creator> {
        let wanted = Thread::processors(point);
        if wanted > 1 || !launch.cpus.is_empty() {
            let cpus = threads::on(wanted, &launch.cpus)?;
            affinity::pin(cpus).or_fail("cannot run on the measured CPUs")?;
        }
        Ok(Creator { home: launch.cpus.first().copied(), ..Creator::default() })
    }

    fn measure(&mut self, point: &At<Thread>, meter: &mut Meter<'_>) -> Result {
        // What std allocates to start a thread, and what the C library keeps of one.
        meter.operation_allocates();
        let mut failed = FirstError::default();
        meter.stages(
            "call",
            "latency",
            || (affinity::current_cpu(), start(point.how.into())),
            |(here, started)| {
                failed.note(started.map(|thread| {
                    self.crossed += u64::from(thread.join() != here);
                    self.started += 1;
                }));
            },
        );
        failed.into_result().or_unsupported_hint(
            "cannot start a thread",
            "ulimit -u and the cgroup's pids.max limit them",
        )
    }

    fn check(self, _: &At<Thread>, meter: &mut Meter<'_>) -> Result {
        meter.value("crossed", self.crossed as f64 / self.started as f64);
        // The next point may belong to another probe.
        let Some(cpu) = self.home else { return Ok(()) };
        affinity::pin(&[cpu]).or_fail(format_args!("cannot go back to {cpu}"))
    }
}

/// Making and ending a thread, without system calls and switches, in opens and closes of a file,
/// each of which allocates one object: its descriptor, its kernel stack, signal handling and
/// accounting, queueing it, and freeing all of them.
const MADE: (f64, f64) = (3.0, 10.0);
/// A context switch on one CPU, where it was not measured.
const SWITCH_NS: (f64, f64) = (1_000.0, 5_000.0);
/// A context switch to an idle CPU, where it was not measured.
const SWITCH_TO_IDLE_NS: (f64, f64) = (2_000.0, 60_000.0);

/// A context switch: between threads if measured (by futex if possible, which does least besides),
/// else between processes, else a usual value.
fn switch(measured: &MeasuredRows<'_>, cpus: ends::Cpus, wake: Wake, usual: (f64, f64)) -> Cost {
    const NAME: &str = "for a context switch";
    let measured = [
        (Between::Threads, Over::Futex),
        (Between::Threads, Over::Pipe),
        (Between::Processes, Over::Pipe),
    ]
    .into_iter()
    .find_map(|(between, over)| {
        let switch = ContextSwitch { between, over, cpus, wake };
        expect::measured_cost(measured, &switch, NAME)
    });
    measured.unwrap_or_else(|| Cost::new(usual, NAME))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{at, measured, measured_call};

    #[test]
    fn context_switches_between_threads_come_before_those_between_processes() {
        let switch = |between, ns| measured(at::<ContextSwitch>(between), ns);
        let mut measured = vec![
            measured_call(syscall::Call::Getppid, 100.0),
            measured_call(syscall::Call::Open, 1_000.0),
        ];
        let range = |measured: &[_]| {
            let point = At::from(at::<Thread>("cpus=same"));
            let prediction =
                Thread::predict(&point, &Facts::default(), &MeasuredRows::new(measured)).unwrap();
            (prediction.low, prediction.high)
        };
        assert_eq!(range(&measured), (5_600.0, 20_600.0));
        measured.push(switch("between=processes", 3_000.0));
        assert_eq!(range(&measured), (9_600.0, 16_600.0));
        measured.push(switch("between=threads", 2_000.0));
        assert_eq!(range(&measured), (7_600.0, 14_600.0));
    }
}
