//! A core whose neighbour comes and goes, in virtual time and by a seed, and what the real meter,
//! estimate and comparison make of it. The tests assert on it, and `bench/examples/neighbours.rs` prints it.

use costof_measure::clock::Clock;
use costof_measure::compare::{MATTERS, Metrics, compare};
use costof_measure::estimate;
use costof_measure::gauge::{Gauge, without_clock};
use costof_measure::meter::{Meter, Record};
use costof_measure::schedule::turns;
use costof_model::Text;
use costof_model::comparison::Comparison;
use costof_model::failure::Failure;
use costof_model::noise::{CoreGauge, Noise, Placement};
use costof_model::point::Point;
use costof_model::probe_info::ProbeInfo;
use costof_model::protocol::{ClockInfo, Report};
use costof_model::rows::{LaunchPoint, LaunchRow, PointRow};
use costof_model::run_file::Run;
use costof_model::testing::{clock_info, planned, probe_info};
use fastrand::Rng;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard};

/// What a clock reading takes, and a reading of the gauge.
const CLOCK_NS: f64 = 20.0;
const GAUGE_NS: f64 = 2_000.0;
/// The gauge's floor, and by how much a reading misses what it reads, at most.
const FLOOR: f64 = 0.212;
const GAUGE_ERROR: f64 = 0.01;
/// The share of readings that an interruption spoils, by up to this factor either way.
const SPOILED: f64 = 0.01;
const SPOILED_TIMES: f64 = 10.0;
/// The standard deviation of batches.
const BATCH_SIGMA: f64 = 0.005;
/// What an operation costs while its core is alone.
pub(crate) const COST_NS: f64 = 100.0;
/// How many times that it takes while the core is shared, by operation.
pub(crate) const TIMES_SHARED: [f64; 4] = [1.0, 1.1, 1.3, 1.7];
/// A recorded reading up to this many times the floor was alone.
pub(crate) const ALONE_LEVEL: f64 = 1.05;
/// From one launch of a row to its next in a run, other rows are measured for a while.
const BETWEEN_LAUNCHES_NS: f64 = 3e9;

/// Something that uses a core's execution units now and then; how long it stays and stays away is
/// exponential.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Neighbour {
    /// How long a visit lasts in the mean.
    pub(crate) visit_ns: f64,
    /// The share of the time that it is there, 0 to 1.
    pub(crate) share: f64,
    /// How many times its floor the gauge reads then.
    pub(crate) gauge: f64,
    /// How much of what a neighbour can cost this one costs: no two of them are alike.
    pub(crate) weight: f64,
    /// A fifth of its stays and absences are sixteen times as long as the others in the mean.
    pub(crate) is_uneven: bool,
}

impl Neighbour {
    /// Nobody.
    pub(crate) const NONE: Neighbour =
        Neighbour { visit_ns: 1e6, share: 0.0, gauge: 1.5, weight: 1.0, is_uneven: false };

    /// A switch that leaves the core alone for this share of the time, so long at once in the mean.
    pub(crate) fn switch(alone: f64, window_ns: f64, is_uneven: bool) -> Neighbour {
        Neighbour {
            visit_ns: window_ns * (1.0 - alone) / alone,
            share: 1.0 - alone,
            is_uneven,
            ..Neighbour::NONE
        }
    }

    /// Anyone: visits of 1 ms to 10 s (evenly by their logarithm), 0 to 95 % of the time.
    pub(crate) fn any(random: &mut Rng) -> Neighbour {
        Neighbour {
            visit_ns: 10_f64.powf(6.0 + 4.0 * random.f64()),
            share: 0.95 * random.f64(),
            gauge: 1.3 + 0.7 * random.f64(),
            weight: 0.5 + random.f64(),
            is_uneven: false,
        }
    }

    /// How long it stays, or stays away, in the mean.
    fn stay_ns(&self, is_there: bool) -> f64 {
        match is_there {
            true if self.share < 1.0 => self.visit_ns,
            false if self.share > 0.0 => self.visit_ns * (1.0 - self.share) / self.share,
            _ => f64::INFINITY,
        }
    }
}

/// A standard normal value (Box and Muller, 1958).
pub(crate) fn normal(random: &mut Rng) -> f64 {
    let radius = (-2.0 * (1.0 - random.f64()).ln()).sqrt();
    radius * (std::f64::consts::TAU * random.f64()).cos()
}

