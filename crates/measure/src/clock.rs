//! The clock of a measurement: chosen and calibrated once per run, verified by
//! every worker in milliseconds.
//!
//! Source: Intel SDM vol. 2 (RDTSC, RDTSCP); G. Paoloni, "How to Benchmark Code Execution Times on
//! Intel IA-32 and IA-64" (2010). Its `cpuid` is left out: under a hypervisor each one exits to the
//! host, which takes microseconds.

use costof_model::protocol::ClockSource;
use costof_model::{ClockInfo, Failure};
use costof_os::cpu::clock::{ClockId, now_ns};
use costof_os::cpu::tsc;
use costof_stats::median;

/// A clock whose readings are ordered with the work between them.
pub trait Clock {
    /// Reads the clock; work that follows starts only after the reading.
    fn start(&self) -> u64;
    /// Reads the clock; the reading happens only after the work before it is done.
    fn end(&self) -> u64;
    /// A difference of readings in nanoseconds.
    fn ns(&self, ticks: u64) -> f64;
    /// The smallest nonzero difference between two readings, in nanoseconds.
    fn resolution_ns(&self) -> f64;
    /// What one reading costs, in nanoseconds.
    fn read_ns(&self) -> f64;
}

/// How often the clock is calibrated, and how long each calibration lasts.
const CALIBRATIONS: usize = 5;
const CALIBRATION_NS: u64 = 20_000_000;
/// If the calibrations differ by more than this, the counter is not used.
const SPREAD_MAX_PPM: f64 = 50.0;
/// How long a worker compares the clocks, and by how much they may differ then.
const VERIFICATION_NS: u64 = 2_000_000;
const VERIFICATION_MAX_PPM: f64 = 500.0;

/// Chooses the clock of this machine and calibrates it. `kernel_clock` is the kernel's clock
/// source; `None` if it is unknown.
// METHOD 1
pub fn choose(kernel_clock: Option<&str>) -> ClockInfo {
    let because = match counter_is_trusted(kernel_clock) {
        Ok(because) => because,
        Err(reason) => return monotonic(reason),
    };
    let (hz, spread_ppm) = calibrate();
    if spread_ppm > SPREAD_MAX_PPM {
        let reason = format!("calibrations of the counter differ by {spread_ppm:.0} ppm");
        return monotonic(reason);
    }
    let ns_per_tick = 1e9 / hz;
    ClockInfo {
        source: ClockSource::Counter,
        because,
        hz,
        spread_ppm,
        resolution_ns: resolution_ticks(tsc::end) * ns_per_tick,
        read_ns: ticks_per_read(tsc::end) * ns_per_tick,
        core_floor: None,
    }
}

/// The kernel trusts the counter as a clock if it uses it itself. `kvm-clock` and
/// `hyperv_clocksource_tsc_page` also read this counter, on hypervisors that scale it, but its rate
/// may change when the virtual machine migrates.
fn counter_is_trusted(kernel_clock: Option<&str>) -> Result<String, String> {
    if cfg!(target_arch = "aarch64") {
        return Ok("the generic timer of aarch64 runs at a constant rate".to_owned());
    }
    if !tsc::is_invariant() {
        return Err("the TSC is not invariant".to_owned());
    }
    match kernel_clock {
        Some("tsc") => Ok("the TSC is invariant, and the kernel's own clock source".to_owned()),
        Some(other) => {
            Err(format!("the kernel's clock source is {other}, so it does not trust the TSC here"))
        }
        None => Err("the kernel does not say what its clock source is".to_owned()),
    }
}

fn monotonic(because: String) -> ClockInfo {
    let read = || now_ns(ClockId::Monotonic);
    ClockInfo {
        source: ClockSource::Monotonic,
        because,
        hz: 1e9,
        spread_ppm: 0.0,
        resolution_ns: resolution_ticks(read),
        read_ns: ticks_per_read(read),
        core_floor: None,
    }
}

/// Ticks per second against `CLOCK_MONOTONIC_RAW`, and the spread of several
/// calibrations in parts per million.
fn calibrate() -> (f64, f64) {
    let rates: Vec<f64> = (0..CALIBRATIONS).map(|_| rate(CALIBRATION_NS)).collect();
    let hz = median(&rates).unwrap_or(1e9);
    let low = rates.iter().copied().fold(f64::INFINITY, f64::min);
    let high = rates.iter().copied().fold(0.0, f64::max);
    (hz, (high - low) / hz * 1e6)
}

/// Ticks per second, measured over `duration_ns`.
fn rate(duration_ns: u64) -> f64 {
    let (first_ticks, first_ns) = simultaneous();
    while now_ns(ClockId::MonotonicRaw) < first_ns + duration_ns {
        std::hint::spin_loop();
    }
    let (last_ticks, last_ns) = simultaneous();
    (last_ticks - first_ticks) as f64 * 1e9 / (last_ns - first_ns) as f64
}

/// Reads both clocks at almost the same moment: the closest of several tries.
fn simultaneous() -> (u64, u64) {
    (0..20)
        .map(|_| {
            let before = tsc::start();
            let ns = now_ns(ClockId::MonotonicRaw);
            let after = tsc::end();
            (after - before, before.midpoint(after), ns)
        })
        .min()
        .map_or((0, 0), |(_, ticks, ns)| (ticks, ns))
}

