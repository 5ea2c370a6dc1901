//! Pages and drawings of a run in which every text of others is a hostile one.

use super::run::{RUNS, shown};
use costof_model::run_file;
use serde_json::Value;
use std::sync::LazyLock;

static ROWS: LazyLock<Vec<Value>> = LazyLock::new(|| {
    let lines = RUNS[1].lines();
    lines.map(|line| serde_json::from_str(line).expect("it is a row")).collect()
});

pub(crate) fn hostile(bytes: &[u8]) {
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(200)]);
    let lines = ROWS.iter().map(|row| {
        let mut row = row.clone();
        poison(&mut row, "", &text);
        format!("{row}\n")
    });
    let lines: String = lines.collect();
    shown(run_file::read(lines.as_bytes()).expect("only words were changed"));
}

/// Adds the text to each word that a person could have chosen.
fn poison(value: &mut Value, key: &str, more: &str) {
    const KEPT: &str = "type unit better interval state grade kind source schema domain id probe name primary metric shared_by";
    match value {
        Value::String(text) if !KEPT.split(' ').any(|kept| kept == key) => text.push_str(more),
        Value::Array(values) => values.iter_mut().for_each(|value| poison(value, key, more)),
        Value::Object(fields) => {
            for (key, value) in fields.iter_mut() {
                poison(value, key, more);
            }
        }
        _ => {}
    }
}
