//! What commits cost, alone and by several writers, and whether a group commit pays.

use super::ratio::{cheapest, log_times};
use super::shown::{INCONCLUSIVE, unanswered};
use super::{Answer, Answered};
use costof_findings::interval::Interval;
use costof_measure::compare::MATTERS;
use costof_model::{Estimate, Run, Unit};

/// The first cost is a commit of one writer; the first of those with several writers is compared with it.
///
/// A group commit makes the commits of N writers durable by one sync, after it has waited for them. Without it, each
/// of them takes as long as with N writers that sync for themselves. So it pays if it waits for less than that takes
/// longer than a commit alone.
pub(super) fn group(run: &Run, costs: &[Answered]) -> Answer {
    let writers = |cost: &Answered| cost.row(run)?.number("writers");
    let (alone, several): (Vec<_>, Vec<_>) =
        costs.iter().partition(|cost| writers(cost).is_none_or(|writers| writers == 1));
    let first = &costs[0];
    if !first.is_known() {
        let (verdict, sentence) = (Some(INCONCLUSIVE), unanswered(run, &[first]));
        return Answer { verdict, sentence, is_open: false, table: None };
    }
    let cheapest = cheapest(alone.iter().copied()).unwrap_or(first);
    let costs_more =
        |other: &Answered| log_times(run, other, cheapest).is_ok_and(|ratio| ratio.low > 0.0);
    let mut others = alone.iter().filter(|other| !std::ptr::eq(**other, cheapest));
    let mut parts = vec![if others.all(|other| costs_more(other)) {
        format!("{}, the cheapest call", cheapest.takes())
    } else if costs_more(first) {
        format!("{}, less than {}", cheapest.takes(), first.label)
    } else {
        format!("{}; no other call is cheaper for certain", first.takes())
    }];
    if let Some(cost) = several.first() {
        let rate = || cost.row(run)?.estimate("rate").filter(|rate| rate.is_usable());
        match writers(cost).zip(rate()).filter(|_| cost.is_known()) {
            Some((count, rate)) => parts.push(by_several(count, rate, first)),
            None => parts.push(unanswered(run, &[cost])),
        }
    }
    Answer { verdict: None, sentence: parts.join("; "), is_open: false, table: None }
}

/// How many commits this many writers make, at this rate, and how long a group commit of them may wait.
fn by_several(count: u64, rate: &Estimate, alone: &Answered) -> String {
    let alone = alone.total.as_ref().expect("it is known");
    let (low, high) = alone.interval.unwrap_or((alone.value, alone.value));
    let alone = [low, alone.value, high];
    let (slow, fast) = rate.usable_interval().unwrap_or((rate.median, rate.median));
    // Each writer has a commit under way at any time.
    let each = [fast, rate.median, slow].map(|rate| count as f64 * 1e9 / rate);
    let times = rate.median * alone[1] / 1e9;
    let ns = |value: f64| Unit::Nanoseconds.display(value);
    let wait = Interval::difference_of(each, alone);
    let wait = if wait.low > 0.0 {
        let ends = format!("{} to {}", ns(wait.low), ns(wait.high));
        format!("a group commit pays if it waits for less than {} ({ends})", ns(wait.middle))
    } else if wait.high < MATTERS * alone[1] {
        "their syncs overlap, so that no group commit pays".to_owned()
    } else {
        let most = ns(wait.high);
        format!(
            "whether a group commit pays is not certain; it would have to wait for less than {most}"
        )
    };
    format!(
        "{count} writers that sync for themselves commit {:.0} times a second, {times:.1} times as often as one: {wait}",
        rate.median
    )
}
