//! Where the rows of a host lie among those of other machines.

use crate::MetricOfPoint;
use serde::Serialize;

/// A host among the machines of its class.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Placed {
    /// The facts that the machines of the class have in common with this host, and their values.
    pub class: Vec<(String, String)>,
    /// How many machines the class has.
    pub machines: usize,
    /// The rows: those that lie outside, then the others; of each, the largest deviation first.
    pub rows: Vec<PlacedRow>,
    /// How many rows of the run are not placed: they have no sound number, or no machine of the class has them.
    pub not_placed: usize,
}

/// A row of a host among those of other machines.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PlacedRow {
    /// Which row.
    #[serde(flatten)]
    pub of: MetricOfPoint,
    /// The median here, in the row's unit.
    pub here: f64,
    /// Its 95 % interval, with what its grade leaves.
    pub here_ci95: (f64, f64),
    /// The median of the machines.
    pub usual: f64,
    /// How much worse it is here, as a share of the usual; negative where better.
    pub worse: f64,
    /// How many machines have the row.
    pub machines: usize,
    /// The share of them that are better than this host.
    pub position: f64,
    /// The same at both ends of the interval, the smaller share first.
    pub position_ci95: (f64, f64),
    /// The probability that one of the machines deviates as much; absent where they are too few to say.
    pub p: Option<f64>,
    /// Whether it lies outside: at most one in twenty of the rows called so is not, in the long run.
    pub outside: bool,
}
