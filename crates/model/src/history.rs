//! Runs over time: which rows changed, when, and what else changed then.

use crate::MetricOfPoint;
use serde::Serialize;

/// The changes in a series of runs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct History {
    /// When each run began, in order.
    pub runs: Vec<String>,
    /// The classes of the machines that they measured, in the order of their first runs.
    pub machines: Vec<Machines>,
    /// How many rows were followed.
    pub rows: usize,
    /// One false alarm, in any row, is raised in about this many runs.
    pub false_alarm_runs: u32,
    /// The change that a typical row shows, as a share, and after how many runs.
    pub detectable: Option<(f64, u32)>,
    /// The changes, the latest first.
    pub changes: Vec<Change>,
    /// The values of each row.
    #[serde(skip)]
    pub series: Vec<Series>,
}

impl History {
    /// The changes that the latest run showed.
    pub fn latest(&self) -> impl Iterator<Item = &Change> {
        let changes = self.changes.iter();
        changes.filter(|change| Some(&change.found) == self.runs.last())
    }

    /// The class that the latest run measured, if it is new: beside others, with too few runs to show a change.
    pub fn new_machines(&self) -> Option<&Machines> {
        let latest =
            self.machines.iter().find(|machines| Some(&machines.latest) == self.runs.last())?;
        (self.machines.len() > 1 && !latest.is_followed).then_some(latest)
    }
}

/// Machines of one class. The rows of each class are followed by themselves.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Machines {
    /// The class: [`machine_class`](crate::facts::Facts::machine_class).
    pub class: String,
    /// How many runs measured such a machine.
    pub runs: usize,
    /// When the first of them began.
    pub since: String,
    /// When the latest of them began.
    pub latest: String,
    /// Whether they are enough to show a change.
    pub is_followed: bool,
}

/// The values of a row over the runs on machines of one class.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// Which row.
    pub of: MetricOfPoint,
    /// The class of the machines.
    pub machine: String,
    /// Its value in each run that has one.
    pub values: Vec<Reading>,
}

/// A row's value in a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reading {
    /// The position of the run in [`History::runs`].
    pub run: usize,
    /// The median.
    pub median: f64,
    /// Its 95 % interval.
    pub ci95: (f64, f64),
}

/// A lasting change of a row.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Change {
    /// Which row.
    #[serde(flatten)]
    pub of: MetricOfPoint,
    /// The class of the machines on which it changed.
    pub machine: String,
    /// When the first run after the change began.
    pub at: String,
    /// When the run that showed it began.
    pub found: String,
    /// The level before.
    pub from: f64,
    /// The level after.
    pub to: f64,
    /// How much worse it became, as a share; negative where better.
    pub worse: f64,
    /// The 95 % interval of that.
    pub ci95: Option<(f64, f64)>,
    /// What else changed then: the fact, its value before, and after. None: the change is unexplained.
    pub facts: Vec<(String, String, String)>,
    /// The position of its row in [`History::series`].
    #[serde(skip)]
    pub row: usize,
}
