//! A run as comma-separated values (RFC 4180): one row for each point and metric, or one file for each point.
//! No column has a name that SQL reserves, whatever the axes are called.

use crate::rows::Rows;
use crate::text::{SENTENCES, file_name, shortened};
use costof_model::metric::AloneByRatio;
use costof_model::{Data, Estimate, Measured, Point, PointRow, Run, Unit, word};
use std::collections::{BTreeSet, HashMap};
use std::fmt::Write;

/// At most this many axes have a column; a hostile file may give every point its own axis.
const AXES: usize = 256;

/// The name of a column, and its text for a metric of a row.
type Column = (&'static str, fn(&PointRow, &Estimate) -> String);

/// The columns before those of the axes.
const POINT: [Column; 6] = [
    ("point", |row, _| id(&row.point)),
    ("probe", |row, _| row.point.probe.to_string()),
    ("method", |row, _| row.method.to_string()),
    ("label", |row, _| row.label.clone().unwrap_or_default()),
    ("link", |row, _| row.point.link.to_string()),
    ("emulated", |row, _| row.point.is_emulated().to_string()),
];

/// The columns after those of the axes.
const NUMBERS: [Column; 24] = [
    ("metric", |_, estimate| estimate.name.to_string()),
    ("unit", |_, estimate| unit(estimate.unit).to_owned()),
    ("is_primary", |row, estimate| (estimate.name == row.primary).to_string()),
    ("median", |_, estimate| usable(estimate, |it| Some(it.median))),
    ("low95", |_, estimate| maybe(estimate.ci95.map(|(low, _)| low))),
    ("high95", |_, estimate| maybe(estimate.ci95.map(|(_, high)| high))),
    ("mean", |_, estimate| usable(estimate, |it| Some(it.mean))),
    ("sd", |_, estimate| usable(estimate, |it| it.sd)),
    ("min", |_, estimate| usable(estimate, |it| Some(it.min))),
    ("n", |_, estimate| estimate.n.to_string()),
    ("launches", |row, _| row.launches.to_string()),
    ("grade", |row, _| row.grade.to_string()),
    ("predicted_low", |row, estimate| maybe(predicted(row, estimate).map(|(low, _)| low))),
    ("predicted_high", |row, estimate| maybe(predicted(row, estimate).map(|(_, high)| high))),
    ("core", |_, estimate| maybe(estimate.core.map(|core| word(core.selection)))),
    ("alone_share", |_, estimate| maybe(estimate.core.map(|core| core.alone))),
    ("median_shared", |_, estimate| maybe(estimate.core.and_then(|core| core.shared_median))),
    ("alone_by_ratio", |_, estimate| maybe(alone_by_ratio(estimate).map(|alone| alone.median))),
    ("alone_by_ratio_low95", |_, estimate| {
        maybe(alone_by_ratio(estimate).map(|alone| alone.ci95.0))
    }),
    ("alone_by_ratio_high95", |_, estimate| {
        maybe(alone_by_ratio(estimate).map(|alone| alone.ci95.1))
    }),
    ("p50", |_, estimate| usable(estimate, |it| it.percentile(50.0))),
    ("p90", |_, estimate| usable(estimate, |it| it.percentile(90.0))),
    ("p99", |_, estimate| usable(estimate, |it| it.percentile(99.0))),
    ("p99_9", |_, estimate| usable(estimate, |it| it.percentile(99.9))),
];

fn alone_by_ratio(estimate: &Estimate) -> Option<AloneByRatio> {
    estimate.core?.alone_by_ratio
}

fn maybe(value: Option<impl ToString>) -> String {
    value.map_or_else(String::new, |value| value.to_string())
}

/// A statistic of an estimate; empty without a usable interval, as it is no number then.
fn usable(estimate: &Estimate, of: fn(&Estimate) -> Option<f64>) -> String {
    maybe(of(estimate).filter(|_| estimate.is_usable()))
}

/// The predicted range of a metric.
fn predicted(row: &PointRow, estimate: &Estimate) -> Option<(f64, f64)> {
    let expected = row.prediction.as_ref()?;
    (expected.metric == estimate.name).then_some((expected.low, expected.high))
}

/// One row for each point and metric, with a column for each axis of the run. If there are too many axes, a
/// last column says how many more the row has.
pub fn summary(run: &Run) -> String {
    table(&Rows::new(run), None)
}

/// The same, where each row begins with the name of its point's file if there are files.
fn table(rows: &Rows<'_>, files: Option<&[String]>) -> String {
    let mut axes: BTreeSet<&str> =
        rows.all().iter().flat_map(|row| row.point.axes.0.keys()).map(|name| &**name).collect();
    let left_out =
        axes.iter().nth(AXES).copied().map_or_else(BTreeSet::new, |first| axes.split_off(first));
    let has_left_out = !left_out.is_empty();
    let mut text = String::new();
    let names = files.map(|_| "file").into_iter().chain(POINT.iter().map(|(name, _)| *name));
    let names = names.map(str::to_owned).chain(axes.iter().map(|axis| format!("axis_{axis}")));
    let numbers =
        NUMBERS.iter().map(|(name, _)| *name).chain(has_left_out.then_some("axes_left_out"));
    line(&mut text, names.chain(numbers.map(str::to_owned)));
    for (position, row) in rows.all().iter().enumerate() {
        let own = &row.point.axes.0;
        let besides = own.keys().filter(|name| left_out.contains(&***name)).count();
        for estimate in &row.metrics {
            let cell = |(_, of): &Column| of(row, estimate);
            let cells = files
                .map(|files| files[position].clone())
                .into_iter()
                .chain(POINT.iter().map(cell))
                .chain(axes.iter().map(|axis| maybe(own.get(*axis))))
                .chain(NUMBERS.iter().map(cell));
            line(&mut text, cells.chain(has_left_out.then(|| besides.to_string())));
        }
    }
    text
}

/// A file for each point with the measurements of each launch, and the summary. Each row names its point and
/// its unit, so that a program can read the files together.
pub fn files(run: &Run) -> Vec<(String, String)> {
    let rows = Rows::new(run);
    let mut of_points: HashMap<&Point, Vec<(u32, &Measured)>> = HashMap::new();
    for launch in &run.launches {
        for point in &launch.points {
            let measured = of_points.entry(&point.point).or_default();
            measured.extend(point.metrics.iter().map(|metric| (launch.launch, metric)));
        }
    }
    let names = names(&rows);
    let mut files = vec![("summary.csv".to_owned(), table(&rows, Some(&names)))];
    for (name, row) in names.into_iter().zip(rows.all()) {
        let measured = of_points.get(&row.point).map_or(&[][..], Vec::as_slice);
        files.push((name, file(&rows, row, measured)));
    }
    files
}

/// The measurements of a point by launch.
fn file(rows: &Rows<'_>, row: &PointRow, measured: &[(u32, &Measured)]) -> String {
    let id = id(&row.point);
    let mut text = "point,metric,unit,launch,operations,value\r\n".to_owned();
    for (launch, metric) in measured {
        let estimated = row.estimate(&metric.name).map(|estimate| estimate.unit);
        let declared = || Some(rows.metric(&row.point.probe, &metric.name)?.unit);
        let unit = estimated.or_else(declared).map_or("", unit);
        for (value, operations) in values(&metric.data) {
            let names = [&id, &*metric.name, unit].map(str::to_owned);
            let numbers = [u64::from(*launch), operations].map(|number| number.to_string());
            line(&mut text, names.into_iter().chain(numbers).chain([value.to_string()]));
        }
    }
    text
}

/// Each value, and how many operations it stands for.
fn values(data: &Data) -> Vec<(f64, u64)> {
    match data {
        Data::Samples(batches) => {
            let batches = batches.iter().filter(|(operations, _)| *operations > 0);
            let each = batches.map(|(operations, ns)| (ns / *operations as f64, *operations));
            each.collect()
        }
        data => data.counted(),
    }
}

/// The name of a point in its rows, shortened: a hostile file may give it an endless one.
fn id(point: &Point) -> String {
    shortened(&point.id(), SENTENCES)
}

/// The names of the points' files, such as `0007-copy.send-primitive-msg_zerocopy-size-64KiB-over-veth.csv`. The number makes a
/// name unique.
fn names(rows: &Rows<'_>) -> Vec<String> {
    let positions = 0..rows.all().len();
    positions.map(|at| format!("{:04}-{}.csv", at + 1, file_name(&rows.name(at), 100))).collect()
}

/// The unit's symbol as in the run file.
pub(crate) fn unit(unit: Unit) -> &'static str {
    match unit {
        Unit::Nanoseconds => "ns",
        Unit::Cycles => "cycles",
        Unit::Hertz => "Hz",
        Unit::Bytes => "B",
        Unit::BytesPerSecond => "B/s",
        Unit::Processor => "processor",
        Unit::One => "1",
    }
}

