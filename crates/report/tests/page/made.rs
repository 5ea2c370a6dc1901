//! Run files made for tests, line by line, as an older or newer costof, or anybody, could write them.

use costof_model::comparison::{
    Compared, Comparison, FactDifference, Groups, LayerChange, Level, Verdict as RowVerdict,
};
use costof_model::fleet::{Cohort, Deviation, Fleet, Host, LayerDeviation, Statistic, Verdict};
use costof_model::history::{Change, History, Machines, Reading, Series};
use costof_model::metric::Selection;
use costof_model::rows::MetricOfPoint;
use costof_model::run_file::{self, Run};
use serde_json::{Value, json};

/// A run file that grows.
#[derive(Clone, Default)]
pub(crate) struct Made {
    points: Vec<Value>,
    lines: Vec<Value>,
}

/// A point: what `add` needs of it.
pub(crate) struct Point<'a> {
    pub(crate) probe: &'a str,
    pub(crate) axes: Value,
    pub(crate) link: &'a str,
    /// The primary metric: its name, its unit, its value.
    pub(crate) measured: (&'a str, &'a str, f64),
    /// What the field calls it, where it is a headline.
    pub(crate) label: Option<&'a str>,
}

/// What else is measured where messages are sent.
const SENDING: [(&str, &str); 8] = [
    ("rate", "Hz"),
    ("cpu_sender", "ns"),
    ("cpu_receiver", "ns"),
    ("cycles_per_byte", "cycles"),
    ("pollution_l1", "1"),
    ("pollution_l2", "1"),
    ("pollution_l3", "1"),
    ("copied", "1"),
];

impl Made {
    /// Adds a point with its launches.
    pub(crate) fn add(&mut self, point: &Point<'_>) {
        let (name, unit, value) = point.measured;
        let place = json!({"probe": point.probe, "axes": point.axes, "link": point.link});
        let with = |rest: Value| {
            let mut row = place.clone();
            row.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
            row
        };
        for launch in 0..3 {
            let data = match name {
                "latency" => {
                    let bucket = |step: i32| json!([value * 1.03_f64.powi(step), 50 - step.abs()]);
                    let buckets: Vec<Value> = (-30..30).map(bucket).collect();
                    json!({"name": name, "histogram": buckets})
                }
                "cost" => {
                    json!({"name": name, "samples": [[10, value * 10.0], [10, value * 10.1]]})
                }
                _ => json!({"name": name, "value": value * (1.0 + 0.02 * f64::from(launch))}),
            };
            let measured = with(json!({"state": "ok", "metrics": [data]}));
            self.lines.push(json!({
                "type": "launch", "block": 0, "launch": launch, "of": 3, "wall_ns": 1e8,
                "points": [measured], "placement": {"only": [0]},
                "noise": {"duration_ns": 1e8, "preemptions": 1, "minor_faults": 0, "major_faults": 0,
                    "steal_ns": 1e5},
            }));
        }
        let better = if unit == "ns" { "lower" } else { "higher" };
        let estimate = |name: &str, unit: &str, better: &str| {
            json!({"name": name, "unit": unit, "better": better, "median": value,
                "ci95": [value * 0.9, value * 1.1], "interval": "t", "mean": value, "sd": 1.0,
                "min": value * 0.8, "n": 60,
                "percentiles": [{"percent": 50.0, "value": value}, {"percent": 99.0, "value": value * 3.0}]})
        };
        let mut metrics = vec![estimate(name, unit, better)];
        let others: &[(&str, &str)] = match name {
            "throughput" => &SENDING,
            _ => &[("estimated_core_cycles", "cycles")],
        };
        metrics.extend(others.iter().map(|(name, unit)| estimate(name, unit, "lower")));
        self.lines.push(with(json!({
            "type": "point", "method": 1, "primary": name, "headline": point.label.is_some(),
            "label": point.label, "launches": 3, "state": "ok", "grade": "D", "warnings": warnings(),
            "placement": {"only": [0]},
            "metrics": metrics,
            "prediction": {"metric": name, "low": value * 0.3, "high": value * 0.5,
                "because": "half of what was measured, to be missed"},
        })));
        self.points.push(place);
    }

    /// Adds any row.
    pub(crate) fn add_row(&mut self, row: Value) {
        self.lines.push(row);
    }

