//! Runs, rows and facts for tests.

use crate::axis::Choice;
use crate::facts::{Cache, CacheKind, CacheSource, Disk, DiskKind, FileSystem};
use crate::noise::MEASURED;
use crate::protocol::{ClockSource, CounterInfo};
use crate::rows::{AttemptRow, SCHEMA};
use crate::{
    Axes, Axis, Better, Block, ClockInfo, Data, Domain, Estimate, Facts, Grade, Hosts, Launch,
    LaunchPoint, LaunchRow, List, Measured, MetricInfo, Noise, Placement, Plan, Point, PointRow,
    Prediction, ProbeInfo, Run, RunRow, State, Text, Unit, Warning,
};
use costof_stats::IntervalRule;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// Compares a text with a section of a golden file of a crate: `golden("report/timing", "one command", text)` is about
/// `crates/report/tests/golden/timing.txt`. Where the environment has `COSTOF_GOLDEN=write`, the text is written there.
///
/// # Panics
/// If the two differ, with the text as it is now.
#[track_caller]
pub fn golden(file: &str, section: &str, text: &str) {
    // Tests run side by side, and each writes a section of the same file.
    static WRITING: Mutex<()> = Mutex::new(());
    let (of_crate, name) = file.split_once('/').expect("CRATE/NAME");
    let file = format!("{of_crate}/tests/golden/{name}.txt");
    let path = format!(concat!(env!("CARGO_MANIFEST_DIR"), "/../{}"), file);
    let _turn = WRITING.lock().unwrap_or_else(PoisonError::into_inner);
    let all = format!("\n{}", std::fs::read_to_string(&path).unwrap_or_default());
    let known = all.split("\n=== ").skip(1).filter_map(|part| part.split_once('\n'));
    let mut sections: BTreeMap<&str, &str> =
        known.map(|(name, text)| (name, text.trim_end())).collect();
    let is_known = sections.insert(section, text.trim_end()) == Some(text.trim_end());
    if !is_known && std::env::var_os("COSTOF_GOLDEN").is_some_and(|asked| asked == "write") {
        let parts: Vec<String> =
            sections.iter().map(|(name, text)| format!("=== {name}\n{text}\n")).collect();
        return std::fs::write(&path, parts.join("\n")).expect("the golden file can be written");
    }
    assert!(
        is_known,
        "`{section}` of crates/{file} is now (COSTOF_GOLDEN=write writes it):\n{text}"
    );
}

/// A run without points, of a virtual machine that claims caches of these sizes.
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
        clock: clock_info(),
        counters: CounterInfo::default(),
        peer: None,
    });
    run
}

/// A counter that ticks once a nanosecond.
pub fn clock_info() -> ClockInfo {
    ClockInfo {
        source: ClockSource::Counter,
        because: String::new(),
        hz: 1e9,
        spread_ppm: 1.0,
        resolution_ns: 1.0,
        read_ns: 10.0,
        core_floor: None,
    }
}

/// A machine whose temporary folder lies on a disk of this kind, `vda`.
pub fn facts_with_disk(kind: DiskKind) -> Facts {
    Facts {
        disks: vec![Disk { name: "vda".to_owned(), kind, ..Disk::default() }],
        file_systems: vec![FileSystem {
            mount_point: "/".to_owned(),
            kind: "ext4".to_owned(),
            disk: Some("vda".to_owned()),
            ..FileSystem::default()
        }],
        temporary_folder: Some("/tmp".to_owned()),
        ..Facts::default()
    }
}

/// What a worker is sent to measure these points for a millisecond each, by a clock that every machine has.
pub fn launch_message(points: Vec<Point>) -> Launch {
    Launch {
        role: "only".into(),
        points,
        cpus: Vec::new(),
        partners: Vec::new(),
        seed: 1,
        point_time_ns: 1_000_000,
        deadline_ns: 0,
        rounds: 1,
        clock: ClockInfo {
            source: ClockSource::Monotonic,
            resolution_ns: 30.0,
            read_ns: 30.0,
            ..clock_info()
        },
        rendezvous: None,
        by_hand: None,
    }
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
        relations: List::Borrowed(&[]),
        roles: List::Borrowed(&[Text::Borrowed("only")]),
        aliases: List::Borrowed(&[]),
    }
}