/// What a core does, in virtual time.
struct State {
    now_ns: f64,
    neighbour: Neighbour,
    is_shared: bool,
    /// When the neighbour comes or goes next.
    changes_ns: f64,
    random: Rng,
    /// What was recorded of a real core, and what of it comes next; it decides then what the
    /// neighbour does.
    trace: Option<(Trace, usize)>,
    /// How long the operation has to work after a visit until its caches are as before, and what is
    /// left of that.
    refill_ns: f64,
    cold_ns: f64,
}

/// What a gauge showed of a real core: for how long, in nanoseconds, it read so many times its
/// floor.
pub(crate) type Trace = Arc<[(f64, f64)]>;

/// Recorded on both CPUs of a virtual machine (Sapphire Rapids class), 60 ms each: the share of the
/// time alone in per cent, and the lines of `examples/hunt.rs`.
pub(crate) const TRACES: [(f64, &str); 6] = [
    (0.4, include_str!("traces/alone-0.4-percent.txt")),
    (3.0, include_str!("traces/alone-3-percent.txt")),
    (5.0, include_str!("traces/alone-5-percent.txt")),
    (9.0, include_str!("traces/alone-9-percent.txt")),
    (29.0, include_str!("traces/alone-29-percent.txt")),
    (60.0, include_str!("traces/alone-60-percent.txt")),
];

/// Reads what was recorded.
pub(crate) fn trace(text: &str) -> Trace {
    let number = |word: Option<&str>| word.and_then(|word| word.parse().ok());
    let stay = |line: &str| {
        let mut words = line.split(' ');
        let (ns, times) = (number(words.next()), number(words.next()));
        ns.zip(times).expect("a line has two numbers")
    };
    text.lines().map(stay).collect()
}

impl State {
    /// Does what takes `ns` alone and so many times as long while the core is shared, and says how
    /// much of it was done while it was shared, 0 to 1.
    fn work(&mut self, ns: f64, times: f64) -> f64 {
        let (mut left, mut shared) = (ns, 0.0);
        loop {
            let times = if self.is_shared { times } else { 1.0 };
            let done = left.min((self.changes_ns - self.now_ns) / times);
            shared += if self.is_shared { done } else { 0.0 };
            left -= done;
            if left <= 0.0 {
                self.now_ns += done * times;
                return shared / ns;
            }
            self.now_ns = self.changes_ns;
            self.change();
        }
    }

    /// Does an operation for what takes `ns` alone, with the caches as they are.
    fn operate(&mut self, ns: f64, times: f64) {
        let mut left = ns;
        while left > 0.0 {
            if self.is_shared {
                self.cold_ns = self.refill_ns;
            }
            // A step ends with the caches' refilling, or soon.
            let step = match self.cold_ns {
                0.0 => left.min(1_000.0),
                cold => left.min(cold).min(1_000.0),
            };
            match self.cold_ns {
                0.0 => drop(self.work(step, times)),
                _ => drop(self.work(step * times, 1.0)),
            }
            self.cold_ns = (self.cold_ns - step).max(0.0);
            left -= step;
        }
    }

    fn change(&mut self) {
        self.is_shared = !self.is_shared;
        self.draw_change();
    }

    fn draw_change(&mut self) {
        if let Some((trace, next)) = &mut self.trace {
            let (ns, level) = trace[*next];
            *next = (*next + 1) % trace.len();
            self.is_shared = level > ALONE_LEVEL;
            self.neighbour.gauge = level;
            self.changes_ns = self.now_ns + ns;
            return;
        }
        let uneven = match (self.neighbour.is_uneven, self.random.f64() < 0.2) {
            (false, _) => 1.0,
            (true, false) => 0.25,
            (true, true) => 4.0,
        };
        let stay_ns = uneven * self.neighbour.stay_ns(self.is_shared);
        self.changes_ns = self.now_ns - stay_ns * (1.0 - self.random.f64()).ln();
    }

    /// Lets this time pass at once: an exponential stay has no memory.
    fn skip(&mut self, ns: f64) {
        self.cold_ns = self.refill_ns;
        if let Some((trace, next)) = &mut self.trace {
            *next = self.random.usize(..trace.len());
        }
        let Neighbour { share, .. } = self.neighbour;
        let rate = [true, false].map(|is| self.neighbour.stay_ns(is).recip());
        let left = (-ns * (rate[0] + rate[1])).exp();
        let now = if self.is_shared { 1.0 } else { 0.0 };
        self.is_shared = self.random.f64() < share + (now - share) * left;
        self.now_ns += ns;
        self.draw_change();
    }