    /// The file.
    pub(crate) fn text(&self) -> String {
        let labels: Vec<Value> = Vec::new();
        let first = json!({
            "type": "run", "schema": 1, "id": "made", "started": "2026-11-22T00:00:00Z",
            "command": ["costof", "run"], "seed": 7,
            "plan": {"precision": "quick", "placement": {},
                "blocks": [{"points": self.points, "labels": labels, "level": 0, "rounds": 1}]},
        });
        let lines = std::iter::once(&first).chain(&self.lines);
        lines.map(|line| format!("{line}\n")).collect()
    }

    /// The run in it.
    pub(crate) fn run(&self) -> Run {
        run_file::read(self.text().as_bytes()).unwrap()
    }
}

/// What a busy machine leaves every row with.
fn warnings() -> Value {
    let warning = |kind: &str, grade: &str, what: &str| {
        json!({"kind": kind, "grade": grade, "what": what,
            "advice": "stop what else runs, or choose a free processor by --cpu"})
    };
    json!([
        warning(
            "waiting",
            "D",
            "CPU contention left the worker ready but not running 55.7 % of the time"
        ),
        warning("others", "D", "other processes used the measured CPU 73.0 % of the time"),
        warning("elsewhere", "C", "other CPUs were busy 100.0 % of the time"),
        warning("stalls", "B", "stalls (interrupts, SMIs, hypervisor) took 2.6 % of the time"),
    ])
}

/// About `points` points, of everything that has a plot of its own.
pub(crate) fn varied(points: usize) -> Made {
    let mut made = Made::default();
    for (label, probe, ns) in [
        ("L1 cache reference", "cpu.call", 1.2),
        ("main memory reference", "os.syscall", 98.0),
        ("packet there and back: wan", "net.ping", 190e6),
    ] {
        made.add(&Point {
            probe,
            axes: json!({}),
            link: "none",
            measured: ("cost", "ns", ns),
            label: Some(label),
        });
    }
    for (from, to) in [(0, 1), (0, 2), (1, 2), (2, 3)] {
        made.add(&Point {
            probe: "sync.core_to_core",
            axes: json!({"from": from, "to": to}),
            link: "none",
            measured: ("cost", "ns", 40.0 + f64::from(from * 10 + to)),
            label: None,
        });
    }
    for (step, payload) in ["int", "double", "string"].into_iter().enumerate() {
        for (other, stack) in ["grpc", "thrift"].into_iter().enumerate() {
            made.add(&Point {
                probe: "net.rtt",
                axes: json!({"payload": payload, "over": stack, "size": 56}),
                link: "loopback",
                measured: ("latency", "ns", 20e3 * (1.0 + step as f64) * (1.0 + other as f64)),
                label: None,
            });
        }
    }
    let mut variant = 0_u32;
    while made.points.len() < points {
        for step in 0..12_u32 {
            let size = 64_u64 << step;
            for (position, primitive) in
                ["copy_and_send", "sendmsg", "msg_zerocopy"].into_iter().enumerate()
            {
                if made.points.len() == points {
                    break;
                }
                let value = 1e6 * (size as f64).powf(0.8) * (1.0 + position as f64);
                made.add(&Point {
                    probe: "copy.made",
                    axes: json!({"size": size, "primitive": primitive, "threads": variant + 1,
                        "kind": format!("kind{}", variant % 7)}),
                    link: if variant.is_multiple_of(2) { "loopback" } else { "veth" },
                    measured: ("throughput", "B/s", value),
                    label: None,
                });
            }
        }
        variant += 1;
    }
    made
}

/// Three rows over twenty runs, two of which change with the eleventh: one is worse then, one better. All
/// words that a run file brings are this one.
pub(crate) fn history(word: &str) -> History {
    let run = varied(3).run();
    let time = |at: usize| format!("2026-11-{:02}T12:00:00Z", at + 1);
    let of = |row: usize| MetricOfPoint {
        label: Some(word.to_owned()),
        ..MetricOfPoint::new(&run.points[row], &run.points[row].metrics[0])
    };
    let value = |row: usize, at: usize| match (row, at) {
        (0, 10..) => 12.0,
        (1, 10..) => 8.0,
        _ => 10.0 + 0.1 * (at % 3) as f64,
    };
    let reading = |row, at| Reading {
        run: at,
        median: value(row, at),
        ci95: (value(row, at) * 0.9, value(row, at) * 1.1),
    };
    let series = |row| Series {
        of: of(row),
        machine: word.to_owned(),
        values: (0..20).map(|at| reading(row, at)).collect(),
    };
    let machines = |runs: usize, latest: usize| Machines {
        class: word.to_owned(),
        runs,
        since: time(0),
        latest: time(latest),
        is_followed: runs > 4,
    };
    let change = |row: usize, worse: f64| Change {
        of: of(row),
        machine: word.to_owned(),
        at: time(10),
        found: time(14),
        from: 10.0,
        to: value(row, 10),
        worse,
        ci95: Some((worse - 0.01, worse + 0.01)),
        facts: vec![(word.to_owned(), "6.1".to_owned(), word.to_owned())],
        row,
    };
    History {
        runs: (0..20).map(time).collect(),
        machines: vec![machines(18, 18), machines(2, 19)],
        rows: 3,
        false_alarm_runs: 1000,
        detectable: Some((0.04, 5)),
        changes: vec![change(0, 0.2), change(1, -0.2)],
        series: (0..3).map(series).collect(),
    }
}

