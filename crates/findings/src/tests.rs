//! Real and generated curves of random loads, runs with them, and what all findings have in common.

mod levels;

use crate::Finding;
use crate::all::findings;
use costof_model::testing::golden;
pub(crate) use costof_model::testing::{RowExt, launch, run};
use costof_model::{Axes, Grade, Point, PointRow, Run};
use std::collections::HashMap;
use std::sync::LazyLock;

/// Sizes in KiB with three points an octave, as in a full run of memory.latency.
const SIZES: [f64; 46] = [
    16., 20., 24., 32., 40., 48., 64., 80., 96., 128., 160., 192., 256., 320., 384., 512., 640.,
    768., 1024., 1280., 1536., 2048., 2560., 3072., 4096., 5120., 6144., 8192., 10240., 12288.,
    16384., 20480., 24576., 32768., 40960., 49152., 65536., 81920., 98304., 131_072., 163_840.,
    196_608., 262_144., 393_216., 524_288., 1_048_576.,
];

type Points = LazyLock<Vec<(f64, f64)>>;

static CURVES: LazyLock<HashMap<String, String>> =
    LazyLock::new(|| toml::from_str(include_str!("curves.toml")).unwrap());

/// The points of a measured curve, in KiB and ns.
fn measured(name: &str) -> Vec<(f64, f64)> {
    let points = CURVES[name].split(' ').map(|point| {
        let (kib, ns) = point.split_once(':').unwrap();
        (kib.parse().unwrap(), ns.parse().unwrap())
    });
    points.collect()
}

pub(crate) static REAL_SMALL_PAGES: Points = LazyLock::new(|| measured("small_pages"));
pub(crate) static REAL_HUGE_PAGES: Points = LazyLock::new(|| measured("huge_pages"));
pub(crate) static REAL_BUSY: Points = LazyLock::new(|| measured("busy"));
pub(crate) static REAL_TAKEN: Points = LazyLock::new(|| measured("taken"));

/// A cache's part of the cost: the additional cost beyond it, the size at which it sets in, and
/// over how many octaves.
pub(crate) struct Step {
    pub(crate) extra: f64,
    pub(crate) size: f64,
    pub(crate) octaves: f64,
}

pub(crate) fn step(extra: f64, size: f64, octaves: f64) -> Step {
    Step { extra, size, octaves }
}

/// A staircase with soft edges: half of each step is done at its size.
pub(crate) fn staircase(base: f64, steps: &[Step]) -> Vec<(f64, f64)> {
    let cost = |size: f64| {
        let share = |step: &Step| {
            // From 2 % to 98 % over its octaves.
            let steepness = 2.0 * 49.0_f64.ln() / step.octaves;
            1.0 / (1.0 + (-steepness * (size / step.size).log2()).exp())
        };
        base + steps.iter().map(|step| step.extra * share(step)).sum::<f64>()
    };
    SIZES.iter().map(|&size| (size, cost(size))).collect()
}

/// The same as sentences.
pub(crate) fn sentences(finds: fn(&Run) -> Vec<Finding>, rows: &[PointRow]) -> Vec<String> {
    found(finds, rows).into_iter().map(|found| found.sentence).collect()
}

impl AsRef<str> for Finding {
    fn as_ref(&self) -> &str {
        &self.sentence
    }
}

/// Compares sentences with the section of `tests/golden/sentences.txt` that has the name of the test.
macro_rules! reads {
    ($sentences:expr $(,)?) => {{
        fn here() {}
        crate::tests::compare(std::any::type_name_of_val(&here), $sentences)
    }};
}
pub(crate) use reads;

#[track_caller]
pub(crate) fn compare(place: &str, sentences: impl IntoIterator<Item = impl AsRef<str>>) {
    let test = place.trim_start_matches("costof_findings::").trim_end_matches("::here");
    let section = test.replace("::tests::", ": ").replace('_', " ");
    let lines = sentences.into_iter().map(|sentence| format!("{}\n", sentence.as_ref()));
    golden("findings/sentences", &section, &lines.collect::<String>());
}

/// What the tests' machines claim: 48 KiB, 1 MiB and 32 MiB.
pub(crate) const CLAIMED: [u64; 3] = [48 << 10, 1 << 20, 32 << 20];

