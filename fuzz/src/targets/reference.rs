//! References of a fleet, and a host that is held against one.

use super::run::plain;
use crate::edits::edited;
use crate::same::is_same;
use costof_measure::fleet::{Candidates, choose};
use costof_measure::place::place;
use costof_measure::qualify::{Block, Qualification};
use costof_model::facts::Facts;
use costof_model::qualified::Risks;
use costof_model::reference::{Cohort, Reference, Row};
use costof_model::rows::PointRow;
use costof_model::testing::{RowExt, row, run};
use costof_report::check::Rules;
use costof_report::place as place_shown;
use costof_report::qualify as shown;
use std::time::Duration;

/// One of real runs.
const SAVED: &str = include_str!("../../corpus/reference/saved.json");
const RISKS: Risks = Risks { change: 0.1, producer: 0.05, consumer: 0.1 };
/// Enough for a row to be decided.
const LAUNCHES: u32 = 40;

/// A reference that is right, of which some values are others.
pub(crate) fn values(script: &[u8]) {
    bytes(edited(SAVED, script).as_bytes());
}

/// A file of any bytes.
pub(crate) fn bytes(bytes: &[u8]) {
    if let Ok(reference) = Reference::read_or_entry(bytes) {
        placed(&reference);
    }
    let reference = match Reference::read(bytes) {
        Ok(reference) => reference,
        Err(why) => return plain(&why),
    };
    let written = serde_json::json!(reference);
    let again = Reference::read(written.to_string().as_bytes());
    let again = serde_json::json!(again.expect("what was written is read"));
    assert!(is_same(&again, &written), "{written} is read as {again}");
    for number in [None, Some(0), Some(1), Some(2)] {
        match choose(&reference, &Facts::default(), number) {
            Ok(Candidates::One(cohort)) => qualified(cohort),
            Ok(Candidates::Populations(found)) => plain(&found.row().of.name()),
            Err(why) => plain(&why),
        }
    }
}

/// A host that has all of these rows is placed among the machines, whatever these are.
fn placed(reference: &Reference) {
    let mut own = run(&[]);
    let rows = reference.cohorts.iter().flat_map(|cohort| &cohort.rows);
    own.points = rows.map(|of| own_row(of, 2.0).known_within(0.01)).collect();
    let placed = place(&own, std::slice::from_ref(reference));
    let is_share = |share: f64| (0.0..=1.0).contains(&share);
    for row in &placed.rows {
        let (low, high) = row.position_ci95;
        assert!([low, row.position, high].into_iter().all(is_share) && low <= high, "{row:?}");
    }
    plain(&place_shown::text(&placed, true, 80));
    plain(&serde_json::to_string(&placed).expect("it is JSON"));
}

/// A row of a host that costs so many times as much as the reference says.
fn own_row(of: &Row, times: f64) -> PointRow {
    PointRow {
        primary: of.of.metric.clone(),
        ..row(of.of.point.probe.clone(), of.of.point.axes.clone(), of.usual * times)
    }
}

/// A host is judged by all rows that can be, however it compares, and comes to an end.
fn qualified(cohort: &Cohort) {
    for times in [1.0, 0.5, 2.0] {
        let mut qualification = Qualification::new(cohort, RISKS, |_| None);
        let rows: Vec<PointRow> = (qualification.rows()).map(|of| own_row(of, times)).collect();
        let blocks: Vec<Block> = (0..rows.len())
            .map(|row| Block { rows: vec![row], launch: Duration::from_millis(10), rested: None })
            .collect();
        let mut launches = vec![0; rows.len()];
        while let Some(at) = qualification.next(&blocks) {
            launches[at] += 1;
            assert!(launches[at] <= LAUNCHES, "{:?} is never decided", rows[at].point);
            let measured =
                PointRow { launches: launches[at], ..rows[at].clone().known_within(0.01) };
            qualification.update(at, Some(&measured), launches[at]);
        }
        let qualified = qualification.concluded(1.0, launches.iter().sum(), &blocks);
        plain(&shown::text(&qualified, &Rules::default(), 80));
        plain(&shown::reason(&qualified, &Rules::default()));
        plain(&serde_json::to_string(&qualified).expect("it is JSON"));
    }
}