/// Four hosts with three rows, the first of which is slower, one faster, and one inconclusive.
pub(crate) fn fleet() -> Fleet {
    let run = varied(3).run();
    let rows = run.points.iter();
    let rows: Vec<MetricOfPoint> =
        rows.map(|row| MetricOfPoint::new(row, &row.metrics[0])).collect();
    let host = |(name, verdict, worse): (&str, Verdict, f64)| {
        let deviations = rows.iter().filter(|_| verdict.is_odd());
        Host {
            name: name.to_owned(),
            runs: 3,
            verdict,
            p: 1e-6,
            worse: vec![Some(worse), Some(worse / 2.0), None],
            detectable: Some(0.08),
            layers: vec![LayerDeviation {
                layer: "memory".to_owned(),
                statistic: Statistic::Median,
                rows: 3,
                worse,
                p: 1e-6,
            }],
            deviations: deviations
                .map(|of| Deviation {
                    of: of.clone(),
                    statistic: Statistic::Median,
                    here: 10.0 * (1.0 + worse),
                    usual: 10.0,
                    worse,
                    p: 1e-6,
                })
                .collect(),
            facts: vec![("kernel".to_owned(), "6.2".to_owned(), "6.1".to_owned())],
        }
    };
    let hosts = [
        ("n01", Verdict::Slower, 0.4),
        ("n02", Verdict::Faster, -0.2),
        ("n03", Verdict::Undecided, 0.1),
        ("n04", Verdict::Normal, 0.0),
    ];
    Fleet {
        false_share: 0.05,
        cohorts: vec![Cohort {
            facts: vec![("processor".to_owned(), "one model".to_owned())],
            rows: rows.iter().map(MetricOfPoint::name).collect(),
            detectable: Some(0.08),
            hosts: hosts.map(host).to_vec(),
        }],
        partings: vec![upgrade()],
    }
}

/// Ten hosts compared with nine of another kernel: one layer slower, one unchanged, one faster.
pub(crate) fn upgrade() -> Comparison {
    let change = |(layer, worse): (&str, f64)| LayerChange {
        layer: layer.to_owned(),
        rows: 3,
        worse,
        ci95: (worse - 0.01, worse + 0.01),
        p: 0.001,
        verdict: match worse {
            0.1.. => RowVerdict::Worse,
            ..-0.05 => RowVerdict::Better,
            _ => RowVerdict::NoDifference,
        },
    };
    let kernel = FactDifference {
        host: "only".into(),
        what: "kernel".to_owned(),
        before: Some("6.1".to_owned()),
        after: Some("6.2".to_owned()),
    };
    let run = varied(3).run();
    let row = &run.points[0];
    Comparison {
        matters: 0.05,
        facts: vec![kernel],
        groups: Some(Groups {
            level: Level::Hosts,
            before: 10,
            after: 9,
            in_pairs: false,
            row: None,
        }),
        layers: [("os", 0.12), ("memory", 0.001), ("net", -0.1)].map(change).to_vec(),
        rows: vec![Compared {
            point: row.point.clone(),
            label: row.label.clone(),
            metric: row.primary.clone(),
            unit: row.metrics[0].unit,
            better: row.metrics[0].better,
            before: (100.0, 10),
            after: (114.0, 9),
            ratio: 1.14,
            ci95: (1.13, 1.15),
            p: 0.001,
            verdict: RowVerdict::Worse,
            needed: None,
            visible: 0.02,
            selection: Selection::All,
            core_shared: false,
            clocks: None,
        }],
        ..Comparison::default()
    }
}
