//! The one rule on noise: a finding uses only sound rows ([`PointRow::is_sound`]), which [`Run::select`]
//! returns. The grade of a row is about times by the clock on the wall. Evidence of another kind does not depend
//! on it: what the kernel or a protocol counted, and ratios of what took turns within launches, above all of
//! CPU time. If noise prevents a finding, costof reports that with the cause.

use crate::sureness::Points;
use crate::{FINDERS, Finding, Kind};
use costof_model::noise::main_cause;
use costof_model::rows::MEASURE_LONGER;
use costof_model::{Grade, Point, PointRow, Run, Warning};
use std::cell::OnceCell;
use std::collections::HashSet;

/// Findings that rows of any grade may support: counts of the kernel and of protocols, ratios of what took turns
/// ([`Interval::log_ratio`](crate::interval::Interval::log_ratio)), and what was left out because of noise.
pub const BEYOND_NOISE: [Kind; 12] = [
    Kind::SlowCore,
    Kind::BusyCore,
    Kind::HeldClock,
    Kind::ZeroCopy,
    Kind::CrossoverDisturbed,
    Kind::QueueOverflow,
    Kind::RoundTripsAboveASecond,
    Kind::OneCopyCrossover,
    Kind::ZeroCopyCrossover,
    Kind::ZeroCopyPrice,
    Kind::CachePollution,
    Kind::ReliableRoundTrip,
];

/// All findings of all finders.
pub(crate) fn findings(run: &Run) -> Vec<Finding> {
    on_sound_rows(run, FINDERS.iter().flat_map(|find| find(run)))
}

/// Keeps the findings that use only sound rows, in case a finder takes rows from elsewhere.
fn on_sound_rows(run: &Run, found: impl Iterator<Item = Finding>) -> Vec<Finding> {
    let points = Points::new(run);
    let is_sound = |point: &Point| points.row(point).is_none_or(PointRow::is_sound);
    let found = found
        .filter(|found| BEYOND_NOISE.contains(&found.kind) || found.evidence.iter().all(is_sound));
    found.collect()
}

/// The findings that noise prevents in a run.
pub struct Withheld<'r> {
    run: &'r Run,
    regardless: OnceCell<Vec<Finding>>,
}

impl<'r> Withheld<'r> {
    /// The findings that noise prevents in this run.
    pub fn new(run: &'r Run) -> Withheld<'r> {
        Withheld { run, regardless: OnceCell::new() }
    }

    /// Why there is no such finding, if there would be one without noise.
    pub fn why(&self, is_wanted: impl Fn(&Finding) -> bool) -> Option<String> {
        let found = self.regardless.get_or_init(|| regardless(self.run));
        let wanted = found.iter().filter(|found| is_wanted(found));
        let needed: HashSet<&Point> = wanted.flat_map(|found| &found.evidence).collect();
        let rows = self.run.points.iter();
        why(rows.filter(|row| needed.contains(&row.point)))
    }
}

/// Why the question that needs these rows has no answer; none if all of them are sound.
pub fn why<'r>(needed: impl IntoIterator<Item = &'r PointRow>) -> Option<String> {
    let (sound, unsound): (Vec<_>, Vec<_>) = needed.into_iter().partition(|row| row.is_sound());
    let described = described(&unsound)?;
    let all = unsound.len() + sound.len();
    Some(match (all, unsound.len()) {
        (1, _) => format!("the point that this needs has {described}"),
        (_, 1) => format!("1 of the {all} points that this needs has {described}"),
        (_, count) => format!("{count} of the {all} points that this needs have {described}"),
    })
}

/// The findings that there would be if all rows were sound.
fn regardless(run: &Run) -> Vec<Finding> {
    if run.points.iter().all(PointRow::is_sound) {
        return Vec::new();
    }
    let mut run = run.clone();
    for row in &mut run.points {
        row.grade = Grade::A;
        let metrics = row.metrics.iter_mut();
        for metric in metrics.filter(|metric| !metric.is_usable()) {
            metric.ci95 = Some((metric.median, metric.median));
        }
    }
    FINDERS.iter().flat_map(|find| find(&run)).collect()
}

/// Why these rows allow no conclusion, and what disturbed most of them; none without rows.
pub(crate) fn described(unsound: &[&PointRow]) -> Option<String> {
    let warnings = unsound.iter().flat_map(|row| &row.warnings);
    let causes = warnings.filter(|warning| warning.grade == Grade::D);
    match main_cause(causes) {
        _ if unsound.is_empty() => None,
        None => Some(format!("no usable interval ({MEASURE_LONGER})")),
        Some(Warning { what, advice, .. }) => {
            let mostly = if unsound.len() == 1 { "" } else { "mostly " };
            Some(format!("grade D, {mostly}because {what} ({advice})"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{RowExt, axes, expect, known_row, run};

    #[test]
    fn no_finding_rests_on_a_row_that_noise_decides() {
        let kinds = |change: fn(PointRow) -> PointRow| {
            let mut run = run(&[]);
            run.points.push(change(known_row("copy.send", "cost", axes!(size = 1), 100.0, 0.01)));
            expect(&mut run, 10.0, 20.0);
            findings(&run).into_iter().map(|found| found.kind).collect::<Vec<_>>()
        };
        assert_eq!(kinds(|row| row), [Kind::Unexpected]);
        assert_eq!(kinds(|row| row.warned("steal", Grade::C)), [Kind::Unexpected]);
        assert_eq!(kinds(|row| row.warned("steal", Grade::D)), []);
        assert_eq!(kinds(|row| row.known_within(0.9)), []);
    }

    #[test]
    fn a_finder_that_forgets_the_rule_finds_nothing_that_rests_on_such_a_row() {
        let mut run = run(&[]);
        let row = |size: u64| known_row("os.syscall", "cost", axes!(size), 100.0, 0.01);
        run.points = vec![row(1), row(2).warned("steal", Grade::D)];
        let kept = |kind, rows: &[PointRow]| {
            let forgetful = Finding::new(kind, rows, Default::default());
            on_sound_rows(&run, [forgetful].into_iter()).len()
        };
        assert_eq!(kept(Kind::Modes, &run.points[..1]), 1);
        assert_eq!(kept(Kind::Modes, &run.points), 0);
        assert_eq!(kept(Kind::ZeroCopy, &run.points), 1);
    }
}
