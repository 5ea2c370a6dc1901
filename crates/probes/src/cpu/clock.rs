//! `cpu.clock`: reading a clock, and its resolution.

use crate::os::mitigations;
use crate::prelude::*;
use costof_os::cpu::clock_reads;
use costof_os::cpu::tsc;

words! {
    /// The clock, and the call that reads it.
    pub(crate) enum Source {
        /// the CPU's counter, unordered: rdtsc; cntvct_el0 on aarch64
        Tsc = "tsc",
        /// the same, ordered on both sides: lfence; rdtsc; lfence (isb on aarch64)
        TscFenced = "tsc_fenced",
        /// clock_gettime(CLOCK_MONOTONIC)
        Monotonic = "monotonic",
        /// clock_gettime(CLOCK_MONOTONIC_RAW), which NTP does not steer
        MonotonicRaw = "monotonic_raw",
        /// clock_gettime(CLOCK_MONOTONIC_COARSE), as of the last tick
        MonotonicCoarse = "monotonic_coarse",
        /// clock_gettime(CLOCK_REALTIME)
        Realtime = "realtime",
        /// clock_gettime(CLOCK_THREAD_CPUTIME_ID), a system call
        ThreadCpu = "thread_cpu",
        /// Rust's Instant::now()
        StdInstant = "std_instant",
    }
}

pub(crate) static PROBE: Probe = Probe::new::<Clock>();

point! {
    /// What does reading the time cost, and how fine is each clock?
    ///
    /// The clock is read in a loop, each result is used, and batches are timed. This is a
    /// throughput, so unordered readings overlap and cost less than an ordered one. The resolution
    /// is the smallest positive difference between successive readings, observed until the clock
    /// has moved at least twice. costof itself measures with the CPU's counter where it is
    /// invariant and is the kernel's own clock source, and with CLOCK_MONOTONIC otherwise; the
    /// notes of every run say which, and why.
    ///
    /// # Predicted from
    /// the core clock and the latency of rdtsc; for the kernel's clocks, whether the vDSO can
    /// answer with this clock source or a system call is needed, and then the mitigations
    /// (os.syscall)
    ///
    /// # Sources
    /// - clock_gettime(2), vdso(7)
    /// - Linux Documentation/timers/timekeeping.rst
    /// - Intel SDM vol. 2, RDTSC; uops.info for its latency
    /// - G. Paoloni, How to Benchmark Code Execution Times on Intel IA-32 and IA-64, 2010
    pub(crate) struct Clock of "cpu.clock" {
        /// the clock, and the call that reads it
        source: Source = words(),
    }
}

impl Measure for Clock {
    // 2: nothing is done between the readings whose least step is the resolution.
    const METHOD: u32 = 2;
    const METRICS: &'static [Metric] = metrics! {
        /// one reading
        cost: Nanoseconds Lower,
        /// the smallest step between two readings that differ; never less than a reading costs,
        /// except where readings overlap
        resolution: Nanoseconds Lower,
    };
    const AFTER: NameList = &["cpu.frequency"];
    const ROUNDS: u32 = 2;
    const ROLES: &'static [StartRole] = &[|_| role::<Clock>(run)];

    headlines! {
        "clock read: counter": {},
        "clock read: counter, ordered": { source: Source::TscFenced },
        "clock read: clock_gettime": { source: Source::Monotonic },
        "clock read: coarse": { source: Source::MonotonicCoarse },
        "clock read: thread CPU time": { source: Source::ThreadCpu },
        "clock read: Rust's Instant": { source: Source::StdInstant },
    }

    fn predict(point: &At<Self>, facts: &Facts, measured: &MeasuredRows<'_>) -> Option<Prediction> {
        let vdso = facts.clock_source.current.as_deref().is_some_and(|source| {
            matches!(
                source,
                "tsc" | "arch_sys_counter" | "kvm-clock" | "hyperv_clocksource_tsc_page"
            )
        });
        let (cycles, because) = match point.source {
            Source::Tsc => ((18.0, 50.0), "rdtsc is microcoded"),
            Source::TscFenced => ((40.0, 110.0), "rdtsc and two fences that drain the core"),
            Source::MonotonicCoarse => ((7.0, 22.0), "the vDSO only reads memory"),
            Source::ThreadCpu => {
                let what = "to take the run queue's lock and update the thread's accounting";
                let work = mitigations::work(facts, measured, (300.0, 700.0), what)?;
                let cost = mitigations::entries(facts, measured, 1.0)? + work;
                return cost.predict("cost");
            }
            Source::Monotonic | Source::MonotonicRaw | Source::Realtime | Source::StdInstant => {
                if !vdso {
                    let because = "the vDSO cannot answer with this clock source, so each reading \
                                   is a system call";
                    return cost_ns((60.0, 2000.0), because);
                }
                ((40.0, 125.0), "the vDSO reads the counter and scales it")
            }
        };
        cost_cycles(measured, cycles, because)
    }
}

