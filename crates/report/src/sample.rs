//! Runs for tests.

use costof_model::axis::Axes;
use costof_model::metric::{Estimate, IntervalKind};
use costof_model::noise::{Grade, Placement};
use costof_model::point::Point;
use costof_model::rows::{Block, Hosts, Plan, PointRow, RunRow, SCHEMA, State};
use costof_model::run_file::Run;
use costof_model::unit::{Better, Unit};

/// A run without points.
pub(crate) fn run() -> Run {
    Run::new(RunRow {
        schema: SCHEMA,
        id: "1".to_owned(),
        started: "2026-11-22T00:00:00Z".to_owned(),
        command: vec!["costof".to_owned(), "run".to_owned()],
        seed: 7,
        beside: None,
        plan: Plan {
            precision: "quick".into(),
            launches: None,
            blocks: vec![Block {
                points: Vec::new(),
                labels: Vec::new(),
                level: 1,
                rounds: 1,
            }],
            placement: Placement::default(),
            hosts: Hosts::default(),
        },
    })
}

/// A point of `probe` that differs in its size, with a cost.
pub(crate) fn row(probe: &'static str, size: u64, ns: f64) -> PointRow {
    PointRow {
        point: Point {
            probe: probe.into(),
            axes: Axes::default().with("size", size),
            link: "none".into(),
        },
        method: 1,
        primary: "cost".into(),
        headline: false,
        label: None,
        launches: 6,
        state: State::Ok,
        metrics: vec![Estimate {
            name: "cost".into(),
            unit: Unit::Nanoseconds,
            better: Better::Lower,
            median: ns,
            ci95: Some((ns * 0.9, ns * 1.1)),
            interval: Some(IntervalKind::Order),
            mean: ns,
            sd: None,
            min: ns,
            percentiles: Vec::new(),
            n: 100,
            undisturbed: None,
            core: None,
            modes: Vec::new(),
        }],
        prediction: None,
        grade: Grade::A,
        warnings: Vec::new(),
        placement: Placement::default(),
    }
}