    fn read_gauge(&mut self) -> f64 {
        let shared = self.work(GAUGE_NS, 1.0);
        let spoils = if self.random.f64() < SPOILED {
            SPOILED_TIMES.powf(2.0 * self.random.f64() - 1.0)
        } else {
            1.0
        };
        let error = 1.0 + GAUGE_ERROR * (2.0 * self.random.f64() - 1.0);
        FLOOR * (1.0 + (self.neighbour.gauge - 1.0) * shared) * error * spoils
    }
}

/// A core with a neighbour, and the clock of whoever measures on it.
#[derive(Clone)]
pub(crate) struct Core(Arc<Mutex<State>>);

impl Core {
    /// A core beside this neighbour, who may be there or not.
    pub(crate) fn beside(neighbour: Neighbour, seed: u64) -> Core {
        let mut state = State {
            now_ns: 0.0,
            neighbour,
            is_shared: false,
            changes_ns: 0.0,
            random: Rng::with_seed(seed),
            trace: None,
            refill_ns: 0.0,
            cold_ns: 0.0,
        };
        state.is_shared = state.random.f64() < neighbour.share;
        state.draw_change();
        Core(Arc::new(Mutex::new(state)))
    }

    /// A core on which happens what was recorded, again and again.
    pub(crate) fn replaying(trace: Trace, seed: u64) -> Core {
        let core = Core::beside(Neighbour::NONE, seed);
        core.state().trace = Some((trace, 0));
        core
    }

    /// After each visit, the operation costs as much as during it for so much of its work.
    pub(crate) fn refilling_for(self, ns: f64) -> Core {
        self.state().refill_ns = ns;
        self
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("nobody panics with it")
    }

    /// One launch of an operation, after others have had theirs: it costs `cost_ns` while the core
    /// is alone and so many times that while it is shared.
    pub(crate) fn launch(&self, cost_ns: f64, times_shared: f64, time_ns: f64) -> Report {
        static NEVER: AtomicBool = AtomicBool::new(false);
        self.state().skip(BETWEEN_LAUNCHES_NS);
        let core = self.clone();
        let gauge = Gauge::new(without_clock(move || core.state().read_gauge()), FLOOR);
        let mut record = Record::default();
        let mut meter =
            Meter::new(self, time_ns, &NEVER, None, "cost", &mut record).gauged(Some(&gauge));
        meter.repeatable("cost", |n| {
            let mut state = self.state();
            let times_shared = 1.0 + (times_shared - 1.0) * state.neighbour.weight;
            let batch = 1.0 + BATCH_SIGMA * normal(&mut state.random);
            let ns = cost_ns * n as f64 * batch;
            match state.refill_ns {
                0.0 => drop(state.work(ns, times_shared)),
                _ => state.operate(ns, times_shared),
            }
        });
        let mut report = record.into_report(false, Vec::new());
        // The kernel that really runs this may have preempted it, which is no part of virtual time.
        for metric in &mut report.metrics {
            metric.disturbed.clear();
        }
        report
    }
}

impl Clock for Core {
    fn start(&self) -> u64 {
        self.state().work(CLOCK_NS, 1.0);
        self.end()
    }
    // A reading that ends a batch takes no time, so that the cost is what is timed.
    fn end(&self) -> u64 {
        self.state().now_ns as u64
    }
    fn ns(&self, ticks: u64) -> f64 {
        ticks as f64
    }
    fn resolution_ns(&self) -> f64 {
        CLOCK_NS
    }
    fn read_ns(&self) -> f64 {
        CLOCK_NS
    }
}

/// How a row is measured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setting {
    /// Launches of each row.
    pub(crate) launches: u32,
    /// How long each measures.
    pub(crate) time_ns: f64,
    /// By how much launches differ, as a standard deviation of the logarithm of their cost.
    pub(crate) spread: f64,
}

impl Setting {
    /// The cost of a launch of an operation that takes `times` times [`COST_NS`].
    fn cost_ns(&self, random: &mut Rng, times: f64) -> f64 {
        COST_NS * times * (self.spread * normal(random)).exp()
    }

    /// The launches of an operation that takes `times_shared` times as long while the core is
    /// shared.
    pub(crate) fn launches(&self, random: &mut Rng, core: &Core, times_shared: f64) -> Vec<Report> {
        (0..self.launches)
            .map(|_| core.launch(self.cost_ns(random, 1.0), times_shared, self.time_ns))
            .collect()
    }
}

