//! Curves of random loads, real and made, and runs that have them.

use crate::finding::Finding;
use costof_model::axis::Axes;
use costof_model::facts::{Cache, CacheKind, CacheSource, Facts};
use costof_model::metric::{Data, Estimate, IntervalKind, Measured};
use costof_model::noise::{Grade, Noise, Placement};
use costof_model::point::Point;
use costof_model::prediction::Prediction;
use costof_model::protocol::{ClockInfo, ClockSource, CounterInfo};
use costof_model::rows::{
    AttemptRow, LaunchPoint, LaunchRow, Plan, PointRow, RunRow, SCHEMA, State,
};
use costof_model::run_file::Run;
use costof_model::unit::{Better, Unit};
use std::collections::BTreeMap;

/// Sizes in KiB with three points an octave, as in a full run of memory.latency.
const SIZES: [f64; 46] = [
    16., 20., 24., 32., 40., 48., 64., 80., 96., 128., 160., 192., 256., 320., 384., 512., 640.,
    768., 1024., 1280., 1536., 2048., 2560., 3072., 4096., 5120., 6144., 8192., 10240., 12288.,
    16384., 20480., 24576., 32768., 40960., 49152., 65536., 81920., 98304., 131_072., 163_840.,
    196_608., 262_144., 393_216., 524_288., 1_048_576.,
];

/// A random load on 4 KiB pages in KiB and ns: a virtual machine on Zen 5 that claims 48 KiB,
/// 1 MiB and 32 MiB, November 2026, others' builds running beside it. By eye: four levels, of
/// 0.89 ns to 48 KiB, 3.1 ns to 384 KiB, 12 ns from 2 to 12 MiB, and 125 to 157 ns from 64 MiB on;
/// half-way at about 55 KiB, 1.2 MiB and 34 MiB.
pub(crate) const REAL_SMALL_PAGES: [(f64, f64); 45] = [
    (16., 0.885),
    (20., 0.886),
    (24., 0.885),
    (32., 0.885),
    (40., 0.885),
    (48., 0.965),
    (64., 3.1),
    (80., 3.1),
    (96., 3.09),
    (128., 3.09),
    (160., 3.1),
    (192., 3.1),
    (256., 3.1),
    (320., 3.1),
    (384., 3.11),
    (512., 3.48),
    (640., 3.75),
    (768., 4.49),
    (1024., 6.32),
    (1280., 7.98),
    (1536., 8.94),
    (2048., 10.7),
    (2560., 11.1),
    (3072., 11.4),
    (4096., 11.8),
    (5120., 12.),
    (6144., 12.2),
    (8192., 12.3),
    (10240., 12.4),
    (12288., 12.5),
    (16384., 14.6),
    (20480., 20.7),
    (24576., 40.2),
    (32768., 71.1),
    (40960., 97.8),
    (49152., 116.),
    (65536., 125.),
    (81920., 135.),
    (98304., 136.),
    (131_072., 141.),
    (163_840., 147.),
    (196_608., 148.),
    (262_144., 150.),
    (393_216., 156.),
    (524_288., 157.),
];

/// The same on 2 MiB pages.
pub(crate) const REAL_HUGE_PAGES: [(f64, f64); 45] = [
    (16., 0.885),
    (20., 0.885),
    (24., 0.886),
    (32., 0.886),
    (40., 0.889),
    (48., 0.972),
    (64., 3.1),
    (80., 3.1),
    (96., 3.1),
    (128., 3.1),
    (160., 3.1),
    (192., 3.1),
    (256., 3.1),
    (320., 3.1),
    (384., 3.1),
    (512., 3.5),
    (640., 3.73),
    (768., 4.28),
    (1024., 5.93),
    (1280., 7.86),
    (1536., 9.5),
    (2048., 10.7),
    (2560., 11.3),
    (3072., 11.7),
    (4096., 11.8),
    (5120., 12.1),
    (6144., 12.1),
    (8192., 12.3),
    (10240., 12.4),
    (12288., 12.4),
    (16384., 13.3),
    (20480., 17.3),
    (24576., 35.5),
    (32768., 70.3),
    (40960., 76.8),
    (49152., 95.4),
    (65536., 117.),
    (81920., 127.),
    (98304., 128.),
    (131_072., 132.),
    (163_840., 137.),
    (196_608., 139.),
    (262_144., 140.),
    (393_216., 144.),
    (524_288., 146.),
];

/// The same machine minutes before, with fewer sizes and a build on the measured processor.
pub(crate) const REAL_BUSY: [(f64, f64); 28] = [
    (16., 0.881),
    (24., 0.882),
    (32., 0.882),
    (48., 0.951),
    (64., 3.09),
    (96., 3.09),
    (128., 3.09),
    (192., 3.09),
    (256., 3.09),
    (384., 3.09),
    (512., 3.49),
    (768., 4.42),
    (1024., 6.16),
    (1536., 9.86),
    (2048., 10.8),
    (3072., 11.6),
    (4096., 11.9),
    (6144., 12.2),
    (8192., 12.3),
    (12288., 13.8),
    (16384., 13.2),
    (24576., 51.3),
    (32768., 135.),
    (49152., 123.),
    (65536., 140.),
    (98304., 143.),
    (131_072., 147.),
    (262_144., 154.),
];

