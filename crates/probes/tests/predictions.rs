//! How predictions compare with tables that were recorded on machines of several kinds. Ranges follow
//! from manuals, sources and papers; these tables show whether they hold, and are narrow enough to
//! fail.

use costof_measure::probe::{Probe, find};
use costof_model::axis::Axes;
use costof_model::facts::Facts;
use costof_model::metric::Estimate;
use costof_model::point::Point;
use costof_model::prediction::MeasuredRows;
use costof_model::rows::PointRow;
use costof_model::testing;
use costof_probes::TABLE;
use std::collections::HashMap;

/// At least this share of the medians lies inside.
const HELD: f64 = 0.85;
/// The greatest geometric mean of the upper end over the lower one.
const WIDTH: f64 = 3.0;

/// The headlines of a machine, by their labels.
fn headlines(facts: &Facts) -> HashMap<String, Point> {
    let of_probe = |probe: &'static Probe| {
        let usual = if probe.info.needs_link() { "loopback" } else { "none" };
        (probe.headlines)(facts).into_iter().map(move |headline| {
            let point = Point {
                probe: probe.info.id.clone(),
                axes: headline.axes,
                link: headline.link.unwrap_or(usual).into(),
            };
            (headline.label, point)
        })
    };
    TABLE.iter().copied().flat_map(of_probe).collect()
}

fn probe_of(point: &Point) -> &'static Probe {
    find(TABLE, &point.probe).expect("a probe of the table")
}

/// A row of a table: a median and the label of a headline.
fn row(line: &str, headlines: &HashMap<String, Point>) -> PointRow {
    let (median, label) = line.split_once('\t').expect("a median and a label");
    let median: f64 = median.parse().expect("a number");
    let point = headlines.get(label).unwrap_or_else(|| panic!("{label}?"));
    let primary = probe_of(point).info.primary();
    PointRow {
        primary: primary.name.clone(),
        label: Some(label.to_owned()),
        metrics: vec![Estimate {
            unit: primary.unit,
            better: primary.better,
            ..testing::estimate(primary.name.clone(), median)
        }],
        point: point.clone(),
        ..testing::row(point.probe.clone(), Axes::default(), median)
    }
}

fn predicted(facts: &str, table: &str) -> Vec<PointRow> {
    let facts: Facts = serde_json::from_str(facts).expect("facts of a run file");
    let headlines = headlines(&facts);
    let lines = table.lines().filter(|line| !line.starts_with('#'));
    let rows: Vec<PointRow> = lines.map(|line| row(line, &headlines)).collect();
    let predict = |row: &PointRow| PointRow {
        prediction: (probe_of(&row.point).predict)(&row.point, &facts, &MeasuredRows::new(&rows)),
        ..row.clone()
    };
    rows.iter().map(predict).collect()
}

#[test]
fn predictions_hold_for_recorded_tables_and_are_narrow() {
    macro_rules! recorded {
        ($facts:literal, $table:literal) => {
            (
                $table,
                predicted(
                    include_str!(concat!("recorded/", $facts, ".json")),
                    include_str!(concat!("recorded/", $table, ".txt")),
                ),
            )
        };
    }
    for (name, rows) in [
        recorded!("zen4", "zen4"),
        recorded!("zen4", "zen4-disturbed"),
        recorded!("zen5", "zen5"),
        recorded!("retpolines", "retpolines"),
    ] {
        let scored: Vec<&PointRow> = rows.iter().filter(|row| row.scored().is_some()).collect();
        let missed = scored.iter().filter(|row| row.missed_by().is_some());
        let missed: Vec<_> = missed.map(|row| (&row.label, &row.prediction)).collect();
        let width = scored.iter().filter_map(|row| row.scored());
        let width: f64 = width.map(|(range, _)| (range.high / range.low).ln()).sum::<f64>();
        let width = (width / scored.len() as f64).exp();
        let held = 1.0 - missed.len() as f64 / scored.len() as f64;
        assert!(scored.len() > 20, "{name}");
        assert!(width <= WIDTH, "{name}: {width}");
        assert!(held >= HELD, "{name}: {held}: {missed:#?}");
    }
}