/// An axis of numbers from 1, which is its default.
pub fn number_axis(name: &'static str, unit: Unit) -> Axis {
    Axis {
        name: name.into(),
        about: "".into(),
        domain: Domain::Number { unit, low: 1, high: 1 << 30, defaults: List::Owned(vec![1]) },
    }
}

/// An axis of these words.
pub fn words_axis(name: &'static str, words: &[&'static str]) -> Axis {
    let choice = |word: &&'static str| Choice { value: Text::Borrowed(word), about: "".into() };
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
    let blocks = blocks.into_iter().map(|points| Block { points, rounds: 1, ..Block::default() });
    Run::new(RunRow {
        schema: SCHEMA,
        id: "1".to_owned(),
        started: "2026-11-22T00:00:00Z".to_owned(),
        command: vec!["costof".to_owned(), "run".to_owned()],
        seed: 7,
        beside: None,
        guesses: Vec::new(),
        plan: Plan {
            precision: "quick".into(),
            budget_ns: None,
            until_alone_ns: None,
            launches: None,
            blocks: blocks.collect(),
            earlier: Vec::new(),
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
        range: None,
        interval: Some(IntervalRule::Order),
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
        point: Point { probe: probe.into(), axes, link: "none".into() },
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
pub trait RowExt: Into<PointRow> {
    /// Of a point over this link.
    fn over(self, link: &'static str) -> PointRow {
        let mut row = self.into();
        row.point.link = link.into();
        row
    }

    /// The interval of the primary metric, as a share of its median on either side.
    fn known_within(self, share: f64) -> PointRow {
        let mut row = self.into();
        let median = row.metrics[0].median;
        row.metrics[0].ci95 = Some((median * (1.0 - share), median * (1.0 + share)));
        row
    }

    /// With this many launches, which are too few for an interval; their medians lie in this range.
    fn of_few_launches(self, launches: u32, range: (f64, f64)) -> PointRow {
        let mut row = self.into();
        row.launches = launches;
        (row.metrics[0].ci95, row.metrics[0].range) = (None, Some(range));
        row
    }

    /// With another name of the primary metric.
    fn primary_is(self, name: &'static str) -> PointRow {
        let mut row = self.into();
        (row.primary, row.metrics[0].name) = (name.into(), name.into());
        row
    }

    /// In another unit.
    fn measured_in(self, unit: Unit) -> PointRow {
        let mut row = self.into();
        row.metrics[0].unit = unit;
        row
    }

    /// Another metric, with the unit and the direction of the first.
    fn metric(self, name: &'static str, median: f64) -> PointRow {
        let mut row = self.into();
        row.metrics.push(Estimate {
            unit: row.metrics[0].unit,
            better: row.metrics[0].better,
            ..estimate(name, median)
        });
        row
    }

    /// With this range expected of the primary metric.
    fn predicted(self, low: f64, high: f64) -> PointRow {
        let mut row = self.into();
        row.prediction =
            Some(Prediction { metric: row.primary.clone(), low, high, because: String::new() });
        row
    }

    /// With this doubt.
    fn warned(self, kind: &'static str, grade: Grade) -> PointRow {
        let mut row = self.into();
        row.grade = row.grade.max(grade);
        row.warnings.push(Warning {
            kind: kind.into(),
            grade,
            what: format!("{kind} was seen"),
            advice: "stop it".to_owned(),
        });
        row
    }

    /// Measured on these CPUs.
    fn placed<const N: usize>(self, roles: [(&'static str, &[usize]); N]) -> PointRow {
        let mut row = self.into();
        let roles = roles.map(|(role, cpus)| (role.into(), cpus.to_vec()));
        row.placement = Placement(roles.into_iter().collect());
        row
    }
}

impl RowExt for PointRow {}

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
