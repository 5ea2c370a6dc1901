//! The gauge of a core: whether something else uses its execution units.
//!
//! Another hardware thread on the core, of this machine or of another virtual machine on the same
//! host, takes execution slots and no time. Steal time, run queue and gaps in the clock do not show
//! it. But independent additions run slower then, and a chain of dependent multiplications does
//! not. Their ratio, core cycles per addition, has a sharp floor while the core is alone
//! (docs/decisions/2026-11-23-core-gauge.md).
//!
//! A reading takes about two microseconds and uses registers only. One is taken before and one
//! after each batch. They decide how the batch counts before anybody looks at its time.

use costof_model::facts::Cpu;
use costof_model::metric::CoreState;
use costof_os::cpu::core_chain::{MULTIPLY_CYCLES, multiply};
use costof_os::cpu::core_slots::independent_additions;
use costof_os::cpu::tsc;
use costof_os::sched::affinity;
use costof_stats::median;
use std::io;
use std::sync::Arc;
use std::thread;

/// The core was alone if both readings are at most this many times the floor.
pub(crate) const ALONE: f64 = 1.05;
/// It was shared if both are at least this many times the floor.
const SHARED: f64 = 1.3;
/// A reading further below the floor than this was interrupted during its multiplications.
pub(crate) const BROKEN: f64 = 0.9;
/// Readings within this ratio of each other are alike.
const ALIKE: f64 = 1.02;
/// A plateau has at least this share of the readings, and at least this many: a core may be alone
/// for 2 % of the time.
const PLATEAU_SHARE: f64 = 0.01;
const PLATEAU_LEAST: usize = 8;
/// Each of the two loops lasts at least this many steps of the counter, which may advance by ten
/// nanoseconds at a time, and at least this many multiplications: a quarter of a microsecond at 3
/// GHz.
const READINGS_PER_LOOP: f64 = 50.0;
const MULTIPLICATIONS_LEAST: u64 = 250;
/// Multiplications in a pass of their loop.
const PASS: u64 = 32;
/// As many additions as take about the time of one multiplication.
const ADDITIONS_PER_MULTIPLICATION: u64 = 10;
/// The fraction of a reading that runs before it and is discarded: right after the kernel ran, a
/// reading would be a few per cent too high.
const WARM_UP_PART: u64 = 8;
/// How many readings a calibration takes, and how often it takes them if the design's floor is not
/// known: for about a tenth of a second, since a core may be shared for longer than once lasts.
const CALIBRATION_READINGS: usize = 2_000;
const CALIBRATIONS: usize = 20;

/// How many readings a short look takes.
const LOOK_READINGS: usize = 200;

/// Reads a core's free execution slots: core cycles per addition.
pub type Reader = Arc<dyn Fn() -> f64 + Send + Sync>;

/// A gauge with a known floor.
#[derive(Clone)]
pub struct Gauge {
    read: Reader,
    floor: f64,
}

impl Gauge {
    /// A gauge of the core that the calling thread is on. Its floor is the one given, or else the
    /// plateau of readings taken now; `None` if they have none.
    pub fn for_this_core(floor: Option<f64>) -> Option<Gauge> {
        let read = reader();
        let floor = floor.or_else(|| plateau(&readings(&read, CALIBRATION_READINGS)))?;
        Some(Gauge::new(read, floor))
    }

    /// A gauge that takes its readings with `read`.
    pub fn new(read: Reader, floor: f64) -> Gauge {
        Gauge { read, floor }
    }

    /// Core cycles per addition now.
    pub fn read(&self) -> f64 {
        (self.read)()
    }

    /// The median of a short look, of half a millisecond, at the core that the calling thread is
    /// on. The thread does not move to another core for it: if a low-priority thread keeps the CPU
    /// awake, Linux 6.18 may let a thread that changes its affinity wait for seconds.
    pub fn look(&self) -> Option<f64> {
        median(&readings(&self.read, LOOK_READINGS))
    }

    /// The function that takes its readings, for threads on other cores of the same design.
    pub fn reader(&self) -> Reader {
        Arc::clone(&self.read)
    }

    /// Core cycles per addition while the core is alone.
    pub fn floor(&self) -> f64 {
        self.floor
    }

    /// Whether a reading is that of a core that is alone.
    pub fn is_alone(&self, reading: f64) -> bool {
        is_alone(self.floor, reading)
    }