/// Writes a line of these cells.
pub(crate) fn line(text: &mut String, cells: impl IntoIterator<Item = String>) {
    for (position, cell) in cells.into_iter().enumerate() {
        if position > 0 {
            text.push(',');
        }
        let _ = write!(text, "{}", quoted(&cell));
    }
    text.push_str("\r\n");
}

/// A cell that a program reads back unchanged. A text that a spreadsheet would take for a formula stays a
/// text.
fn quoted(cell: &str) -> String {
    let formula = cell.starts_with(['=', '+', '@', '\t', '\r'])
        || (cell.starts_with('-') && cell.parse::<f64>().is_err());
    let mark = if formula { "'" } else { "" };
    if cell.contains([',', '"', '\n', '\r']) {
        return format!("\"{mark}{}\"", cell.replace('"', "\"\""));
    }
    format!("{mark}{cell}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use costof_model::testing::{launch, run_without_facts as run, sized_row as row};

    #[test]
    fn each_point_and_metric_has_a_row() {
        let mut run = run();
        run.points = vec![row("a.x", 64, 5.0), row("b.y", 128, 7.5)];
        run.points[0].label = Some("one, \"two\"".to_owned());
        let text = summary(&run);
        let lines: Vec<&str> = text.split_terminator("\r\n").collect();
        assert_eq!(lines.len(), 3);
        let columns =
            "point,probe,method,label,link,emulated,axis_size,metric,unit,is_primary,median,";
        assert!(lines[0].starts_with(columns), "{text}");
        let cells = "a.x(size=64),a.x,1,\"one, \"\"two\"\"\",none,false,64,cost,ns,true,5,4.5,5.5,";
        assert!(lines[1].starts_with(cells), "{text}");
        let columns = lines[0].split(',').count();
        assert_eq!(lines[2].split(',').count(), columns);
    }

    #[test]
    fn no_cell_is_a_formula() {
        assert_eq!(quoted("=1+1"), "'=1+1");
        assert_eq!(quoted("-5.5"), "-5.5");
        assert_eq!(quoted("-cmd"), "'-cmd");
        assert_eq!(quoted("a\nb"), "\"a\nb\"");
    }

    #[test]
    fn each_point_has_a_file_of_its_own() {
        let mut run = run();
        run.points = vec![row("a.x/../..", 64, 5.0), row("a.x/../..", 65, 5.0)];
        launch(&mut run, &[(&row("a.x/../..", 64, 5.0), &[("cost", 4.5)])]);
        let files = files(&run);
        let names: Vec<&str> = files.iter().map(|(name, _)| name.as_str()).collect();
        let [one, other] = ["0001-a.x-..-..-size-64.csv", "0002-a.x-..-..-size-65.csv"];
        assert_eq!(names, ["summary.csv", one, other]);
        let head = "point,metric,unit,launch,operations,value\r\n";
        let first = format!("{head}a.x/../..(size=64),cost,ns,0,1,4.5\r\n");
        assert_eq!([&files[1].1, &files[2].1], [&first, head]);
        let summary: Vec<&str> = files[0].1.lines().collect();
        let begins = ["file,point,".to_owned(), format!("{one},a.x"), format!("{other},a.x")];
        for (line, begin) in summary.iter().zip(begins) {
            assert!(line.starts_with(&begin), "{line}");
        }
    }
}
