//! A study's points as one CSV file in its own layout: a row for each point, a column for each metric.

use super::file::{Layout, LayoutColumn, Study};
use super::unit::Published;
use crate::csv;
use costof_model::{PointRow, ProbeInfo, Run};

/// A column with the link of a point.
const LINK: &str = "link";

impl Study {
    /// Checks that all that the file's columns refer to exists.
    pub(super) fn check_layout(&self, infos: &[&ProbeInfo]) -> Result<(), String> {
        let Some(layout) = &self.csv else {
            return Ok(());
        };
        let wrong = |key: &str, what: String| self.wrong(&layout.name, key, &what);
        let name = layout.name.get_ref();
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
        if name.is_empty() || name == "summary" || !name.chars().all(is_plain) {
            let what = "a file name of letters, digits, - and _, other than summary";
            return Err(wrong("name", format!("it is not {what}")));
        }
        let info = infos.iter().find(|info| info.id == layout.probe);
        let info = info.ok_or_else(|| wrong("probe", format!("no probe `{}`", layout.probe)))?;
        for axis in layout.axes.iter().filter(|axis| *axis != LINK) {
            info.axis(axis).map_err(|what| wrong("axes", what))?;
        }
        for LayoutColumn { metric, unit, .. } in &layout.columns {
            let known = info.metrics.iter().find(|known| known.name == *metric);
            let known = known.ok_or_else(|| wrong("columns", format!("no metric `{metric}`")))?;
            let unit = Published::parse(unit).map_err(|what| wrong("columns", what))?;
            let fits = unit.from(known.unit, None, None);
            fits.map_err(|what| wrong("columns", what))?;
        }
        Ok(())
    }

    /// The file's name and text, if the study has one.
    pub fn csv(&self, run: &Run) -> Option<(String, String)> {
        let layout = self.csv.as_ref()?;
        let mut rows: Vec<&PointRow> =
            (run.points.iter()).filter(|row| row.point.probe == layout.probe).collect();
        rows.sort_by_key(|row| {
            let axes = layout.axes.iter().filter(|axis| *axis != LINK);
            let values = axes.map(|axis| row.point.axes.0.get(&**axis));
            (&row.point.link, values.collect::<Vec<_>>())
        });
        let columns = layout.columns.iter().map(|column| &column.name);
        let mut text = String::new();
        csv::line(&mut text, layout.axes.iter().chain(columns).cloned());
        for row in rows {
            csv::line(&mut text, layout.cells(row));
        }
        Some((format!("{}.csv", layout.name.get_ref()), text))
    }
}

impl Layout {
    fn cells(&self, row: &PointRow) -> Vec<String> {
        let axes = self.axes.iter().map(|axis| match &**axis {
            LINK => row.point.link.to_string(),
            axis => row.point.axes.0.get(axis).map_or_else(String::new, ToString::to_string),
        });
        let metrics = self.columns.iter().map(|column| column.cell(row).unwrap_or_default());
        axes.chain(metrics).collect()
    }
}

impl LayoutColumn {
    /// The median in the column's unit; the mean of what happened in so many seconds.
    fn cell(&self, row: &PointRow) -> Option<String> {
        let estimate = row.estimate(&self.metric)?;
        estimate.usable_interval()?;
        let unit = Published::parse(&self.unit).ok()?;
        let conversion = unit.from(estimate.unit, None, None).ok()?;
        let value = match self.seconds {
            None => estimate.median,
            Some(seconds) => estimate.mean * seconds * row.median(self.rate())?,
        };
        Some(conversion.apply(value).to_string())
    }

    /// The metric that says how many operations, or bytes, a second has.
    fn rate(&self) -> &'static str {
        match self.metric.ends_with("_per_byte") {
            true => "throughput",
            false => "rate",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use costof_model::testing::{run_without_facts, sized_row};

    #[test]
    fn each_point_is_a_row_in_the_units_of_the_study() {
        let text = "title = 't'\nsource = 's'\nmachine = 'm'\n[csv]\nname = 'all'\nprobe = 'a.x'\n\
                    axes = ['link', 'size']\ncolumns = [{ name = 'cost_us', metric = 'cost', unit = 'µs' }, \
                    { name = 'misses', metric = 'l1d_load_misses', unit = '' }, \
                    { name = 'in_3_s', metric = 'cost', unit = 'µs', seconds = 3 }]";
        let study = Study::read("x", "x.toml", text).unwrap();
        let mut run = run_without_facts();
        run.points = vec![
            sized_row("a.x", 128, 2000.0),
            sized_row("a.x", 64, 1000.0),
            sized_row("b.y", 1, 1.0),
        ];
        let mut rate = run.points[0].metrics[0].clone();
        (rate.name, rate.median) = ("rate".into(), 10.0);
        run.points[0].metrics.push(rate);
        run.points[0].metrics[0].mean = 2500.0;
        let expected = "link,size,cost_us,misses,in_3_s\r\nnone,64,1,,\r\nnone,128,2,,75\r\n";
        assert_eq!(study.csv(&run), Some(("all.csv".to_owned(), expected.to_owned())));
    }
}
