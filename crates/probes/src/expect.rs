//! Short forms for predictions.

use crate::cpu::frequency::Frequency;
use crate::prelude::*;
use std::fmt;

/// A metric between two values in its unit.
pub(crate) fn between(
    metric: &'static str,
    (low, high): (f64, f64),
    because: impl Into<String>,
) -> Option<Prediction> {
    Some(Prediction { metric: metric.into(), low, high, because: because.into() })
}

/// The metric `cost` between two values in nanoseconds.
pub(crate) fn cost_ns(range: (f64, f64), because: impl Into<String>) -> Option<Prediction> {
    between("cost", range, because)
}

/// The metric `throughput` between two values in bytes per second.
pub(crate) fn throughput(low: f64, high: f64, because: impl Into<String>) -> Option<Prediction> {
    between("throughput", (low, high), because)
}

/// The metric `cost` between two numbers of core cycles.
pub(crate) fn cost_cycles(
    measured: &MeasuredRows<'_>,
    range: (f64, f64),
    because: &str,
) -> Option<Prediction> {
    cycles(measured, range, because)?.predict("cost")
}

/// This many core cycles, at the core clock that this run has measured; `None` if it has not.
pub(crate) fn cycles(measured: &MeasuredRows<'_>, cycles: (f64, f64), name: &str) -> Option<Cost> {
    let hz = core_hz(measured)?;
    let cycles = Range::from(cycles);
    let name = format!("for {cycles} cycles {}: {name}", at_the_clock(hz));
    Some(Cost::new(cycles * (1e9 / hz), name))
}

/// The measured cost of a point, over no link, named by its role in a prediction; `None` if it was
/// not measured.
pub(crate) fn measured_cost<P: TypedPoint>(
    measured: &MeasuredRows<'_>,
    point: &P,
    name: impl fmt::Display,
) -> Option<Cost> {
    let name = format!("{name} ({})", P::PROBE);
    Some(Cost::new(measured.at(point)?, name))
}

/// The core clock, in hertz, where this run has measured it.
pub(crate) fn core_hz(measured: &MeasuredRows<'_>) -> Option<f64> {
    measured.at(&Frequency {})
}

/// The core clock, in words.
pub(crate) fn at_the_clock(hz: f64) -> String {
    format!("at the {} that cpu.frequency measured", Unit::Hertz.display(hz))
}
