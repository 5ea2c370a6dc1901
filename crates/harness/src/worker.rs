//! The worker's part: one benchmark, found again by its name in a fresh process of the same program.

use crate::Register;
use crate::bencher::Bencher;
use crate::benches::{Costof, Listed, Visitor};
use costof_measure::meter::Meter;
use costof_measure::probe::{Measure, Metric, Probe, StartRole, role};
use costof_measure::{metrics, worker};
use costof_model::typed::place;
use costof_model::{
    At, Facts, Failure, List, MeasuredRows, Point, Prediction, ProbeInfo, Text, harmless, point,
};
use std::io;
use std::sync::OnceLock;

/// The argument that starts a worker.
pub(crate) const ARGUMENT: &str = "--costof-worker";

/// The user's functions: a role is started by a function without captures.
static REGISTERED: OnceLock<&[Register]> = OnceLock::new();

static PROBE: Probe = Probe::new::<Function>();

point! {
    /// What does one call cost?
    ///
    /// Batches of n and of 2n calls take turns in each launch, which is a fresh process of the program. The cost includes the
    /// loop and the passing of the output through `black_box`.
    ///
    /// # Predicted from
    /// nothing
    ///
    /// # Sources
    /// - the program's own benchmarks
    pub(crate) struct Function of "function" {
        /// the name of the benchmark
        name: Text = place(&[("name", "a benchmark of this program")], &[]),
    }
}

impl Measure for Function {
    const METRICS: &'static [Metric] = metrics! {
        /// one call
        cost: Nanoseconds Lower,
    };
    const ROLES: &'static [StartRole] = &[|_| role::<Function>(measure)];

    fn predict(_: &At<Function>, _: &Facts, _: &MeasuredRows<'_>) -> Option<Prediction> {
        None
    }
}

/// The point of a benchmark, as a worker is asked for it.
pub(crate) fn asked(name: &str) -> Point {
    let function = Function { name: Text::Owned(name.to_owned()) };
    (&At::from(function)).into()
}

/// The point of a benchmark, as a run file has it.
pub(crate) fn recorded(name: &str) -> Point {
    let probe = Text::Owned(harmless::text(name));
    Point { probe, axes: Default::default(), link: Text::Borrowed("none") }
}

/// The description of a benchmark, as a run file has it.
pub(crate) fn described(name: &str) -> ProbeInfo {
    ProbeInfo { id: recorded(name).probe, axes: List::default(), ..PROBE.info.clone() }
}

/// The role of each worker.
pub(crate) fn role_name() -> Text {
    PROBE.info.roles[0].clone()
}

/// Measures what the controller asks for.
pub(crate) fn work(functions: &'static [Register]) -> io::Result<()> {
    REGISTERED.get_or_init(|| functions);
    worker::work(&[&PROBE], env!("CARGO_PKG_VERSION"))
}

fn measure(at: &At<Function>, meter: &mut Meter<'_>) -> Result<(), Failure> {
    // A benchmark may allocate as it likes.
    meter.operation_allocates();
    let mut measuring = Measuring { name: &at.name, meter, outcome: None };
    for function in REGISTERED.get().copied().unwrap_or_default() {
        function(&mut Costof::new(&mut measuring));
    }
    measuring.outcome.unwrap_or_else(|| {
        let reason = "this build has no such benchmark, or not each time it is started";
        Err(Failure::unsupported(reason))
    })
}

struct Measuring<'m, 'a> {
    name: &'m str,
    meter: &'m mut Meter<'a>,
    outcome: Option<Result<(), Failure>>,
}

impl Visitor for Measuring<'_, '_> {
    fn visit(&mut self, listed: Listed, benchmark: &mut dyn FnMut(&mut Bencher<'_>)) {
        if listed.name != self.name || self.outcome.is_some() {
            return;
        }
        let mut bencher = Bencher::new(Some(self.meter.share(1)));
        benchmark(&mut bencher);
        self.outcome = Some(bencher.finish());
    }
}
