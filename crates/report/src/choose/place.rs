//! The place of a row in a figure, and which of its axes divide the rows into panels.

use costof_model::{AxisValue, Point};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// The link is treated as an axis.
pub(super) const LINK: &str = "link";
/// The loss of a link is a number, and an axis of its own.
pub(crate) const LOSS: &str = "loss";

/// The axis that says which of two overlaid runs a row is from.
pub(super) const RUN: &str = "run";

/// At most this many series share a panel.
pub(super) const SERIES: usize = 8;
/// A reader can easily compare this many.
pub(super) const AT_EASE: usize = 6;
/// At most this many values make up the name of a series.
const IN_A_NAME: usize = 2;

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

/// Divides the axes in which curves differ into those that make panels and those that name series. With
/// `own_panels`, all axes except the run make panels; else at most `at_ease` curves stay in one.
pub(super) fn split(
    places: &[&Place],
    own_panels: bool,
    at_ease: usize,
) -> (Vec<String>, Vec<String>) {
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
    if own_panels {
        return within.into_iter().partition(|axis| axis != RUN);
    }
    while within.len() > 1 && most_in_a_panel(&apart) > at_ease {
        // Links first, then numbers, then words, those with the fewest values first: what a reader compares
        // stays together.
        let numbers = |axis: &String| matches!(first.get(axis), Some(AxisValue::Number(_)));
        let may_be_apart = within.iter().filter(|axis| **axis != RUN);
        let next =
            may_be_apart.min_by_key(|axis| (**axis != LINK, !numbers(axis), values(axis))).cloned();
        let Some(next) = next else {
            break;
        };
        within.retain(|axis| *axis != next);
        apart.push(next);
    }
    (apart, within)
}

/// The names that distinguish curves for the reader.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Names {
    /// For each curve, the axes that name its panel, and those that name its series.
    pub(super) panels: Vec<Vec<String>>,
    pub(super) series: Vec<Vec<String>>,
    /// Axes in which curves of one panel differ although no name has them.
    pub(super) unsaid: Vec<String>,
}

/// Names curves by the axes `apart`, which divide them into panels, and the axes `within`, in which they also
/// differ. The name of a series has only as many of `within`, from the first on, as distinguish it from
/// others of its panel. The name of a panel also has the values that its curves share and those of another
/// panel do not. If there are few axes, the name of a series has all of them.
pub(super) fn names(places: &[&Place], apart: &[String], within: &[String]) -> Names {
    if within.len() <= IN_A_NAME {
        return Names {
            panels: vec![apart.to_vec(); places.len()],
            series: vec![within.to_vec(); places.len()],
            unsaid: Vec::new(),
        };
    }
    let is_alike = |one: usize, other: usize, axes: &[String]| {
        let value = |at: usize, axis| places[at].get(axis);
        axes.iter().all(|axis| value(one, axis) == value(other, axis))
    };
    let all = || 0..places.len();
    let beside = |at: usize| all().filter(move |other| is_alike(at, *other, apart));
    let differs = |at: usize, axis: &String| {
        let axis = std::slice::from_ref(axis);
        beside(at).any(|other| !is_alike(at, other, axis))
    };
    let mut names = Names::default();
    for at in all() {
        let mut series: Vec<String> = Vec::new();
        for axis in within {
            // The same holds for other panels: equal things get equal names.
            let mut called_alike = all().filter(|other| is_alike(at, *other, &series));
            let tells = called_alike.any(|one| {
                let axis = std::slice::from_ref(axis);
                let mut others = beside(one).filter(|other| is_alike(one, *other, &series));
                others.any(|other| !is_alike(one, other, axis))
            });
            if tells {
                series.push(axis.clone());
            }
        }
        names.series.push(series);
    }
    for at in all() {
        let is_said = |axis: &String| beside(at).any(|other| names.series[other].contains(axis));
        let (unsaid, common): (Vec<&String>, Vec<&String>) =
            within.iter().filter(|axis| !is_said(axis)).partition(|axis| differs(at, axis));
        names.panels.push(apart.iter().chain(common).cloned().collect());
        for axis in unsaid {
            if !names.unsaid.contains(axis) {
                names.unsaid.push(axis.clone());
            }
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_series_is_called_by_what_tells_it_from_others_of_its_panel() {
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
        let (apart, within) = split(&places, false, AT_EASE);
        assert_eq!(apart, [LINK], "six are compared in one panel");
        let axes = ["over", "control", "by", "window"].map(str::to_owned);
        assert_eq!(axes.iter().collect::<BTreeSet<_>>(), within.iter().collect());
        let names = names(&places, &apart, &axes);
        let control = ["over", "control"].map(str::to_owned).to_vec();
        let by = ["over", "by"].map(str::to_owned).to_vec();
        let carrier = vec!["over".to_owned()];
        let series = [&control, &control, &carrier, &carrier, &by, &by];
        let expected: Vec<&Vec<String>> = series.into_iter().chain(series).collect();
        assert_eq!(names.series.iter().collect::<Vec<_>>(), expected);
        assert_eq!(names.panels[0], [LINK]);
        assert_eq!(names.panels[11], [LINK, "window"]);
        assert_eq!(names.unsaid, ["window"]);
    }

    #[test]
    fn one_in_each_panel_is_called_by_the_panel_unless_it_has_room_for_a_name() {
        let axes = ["threads", "way", "mode", "kind"].map(str::to_owned);
        let place = |number: u64| -> Place {
            let axes = axes.iter().cloned();
            axes.map(|axis| (axis, AxisValue::Number(number))).collect()
        };
        let (one, two) = (place(1), place(2));
        let called = names(&[&one, &two], &axes[..1], &axes[1..]);
        assert_eq!(called.panels, [axes.clone(), axes.clone()]);
        assert_eq!(called.series, [Vec::<String>::new(), Vec::new()]);
        let called = names(&[&one, &two], &axes[..1], &axes[1..3]);
        assert_eq!(called.panels[0], axes[..1]);
        assert_eq!(called.series[0], axes[1..3]);
    }
}
