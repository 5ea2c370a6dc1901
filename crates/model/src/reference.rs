//! What the hosts of a fleet cost, as a file that another host is held against. A corpus has files of one host each, its
//! entries.

use crate::{Better, MetricOfPoint, harmless};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The version of the file. Readers ignore unknown fields, and reject another version.
pub const SCHEMA: u32 = 1;
/// The longest file that is read, in bytes: a hundred cohorts of all rows.
pub const MAX_BYTES: u64 = 64 << 20;

/// A learnt reference.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reference {
    /// The version of the file.
    pub reference_schema: u32,
    /// The costof that wrote it.
    pub costof: String,
    /// How precisely most of the runs were measured.
    pub precision: String,
    /// The facts that sort hosts into cohorts.
    pub by: Vec<String>,
    /// The cohorts, the largest first.
    pub cohorts: Vec<Cohort>,
}

/// Hosts that are alike by their facts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cohort {
    /// The facts that define it, with their values; last, if there is one, a row that parts two populations.
    pub facts: Vec<(String, String)>,
    /// How many hosts it has.
    pub hosts: usize,
    /// How many runs they have.
    pub runs: usize,
    /// Its rows.
    pub rows: Vec<Row>,
}

/// What a single run of a host costs in one row. All but `usual` are in logarithms: 0.01 is one percent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Which row.
    #[serde(flatten)]
    pub of: MetricOfPoint,
    /// The version of the probe's method.
    pub method: u32,
    /// Which way it improves.
    pub better: Better,
    /// The median of the runs.
    pub usual: f64,
    /// How far runs of hosts that belong scatter beyond their errors, from host to host and from run to run: a
    /// standard deviation, if Student's t were normal. Zero if there is one host.
    pub spread: f64,
    /// The degrees of freedom of that scatter, as Student's t.
    pub degrees: f64,
    /// The usual error of a run.
    pub error: f64,
    /// How far the launches of a run scatter: a standard deviation.
    pub launch: f64,
    /// How many hosts have it.
    pub hosts: usize,
    /// How many runs have it.
    pub runs: usize,
}

impl Reference {
    /// Reads a reference of at least two hosts. It may come from anybody, so its texts are made harmless.
    ///
    /// # Errors
    /// Why it is none, or none that this costof can use.
    pub fn read(bytes: &[u8]) -> Result<Reference, String> {
        let reference = Reference::read_or_entry(bytes)?;
        if let Some(row) = reference.rows().find(|row| row.hosts < 2) {
            return Err(format!("{}: one host is no reference", row.short_name()));
        }
        Ok(reference)
    }

    /// Reads a reference of any number of hosts: an entry of a corpus has one.
    ///
    /// # Errors
    /// As of [`Reference::read`].
    pub fn read_or_entry(bytes: &[u8]) -> Result<Reference, String> {
        let value: Value = serde_json::from_slice(&harmless::json(bytes))
            .map_err(|error| format!("it is not a costof reference: {error}"))?;
        match value.get("reference_schema").and_then(Value::as_u64) {
            Some(schema) if schema == u64::from(SCHEMA) => {}
            Some(other) => {
                return Err(format!(
                    "it has schema {other}, and this costof reads {SCHEMA}: save it anew with `costof fleet RUN… --save`"
                ));
            }
            None => {
                return Err(
                    "it is not a costof reference: `costof fleet RUN… --save` writes one, and \
                     `costof export RUN --format reference` one of a single host"
                        .to_owned(),
                );
            }
        }
        let reference: Reference = serde_json::from_value(value)
            .map_err(|error| format!("it is not a costof reference: {error}"))?;
        reference.rows().try_for_each(Row::check)?;
        Ok(reference)
    }

    fn rows(&self) -> impl Iterator<Item = &Row> {
        self.cohorts.iter().flat_map(|cohort| &cohort.rows)
    }
}

/// No spread of costs is as large: a factor of e^20.
const BEYOND: f64 = 20.0;

impl Row {
    /// Checks that its numbers can be those of hosts.
    fn check(&self) -> Result<(), String> {
        let numbers = [
            ("usual", self.usual, 1e-9..1e21),
            ("spread", self.spread, 0.0..BEYOND),
            ("degrees", self.degrees, 1.0..1e3),
            ("error", self.error, 0.0..BEYOND),
            ("launch", self.launch, 0.0..BEYOND),
        ];
        let wrong = numbers.iter().find(|(_, value, range)| !range.contains(value));
        let name = self.short_name();
        match wrong {
            Some((field, value, range)) => Err(format!(
                "{name}: {field} is {value}, and must be from {} to below {}",
                range.start, range.end
            )),
            None if self.hosts == 0 => Err(format!("{name}: it has no host")),
            None => Ok(()),
        }
    }

    fn short_name(&self) -> String {
        harmless::beginning(&self.of.name(), 100)
    }
}