    /// The state of the core between two readings. For several cores, a reading is the worst of
    /// theirs.
    pub fn state(&self, before: f64, after: f64) -> CoreState {
        state(self.floor, before, after)
    }
}

/// The state of the core between two readings of a gauge with this floor.
pub fn state(floor: f64, before: f64, after: f64) -> CoreState {
    let both = |is: &dyn Fn(f64) -> bool| is(before) && is(after);
    if both(&|reading| is_alone(floor, reading)) {
        CoreState::Alone
    } else if both(&|reading| reading >= SHARED * floor) {
        CoreState::Shared
    } else {
        CoreState::Mixed
    }
}

/// Whether a reading of a gauge with this floor is that of a core that is alone.
pub(crate) fn is_alone(floor: f64, reading: f64) -> bool {
    (BROKEN..=ALONE).contains(&(reading / floor))
}

/// The lowest value on which many readings agree: the floor, if the core was alone often enough.
/// `None` if the readings are scattered.
pub fn plateau(readings: &[f64]) -> Option<f64> {
    let mut sorted: Vec<f64> = readings.iter().copied().filter(|x| *x > 0.0).collect();
    sorted.sort_by(f64::total_cmp);
    let wanted = ((sorted.len() as f64 * PLATEAU_SHARE) as usize).max(PLATEAU_LEAST);
    let alike = sorted
        .windows(wanted)
        .position(|window| window[wanted - 1] <= window[0] * ALIKE)?;
    Some(sorted[alike + wanted / 2])
}

/// The floor of the machine's cores: the lowest plateau of readings on the calling thread's core. If
/// the core's design is known and contradicts it, the core was never alone, and the design's floor
/// counts. `None` if there is neither.
pub fn calibrate(cpu: &Cpu) -> Option<f64> {
    let read = reader();
    let plateaus = (0..CALIBRATIONS).map(|_| plateau(&readings(&read, CALIBRATION_READINGS)));
    floor(plateaus, by_design(cpu))
}

fn readings(read: &Reader, count: usize) -> Vec<f64> {
    (0..count).map(|_| read()).collect()
}

/// The floor, from plateaus that are seen one after the other and the value of the design. If it is
/// not known, the lowest ones count that agree: during the others the core was never alone.
fn floor(mut plateaus: impl Iterator<Item = Option<f64>>, design: Option<f64>) -> Option<f64> {
    let Some(design) = design else {
        let seen: Vec<f64> = plateaus.flatten().collect();
        let least = seen.iter().copied().reduce(f64::min)?;
        let agree = seen.into_iter().filter(|seen| *seen <= least * ALONE);
        return median(&agree.collect::<Vec<f64>>());
    };
    let agrees = |seen: &f64| (design / ALONE..=design * ALONE).contains(seen);
    plateaus.next().flatten().filter(agrees).or(Some(design))
}

/// Core cycles per addition of the gauge's loop on a core of this design, while the core is alone.
/// The loop has six additions, and a decrement and branch that fuse into a seventh operation; these
/// are divided by the operations per cycle.
///
/// Sources: AMD, "Software Optimization Guide" for families 17h, 19h and 1Ah (four integer units,
/// from Zen 5 on six); Intel, "Optimization Reference Manual" (four integer ports from Haswell to Ice
/// Lake); measured on Zen 4 (0.292) and Sapphire Rapids (0.212).
fn by_design(cpu: &Cpu) -> Option<f64> {
    const OPERATIONS: f64 = 7.0 / 6.0;
    match (cpu.vendor.as_deref()?, cpu.family?, cpu.model?) {
        ("AuthenticAMD", 0x17 | 0x19, _) => Some(OPERATIONS / 4.0),
        ("AuthenticAMD", 0x1a, _) => Some(OPERATIONS / 6.0),
        ("GenuineIntel", 6, 0x3f | 0x4f | 0x55 | 0x6a | 0x6c) => Some(OPERATIONS / 4.0),
        ("GenuineIntel", 6, 0x8f | 0xcf) => Some(0.212),
        _ => None,
    }
}

/// The median of a short look at a CPU's core, by a thread that runs there.
///
/// # Errors
/// If a thread cannot be started or cannot run there.
pub fn look_at(cpu: usize) -> io::Result<Option<f64>> {
    thread::scope(|scope| {
        let look = thread::Builder::new().spawn_scoped(scope, || {
            affinity::pin(&[cpu])?;
            Ok(median(&readings(&reader(), LOOK_READINGS)))
        })?;
        look.join().expect("reading a gauge does not panic")
    })
}

