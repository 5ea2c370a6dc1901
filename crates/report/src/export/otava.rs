//! [Apache Otava](https://otava.apache.org): a CSV file with a row for each run and a column for each metric,
//! and the configuration that names them. The column `commit` has the run's id.

use super::{File, Value};
use crate::csv;
use costof_model::{Better, Run};
use serde_json::{Map, json};
use std::collections::HashMap;

pub(super) fn files(runs: &[Run], values: &[Vec<Value<'_>>]) -> Vec<File> {
    let mut metrics = Map::new();
    for value in values.iter().flatten() {
        let direction = match value.estimate.better {
            Better::Higher => 1,
            Better::Lower => -1,
            // A change of it is no regression.
            Better::Neither => continue,
        };
        let metric = json!({ "column": value.name(), "direction": direction, "scale": 1 });
        metrics.insert(value.name(), metric);
    }
    let test = json!({
        "type": "csv",
        "file": "costof.csv",
        "time_column": "time",
        "attributes": ["commit"],
        "metrics": metrics,
    });
    let mut text = String::new();
    let names = ["time", "commit"].map(str::to_owned).into_iter();
    csv::line(&mut text, names.chain(metrics.keys().cloned()));
    let mut in_order: Vec<_> = runs.iter().zip(values).collect();
    in_order.sort_by_key(|(run, _)| &run.run.started);
    for (run, values) in in_order {
        let of: HashMap<String, f64> =
            values.iter().map(|value| (value.name(), value.estimate.median)).collect();
        let cells = [run.run.started.clone(), run.run.id.clone()].into_iter();
        let numbers = metrics.keys().map(|name| of.get(name));
        let numbers = numbers.map(|number| number.map_or_else(String::new, |it| format!("{it:?}")));
        csv::line(&mut text, cells.chain(numbers));
    }
    // JSON is YAML.
    let config = super::json(&json!({ "tests": { "costof": test } }));
    vec![("costof.csv".to_owned(), text), ("otava.yaml".to_owned(), config)]
}
