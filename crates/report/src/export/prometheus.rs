//! Prometheus' [text format](https://prometheus.io/docs/instrumenting/exposition_formats/), as node_exporter's
//! textfile collector reads it: base units, no timestamps, one HELP and TYPE for each name.

use super::{File, Value};
use costof_model::{Run, Unit};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::UNIX_EPOCH;

pub(super) fn file(run: &Run, values: &[Value<'_>]) -> File {
    let mut families: BTreeMap<String, (&str, String)> = BTreeMap::new();
    let mut add = |name: &str, help, labels: &str, number: f64| {
        let family = families.entry(format!("costof_{name}"));
        let (_, lines) = family.or_insert_with(|| (help, String::new()));
        let _ = writeln!(lines, "costof_{name}{{{labels}}} {number:?}");
    };
    for value in values {
        let labels = labels(&[
            ("point", &value.row.point.id()),
            ("probe", &value.row.point.probe),
            ("link", &value.row.point.link),
            ("metric", &value.estimate.name),
        ]);
        let (unit, scale) = base(value.estimate.unit);
        let mut gauge = |what, help, number: f64| {
            add(&format!("{what}{unit}"), help, &labels, number * scale);
        };
        gauge("median", "Median over launches of what was measured.", value.estimate.median);
        if let Some((low, high)) = value.estimate.ci95 {
            gauge("low95", "Lower end of the median's 95 % interval.", low);
            gauge("high95", "Upper end of the median's 95 % interval.", high);
        }
        if value.is_primary() {
            let grade = f64::from(value.row.grade as u8 + 1);
            add("grade", "How far to trust the point: 1 is A, 4 is D.", &labels, grade);
        }
    }
    let of_run = labels(&[("run", &run.run.id), ("host", &run.host_name())]);
    let started = humantime::parse_rfc3339(&run.run.started).ok();
    if let Some(since) = started.and_then(|time| time.duration_since(UNIX_EPOCH).ok()) {
        let help = "When the run began, in seconds since 1970.";
        add("run_timestamp_seconds", help, &of_run, since.as_secs_f64());
    }
    let mut text = String::new();
    for (name, (help, lines)) in families {
        let _ = write!(text, "# HELP {name} {help}\n# TYPE {name} gauge\n{lines}");
    }
    ("costof.prom".to_owned(), text)
}

/// Labels of a value: `name="value"`, with commas between.
pub(crate) fn labels(labels: &[(&str, &str)]) -> String {
    let labels = labels.iter().map(|(name, value)| {
        let escaped = value.replace('\\', r"\\").replace('"', "\\\"").replace('\n', r"\n");
        format!("{name}=\"{escaped}\"")
    });
    labels.collect::<Vec<_>>().join(",")
}

/// The end of a metric's name for a unit, and what its values are multiplied with.
fn base(unit: Unit) -> (&'static str, f64) {
    match unit {
        Unit::Nanoseconds => ("_seconds", 1e-9),
        Unit::Hertz => ("_hertz", 1.0),
        Unit::Bytes => ("_bytes", 1.0),
        Unit::BytesPerSecond => ("_bytes_per_second", 1.0),
        Unit::Cycles => ("_cycles", 1.0),
        Unit::Processor => ("_processor", 1.0),
        Unit::One => ("", 1.0),
    }
}
