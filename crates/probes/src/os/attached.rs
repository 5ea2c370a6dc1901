//! `os.attached`: what the eBPF programs that are attached to this machine now add to a system call.

use crate::prelude::*;
use costof_os::process::bpf_statistics::{Program, Statistics};
use costof_os::process::syscalls;

/// Calls between two looks at the clock.
const CALLS: u64 = 10_000;

pub(crate) static PROBE: Probe = Probe::new::<Attached>();

point! {
    /// What do the eBPF programs that are attached now add to a system call?
    ///
    /// The kernel counts and times the runs of all programs that trace (tracepoints, kprobes, functions, perf events, hooks of
    /// security modules) on the whole machine while the worker calls getppid, and as long before while it sleeps; only what is
    /// more than that counts. A program that ran once for each call counts, with the mean of its runs. That time has a reading
    /// of the kernel's clock in it, but not what the kernel takes to call it: os.overhead(of=bpf) has that, for a program that
    /// does nothing. Programs that run at other calls alone, or sample, do not count.
    ///
    /// # Predicted from
    /// nothing: it depends on what others have attached
    ///
    /// # Sources
    /// - bpf(2); Linux Documentation/admin-guide/sysctl/kernel.rst, bpf_stats_enabled
    /// - bpftool-prog(8), which lists the programs
    ///
    /// # Needs
    /// - root (CAP_SYS_ADMIN), and Linux 5.8
    pub(crate) struct Attached of "os.attached" {}
}

impl Measure for Attached {
    const METRICS: &'static [Metric] = metrics! {
        /// what their runs add to a system call
        added: Nanoseconds Lower,
        /// the programs that run at each call
        programs: One Neither,
        /// all programs that are loaded to trace
        loaded: One Neither,
    };
    const BUDGET: Option<Budget> = Some(Budget::seconds(0, 0, 10));
    const ROLES: &'static [StartRole] = &[|_| role::<Attached>(run)];

    fn predict(_: &At<Attached>, _: &Facts, _: &MeasuredRows<'_>) -> Option<Prediction> {
        None
    }
}

fn run(_: &At<Attached>, meter: &mut Meter<'_>) -> Result {
    let refused = |error: io::Error| Failure::unsupported(format!("{error} (it needs root)"));
    let statistics = Statistics::start().map_err(refused)?;
    let look = || statistics.tracing().map_err(refused);
    let asleep = look()?;
    std::thread::sleep(Duration::from_nanos(meter.time_ns() as u64));
    let before = look()?;
    let mut calls = 0;
    meter.repeat(u64::MAX, |_| {
        syscalls::getppid(CALLS);
        calls += CALLS;
        Ok(())
    })?;
    let after = look()?;
    let each: Vec<f64> =
        after.iter().filter_map(|now| added([&asleep, &before], now, calls)).collect();
    meter.value("added", each.iter().sum());
    meter.value("programs", each.len() as f64);
    meter.value("loaded", after.len() as f64);
    Ok(())
}

/// What a program has added to each of these calls, in nanoseconds, if it ran at each. What it did in as long a time without
/// them, at the calls of others, is left out.
fn added(before: [&[Program]; 2], now: &Program, calls: u64) -> Option<f64> {
    let found = before.map(|programs| programs.iter().find(|program| program.id == now.id));
    let [Some(asleep), Some(earlier)] = found else { return None };
    let more =
        |of: fn(&Program) -> u64| (of(now) - of(earlier)).saturating_sub(of(earlier) - of(asleep));
    let (runs, ns) = (more(|program| program.runs), more(|program| program.run_ns));
    // Others do not make the same number of calls in both times. A program that is attached twice runs twice.
    let per_call = (runs + calls / 2) / calls;
    (per_call > 0).then(|| per_call as f64 * ns as f64 / runs as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::tests::{measure_if_supported, value};

    #[test]
    fn what_ran_at_each_call_counts_with_the_mean_of_its_runs() {
        let program = |id, runs, run_ns| Program { id, runs, run_ns };
        let before = [program(1, 50, 500), program(2, 0, 0)];
        let added = |now| added([&before, &before], &now, 1_000);
        assert_eq!(added(program(1, 1_150, 22_500)), Some(20.0));
        assert_eq!(added(program(1, 2_250, 22_500)), Some(20.0));
        assert_eq!(added(program(2, 499, 4_990)), None);
        assert_eq!(added(program(3, 5_000, 9_990)), None);
    }

    #[test]
    fn what_runs_at_the_calls_of_others_does_not_count() {
        let at = |runs| [Program { id: 1, runs, run_ns: runs * 10 }];
        assert_eq!(added([&at(0), &at(5_000)], &at(11_000)[0], 1_000), Some(10.0));
        assert_eq!(added([&at(0), &at(5_000)], &at(9_000)[0], 1_000), None);
        // They made fewer calls meanwhile.
        assert_eq!(added([&at(0), &at(5_000)], &at(10_800)[0], 1_000), Some(10.0));
    }

    #[test]
    fn what_is_loaded_is_counted() {
        if let Some(report) = measure_if_supported(&Attached {}) {
            assert!(value(&report, "programs") <= value(&report, "loaded"));
            assert!(value(&report, "added") >= Some(0.0));
        }
    }
}
