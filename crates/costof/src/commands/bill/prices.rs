//! The prices of a bill: from runs of this machine or a given one, measured where they lack, or else predicted.

use super::Billing;
use crate::cli::{Chosen, Measuring, RunOptions};
use crate::commands::estimate::{self, Named};
use crate::error::{Error, Result};
use crate::history;
use crate::prediction::predict;
use crate::record;
use crate::record::Table;
use crate::terminal::log;
use costof_measure::bill::price::Row;
use costof_model::expression::Value;
use costof_model::{Facts, Point, PointRow, Run, counted};
use std::cell::OnceCell;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// What is missing is measured for at most this long.
const BUDGET: Duration = Duration::from_secs(20);

/// Where the prices of a machine come from.
pub(super) struct Prices {
    table: Table,
    /// Those to be looked at first come first.
    runs: Vec<Named>,
    may_measure: bool,
    may_predict: bool,
    /// What predictions need: the facts, and rows that are read when one is asked for.
    facts: Facts,
    rows: OnceCell<Vec<PointRow>>,
}

impl Prices {
    /// Those of the user's run, or of this machine's latest ones.
    pub(super) fn known(billing: &Billing<'_>, needed: &[Point]) -> Result<Prices> {
        let Billing { table, options, facts, .. } = billing;
        if let Some(path) = &options.prices {
            return Ok(Prices { may_predict: true, ..Prices::of_run(table, path)? });
        }
        Ok(Prices {
            table,
            runs: estimate::history(table, needed, PointRow::is_sound),
            may_measure: !options.no_measure,
            may_predict: true,
            facts: facts.clone(),
            rows: OnceCell::new(),
        })
    }

    /// What a run has.
    pub(super) fn of_run(table: Table, path: &Path) -> Result<Prices> {
        let run = record::read(path, table)?;
        Ok(Prices {
            table,
            facts: run.facts().cloned().unwrap_or_default(),
            rows: OnceCell::from(run.points.clone()),
            runs: vec![(path.display().to_string(), run)],
            may_measure: false,
            may_predict: false,
        })
    }

    /// The class of the machine.
    pub(super) fn machine(&self) -> String {
        let facts = self.runs.first().and_then(|(_, run)| run.facts());
        facts.map_or_else(|| "an unknown machine".to_owned(), Facts::machine_class)
    }

    /// Measures these points into a run of the history, if it may.
    pub(super) fn measure(&mut self, missing: &[Point], interrupted: &AtomicBool) -> Result<()> {
        if !self.may_measure {
            return Ok(());
        }
        let names = counted(missing.len(), "price");
        log(format_args!(
            "measuring {names} that no run has with a grade better than D, for at most {} s",
            BUDGET.as_secs()
        ));
        let quick = Measuring { quick: true, ..Measuring::default() };
        let limit = Measuring { timeout: 60, ..quick };
        let chosen = Chosen { budget: Some(BUDGET), ..Chosen::default() };
        let all = RunOptions { chosen, ..RunOptions::new(limit, None) };
        let points: Vec<&Point> = missing.iter().collect();
        match estimate::measure(self.table, &all, &points, interrupted) {
            Ok(run) => self.runs.insert(0, run),
            Err(Error::Nothing(why)) => log(format_args!("no price was measured: {why}")),
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// What a row costs: as measured, or else as predicted. It may have to be sound, unless it was measured within the last
    /// hour: on a machine that is always busy, it will not get better.
    pub(super) fn value(&self, row: &Row, must_be_sound: bool) -> Option<Value> {
        let is_enough =
            |run: &Run, of: &PointRow| !must_be_sound || of.is_sound() || history::is_recent(run);
        if let Some((_, of)) = self.measured(row).filter(|((_, run), of)| is_enough(run, of)) {
            let estimate = of.estimate(&row.metric)?;
            return Some(Value::Measured(estimate.median, estimate.usable_interval()));
        }
        self.predicted(row)
    }

    /// Where that comes from; `None` if it is not known.
    pub(super) fn from(&self, row: &Row) -> Option<String> {
        match self.measured(row) {
            Some(((name, _), of)) => {
                let doubt = if of.is_sound() { "" } else { "doubtful, " };
                Some(format!("{doubt}measured, grade {} ({name})", of.grade))
            }
            None => self.predicted(row).map(|_| "predicted".to_owned()),
        }
    }

    fn measured(&self, row: &Row) -> Option<(&Named, &PointRow)> {
        let has_number = |of: &PointRow| of.estimate(&row.metric).is_some_and(|it| it.is_usable());
        let rows = estimate::rows(&self.runs, &row.point).filter(|(_, of)| has_number(of));
        rows.min_by_key(|(_, of)| of.distrust())
    }

    fn predicted(&self, row: &Row) -> Option<Value> {
        if !self.may_predict {
            return None;
        }
        let rows = self.rows.get_or_init(|| history::best_rows(self.table));
        let prediction = predict(self.table, &row.point, &self.facts, rows, &[])?;
        (prediction.metric == row.metric)
            .then_some(Value::Predicted(prediction.low, prediction.high))
    }
}
