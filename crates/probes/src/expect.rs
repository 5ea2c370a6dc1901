//! Short forms for predictions.

use costof_model::prediction::{Known, Prediction};
use costof_model::unit::Unit;

/// A metric between two values in its unit.
pub(crate) fn between(
    metric: &'static str,
    (low, high): (f64, f64),
    because: impl Into<String>,
) -> Option<Prediction> {
    Some(Prediction {
        metric: metric.into(),
        low,
        high,
        because: because.into(),
    })
}

/// The metric `cost` between two values in nanoseconds.
pub(crate) fn cost_ns(low: f64, high: f64, because: impl Into<String>) -> Option<Prediction> {
    between("cost", (low, high), because)
}

/// The metric `latency` between two values in nanoseconds.
pub(crate) fn latency_ns(low: f64, high: f64, because: impl Into<String>) -> Option<Prediction> {
    between("latency", (low, high), because)
}

/// The metric `throughput` between two values in bytes a second.
pub(crate) fn throughput(low: f64, high: f64, because: impl Into<String>) -> Option<Prediction> {
    between("throughput", (low, high), because)
}

/// The metric `cost` between two numbers of core cycles, at the core clock
/// that this run has measured; none where it has not.
pub(crate) fn cost_cycles(
    known: &Known<'_>,
    low: f64,
    high: f64,
    because: &str,
) -> Option<Prediction> {
    let hz = known.primary("cpu.frequency", &[])?;
    let ns_per_cycle = 1e9 / hz;
    cost_ns(
        low * ns_per_cycle,
        high * ns_per_cycle,
        format!("{because}: {low} to {high} cycles, {}", at_the_clock(hz)),
    )
}

/// Where cycles become nanoseconds.
pub(crate) fn at_the_clock(hz: f64) -> String {
    format!(
        "at the {} that cpu.frequency measured",
        Unit::Hertz.display(hz)
    )
}
