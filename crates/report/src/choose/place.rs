//! The place of a row in a figure, and which of its axes divide the rows into panels.

use costof_model::{AxisValue, Point};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// The link is treated as an axis.
pub(super) const LINK: &str = "link";
/// The loss of a link is a number, and an axis of its own.
pub(crate) const LOSS: &str = "loss";

/// At most this many series share a panel.
pub(super) const SERIES: usize = 8;
/// A reader can easily compare this many.
pub(super) const AT_EASE: usize = 6;

/// The place of a row: a value for each axis, and its link.
pub(super) type Place = BTreeMap<String, AxisValue>;

/// The place of a point. The loss of a link is an axis of its own.
pub(super) fn place(point: &Point) -> Place {
    let axes = point.axes.0.iter();
    let mut place: Place = axes.map(|(name, value)| (name.to_string(), value.clone())).collect();
    let (link, loss) = without_loss(&point.link);
    place.insert(LINK.to_owned(), AxisValue::Word(link.into()));
    place.insert(LOSS.to_owned(), AxisValue::Number(loss));
    place
}

/// Splits `rate=100Mbit,up.loss=10%` into `rate=100Mbit` and 10.
pub(crate) fn without_loss(link: &str) -> (String, u64) {
    let mut loss = 0;
    let parts = link.split(',').filter(|part| {
        let lost = part.split_once("loss=").and_then(|(_, percent)| percent.strip_suffix('%'));
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

/// Divides the axes in which curves differ into those that make panels and those that name series. At most
/// `at_ease` curves stay in a panel, unless they differ in one axis alone.
pub(super) fn split(places: &[&Place], at_ease: usize) -> (Vec<String>, Vec<String>) {
    let Some(first) = places.first() else {
        return Default::default();
    };
    let mut within: Vec<String> = first
        .keys()
        .filter(|axis| places.iter().any(|place| place.get(*axis) != first.get(*axis)))
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
    while within.len() > 1 && most_in_a_panel(&apart) > at_ease {
        // Links first, then numbers, then words, those with the fewest values first: what a reader compares
        // stays together.
        let numbers = |axis: &String| matches!(first.get(axis), Some(AxisValue::Number(_)));
        let rank = |at: &usize| {
            let axis = &within[*at];
            (axis != LINK, !numbers(axis), values(axis))
        };
        if let Some(next) = (0..within.len()).min_by_key(rank) {
            apart.push(within.remove(next));
        }
    }
    (apart, within)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_curves_than_a_reader_compares_are_divided_by_the_link_first() {
        let place =
            |carrier: &'static str, control: &'static str, by: &'static str, window, link| {
                let words = [("over", carrier), ("control", control), ("by", by), (LINK, link)];
                let mut place: Place = words
                    .into_iter()
                    .map(|(axis, word)| (axis.to_owned(), AxisValue::Word(word.into())))
                    .collect();
                place.insert("window".to_owned(), AxisValue::Number(window));
                place
            };
        let over = |link, window, of_study| {
            [
                place("rudp", "cubic", "default", window, link),
                place("rudp", "rate", "default", window, link),
                place("study", "cubic", "default", of_study, link),
                place("quic", "cubic", "default", window, link),
                place("tcp", "cubic", "cubic", window, link),
                place("tcp", "cubic", "bbr", window, link),
            ]
        };
        let places = [over("wan", 0, 64), over("lan", 10, 10)].concat();
        let places: Vec<&Place> = places.iter().collect();
        let (apart, within) = split(&places, AT_EASE);
        assert_eq!(apart, [LINK], "six are compared in one panel");
        assert_eq!(within, ["by", "control", "over", "window"]);
    }
}
