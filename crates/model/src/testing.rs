//! Runs, rows and facts for tests.

use crate::axis::{Axes, Axis, Choice, Domain};
use crate::facts::{Cache, CacheKind, CacheSource, Facts};
use crate::metric::{Data, Estimate, IntervalKind, Measured, MetricInfo};
use crate::noise::{Grade, MEASURED, Noise, Placement, Warning};
use crate::point::Point;
use crate::prediction::Prediction;
use crate::probe_info::ProbeInfo;
use crate::protocol::{ClockInfo, ClockSource, CounterInfo};
use crate::rows::{
    AttemptRow, Block, Hosts, LaunchPoint, LaunchRow, Plan, PointRow, RunRow, SCHEMA, State,
};
use crate::run_file::Run;
use crate::unit::{Better, Unit};
use crate::{List, Text};
use std::collections::BTreeMap;

/// A run without points, of a virtual machine that claims caches of so many bytes.
pub fn run(claimed: &[u64]) -> Run {
    let mut run = run_without_facts();
    let mut facts = Facts::default();
    facts.virtualization.virtual_machine = Some(true);
    let caches = (1..).zip(claimed).map(|(level, bytes)| Cache {
        level,
        kind: CacheKind::Unified,
        size_bytes: *bytes,
        source: CacheSource::Cpuid,
        ..Cache::default()
    });
    facts.cpu.caches = caches.collect();
    run.attempts.push(AttemptRow {
        costof: "0.1.0".to_owned(),
        build: String::new(),
        boot: None,
        hosts: BTreeMap::from([(MEASURED.into(), facts)]),
        clock: ClockInfo {
            source: ClockSource::Counter,
            because: String::new(),
            hz: 1e9,
            spread_ppm: 1.0,
            resolution_ns: 1.0,
            read_ns: 10.0,
            core_floor: None,
        },
        counters: CounterInfo::default(),
        peer: None,
    });
    run
}

/// A probe of one metric in nanoseconds, `cost`, without axes.
pub fn probe_info(id: impl Into<Text>) -> ProbeInfo {
    ProbeInfo {
        id: id.into(),
        method: 1,
        question: "?".into(),
        axes: List::Borrowed(&[]),
        crossings: List::Borrowed(&[]),
        metrics: List::Owned(vec![MetricInfo {
            name: "cost".into(),
            unit: Unit::Nanoseconds,
            better: Better::Lower,
            about: "".into(),
        }]),
        how: "".into(),
        sources: List::Borrowed(&[]),
        predicted_from: "".into(),
        after: List::Borrowed(&[]),
        needs: List::Borrowed(&[]),
        roles: List::Borrowed(&[Text::Borrowed("only")]),
    }
}

/// An axis of these words.
pub fn words_axis(name: &'static str, words: &[&'static str]) -> Axis {
    let choice = |word: &&'static str| Choice {
        value: Text::Borrowed(word),
        about: "".into(),
    };
    Axis {
        name: name.into(),
        about: "".into(),
        domain: Domain::Choice(words.iter().map(choice).collect()),
    }
}

/// A run with an empty block in its plan, and nothing else.
pub fn run_without_facts() -> Run {
    planned([Vec::new()])
}

/// A run with these points in each block of its plan, and nothing else.
pub fn planned(blocks: impl IntoIterator<Item = Vec<Point>>) -> Run {
    let blocks = blocks.into_iter().map(|points| Block {
        points,
        labels: Vec::new(),
        level: 0,
        rounds: 1,
    });
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
            blocks: blocks.collect(),
            placement: Placement::default(),
            hosts: Hosts::default(),
        },
    })
}

/// An estimate in nanoseconds, less of which is better, known to a tenth.
pub fn estimate(name: impl Into<Text>, median: f64) -> Estimate {
    Estimate {
        name: name.into(),
        unit: Unit::Nanoseconds,
        better: Better::Lower,
        median,
        ci95: Some((0.9 * median, 1.1 * median)),
        interval: Some(IntervalKind::Order),
        mean: median,
        sd: None,
        min: median,
        percentiles: Vec::new(),
        n: 100,
        undisturbed: None,
        core: None,
        modes: Vec::new(),
    }
}

