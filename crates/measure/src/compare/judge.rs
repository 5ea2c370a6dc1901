//! Judges each row among all of them.

use super::MIN;
use costof_model::comparison::{LayerChange, Verdict};
use costof_model::{Better, Compared};
use costof_stats::{CONFIDENCE, Difference};

/// Where the clock moved, a change of cycles is one if the times show this share of it too.
const HALF: f64 = 0.5;
/// The probability with which a change of [`Compared::visible`] would be found.
const OFTEN: f64 = 0.9;
/// Nobody measures more launches, or hosts, than this for one comparison.
const MAX_NEEDED: u32 = 1000;

/// What was compared, before all of it is judged together.
pub(super) struct Found {
    pub(super) rows: Vec<(Compared, Difference)>,
    pub(super) layers: Vec<(LayerChange, Difference)>,
}

/// Sets the verdict of each row and each layer, considering all of them.
pub(super) fn judged(
    found: Found,
    in_turns: bool,
    matters: f64,
) -> (Vec<Compared>, Vec<LayerChange>) {
    let Found { rows, layers } = found;
    let p = rows.iter().map(|(row, _)| row.p).chain(layers.iter().map(|(layer, _)| layer.p));
    let p: Vec<f64> = p.collect();
    let is_rare = holm(&p);
    // To count as a change, an unchanged row would have to pass the threshold for all rows.
    let confidence = 1.0 - (1.0 - CONFIDENCE) / p.len().max(1) as f64;
    let (of_rows, of_layers) = is_rare.split_at(rows.len());
    let rows = rows.into_iter().zip(of_rows).map(|((mut row, difference), is_rare)| {
        row.visible = visible(&difference, confidence);
        if *is_rare && (in_turns || !contradicts(&row)) && !stands_still(&row) {
            row.verdict = changed(&row, in_turns);
        } else if is_unchanged(&row, in_turns, matters) {
            row.verdict = Verdict::NoDifference;
        } else {
            row.needed = needed(&row, difference, confidence, matters);
        }
        row
    });
    let layers = layers.into_iter().zip(of_layers).map(|((mut layer, _), is_rare)| {
        let is_within = layer.ci95.0 >= -matters && layer.ci95.1 <= matters;
        layer.verdict = match (is_rare, layer.worse > 0.0) {
            _ if is_within => Verdict::NoDifference,
            (true, true) => Verdict::Worse,
            (true, false) => Verdict::Better,
            (false, _) => Verdict::CannotTell,
        };
        layer
    });
    (rows.collect(), layers.collect())
}

/// Which of these probabilities are rare among all of them: the least of m must be below 5 % ÷ m, the next below
/// 5 % ÷ (m - 1) …
fn holm(p: &[f64]) -> Vec<bool> {
    let mut is_rare = vec![false; p.len()];
    let mut by_p: Vec<usize> = (0..p.len()).collect();
    by_p.sort_by(|a, b| p[*a].total_cmp(&p[*b]));
    let ranked = by_p.into_iter().enumerate();
    for (_, at) in
        ranked.take_while(|(rank, at)| p[*at] < (1.0 - CONFIDENCE) / (p.len() - rank) as f64)
    {
        is_rare[at] = true;
    }
    is_rare
}

/// Which way a row changed.
fn changed(row: &Compared, in_turns: bool) -> Verdict {
    match (row.better, row.ratio > 1.0) {
        // Two neighbours met at different times differ as two machines do.
        _ if row.core_shared && !in_turns => Verdict::Differs,
        (Better::Neither, _) => Verdict::Differs,
        (Better::Lower, true) | (Better::Higher, false) => Verdict::Worse,
        (Better::Lower, false) | (Better::Higher, true) => Verdict::Better,
    }
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

/// Slack for a change of just as much as matters.
const ROUNDING: f64 = 1e-9;

/// Whether a change that matters would have been found, and the ratio, its interval and the medians show none.
fn is_unchanged(row: &Compared, in_turns: bool, matters: f64) -> bool {
    let most = matters + ROUNDING;
    let (low, high) = row.ci95;
    let medians = if in_turns { 1.0 } else { medians(row) };
    let is_alike = |ratio: &f64| (1.0 / (1.0 + most)..=1.0 + most).contains(ratio);
    row.visible <= most && [low, high, medians].iter().all(is_alike)
}

/// How many of each side would decide a row, if its ratio and their spread stay.
fn needed(row: &Compared, found: Difference, confidence: f64, matters: f64) -> Option<u32> {
    let now = row.before.1.min(row.after.1);
    // The error is proportional to this, whether or not both sides have equally many.
    let scale = |before: u32, after: u32| (1.0 / f64::from(before) + 1.0 / f64::from(after)).sqrt();
    let of_now = scale(row.before.1, row.after.1);
    let decides = |count: u32| {
        let with = Difference {
            error: found.error * scale(count, count) / of_now,
            degrees: found.degrees.max(count - 1),
            ..found
        };
        let half = |confidence| with.half_width(confidence).unwrap_or(f64::INFINITY);
        let moved = with.of_means.abs();
        let most = matters + ROUNDING;
        let is_found = moved - MIN.ln() > half(confidence);
        let is_unchanged =
            visible(&with, confidence) <= most && moved + half(CONFIDENCE) <= most.ln_1p();
        is_found || is_unchanged
    };
    let (mut low, mut high) = (now, MAX_NEEDED);
    if now == 0 || now >= MAX_NEEDED || decides(now) || !decides(high) {
        return None;
    }
    while high - low > 1 {
        let middle = low.midpoint(high);
        if decides(middle) { high = middle } else { low = middle }
    }
    Some(high)
}
