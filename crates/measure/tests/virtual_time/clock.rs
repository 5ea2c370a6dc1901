//! A clock that moves only when a test moves it.

use costof_measure::clock::Clock;
use costof_measure::meter::{Meter, Record};
use costof_model::protocol::{ClockInfo, Report};
use costof_model::testing::clock_info;
use std::cell::{Cell, RefCell};
use std::sync::atomic::AtomicBool;

/// Virtual time in picoseconds, read in ticks of a nanosecond; a reading takes 20 ns.
pub(crate) struct VirtualClock {
    now_ps: Cell<u64>,
    random: RefCell<fastrand::Rng>,
}

pub(crate) const READ_NS: f64 = 20.0;

impl VirtualClock {
    pub(crate) fn new(seed: u64) -> VirtualClock {
        VirtualClock { now_ps: Cell::new(0), random: RefCell::new(fastrand::Rng::with_seed(seed)) }
    }

    /// Lets time pass.
    pub(crate) fn pass(&self, ns: f64) {
        self.now_ps.set(self.now_ps.get() + (ns * 1000.0) as u64);
    }

    /// Lets time pass with a relative scatter of about `scatter`.
    pub(crate) fn pass_about(&self, ns: f64, scatter: f64) {
        let mut random = self.random.borrow_mut();
        let normal = (0..12).map(|_| random.f64()).sum::<f64>() - 6.0;
        self.pass(ns * (1.0 + scatter * normal).max(0.0));
    }

    fn read(&self) -> u64 {
        self.pass(READ_NS);
        self.now_ps.get() / 1000
    }

    /// Meters something for `time_ns`, and reports it.
    pub(crate) fn meter(&self, time_ns: f64, measure: impl FnOnce(&mut Meter<'_>)) -> Report {
        self.record(time_ns, measure).into_report(false, Vec::new())
    }

    /// What metering something for `time_ns` records.
    pub(crate) fn record(&self, time_ns: f64, measure: impl FnOnce(&mut Meter<'_>)) -> Record {
        static NEVER: AtomicBool = AtomicBool::new(false);
        let mut record = Record::counting_cycles(Some(1e9));
        let mut meter = Meter::new(self, time_ns, &NEVER, None, "cost", &mut record);
        measure(&mut meter);
        record
    }

    /// What a run would know of this clock.
    pub(crate) fn info() -> ClockInfo {
        ClockInfo { resolution_ns: READ_NS, read_ns: READ_NS, ..clock_info() }
    }
}

impl Clock for VirtualClock {
    fn start(&self) -> u64 {
        self.read()
    }
    fn end(&self) -> u64 {
        self.read()
    }
    fn ns(&self, ticks: u64) -> f64 {
        ticks as f64
    }
    fn resolution_ns(&self) -> f64 {
        READ_NS
    }
    fn read_ns(&self) -> f64 {
        READ_NS
    }
}
