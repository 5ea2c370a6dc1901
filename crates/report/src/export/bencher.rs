//! [Bencher Metric Format](https://bencher.dev/docs/reference/bencher-metric-format/): a benchmark for each
//! point, a measure for each unit.

use super::{File, Value};
use costof_model::Unit;
use serde_json::{Map, json};

pub(super) fn file(values: &[Value<'_>]) -> File {
    let mut benchmarks = Map::new();
    for value in values {
        let estimate = value.estimate;
        let mut metric = json!({ "value": estimate.median });
        if let Some((low, high)) = estimate.ci95 {
            metric["lower_value"] = json!(low);
            metric["upper_value"] = json!(high);
        }
        benchmarks.insert(value.name(), json!({ measure(estimate.unit): metric }));
    }
    ("bencher.json".to_owned(), super::json(&benchmarks))
}

/// The name of a measure. Bencher's own `latency` is in nanoseconds.
fn measure(unit: Unit) -> &'static str {
    match unit {
        Unit::Nanoseconds => "latency",
        Unit::BytesPerSecond => "bandwidth",
        Unit::Hertz => "frequency",
        Unit::Cycles => "cycles",
        Unit::Bytes => "bytes",
        Unit::Processor => "processor",
        Unit::One => "count",
    }
}