/// Reads the core on which it is called. This function finds once how long the loops must be for
/// this machine's counter.
pub fn reader() -> Reader {
    let multiplications = multiplications();
    Arc::new(move || {
        multiply(multiplications / WARM_UP_PART);
        independent_additions(multiplications * ADDITIONS_PER_MULTIPLICATION / WARM_UP_PART);
        let cycles = ticks(|| multiply(multiplications)) / multiplications as f64 / MULTIPLY_CYCLES;
        let additions = multiplications * ADDITIONS_PER_MULTIPLICATION;
        ticks(|| independent_additions(additions)) / additions as f64 / cycles
    })
}

fn multiplications() -> u64 {
    let reading = (0..1000)
        .map(|_| tsc::end().abs_diff(tsc::end()))
        .filter(|ticks| *ticks > 0)
        .min()
        .unwrap_or(1) as f64;
    let each = ticks(|| multiply(10_000)) / 10_000.0;
    let multiplications = (READINGS_PER_LOOP * reading / each) as u64;
    // A remainder of a pass would be slow in unoptimised code.
    multiplications
        .max(MULTIPLICATIONS_LEAST)
        .next_multiple_of(PASS)
}

fn ticks(work: impl FnOnce() -> u64) -> f64 {
    let start = tsc::start();
    std::hint::black_box(work());
    tsc::end().saturating_sub(start) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_readings_decide_and_no_time_does() {
        for (before, after, expected) in [
            (0.21, 0.22, CoreState::Alone),
            (0.21, 0.23, CoreState::Mixed),
            (0.28, 0.40, CoreState::Shared),
            (0.21, 0.40, CoreState::Mixed),
            // Interrupted while the yardstick ran.
            (0.21, 0.001, CoreState::Mixed),
        ] {
            assert_eq!(state(0.212, before, after), expected, "{before} {after}");
        }
    }

    #[test]
    fn the_lowest_level_that_readings_agree_on_is_the_floor() {
        let mut random = fastrand::Rng::with_seed(5);
        let mut noisy = |level: f64| level * (1.0 + 0.01 * (random.f64() - 0.5));
        let mut readings: Vec<f64> = (0..900).map(|_| noisy(0.4)).collect();
        readings.extend((0..90).map(|_| noisy(0.292)));
        readings.extend([0.001, 0.002, 0.1, 0.15, 0.2]);
        let found = plateau(&readings).expect("a tenth agrees");
        assert!((found / 0.292 - 1.0).abs() < 0.01, "{found}");
        let scattered: Vec<f64> = (1..200).map(|i| f64::from(i) * 0.1).collect();
        assert_eq!(plateau(&scattered), None);
        assert_eq!(plateau(&[]), None);
    }

    #[test]
    fn a_core_that_is_alone_for_a_fiftieth_of_the_time_has_its_floor() {
        let mut readings = vec![0.2036; 40];
        readings.extend((0..1960).map(|i| 0.26 + 0.14 * f64::from(i) / 1960.0));
        assert_eq!(plateau(&readings), Some(0.2036));
    }

    #[test]
    fn a_core_that_was_never_alone_has_the_floor_of_its_design() {
        let floor = |seen: &[Option<f64>], design| super::floor(seen.iter().copied(), design);
        assert_eq!(floor(&[Some(0.294), Some(0.29)], Some(0.292)), Some(0.294));
        assert_eq!(floor(&[Some(0.45)], Some(0.292)), Some(0.292));
        assert_eq!(floor(&[Some(0.26)], Some(0.292)), Some(0.292));
        assert_eq!(floor(&[None], Some(0.292)), Some(0.292));
        assert_eq!(floor(&[Some(0.45)], None), Some(0.45));
        let seen = [0.35, 0.2, 0.4, 0.204, 0.206].map(Some);
        assert_eq!(floor(&seen, None), Some(0.204));
        assert_eq!(floor(&[None], None), None);
    }

    #[test]
    fn this_core_has_a_reading() {
        let reading = look_at(affinity::allowed().unwrap()[0]).unwrap().unwrap();
        assert!(
            reading.is_finite() && reading > 0.05 && reading < 5.0,
            "{reading}"
        );
    }
}
