//! How many times one cost is of another, so that no answer contradicts the table below it.

use super::{Answered, needed};
use costof_findings::interval::Interval;
use costof_findings::noise;
use costof_measure::compare::MATTERS;
use costof_model::Run;
use costof_model::expression::Value;
use costof_model::metric::is_too_wide;

/// Of comparisons with several baselines the one that decides: one that is surely no gain, else one that is not known,
/// else the one with the least gain.
pub(super) fn deciding<'c>(
    all: impl Iterator<Item = (&'c Answered, Result<Interval, String>)>,
) -> (&'c Answered, Result<Interval, String>) {
    let rank = |times: &Result<Interval, String>| match times {
        Ok(times) if times.high < 1.0 + MATTERS => (0, times.middle),
        Err(_) => (1, 0.0),
        Ok(times) => (2, times.low),
    };
    let decides = all.min_by(|(_, one), (_, other)| {
        let (one, other) = (rank(one), rank(other));
        one.0.cmp(&other.0).then(one.1.total_cmp(&other.1))
    });
    decides.expect("there is a first cost")
}

/// The least of these costs that can be relied on.
pub(super) fn cheapest<'c>(costs: impl IntoIterator<Item = &'c Answered>) -> Option<&'c Answered> {
    let known = costs.into_iter().filter(|cost| cost.is_known());
    let value = |cost: &Answered| cost.total.as_ref().map_or(f64::MAX, |total| total.value);
    known.min_by(|one, other| value(one).total_cmp(&value(other)))
}

/// How many times one cost is of another, as [`decided`] has it, or why it is not known.
pub(super) fn times(run: &Run, one: &Answered, other: &Answered) -> Result<Interval, String> {
    log_times(run, one, other).map(Interval::exp)
}

/// The logarithm of that.
pub(super) fn log_times(run: &Run, one: &Answered, other: &Answered) -> Result<Interval, String> {
    let [rows, other_rows] = [one, other].map(|cost| needed([&cost.expression], &run.points));
    let of = |cost: &Answered, values: &[f64]| {
        let values: Vec<Value> = values.iter().map(|value| Value::Measured(*value, None)).collect();
        Some(cost.expression.total(&values).ok()?.value)
    };
    let ratio = |values: &[f64]| {
        let (values, other_values) = values.split_at(rows.len());
        Some(of(one, values)? / of(other, other_values)?)
    };
    let all = [&rows[..], &other_rows[..]].concat();
    if all.len() < one.expression.points.len() + other.expression.points.len() {
        return Err("not all of it was measured".to_owned());
    }
    let is_narrow = |log: &Interval| !is_too_wide((log.low.exp(), log.high.exp()));
    let in_turns = Interval::log_in_turns(run, &all, ratio).filter(is_narrow);
    let shown = |cost: &Answered| {
        let total = cost.total.as_ref().ok()?;
        Some((total.value, total.interval.filter(|_| cost.is_sound)))
    };
    let has_turns = in_turns.is_some();
    decided(in_turns, shown(one), shown(other)).ok_or_else(|| {
        if has_turns {
            return "launches in turns disagree with the table; measure again".to_owned();
        }
        let few = "too few launches for an interval; leave out --quick, or use --full";
        noise::why(all).unwrap_or_else(|| few.to_owned())
    })
}

/// A value that a table shows, with its interval if it is sound.
type Shown = (f64, Option<(f64, f64)>);

/// The logarithm of the ratio of two values that a table shows, and whose launches have the ratio `in_turns` if the points
/// took turns. The table decides if it can: launches in which a core was fast and those in which it was slow may differ
/// more than what is compared. Otherwise the turns do, however busy the machine was, unless they contradict the table.
pub(super) fn decided(
    in_turns: Option<Interval>,
    one: Option<Shown>,
    other: Option<Shown>,
) -> Option<Interval> {
    let logarithms = |shown: Option<Shown>| {
        let (value, interval) = shown?;
        let (low, high) = interval.filter(|(low, _)| *low > 0.0)?;
        Some([low, value, high].map(f64::ln))
    };
    let of_table = logarithms(one)
        .zip(logarithms(other))
        .map(|(one, other)| Interval::difference_of(one, other));
    let contradicts = |turns: &Interval| {
        let shown = one.zip(other).map_or(0.0, |((one, _), (other, _))| (one / other).ln());
        turns.differs() && turns.middle * shown < 0.0
    };
    let in_turns = in_turns.filter(|turns| !contradicts(turns));
    of_table.filter(|ratio| ratio.differs()).or(in_turns).or(of_table)
}
