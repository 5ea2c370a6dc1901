//! What each row means among all of them.

use super::LEAST;
use crate::schedule::Precision;
use costof_model::comparison::{Cause, Compared, Verdict};
use costof_model::unit::Better;
use costof_stats::{CONFIDENCE, Difference};

/// What [`Compared::visible`] is seen with.
const OFTEN: f64 = 0.9;

/// Says what each row means among all of them.
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
        row.verdict = match (row.better, row.ratio > 1.0) {
            // Two neighbours, met at two times, differ as two machines do.
            _ if row.core_shared && !in_turns => Verdict::Differs,
            (Better::Neither, _) => Verdict::Differs,
            (Better::Lower, true) | (Better::Higher, false) => Verdict::Worse,
            (Better::Lower, false) | (Better::Higher, true) => Verdict::Better,
        };
    }
    // Of what is still alike, the first would have to stand against all of them.
    let corrected = 1.0 - (1.0 - CONFIDENCE) / count.max(1) as f64;
    let rows = found.into_iter().map(|(mut row, difference)| {
        row.visible = visible(&difference, corrected);
        if !row.verdict.is_change() {
            (row.verdict, row.cause) = without_change(&row, difference, corrected, matters);
        }
        row
    });
    rows.collect()
}

/// The smallest change that would have been seen, as a share.
fn visible(difference: &Difference, confidence: f64) -> f64 {
    let least = difference.visible(confidence, OFTEN);
    least.map_or(f64::NAN, |least| (least + LEAST.ln()).exp_m1())
}

/// What a row says in which no change was seen: that there is none that matters, or why it cannot tell.
fn without_change(
    row: &Compared,
    difference: Difference,
    confidence: f64,
    matters: f64,
) -> (Verdict, Option<Cause>) {
    let most = matters + 1e-9;
    let (low, high) = row.ci95;
    if row.visible <= most && high <= 1.0 + most && low >= 1.0 / (1.0 + most) {
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
