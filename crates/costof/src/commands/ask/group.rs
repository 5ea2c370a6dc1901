//! What commits cost, alone and by several writers, and whether a group commit pays.

use super::shown::{INCONCLUSIVE, unanswered};
use super::{Answer, Answered, cheapest, needed};
use costof_findings::interval::Interval;
use costof_model::run_file::Run;
use costof_model::unit::Unit;

/// The first cost is a commit of one writer; the first of those with several writers is compared with it.
///
/// A group commit makes the commits of N writers durable by one sync, after it has waited for them. Without it, each
/// of them takes as long as with N writers that sync for themselves. So it pays if it waits for less than that takes
/// longer than a commit alone.
pub(super) fn group(run: &Run, costs: &[Answered]) -> Answer {
    let writers = |cost: &Answered| {
        needed([&cost.expression], &run.points).first().and_then(|row| row.number("writers"))
    };
    let (alone, several): (Vec<_>, Vec<_>) =
        costs.iter().partition(|cost| writers(cost).is_none_or(|writers| writers == 1));
    let first = &costs[0];
    if !first.is_known() {
        let (verdict, sentence) = (Some(INCONCLUSIVE), unanswered(run, &[first]));
        return Answer { verdict, sentence, is_open: false, table: None };
    }
    let cheapest = cheapest(alone.iter().copied()).unwrap_or(first);
    let mut parts = vec![format!("{}, the cheapest call", cheapest.takes())];
    if let Some(cost) = several.first() {
        match writers(cost).filter(|_| cost.is_known()) {
            Some(count) => parts.push(by_several(count, first, cost)),
            None => parts.push(unanswered(run, &[cost])),
        }
    }
    Answer { verdict: None, sentence: parts.join("; "), is_open: false, table: None }
}

/// How many commits this many writers make, and how long a group commit of them may wait.
fn by_several(count: u64, alone: &Answered, each: &Answered) -> String {
    let ends = |cost: &Answered| {
        let total = cost.total.as_ref().expect("both are known");
        let (low, high) = total.interval.unwrap_or((total.value, total.value));
        [low, total.value, high]
    };
    let ns = |value: f64| Unit::Nanoseconds.display(value);
    let ([_, one, _], [_, together, _]) = (ends(alone), ends(each));
    let rate = Unit::Hertz.display(count as f64 * 1e9 / together);
    let times = count as f64 * one / together;
    let wait = Interval::difference_of(ends(each), ends(alone));
    let wait = if wait.low > 0.0 {
        let ends = format!("{} to {}", ns(wait.low), ns(wait.high));
        format!("a group commit pays if it waits for less than {} ({ends})", ns(wait.middle))
    } else {
        "their syncs overlap, so that no group commit pays".to_owned()
    };
    format!(
        "{count} writers that sync for themselves commit at {rate}, {times:.1} times as often: {wait}"
    )
}
