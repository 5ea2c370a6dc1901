//! A run as comma-separated values (RFC 4180): one row a point and metric, or a file a point.

use crate::rows::Rows;
use crate::text::file_name;
use costof_model::metric::{Data, Estimate};
use costof_model::point::Point;
use costof_model::rows::PointRow;
use costof_model::run_file::Run;
use costof_model::unit::Unit;
use std::collections::{BTreeSet, HashMap};
use std::fmt::Write;

/// The percentiles that have a column.
const PERCENTILES: [f64; 4] = [50.0, 90.0, 99.0, 99.9];

/// So many axes have a column; a hostile file may give every point its own.
const AXES: usize = 256;

/// One row a point and metric, with a column for each axis of the run. Where they are more than have
/// room, a last column says how many the row has besides.
pub fn summary(run: &Run) -> String {
    let rows = Rows::of(run);
    let mut axes: BTreeSet<&str> = rows
        .all()
        .iter()
        .flat_map(|row| row.point.axes.0.keys().map(|name| &**name))
        .collect();
    let left_out = axes.iter().nth(AXES).copied();
    let left_out = left_out.map_or_else(BTreeSet::new, |first| axes.split_off(first));
    let mut text = String::new();
    let head = ["probe", "method", "label", "link"];
    let numbers = [
        "metric",
        "unit",
        "primary",
        "median",
        "low95",
        "high95",
        "mean",
        "sd",
        "min",
        "n",
        "launches",
        "grade",
        "predicted_low",
        "predicted_high",
        "core",
        "alone_share",
        "median_shared",
    ];
    let percentiles = PERCENTILES.map(|percent| format!("p{percent}"));
    let head = head.iter().copied().chain(axes.iter().copied());
    let head = head
        .chain(numbers)
        .chain(percentiles.iter().map(String::as_str))
        .chain((!left_out.is_empty()).then_some("axes_left_out"));
    line(&mut text, head.map(str::to_owned));
    for row in rows.all() {
        let names = row.point.axes.0.keys();
        let besides = names.filter(|name| left_out.contains(&***name)).count();
        let besides = (!left_out.is_empty()).then(|| besides.to_string());
        for estimate in &row.metrics {
            let cells = cells(row, estimate, &axes).into_iter();
            line(&mut text, cells.chain(besides.clone()));
        }
    }
    text
}

fn cells(row: &PointRow, estimate: &Estimate, axes: &BTreeSet<&str>) -> Vec<String> {
    let mut cells = vec![
        row.point.probe.to_string(),
        row.method.to_string(),
        row.label.clone().unwrap_or_default(),
        row.point.link.to_string(),
    ];
    cells.extend(axes.iter().map(|axis| {
        let value = row.point.axes.0.get(*axis);
        value.map_or_else(String::new, ToString::to_string)
    }));
    let expected = row
        .prediction
        .as_ref()
        .filter(|expected| expected.metric == estimate.name);
    let maybe = |value: Option<f64>| value.map_or_else(String::new, |value| value.to_string());
    cells.extend([
        estimate.name.to_string(),
        unit(estimate.unit).to_owned(),
        (estimate.name == row.primary).to_string(),
        estimate.median.to_string(),
        maybe(estimate.ci95.map(|(low, _)| low)),
        maybe(estimate.ci95.map(|(_, high)| high)),
        estimate.mean.to_string(),
        maybe(estimate.sd),
        estimate.min.to_string(),
        estimate.n.to_string(),
        row.launches.to_string(),
        row.grade.to_string(),
        maybe(expected.map(|expected| expected.low)),
        maybe(expected.map(|expected| expected.high)),
        estimate
            .core
            .map_or("", |core| core.selection.word())
            .to_owned(),
        maybe(estimate.core.map(|core| core.alone)),
        maybe(estimate.core.and_then(|core| core.shared_median)),
    ]);
    cells.extend(PERCENTILES.map(|percent| {
        let found = estimate.percentiles.iter().find(|at| at.percent == percent);
        maybe(found.map(|at| at.value))
    }));
    cells
}

/// A file for each point, with what each launch measured of each metric, and the summary.
pub fn files(run: &Run) -> Vec<(String, String)> {
    let rows = Rows::of(run);
    let mut of_points: HashMap<&Point, String> = HashMap::new();
    for launch in &run.launches {
        for point in &launch.points {
            let text = of_points.entry(&point.point).or_default();
            for metric in &point.metrics {
                let mut add = |count: u64, value: f64| {
                    let cells = [
                        launch.launch.to_string(),
                        metric.name.to_string(),
                        count.to_string(),
                        value.to_string(),
                    ];
                    line(text, cells);
                };
                match &metric.data {
                    Data::Samples(samples) => {
                        for (count, ns) in samples.iter().filter(|(count, _)| *count > 0) {
                            add(*count, ns / *count as f64);
                        }
                    }
                    data @ Data::Histogram(_) => {
                        for (value, count) in data.counted() {
                            add(count, value);
                        }
                    }
                    Data::Value(value) => add(1, *value),
                }
            }
        }
    }
    let mut files = vec![("summary.csv".to_owned(), summary(run))];
    for (position, row) in rows.all().iter().enumerate() {
        let of_point = of_points.get(&row.point).map_or("", String::as_str);
        let text = format!("launch,metric,operations,value\r\n{of_point}");
        files.push((named(position, &row.point), text));
    }
    files
}

/// `0007-copy.send-size-64-threads-1.csv`: the number makes it the only one.
fn named(position: usize, point: &Point) -> String {
    let axes = point.axes.0.iter();
    let axes: String = axes
        .map(|(name, value)| format!("-{name}-{value}"))
        .collect();
    let name = file_name(&format!("{}{axes}", point.probe), 100);
    format!("{:04}-{name}.csv", position + 1)
}

/// The symbol as the run file has it.
fn unit(unit: Unit) -> &'static str {
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

fn line(text: &mut String, cells: impl IntoIterator<Item = String>) {
    for (position, cell) in cells.into_iter().enumerate() {
        if position > 0 {
            text.push(',');
        }
        let _ = write!(text, "{}", quoted(&cell));
    }
    text.push_str("\r\n");
}

/// A cell that is read as it is. A text that a spreadsheet would take for a formula stays a text.
fn quoted(cell: &str) -> String {
    let formula = cell.starts_with(['=', '+', '@', '\t', '\r'])
        || (cell.starts_with('-') && cell.parse::<f64>().is_err());
    let cell = if formula {
        format!("'{cell}")
    } else {
        cell.to_owned()
    };
    match cell.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", cell.replace('"', "\"\"")),
        false => cell,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use costof_model::testing::{run_without_facts as run, sized_row as row};

    #[test]
    fn each_point_and_metric_has_a_row() {
        let mut run = run();
        run.points = vec![row("a.x", 64, 5.0), row("b.y", 128, 7.5)];
        run.points[0].label = Some("one, \"two\"".to_owned());
        let text = summary(&run);
        let lines: Vec<&str> = text.split_terminator("\r\n").collect();
        assert_eq!(lines.len(), 3);
        assert!(lines[0].starts_with("probe,method,label,link,size,metric,unit,primary,median,"));
        assert!(lines[1].starts_with("a.x,1,\"one, \"\"two\"\"\",none,64,cost,ns,true,5,4.5,5.5,"));
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
        let files = files(&run);
        let names: Vec<&str> = files.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(
            names,
            [
                "summary.csv",
                "0001-a.x-..-..-size-64.csv",
                "0002-a.x-..-..-size-65.csv"
            ]
        );
    }
}
