//! Where rows stand, and which of their axes set panels apart.

use costof_model::axis::AxisValue;
use costof_model::rows::PointRow;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// A link is varied as an axis is.
pub(super) const LINK: &str = "link";
/// A link whose loss is varied has it as a number.
pub(super) const LOSS: &str = "loss";

/// Of runs that are drawn over each other, which.
pub(super) const RUN: &str = "run";

/// So many series are told apart in a panel.
pub(super) const SERIES: usize = 8;

/// Where a row stands: a value for each axis, and its link.
pub(super) type Place = BTreeMap<String, AxisValue>;

/// Where a row stands. The loss of a link is an axis of its own.
pub(super) fn place(row: &PointRow) -> Place {
    let axes = row.point.axes.0.iter();
    let mut place: Place = axes
        .map(|(name, value)| (name.to_string(), value.clone()))
        .collect();
    let (link, loss) = without_loss(&row.point.link);
    place.insert(LINK.to_owned(), AxisValue::Word(link.into()));
    place.insert(LOSS.to_owned(), AxisValue::Number(loss));
    place
}

/// `rate=100Mbit,up.loss=10%` is `rate=100Mbit` and 10.
fn without_loss(link: &str) -> (String, u64) {
    let mut loss = 0;
    let parts = link.split(',').filter(|part| {
        let lost = part
            .split_once("loss=")
            .and_then(|(_, percent)| percent.strip_suffix('%'));
        match lost.and_then(|percent| percent.parse::<u64>().ok()) {
            Some(percent) => {
                loss = percent;
                false
            }
            None => true,
        }
    });
    let rest = parts.collect::<Vec<_>>().join(",");
    (rest, loss)
}

/// Which of the axes in which curves differ set panels apart, and which name series.
pub(super) fn split(places: &[&Place]) -> (Vec<String>, Vec<String>) {
    let Some(first) = places.first() else {
        return Default::default();
    };
    let mut within: Vec<String> = first
        .keys()
        .filter(|axis| {
            places
                .iter()
                .any(|place| place.get(*axis) != first.get(*axis))
        })
        .cloned()
        .collect();
    let mut apart: Vec<String> = Vec::new();
    let values = |axis: &String| {
        let values: BTreeSet<_> = places.iter().map(|place| place.get(axis)).collect();
        values.len()
    };
    let most_in_a_panel = |apart: &[String]| {
        let mut panels: HashMap<Vec<Option<&AxisValue>>, usize> = HashMap::new();
        for place in places {
            let key = apart.iter().map(|axis| place.get(axis)).collect();
            *panels.entry(key).or_default() += 1;
        }
        panels.values().copied().max().unwrap_or_default()
    };
    while within.len() > 1 && most_in_a_panel(&apart) > SERIES / 2 {
        // Links first, then numbers, of words those with the fewest: what is compared stays
        // together.
        let numbers = |axis: &String| matches!(first.get(axis), Some(AxisValue::Number(_)));
        let may_be_apart = within.iter().filter(|axis| **axis != RUN);
        let next = may_be_apart
            .min_by_key(|axis| (**axis != LINK, !numbers(axis), values(axis)))
            .cloned();
        let Some(next) = next else {
            break;
        };
        within.retain(|axis| *axis != next);
        apart.push(next);
    }
    (apart, within)
}
