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

pub use costof_gauge::Reading;
pub(crate) use costof_gauge::{ALONE, BROKEN};
use costof_gauge::{State, design_floor};
use costof_model::CoreState;
use costof_model::facts::Cpu;
use costof_os::sched::affinity;
use costof_stats::median;
use std::io;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

/// How often the floor is sought if the design's is not known, each time for 4 milliseconds: a core may be
/// shared for longer than once lasts.
const CALIBRATIONS: usize = 20;
/// How many readings a short look takes.
const LOOK_READINGS: usize = 200;
/// How long a short look may wait for its CPU: if a low-priority thread keeps that awake, Linux 6.18 may let a thread
/// that comes to it wait for seconds.
const LOOK_LIMIT: Duration = Duration::from_millis(100);

/// Reads a core's free execution slots, in core cycles per addition, and its clock.
pub type Reader = Arc<dyn Fn() -> Reading + Send + Sync>;

/// A gauge with a known floor.
#[derive(Clone)]
pub struct Gauge {
    read: Reader,
    /// Core cycles per addition while the core is alone.
    pub floor: f64,
}

impl Gauge {
    /// A gauge of the core that the calling thread is on. Its floor is the one given, or else the
    /// plateau of readings taken now; `None` if they have none.
    pub fn for_this_core(floor: Option<f64>) -> Option<Gauge> {
        let reader = costof_gauge::Reader::new();
        let floor = floor.or_else(|| reader.floor(None))?;
        Some(Gauge::new(shared(reader), floor))
    }

    /// A gauge that takes its readings with `read`.
    pub fn new(read: Reader, floor: f64) -> Gauge {
        Gauge { read, floor }
    }

    /// Core cycles per addition now.
    pub fn read(&self) -> f64 {
        self.read_with_clock().cycles_per_addition
    }

    /// The same reading, with the core's clock.
    pub fn read_with_clock(&self) -> Reading {
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
// METHOD 9
pub fn state(floor: f64, before: f64, after: f64) -> CoreState {
    match costof_gauge::state(floor, before, after) {
        State::Alone => CoreState::Alone,
        State::Shared => CoreState::Shared,
        State::Mixed => CoreState::Mixed,
    }
}

/// Whether a reading of a gauge with this floor is that of a core that is alone.
pub(crate) fn is_alone(floor: f64, reading: f64) -> bool {
    state(floor, reading, reading) == CoreState::Alone
}

/// The floor of the machine's cores, by readings on the calling thread's core and by the design that
/// the facts name. `None` if there is neither.
// METHOD 9
pub fn calibrate(cpu: &Cpu) -> Option<f64> {
    let reader = costof_gauge::Reader::new();
    match by_design(cpu) {
        Some(design) => reader.floor(Some(design)),
        None => lowest((0..CALIBRATIONS).filter_map(|_| reader.floor(None))),
    }
}

/// The floor, from floors that were found one after the other: the lowest ones count that agree, since during
/// the others the core was never alone.
fn lowest(found: impl Iterator<Item = f64>) -> Option<f64> {
    let found: Vec<f64> = found.collect();
    let least = found.iter().copied().reduce(f64::min)?;
    let agree = found.into_iter().filter(|floor| *floor <= least * ALONE);
    median(&agree.collect::<Vec<f64>>())
}

fn by_design(cpu: &Cpu) -> Option<f64> {
    let has_amx = cpu.flags.iter().any(|flag| flag == "amx_tile");
    design_floor(cpu.vendor.as_deref()?, cpu.family?, cpu.model?, has_amx)
}

fn readings(read: &Reader, count: usize) -> Vec<f64> {
    (0..count).map(|_| read().cycles_per_addition).collect()
}

/// The median of a short look at a CPU's core, by a thread that runs there.
///
/// # Errors
/// If a thread cannot be started, or does not run there within a tenth of a second.
pub fn look_at(read: &Reader, cpu: usize) -> io::Result<Option<f64>> {
    Ok(median(&readings_at(read, cpu, LOOK_READINGS)?))
}

/// The share of the readings of a short look that found a CPU's core alone, from 0 to 1, by a thread
/// that runs there.
///
/// # Errors
/// If a thread cannot be started, or does not run there within a tenth of a second.
pub(crate) fn alone_at(read: &Reader, cpu: usize, floor: f64) -> io::Result<f64> {
    let readings = readings_at(read, cpu, LOOK_READINGS)?;
    let alone = readings.iter().filter(|reading| is_alone(floor, **reading));
    Ok(alone.count() as f64 / readings.len() as f64)
}

/// So many readings of a CPU's core, by a thread that runs there.
///
/// # Errors
/// If a thread cannot be started, or does not run there within a tenth of a second.
pub(crate) fn readings_at(read: &Reader, cpu: usize, count: usize) -> io::Result<Vec<f64>> {
    let read = Arc::clone(read);
    within(LOOK_LIMIT, move || {
        affinity::pin(&[cpu])?;
        Ok(readings(&read, count))
    })
}

/// What a new thread returns, unless it takes longer than this. Then it goes on by itself, and its result is dropped.
fn within<T: Send + 'static>(
    limit: Duration,
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    let (sender, receiver) = mpsc::channel();
    let thread = thread::Builder::new().spawn(move || drop(sender.send(work())))?;
    let Ok(result) = receiver.recv_timeout(limit) else {
        return Err(io::ErrorKind::TimedOut.into());
    };
    thread.join().expect("the work does not panic");
    result
}

/// Reads the core on which it is called. This function finds once how long the loops must be for
/// this machine's counter.
pub fn reader() -> Reader {
    shared(costof_gauge::Reader::new())
}

fn shared(reader: costof_gauge::Reader) -> Reader {
    Arc::new(move || reader.read_with_clock())
}

/// A reader that knows no clock, for tests.
pub fn without_clock(read: impl Fn() -> f64 + Send + Sync + 'static) -> Reader {
    Arc::new(move || Reading { cycles_per_addition: read(), ticks_per_cycle: f64::NAN })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_is_late_is_not_waited_for() {
        let (_sender, never) = mpsc::channel::<()>();
        let late = within(Duration::from_millis(1), move || Ok(never.recv().is_ok()));
        assert_eq!(late.unwrap_err().kind(), io::ErrorKind::TimedOut);
        let failed = within(Duration::MAX, || Err::<(), _>(io::ErrorKind::NotFound.into()));
        assert_eq!(failed.unwrap_err().kind(), io::ErrorKind::NotFound);
        assert_eq!(within(Duration::MAX, || Ok(5)).unwrap(), 5);
    }

    #[test]
    fn of_several_floors_the_lowest_that_agree_count() {
        assert_eq!(lowest([0.35, 0.2, 0.4, 0.204, 0.206].into_iter()), Some(0.204));
        assert_eq!(lowest([0.45].into_iter()), Some(0.45));
        assert_eq!(lowest([].into_iter()), None);
    }

    #[test]
    fn this_core_has_a_reading() {
        let reading = median(&readings(&reader(), LOOK_READINGS)).unwrap();
        assert!(reading.is_finite() && reading > 0.05 && reading < 5.0, "{reading}");
    }
}
