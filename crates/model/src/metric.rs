//! Metrics: what a launch measured, and what all launches together say.

use crate::Text;
use crate::unit::{Better, Unit};
use serde::{Deserialize, Serialize};

/// A metric that a probe gives.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MetricInfo {
    /// Its name, shared by all probes that measure the same thing.
    pub name: Text,
    /// Its unit.
    pub unit: Unit,
    /// Which way it improves.
    pub better: Better,
    /// What it says, in one sentence.
    pub about: Text,
}

/// One metric of one point, as one launch measured it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Unchecked")]
pub struct Measured {
    /// The metric's name.
    pub name: Text,
    /// What was measured.
    #[serde(flatten)]
    pub data: Data,
    /// Which of the samples had a recorded disturbance, by position.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub disturbed: Vec<u32>,
}

/// What was measured.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Data {
    /// Batches: operations, and the nanoseconds that they took together.
    Samples(Vec<(u64, f64)>),
    /// Single operations: the middle of a bucket in nanoseconds, and how many
    /// operations are in it. Buckets are a thousandth of their values wide, or
    /// less, of which seven digits are enough; most of a large run are these.
    Histogram(Vec<(f32, u32)>),
    /// One number in the metric's unit.
    Value(f64),
}

/// A measured metric as it is read: what a flattened enum reads goes through a tree of all its numbers
/// first, and most of a run file are these.
#[derive(Deserialize)]
struct Unchecked {
    name: Text,
    samples: Option<Vec<(u64, f64)>>,
    histogram: Option<Vec<(f32, u32)>>,
    value: Option<f64>,
    #[serde(default)]
    disturbed: Vec<u32>,
}

impl TryFrom<Unchecked> for Measured {
    type Error = &'static str;

    fn try_from(read: Unchecked) -> Result<Measured, &'static str> {
        let data = match (read.samples, read.histogram, read.value) {
            (Some(mut samples), None, None) => {
                samples.shrink_to_fit();
                Data::Samples(samples)
            }
            (None, Some(mut buckets), None) => {
                if !buckets.iter().all(|(ns, _)| ns.is_finite()) {
                    return Err("a bucket of a histogram lies beyond all times");
                }
                buckets.shrink_to_fit();
                Data::Histogram(buckets)
            }
            (None, None, Some(value)) => Data::Value(value),
            _ => return Err("a metric has one of `samples`, `histogram` and `value`"),
        };
        Ok(Measured {
            name: read.name,
            data,
            disturbed: read.disturbed,
        })
    }
}

/// How an interval was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IntervalKind {
    /// Order statistics of the launch medians; no assumption on their shape.
    Order,
    /// Student's t on the logarithms of the launch medians, which it takes for
    /// normal; on the medians themselves where one is not positive.
    T,
}

/// One metric of one point, as all launches together say it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// The metric's name.
    pub name: Text,
    /// Its unit.
    pub unit: Unit,
    /// Which way it improves.
    pub better: Better,
    /// The median over launches of each launch's median.
    pub median: f64,
    /// The 95 % interval of the median; absent below three launches.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ci95: Option<(f64, f64)>,
    /// How the interval was made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interval: Option<IntervalKind>,
    /// The mean of all samples.
    pub mean: f64,
    /// The standard deviation of all samples; absent where there is only one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sd: Option<f64>,
    /// The least sample.
    pub min: f64,
    /// Percentiles; of latencies only, and only where there are enough.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub percentiles: Vec<Percentile>,
    /// How many samples there are in all launches.
    pub n: u64,
    /// The median without the batches that had a recorded disturbance;
    /// absent where there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undisturbed: Option<f64>,
    /// The modes, where there is more than one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub modes: Vec<Mode>,
}

/// A percentile of a distribution of latencies.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Percentile {
    /// Which, from 0 to 100.
    pub percent: f64,
    /// Its value, in the metric's unit.
    pub value: f64,
}

/// One mode of a distribution that has several.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Mode {
    /// The median of the samples in this mode.
    pub median: f64,
    /// Its share of the samples, from 0 to 1.
    pub share: f64,
}

/// The number of seven digits that it stands for, and not those that it has between two of its own.
fn widened(ns: f32) -> f64 {
    let wide = f64::from(ns);
    if wide == 0.0 || wide.abs() >= 1e6 {
        return wide;
    }
    let scale = 10_f64.powi(6 - wide.abs().log10().floor() as i32);
    (wide * scale).round() / scale
}

impl Data {
    /// Each sample as a cost or a value, and how often it is there; of a histogram the middle of each
    /// bucket.
    pub fn counted(&self) -> Vec<(f64, u64)> {
        match self {
            Data::Histogram(buckets) => buckets
                .iter()
                .map(|(ns, count)| (widened(*ns), u64::from(*count)))
                .collect(),
            other => other.costs().into_iter().map(|cost| (cost, 1)).collect(),
        }
    }

    /// Each sample as a cost or a value; of a histogram nothing.
    pub fn costs(&self) -> Vec<f64> {
        match self {
            Data::Samples(samples) => samples.iter().map(|(n, ns)| ns / *n as f64).collect(),
            Data::Histogram(_) => Vec::new(),
            Data::Value(value) => vec![*value],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_is_shown_by_the_digits_that_it_has() {
        for ns in [
            0.0,
            0.125,
            1.003,
            16.383,
            512.3,
            99_999.95,
            999_999.9,
            4_194_303.5,
            3e20,
        ] {
            let data = Data::Histogram(vec![(ns as f32, 2)]);
            let [(shown, 2)] = data.counted()[..] else {
                panic!("it is one bucket");
            };
            assert_eq!(shown as f32, ns as f32);
            assert!(
                shown.to_string().len() <= ns.to_string().len(),
                "{shown} of {ns}"
            );
        }
    }
}