fn run(point: &At<Clock>, meter: &mut Meter<'_>) -> Result {
    match point.source {
        Source::Tsc => read(meter, || least_step(tsc::now) * tick_ns(), clock_reads::tsc),
        Source::TscFenced => {
            read(meter, || least_step(tsc::start) * tick_ns(), clock_reads::tsc_fenced)
        }
        Source::Monotonic => read_kernel(meter, ClockId::Monotonic),
        Source::MonotonicRaw => read_kernel(meter, ClockId::MonotonicRaw),
        Source::MonotonicCoarse => read_kernel(meter, ClockId::MonotonicCoarse),
        Source::Realtime => read_kernel(meter, ClockId::Realtime),
        Source::ThreadCpu => read_kernel(meter, ClockId::ThreadCpu),
        Source::StdInstant => {
            let start = Instant::now();
            let step_ns = || least_step(|| start.elapsed().as_nanos() as u64);
            read(meter, step_ns, clock_reads::std_instant);
        }
    }
    Ok(())
}

fn read_kernel(meter: &mut Meter<'_>, clock: ClockId) {
    let step_ns = || least_step(|| now_ns(clock));
    read(meter, step_ns, |n| clock_reads::clock_gettime(clock, n));
}

/// The resolution is measured last, when the code is cached and the core runs at its full clock.
fn read(meter: &mut Meter<'_>, step_ns: impl FnOnce() -> f64, reads: impl FnMut(u64)) {
    meter.repeatable("cost", reads);
    meter.value("resolution", step_ns());
}

/// Readings taken back to back: each is stored, and nothing else is done.
const READINGS: usize = 256;
/// Steps observed, and for how long: a coarse clock moves once a tick.
const STEPS: usize = 10_000;
const LOOKS: Duration = Duration::from_millis(20);

/// The smallest positive difference between successive readings, in the clock's own unit. Readings
/// are compared after each batch, because work between two readings would be in their difference.
fn least_step(read: impl Fn() -> u64) -> f64 {
    let began = Instant::now();
    let mut readings = [0; READINGS];
    let (mut least, mut steps) = (u64::MAX, 0);
    while steps < 2 || (steps < STEPS && began.elapsed() < LOOKS) {
        readings.fill_with(&read);
        for pair in readings.windows(2).filter(|pair| pair[1] > pair[0]) {
            least = least.min(pair[1] - pair[0]);
            steps += 1;
        }
    }
    least as f64
}

/// Nanoseconds per tick of the counter, to three digits, in a millisecond.
fn tick_ns() -> f64 {
    let (ns, ticks) = (now_ns(ClockId::MonotonicRaw), tsc::start());
    while now_ns(ClockId::MonotonicRaw) < ns + 1_000_000 {}
    (now_ns(ClockId::MonotonicRaw) - ns) as f64 / (tsc::end() - ticks) as f64
}
