//! How good the predictions of a run are: how many held, and how wide they were, since a wide range always
//! holds.

use crate::Kind;
use crate::finding::Finding;
use costof_model::rows::PointRow;
use costof_model::run_file::Run;

/// With fewer predictions, a share means nothing.
const SOME: usize = 10;

/// The prediction of a point, and whether it held.
struct Scored<'a> {
    row: &'a PointRow,
    /// The upper end divided by the lower one.
    width: f64,
    held: bool,
}

/// One finding about all predictions.
pub(crate) fn prediction_score(run: &Run) -> Vec<Finding> {
    let rows = run.select_all().into_iter();
    let mut scored: Vec<Scored<'_>> = rows.filter_map(score).collect();
    if scored.len() < SOME {
        return Vec::new();
    }
    scored.sort_by(|one, other| one.width.total_cmp(&other.width));
    let held = |scored: &[Scored<'_>]| scored.iter().filter(|one| one.held).count();
    let (narrow, wide) = scored.split_at(scored.len() / 2);
    let widest = |scored: &[Scored<'_>]| scored.last().map_or(1.0, |one| one.width);
    let sentence = format!(
        "{all_held} of {all} predictions held: {narrow_held} of the {narrow} narrower ones (upper end at most \
         {width:.1} times the lower one) and {wide_held} of the {wide} wider ones (up to {widest:.0} times)",
        all_held = held(&scored),
        all = scored.len(),
        narrow_held = held(narrow),
        narrow = narrow.len(),
        width = widest(narrow),
        wide_held = held(wide),
        wide = wide.len(),
        widest = widest(wide),
    );
    vec![Finding::new(Kind::PredictionScore, scored.iter().map(|one| one.row), sentence)]
}

/// None if the prediction is not scored, or has no lower end.
fn score(row: &PointRow) -> Option<Scored<'_>> {
    let (expected, measured) = row.scored()?;
    let width = expected.high / expected.low;
    (expected.low > 0.0 && width.is_finite()).then(|| Scored {
        row,
        width,
        held: expected.missed_by(measured.median).is_none(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{axes, expect, point_row, reads, run};

    fn with(predictions: &[(f64, f64)]) -> Vec<Finding> {
        let mut run = run(&[]);
        for (size, (low, high)) in (0_u64..).zip(predictions) {
            let axes = axes!(size);
            let row = point_row("harness.null", "cost", axes, 100.0, (99.0, 101.0));
            run.points.push(row);
            expect(&mut run, *low, *high);
        }
        prediction_score(&run)
    }

    #[test]
    fn hits_are_reported_with_how_wide_their_ranges_are() {
        let mut predictions = vec![(90.0, 108.0); 4];
        predictions.push((50.0, 60.0));
        predictions.extend([(50.0, 200.0); 5]);
        let found = with(&predictions);
        reads!(&found);
        assert_eq!(found[0].evidence.len(), 10);
    }

    #[test]
    fn few_predictions_have_no_score_and_those_without_a_lower_end_no_width() {
        assert_eq!(with(&[(90.0, 110.0); 9]), []);
        let mut predictions = vec![(90.0, 110.0); 9];
        predictions.push((0.0, 110.0));
        assert_eq!(with(&predictions), []);
    }
}
