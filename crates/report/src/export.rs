//! Runs in the formats of other programs: one file a format. Each has the medians, and their 95 % intervals
//! where the format has a place for them.

mod bencher;
mod github;
mod otava;
mod prometheus;
mod reframe;
mod superbench;

use crate::rows::Rows;
use costof_model::metric::Estimate;
use costof_model::rows::PointRow;
use costof_model::run_file::Run;
use serde::Serialize;

/// A file: its name and its text.
pub type File = (String, String);

/// A format of another program.
#[derive(Debug)]
pub struct Format {
    /// Its name: that of the program.
    pub name: &'static str,
    /// What reads it, in one line.
    pub about: &'static str,
    /// Whether several runs can be one export.
    pub takes_many: bool,
    write: fn(&[Run], &[Vec<Value<'_>>]) -> Vec<File>,
}

/// The formats.
pub static FORMATS: [Format; 6] = [
    Format {
        name: "prometheus",
        about: "the text format of Prometheus, for node_exporter's textfile collector",
        takes_many: false,
        write: |runs, values| vec![prometheus::file(&runs[0], &values[0])],
    },
    Format {
        name: "bencher",
        about: "Bencher Metric Format (JSON)",
        takes_many: false,
        write: |_, values| vec![bencher::file(&values[0])],
    },
    Format {
        name: "github-action-benchmark",
        about: "two JSON files, for customSmallerIsBetter and customBiggerIsBetter",
        takes_many: false,
        write: |_, values| github::files(&values[0]),
    },
    Format {
        name: "otava",
        about: "a CSV file with a row for each run, and otava.yaml, for Apache Otava",
        takes_many: true,
        write: |runs, values| otava::files(runs, values),
    },
    Format {
        name: "superbench",
        about: "JSON lines for SuperBench's `sb result`: a line for each run",
        takes_many: true,
        write: |runs, values| vec![superbench::file(runs, values)],
    },
    Format {
        name: "reframe",
        about: "a ReFrame test that measures the same probes, with this run as the reference",
        takes_many: false,
        write: |runs, values| vec![reframe::file(&runs[0], &values[0])],
    },
];

impl Format {
    /// Writes these runs: of each point its primary metric, or all of its metrics. What has no number is left
    /// out.
    ///
    /// # Panics
    /// Without a run, or with several where the format takes one.
    pub fn files(&self, runs: &[Run], are_all: bool) -> Vec<File> {
        assert!(!runs.is_empty() && (self.takes_many || runs.len() == 1));
        let values: Vec<Vec<Value<'_>>> = runs.iter().map(|run| values(run, are_all)).collect();
        (self.write)(runs, &values)
    }
}

/// One metric of a point.
struct Value<'r> {
    row: &'r PointRow,
    estimate: &'r Estimate,
}

impl Value<'_> {
    /// The point's id; that of another metric than the primary one ends with its name.
    fn name(&self) -> String {
        let id = self.row.point.id();
        if self.is_primary() {
            return id;
        }
        format!("{id}/{}", self.estimate.name)
    }

    fn is_primary(&self) -> bool {
        self.estimate.name == self.row.primary
    }

    /// The unit as in run files; none for counts and ratios.
    fn unit(&self) -> &'static str {
        crate::csv::unit(self.estimate.unit)
    }
}

fn values(run: &Run, are_all: bool) -> Vec<Value<'_>> {
    let rows = Rows::new(run);
    let usable = rows.all().iter().filter(|row| row.is_usable());
    let values = usable.flat_map(|row| {
        let estimates = row.metrics.iter();
        estimates.map(|estimate| Value { row, estimate })
    });
    values
        .filter(|value| (are_all || value.is_primary()) && value.estimate.is_usable())
        .filter(|value| value.estimate.median.is_finite())
        .collect()
}

/// Indented JSON that ends with a line break.
fn json(value: &impl Serialize) -> String {
    let mut text = serde_json::to_string_pretty(value).unwrap_or_default();
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use costof_model::testing::{run_without_facts, sized_row};

    #[test]
    fn each_format_has_each_number() {
        let mut run = run_without_facts();
        run.points = vec![sized_row("a.x", 1, 5.0), sized_row("a.x", 2, 7e9)];
        run.points[1].point.link = "an \"odd\\\nlink".into();
        for format in &FORMATS {
            let files = format.files(std::slice::from_ref(&run), true);
            let text: String = files.into_iter().map(|(_, text)| text).collect();
            let is_in_seconds = format.name == "prometheus";
            let numbers = if is_in_seconds { ["5e-9", "7.0"] } else { ["5.0", "7000000000.0"] };
            for number in numbers {
                assert!(text.contains(number), "{}: {text}", format.name);
            }
        }
    }
}