/// The same, on 2 MiB pages, while a program on the other processor read 96 MiB over and over: of the
/// third cache nothing is left.
pub(crate) const REAL_TAKEN: [(f64, f64); 31] = [
    (16., 0.895),
    (24., 0.891),
    (32., 0.892),
    (48., 0.982),
    (64., 3.12),
    (96., 3.11),
    (128., 3.137),
    (192., 3.1),
    (256., 3.11),
    (384., 3.11),
    (512., 3.52),
    (768., 3.98),
    (1024., 7.69),
    (1280., 10.3),
    (1536., 11.9),
    (2048., 19.3),
    (2560., 146.),
    (3072., 138.),
    (4096., 145.),
    (5120., 143.),
    (6144., 147.),
    (8192., 142.),
    (10240., 147.),
    (12288., 146.),
    (16384., 148.),
    (24576., 151.),
    (32768., 152.),
    (49152., 154.),
    (65536., 156.),
    (98304., 157.),
    (131072., 159.),
];

/// A cache's part of the cost: what it costs beyond the one before, from which size on, and over
/// how many octaves it sets in.
pub(crate) struct Step {
    pub(crate) extra: f64,
    pub(crate) size: f64,
    pub(crate) octaves: f64,
}

pub(crate) fn step(extra: f64, size: f64, octaves: f64) -> Step {
    Step {
        extra,
        size,
        octaves,
    }
}

/// A staircase with soft knees: half of each step is done at its size.
pub(crate) fn staircase(base: f64, steps: &[Step]) -> Vec<(f64, f64)> {
    let cost = |size: f64| {
        let share = |step: &Step| {
            // From 2 % to 98 % over its octaves.
            let steepness = 2.0 * 49.0_f64.ln() / step.octaves;
            1.0 / (1.0 + (-steepness * (size / step.size).log2()).exp())
        };
        base + steps
            .iter()
            .map(|step| step.extra * share(step))
            .sum::<f64>()
    };
    SIZES.iter().map(|&size| (size, cost(size))).collect()
}

/// What a finding says of a run with these points; what it names as evidence is among them.
pub(crate) fn sentences(finds: fn(&Run) -> Vec<Finding>, rows: &[PointRow]) -> Vec<String> {
    let mut run = run(&[]);
    run.points.extend(rows.iter().cloned());
    let findings = finds(&run);
    for point in findings.iter().flat_map(|finding| &finding.evidence) {
        assert!(rows.iter().any(|row| row.point == *point));
    }
    findings
        .into_iter()
        .map(|finding| finding.sentence)
        .collect()
}

/// A run without points on a machine that claims caches of so many bytes, in a virtual machine.
pub(crate) fn run(claimed: &[u64]) -> Run {
    let mut run = Run::new(RunRow {
        schema: SCHEMA,
        id: "1".to_owned(),
        started: "2026-11-21T00:00:00Z".to_owned(),
        command: Vec::new(),
        seed: 7,
        beside: None,
        plan: Plan {
            precision: "full".into(),
            launches: None,
            blocks: Vec::new(),
            placement: Placement::default(),
            hosts: costof_model::rows::Hosts::default(),
        },
    });
    let mut facts = Facts::default();
    facts.virtualization.virtual_machine = Some(true);
    facts.cpu.caches = (1..)
        .zip(claimed)
        .map(|(level, bytes)| Cache {
            level,
            kind: CacheKind::Unified,
            size_bytes: *bytes,
            source: CacheSource::Cpuid,
            ..Cache::default()
        })
        .collect();
    run.attempts.push(AttemptRow {
        costof: "0.1.0".to_owned(),
        build: String::new(),
        boot: None,
        hosts: BTreeMap::from([("only".into(), facts)]),
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

/// What the tests' machines claim: 48 KiB, 1 MiB and 32 MiB.
pub(crate) const CLAIMED: [u64; 3] = [48 << 10, 1 << 20, 32 << 20];

/// Adds points (KiB, ns) on pages of this size, each known to so large a share of its cost.
pub(crate) fn add(run: &mut Run, pages: &'static str, points: &[(f64, f64)], share: f64) {
    run.points.extend(
        points
            .iter()
            .map(|&(kib, ns)| row(pages, kib, ns, (ns * (1.0 - share), ns * (1.0 + share)))),
    );
}

fn row(pages: &'static str, kib: f64, median: f64, ci95: (f64, f64)) -> PointRow {
    let axes = Axes::default()
        .with("size", (kib * 1024.0) as u64)
        .with("pages", pages)
        .with("pattern", "random")
        .with("stride", 64);
    point_row("memory.latency", "cost", axes, median, ci95)
}

/// A point of a probe whose answer, in nanoseconds, is the metric `primary`.
pub(crate) fn point_row(
    probe: &'static str,
    primary: &'static str,
    axes: Axes,
    median: f64,
    ci95: (f64, f64),
) -> PointRow {
    PointRow {
        point: Point {
            probe: probe.into(),
            axes,
            link: "none".into(),
        },
        method: 1,
        primary: primary.into(),
        headline: true,
        label: None,
        launches: 6,
        state: State::Ok,
        metrics: vec![Estimate {
            name: primary.into(),
            unit: Unit::Nanoseconds,
            better: Better::Lower,
            median,
            ci95: Some(ci95),
            interval: Some(IntervalKind::Order),
            mean: median,
            sd: None,
            min: median,
            percentiles: Vec::new(),
            n: 60,
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

/// Adds a launch that measured these metrics of each point.
pub(crate) fn launch(run: &mut Run, points: &[(&PointRow, &[(&'static str, f64)])]) {
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

/// Says what was expected of the last point that was added.
pub(crate) fn expect(run: &mut Run, low: f64, high: f64) {
    let row = run.points.last_mut().unwrap();
    row.prediction = Some(Prediction {
        metric: "cost".into(),
        low,
        high,
        because: String::new(),
    });
}

/// The sizes of the points that a finding names.
pub(crate) fn sizes_kib(evidence: &[Point]) -> Vec<u64> {
    let sizes = evidence.iter().map(|point| point.axes.number("size") >> 10);
    sizes.collect()
}