/// What these launches say together.
///
/// # Errors
/// Those of [`estimate::point`].
pub(crate) fn point_of(launches: &[Report]) -> Result<PointRow, Failure> {
    point_by(launches, &[])
}

/// The same where each launch took this for the floor of its core's gauge.
pub(crate) fn point_by(launches: &[Report], floors: &[f64]) -> Result<PointRow, Failure> {
    let mut rows: Vec<LaunchRow> =
        (0..).zip(launches).map(|(launch, report)| launch_row(0, launch, report.clone())).collect();
    for (row, floor) in rows.iter_mut().zip(floors) {
        row.noise.core = Some(CoreGauge { floor: *floor, ..CoreGauge::default() });
    }
    let rows: Vec<&LaunchRow> = rows.iter().collect();
    estimate::point(&info(0), &point(0), None, &rows, None, &clock())
}

/// Two runs of four rows, one for each of [`TIMES_SHARED`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pair {
    /// Whom each run met; where they take turns, the first is there during both.
    pub(crate) neighbours: [Neighbour; 2],
    /// Whether their launches take turns.
    pub(crate) in_turns: bool,
    /// How many times as long each operation takes in the second run.
    pub(crate) times: f64,
    /// How both are measured.
    pub(crate) setting: Setting,
}

impl Pair {
    /// What the second run says of the first.
    pub(crate) fn comparison(&self, random: &mut Rng) -> Comparison {
        let [old, new] = self.runs(random);
        compare(&old, &new, Metrics::Primary, MATTERS)
    }

    /// Both runs.
    pub(crate) fn runs(&self, random: &mut Rng) -> [Run; 2] {
        let seed = random.u64(..);
        let cores = if self.in_turns {
            let core = Core::beside(self.neighbours[0], seed);
            [core.clone(), core]
        } else {
            [0, 1].map(|side| Core::beside(self.neighbours[side], seed ^ side as u64))
        };
        let mut runs = [0, 1].map(|side| empty_run(side, self.in_turns));
        for launch in 0..self.setting.launches {
            for (row, times_shared) in TIMES_SHARED.into_iter().enumerate() {
                for side in turns(seed, row, launch) {
                    let times = if side == 1 { self.times } else { 1.0 };
                    let cost_ns = self.setting.cost_ns(random, times);
                    let report = cores[side].launch(cost_ns, times_shared, self.setting.time_ns);
                    runs[side].launches.push(launch_row(row, launch, report));
                }
            }
        }
        runs.iter_mut().for_each(derive);
        runs
    }
}

/// Adds the points that the launches give.
fn derive(run: &mut Run) {
    for row in 0..TIMES_SHARED.len() {
        let launches: Vec<&LaunchRow> = run.launches.iter().filter(|l| l.block == row).collect();
        let derived = estimate::point(&info(row), &point(row), None, &launches, None, &clock());
        run.points.extend(derived.ok());
    }
}

fn empty_run(side: usize, in_turns: bool) -> Run {
    let id = |side: usize| ["before", "after"][side].to_owned();
    let rows = 0..TIMES_SHARED.len();
    let mut run = planned(rows.clone().map(|row| vec![point(row)]));
    run.run.id = id(side);
    run.run.beside = in_turns.then(|| id(1 - side));
    run.probes.extend(rows.map(info));
    run
}

pub(crate) fn launch_row(row: usize, launch: u32, report: Report) -> LaunchRow {
    LaunchRow {
        block: row,
        launch,
        of: launch + 1,
        wall_ns: 1.0,
        points: vec![LaunchPoint {
            point: point(row),
            state: report.state,
            metrics: report.metrics,
            allocations: report.allocations,
        }],
        noise: Noise::default(),
        placement: Placement::default(),
        link: None,
    }
}

pub(crate) fn point(row: usize) -> Point {
    let info = info(row);
    Point { axes: info.defaults(), probe: info.id, link: Text::Borrowed("none") }
}

pub(crate) fn info(row: usize) -> ProbeInfo {
    probe_info(format!("test.row{row}"))
}

fn clock() -> ClockInfo {
    ClockInfo {
        resolution_ns: CLOCK_NS,
        read_ns: CLOCK_NS,
        core_floor: Some(FLOOR),
        ..clock_info()
    }
}
