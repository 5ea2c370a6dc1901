//! The custom tools of [github-action-benchmark](https://github.com/benchmark-action/github-action-benchmark):
//! a file of costs, and a file of rates. What is neither better nor worse is in none.

use super::{File, Value};
use costof_model::{Better, counted};
use serde_json::{Value as Json, json};

pub(super) fn files(values: &[Value<'_>]) -> Vec<File> {
    let file = |name: &str, better: Better| {
        let values = values.iter();
        let these: Vec<Json> =
            values.filter(|value| value.estimate.better == better).map(benchmark).collect();
        (name.to_owned(), super::json(&these))
    };
    vec![
        file("smaller-is-better.json", Better::Lower),
        file("bigger-is-better.json", Better::Higher),
    ]
}

fn benchmark(value: &Value<'_>) -> Json {
    let estimate = value.estimate;
    let mut benchmark = json!({
        "name": value.name(),
        "unit": value.unit(),
        "value": estimate.median,
        "extra": format!("grade {}, {}", value.row.grade, counted(value.row.launches, "launch")),
    });
    if let Some(interval) = estimate.ci95 {
        benchmark["range"] = json!(estimate.unit.display_interval(interval));
    }
    benchmark
}
