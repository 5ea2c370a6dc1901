//! Runs in every format but pages. Those of other programs have a file here each, with the medians, and their 95 %
//! intervals where the format has a place for them.

mod bencher;
mod github;
mod otava;
pub(crate) mod prometheus;
mod reframe;
mod superbench;

use crate::rows::Rows;
use crate::{csv, markdown, plots};
use costof_model::{Estimate, PointRow, Run};
use serde::Serialize;

/// A file: its name and its text.
pub type File = (String, String);

/// A format.
#[derive(Debug)]
pub struct Format {
    /// Its name; of another program's format, that of the program.
    pub name: &'static str,
    /// What it is, or what reads it, in one line.
    pub about: &'static str,
    /// Whether several runs can be one export.
    pub takes_many: bool,
    /// Whether it is a folder, however many files it has.
    pub is_folder: bool,
    /// Whether it has one metric of each point, or all of them if asked.
    pub chooses_metrics: bool,
    write: fn(&[Run], &[Vec<Value<'_>>]) -> Vec<File>,
}

/// The name of the format of plots. The plots of a study come from the study.
pub const SVG: &str = "svg";

/// The name of the format of references. An entry knows costof's own probes, so it comes from the command.
pub const REFERENCE: &str = "reference";

/// The format of this name.
pub fn format(name: &str) -> Option<&'static Format> {
    FORMATS.iter().find(|format| format.name == name)
}

/// A format of costof's own.
const OWN: Format = Format {
    name: "",
    about: "",
    takes_many: false,
    is_folder: false,
    chooses_metrics: false,
    write: |_, _| Vec::new(),
};

/// A format of another program.
const OTHERS: Format = Format { chooses_metrics: true, ..OWN };

/// The formats.
pub static FORMATS: [Format; 11] = [
    Format {
        name: "csv",
        about: "CSV: a row for each point and metric",
        write: |runs, _| vec![("values.csv".to_owned(), csv::summary(&runs[0]))],
        ..OWN
    },
    Format {
        name: "csv-launches",
        about: "CSV in a folder: for each point a file with all that its launches measured, and a summary",
        is_folder: true,
        write: |runs, _| csv::files(&runs[0]),
        ..OWN
    },
    Format {
        name: "markdown",
        about: "the latency table as Markdown, for a README or an issue",
        write: |runs, _| vec![("table.md".to_owned(), markdown::table(&runs[0]))],
        ..OWN
    },
    Format {
        name: SVG,
        about: "every plot as SVG in a folder, for a paper; of a study's run, the study's plots too",
        is_folder: true,
        write: |runs, _| plots::svg(&runs[0]),
        ..OWN
    },
    Format {
        name: REFERENCE,
        about: "this host for `costof place`: numbers and its class, nothing that names it",
        ..OWN
    },
    Format {
        name: "prometheus",
        about: "the text format of Prometheus, for node_exporter's textfile collector",
        write: |runs, values| vec![prometheus::file(&runs[0], &values[0])],
        ..OTHERS
    },
    Format {
        name: "bencher",
        about: "Bencher Metric Format (JSON)",
        write: |_, values| vec![bencher::file(&values[0])],
        ..OTHERS
    },
    Format {
        name: "github-action-benchmark",
        about: "two JSON files, for customSmallerIsBetter and customBiggerIsBetter",
        write: |_, values| github::files(&values[0]),
        ..OTHERS
    },
    Format {
        name: "otava",
        about: "a CSV file with a row for each run, and otava.yaml, for Apache Otava",
        takes_many: true,
        write: |runs, values| otava::files(runs, values),
        ..OTHERS
    },
    Format {
        name: "superbench",
        about: "JSON lines for SuperBench's `sb result`: a line for each run",
        takes_many: true,
        write: |runs, values| vec![superbench::file(runs, values)],
        ..OTHERS
    },
    Format {
        name: "reframe",
        about: "a ReFrame test that measures the same probes, with this run as the reference",
        write: |runs, values| vec![reframe::file(&runs[0], &values[0])],
        ..OTHERS
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
        // Plots have no numbers to find, and these rows no launches.
        let with_numbers =
            FORMATS.iter().filter(|format| format.chooses_metrics || format.name == "csv");
        for format in with_numbers {
            let files = format.files(std::slice::from_ref(&run), true);
            let text: String = files.into_iter().map(|(_, text)| text).collect();
            let numbers = match format.name {
                "prometheus" => ["5e-9", "7.0"],
                "csv" => ["5,", "7000000000,"],
                _ => ["5.0", "7000000000.0"],
            };
            for number in numbers {
                assert!(text.contains(number), "{}: {text}", format.name);
            }
        }
    }
}