/// Adds points (KiB, ns) on pages of this size, with this relative uncertainty.
pub(crate) fn add(run: &mut Run, pages: &'static str, points: &[(f64, f64)], share: f64) {
    let rows = points.iter().map(|&(kib, ns)| {
        let axes = Axes::default()
            .with("size", (kib * 1024.0) as u64)
            .with("pages", pages)
            .with("pattern", "random")
            .with("stride", 64);
        let ends = (ns * (1.0 - share), ns * (1.0 + share));
        point_row("memory.latency", "cost", axes, ns, ends)
    });
    run.points.extend(rows);
}

/// A point of a probe whose answer, in nanoseconds, is the metric `primary`.
pub(crate) fn point_row(
    probe: &'static str,
    primary: &'static str,
    axes: Axes,
    median: f64,
    ci95: (f64, f64),
) -> PointRow {
    let mut row = costof_model::testing::row(probe, axes, median).primary_is(primary);
    row.metrics[0].ci95 = Some(ci95);
    row
}

/// Adds a metric like the first one, with its interval.
pub(crate) fn add_metric(row: &mut PointRow, name: &'static str, median: f64) {
    let mut metric = row.metrics[0].clone();
    (metric.name, metric.median) = (name.into(), median);
    row.metrics.push(metric);
}

pub(crate) fn warn(row: &mut PointRow, kind: &'static str, grade: Grade) {
    *row = row.clone().warned(kind, grade);
}

/// The findings in these rows; their evidence must be among the rows.
pub(crate) fn found(finds: fn(&Run) -> Vec<Finding>, rows: &[PointRow]) -> Vec<Finding> {
    let mut run = run(&[]);
    run.points.extend(rows.iter().cloned());
    let findings = finds(&run);
    for point in findings.iter().flat_map(|finding| &finding.evidence) {
        assert!(rows.iter().any(|row| row.point == *point));
    }
    findings
}

#[track_caller]
pub(crate) fn contains(text: &str, part: &str) {
    assert!(text.contains(part), "`{part}` is not in `{text}`");
}

#[track_caller]
pub(crate) fn begins(text: &str, part: &str) {
    assert!(text.starts_with(part), "`{part}` does not begin `{text}`");
}

#[track_caller]
pub(crate) fn ends(text: &str, part: &str) {
    assert!(text.ends_with(part), "`{part}` does not end `{text}`");
}

/// Axes with these values: `axes!(over, size = 64, wait = "spin")`.
macro_rules! axes {
    ($($name:ident $(= $value:expr)?),* $(,)?) => {
        costof_model::axis::Axes::default()
            $(.with(stringify!($name), axes!(@ $name $($value)?)))*
    };
    (@ $name:ident) => { $name };
    (@ $name:ident $value:expr) => { $value };
}
pub(crate) use axes;

/// A point whose cost has this relative uncertainty.
pub(crate) fn known_row(
    probe: &'static str,
    primary: &'static str,
    axes: Axes,
    median: f64,
    share: f64,
) -> PointRow {
    let ends = ((1.0 - share) * median, (1.0 + share) * median);
    point_row(probe, primary, axes, median, ends)
}

/// Adds a prediction to the last point.
pub(crate) fn expect(run: &mut Run, low: f64, high: f64) {
    let row = run.points.pop().unwrap();
    run.points.push(row.predicted(low, high));
}

/// The sizes of the points that a finding names.
pub(crate) fn sizes_kib(evidence: &[Point]) -> Vec<u64> {
    let sizes = evidence.iter().map(|point| point.axes.number("size") >> 10);
    sizes.collect()
}

#[test]
fn a_run_without_points_has_no_findings() {
    assert_eq!(findings(&run(&CLAIMED)), []);
    assert_eq!(findings(&run(&[])), []);
}

#[test]
fn every_finding_names_points_of_the_run() {
    let mut run = run(&CLAIMED);
    add(&mut run, "4KiB", &REAL_SMALL_PAGES, 0.02);
    add(&mut run, "2MiB", &REAL_HUGE_PAGES, 0.02);
    let findings = findings(&run);
    let kinds: Vec<&str> = findings.iter().map(|finding| finding.kind.name()).collect();
    assert_eq!(kinds, ["memory_levels", "memory_levels", "small_pages"]);
    for point in findings.iter().flat_map(|finding| &finding.evidence) {
        assert!(run.points.iter().any(|row| row.point == *point));
    }
}
