//! Short forms for predictions.

use costof_model::prediction::{Known, Prediction};
use costof_model::unit::Unit;

/// The metric `cost` between two values in nanoseconds.
pub(crate) fn cost_ns(low: f64, high: f64, because: impl Into<String>) -> Option<Prediction> {
    Some(Prediction {
        metric: "cost".into(),
        low,
        high,
        because: because.into(),
    })
}

/// The metric `latency` between two values in nanoseconds.
pub(crate) fn latency_ns(low: f64, high: f64, because: impl Into<String>) -> Option<Prediction> {
    let expected = cost_ns(low, high, because)?;
    Some(Prediction {
        metric: "latency".into(),
        ..expected
    })
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
        format!(
            "{because}: {low} to {high} cycles, at the {} that cpu.frequency measured",
            Unit::Hertz.display(hz)
        ),
    )
}