/// A point of a probe whose answer is the metric `cost`.
pub fn row(probe: impl Into<Text>, axes: Axes, ns: f64) -> PointRow {
    PointRow {
        point: Point {
            probe: probe.into(),
            axes,
            link: "none".into(),
        },
        method: 1,
        primary: "cost".into(),
        headline: false,
        label: None,
        launches: 6,
        state: State::Ok,
        metrics: vec![estimate("cost", ns)],
        prediction: None,
        grade: Grade::A,
        warnings: Vec::new(),
        placement: Placement::default(),
    }
}

/// The same of a point that differs in its size alone.
pub fn sized_row(probe: impl Into<Text>, size: u64, ns: f64) -> PointRow {
    row(probe, Axes::default().with("size", size), ns)
}

/// Changes to a row, one after the other.
#[expect(missing_docs, reason = "each does what its name says")]
pub trait RowExt: Sized {
    fn over(self, link: &'static str) -> Self;
    fn known_within(self, share: f64) -> Self;
    fn primary_is(self, name: &'static str) -> Self;
    fn measured_in(self, unit: Unit) -> Self;
    fn metric(self, name: &'static str, median: f64) -> Self;
    fn predicted(self, low: f64, high: f64) -> Self;
    fn warned(self, kind: &'static str, grade: Grade) -> Self;
    fn placed<const N: usize>(self, roles: [(&'static str, &[usize]); N]) -> Self;
}

impl RowExt for PointRow {
    fn over(mut self, link: &'static str) -> PointRow {
        self.point.link = link.into();
        self
    }

    /// The interval of the primary metric, as a share of its median on either side.
    fn known_within(mut self, share: f64) -> PointRow {
        let median = self.metrics[0].median;
        self.metrics[0].ci95 = Some((median * (1.0 - share), median * (1.0 + share)));
        self
    }

    fn primary_is(mut self, name: &'static str) -> PointRow {
        (self.primary, self.metrics[0].name) = (name.into(), name.into());
        self
    }

    fn measured_in(mut self, unit: Unit) -> PointRow {
        self.metrics[0].unit = unit;
        self
    }

    /// Another metric, with the unit and the direction of the first.
    fn metric(mut self, name: &'static str, median: f64) -> PointRow {
        self.metrics.push(Estimate {
            unit: self.metrics[0].unit,
            better: self.metrics[0].better,
            ..estimate(name, median)
        });
        self
    }

    fn predicted(mut self, low: f64, high: f64) -> PointRow {
        self.prediction = Some(Prediction {
            metric: self.primary.clone(),
            low,
            high,
            because: String::new(),
        });
        self
    }

    fn warned(mut self, kind: &'static str, grade: Grade) -> PointRow {
        self.warnings.push(Warning {
            kind: kind.into(),
            grade,
            what: String::new(),
            advice: String::new(),
        });
        self
    }

    fn placed<const N: usize>(mut self, roles: [(&'static str, &[usize]); N]) -> PointRow {
        let roles = roles.map(|(role, cpus)| (role.into(), cpus.to_vec()));
        self.placement = Placement(roles.into_iter().collect());
        self
    }
}

/// Adds a launch that measured these metrics of each point.
pub fn launch(run: &mut Run, points: &[(&PointRow, &[(&'static str, f64)])]) {
    let measured =
        |(name, value): &(&'static str, f64)| Measured::new((*name).into(), Data::Value(*value));
    let points = points.iter().map(|(row, metrics)| LaunchPoint {
        point: row.point.clone(),
        state: State::Ok,
        metrics: metrics.iter().map(measured).collect(),
        allocations: 0,
    });
    run.launches.push(LaunchRow {
        block: 0,
        launch: run.launches.len() as u32,
        of: 1,
        wall_ns: 1e9,
        points: points.collect(),
        noise: Noise::default(),
        placement: Placement::default(),
        link: None,
    });
}