fn resolution_ticks(read: impl Fn() -> u64) -> f64 {
    let mut least = u64::MAX;
    let mut last = read();
    for _ in 0..1000 {
        let now = read();
        if now > last {
            least = least.min(now - last);
        }
        last = now;
    }
    // Two successive readings differ at least by the cost of one reading. The counter itself may be
    // finer, but it cannot time anything shorter.
    if least == u64::MAX { 1.0 } else { least as f64 }
}

fn ticks_per_read(read: impl Fn() -> u64) -> f64 {
    const READS: u64 = 1000;
    let costs: Vec<f64> = (0..9)
        .map(|_| {
            let first = read();
            for _ in 1..READS {
                std::hint::black_box(read());
            }
            (read() - first) as f64 / READS as f64
        })
        .collect();
    median(&costs).unwrap_or(1.0)
}

/// The kernel's clock, for uses that need no calibrated clock.
pub fn kernel() -> Box<dyn Clock> {
    Box::new(Monotonic(monotonic(String::new())))
}

/// The clock that the run chose.
///
/// # Errors
/// If the counter on this worker's CPU disagrees with the calibration.
pub fn open(info: &ClockInfo) -> Result<Box<dyn Clock>, Failure> {
    match info.source {
        ClockSource::Monotonic => Ok(Box::new(Monotonic(info.clone()))),
        ClockSource::Counter => {
            let (hz, off_ppm) = (info.hz, disagreement_ppm(info.hz));
            if off_ppm > VERIFICATION_MAX_PPM {
                costof_model::fail!(
                    "the counter runs {off_ppm:.0} ppm off the {hz:.0} Hz that this run calibrated \
                     (was the machine moved or suspended? start a new run)"
                );
            }
            Ok(Box::new(Counter { ns_per_tick: 1e9 / info.hz, info: info.clone() }))
        }
    }
}

/// By how much the counter's rate differs from `hz`, in parts per million: the smallest of several
/// tries, since a preemption between two readings is not the counter's fault.
// METHOD 1
fn disagreement_ppm(hz: f64) -> f64 {
    let mut least = f64::INFINITY;
    for _ in 0..3 {
        least = least.min(((rate(VERIFICATION_NS) / hz - 1.0) * 1e6).abs());
        if least <= VERIFICATION_MAX_PPM {
            break;
        }
    }
    least
}

struct Counter {
    info: ClockInfo,
    ns_per_tick: f64,
}

impl Clock for Counter {
    #[inline]
    fn start(&self) -> u64 {
        tsc::start()
    }
    #[inline]
    fn end(&self) -> u64 {
        tsc::end()
    }
    fn ns(&self, ticks: u64) -> f64 {
        ticks as f64 * self.ns_per_tick
    }
    fn resolution_ns(&self) -> f64 {
        self.info.resolution_ns
    }
    fn read_ns(&self) -> f64 {
        self.info.read_ns
    }
}

struct Monotonic(ClockInfo);

impl Clock for Monotonic {
    #[inline]
    fn start(&self) -> u64 {
        now_ns(ClockId::Monotonic)
    }
    #[inline]
    fn end(&self) -> u64 {
        now_ns(ClockId::Monotonic)
    }
    fn ns(&self, ticks: u64) -> f64 {
        ticks as f64
    }
    fn resolution_ns(&self) -> f64 {
        self.0.resolution_ns
    }
    fn read_ns(&self) -> f64 {
        self.0.read_ns
    }
}

#[cfg(test)]
pub(crate) mod testing {
    use super::Clock;

    /// A clock whose readings a test computes, in nanoseconds.
    pub(crate) struct Computed<F> {
        pub(crate) now_ns: F,
        pub(crate) read_ns: f64,
    }

    impl<F: Fn() -> u64> Clock for Computed<F> {
        fn start(&self) -> u64 {
            self.end()
        }
        fn end(&self) -> u64 {
            (self.now_ns)()
        }
        fn ns(&self, ticks: u64) -> f64 {
            ticks as f64
        }
        fn resolution_ns(&self) -> f64 {
            1.0
        }
        fn read_ns(&self) -> f64 {
            self.read_ns
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counter_is_used_only_where_the_kernel_uses_it() {
        for distrusts in [Some("hpet"), None] {
            let chosen = choose(distrusts).source;
            assert!(chosen == ClockSource::Monotonic || cfg!(target_arch = "aarch64"));
        }
        let chosen = choose(Some("tsc"));
        assert!(chosen.read_ns > 0.0 && chosen.resolution_ns > 0.0);
        assert!(open(&chosen).is_ok());
    }

    #[test]
    fn a_wrong_calibration_is_noticed() {
        let mut info = choose(Some("tsc"));
        if info.source == ClockSource::Counter {
            info.hz *= 1.01;
            let error = open(&info).err().expect("1 % off");
            assert!(error.reason.contains("ppm off"), "{}", error.reason);
        } else {
            eprintln!("skipped: no counter here ({})", info.because);
        }
    }
}
