//! Judges each row among all of them.

use super::MIN;
use crate::schedule::Precision;
use costof_model::comparison::{Cause, Compared, Verdict};
use costof_model::unit::Better;
use costof_stats::{CONFIDENCE, Difference};

/// Where the clock moved, a change of cycles is one if the times show this share of it too.
const HALF: f64 = 0.5;
/// The probability with which a change of [`Compared::visible`] would be found.
const OFTEN: f64 = 0.9;

/// Sets the verdict of each row, considering all of them.
pub(super) fn judged(
    mut found: Vec<(Compared, Difference)>,
    in_turns: bool,
    matters: f64,
) -> Vec<Compared> {
    let count = found.len();
    // Holm: the least of m rows must have p below 5 % ÷ m, the next below 5 % ÷ (m - 1) …
    let mut by_p: Vec<usize> = (0..count).collect();
    by_p.sort_by(|a, b| found[*a].0.p.total_cmp(&found[*b].0.p));
    for (rank, at) in by_p.into_iter().enumerate() {
        let row = &mut found[at].0;
        let is_rare = row.p < (1.0 - CONFIDENCE) / (count - rank) as f64;
        if !is_rare {
            break;
        }
        if (!in_turns && contradicts(row)) || stands_still(row) {
            continue;
        }
        row.verdict = match (row.better, row.ratio > 1.0) {
            // Two neighbours met at different times differ as two machines do.
            _ if row.core_shared && !in_turns => Verdict::Differs,
            (Better::Neither, _) => Verdict::Differs,
            (Better::Lower, true) | (Better::Higher, false) => Verdict::Worse,
            (Better::Lower, false) | (Better::Higher, true) => Verdict::Better,
        };
    }
    // To count as a change, an unchanged row would have to pass the threshold for all rows.
    let corrected = 1.0 - (1.0 - CONFIDENCE) / count.max(1) as f64;
    let rows = found.into_iter().map(|(mut row, difference)| {
        row.visible = visible(&difference, corrected);
        if !row.verdict.is_change() {
            let medians = if in_turns { 1.0 } else { medians(&row) };
            (row.verdict, row.cause) =
                without_change(&row, medians, difference, corrected, matters);
        }
        row
    });
    rows.collect()
}

/// The ratio of the displayed medians; at equal clocks, if cycles are compared.
fn medians(row: &Compared) -> f64 {
    row.after.0 / row.before.0 * row.clocks.map_or(1.0, |(before, after)| after / before)
}

/// Whether the displayed medians did not move in the direction that the test reports, as can happen
/// if a cost has two modes.
fn contradicts(row: &Compared) -> bool {
    let medians = medians(row);
    (row.ratio > 1.0 && medians <= 1.0) || (row.ratio < 1.0 && medians >= 1.0)
}

/// Whether cycles changed only because the clock did, and the displayed times hardly: something else than the core's clock
/// decides them, such as memory.
fn stands_still(row: &Compared) -> bool {
    let has_moved = |(before, after): (f64, f64)| (after / before).ln().abs() > MIN.ln();
    let times = (row.after.0 / row.before.0).ln();
    row.clocks.is_some_and(has_moved) && times / row.ratio.ln() < HALF
}

/// The smallest change that would have been found, as a share.
fn visible(difference: &Difference, confidence: f64) -> f64 {
    let least = difference.visible(confidence, OFTEN);
    least.map_or(f64::NAN, |least| (least + MIN.ln()).exp_m1())
}

/// The verdict of a row in which no change was found: that no change matters, or why it is unknown.
fn without_change(
    row: &Compared,
    medians: f64,
    difference: Difference,
    confidence: f64,
    matters: f64,
) -> (Verdict, Option<Cause>) {
    let most = matters + 1e-9;
    let (low, high) = row.ci95;
    let is_alike = |ratio: &f64| (1.0 / (1.0 + most)..=1.0 + most).contains(ratio);
    if row.visible <= most && [low, high, medians].iter().all(is_alike) {
        return (Verdict::NoDifference, None);
    }
    let fewer = row.before.1.min(row.after.1);
    let full = Precision::Full.launches();
    let with_more = Difference {
        error: difference.error * (f64::from(fewer) / f64::from(full)).sqrt(),
        degrees: difference.degrees.max(full - 1),
        ..difference
    };
    let cause = if fewer < full && visible(&with_more, confidence) <= most {
        Cause::FewLaunches
    } else {
        Cause::Noise
    };
    (Verdict::CannotTell, Some(cause))
}
