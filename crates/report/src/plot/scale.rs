//! Scales: the place of a value on an axis, and the labels of the axis.

use super::ends;
use costof_model::unit::display_ns;
use costof_model::{Unit, display_bytes};
use std::collections::BTreeSet;

/// The scale of an axis.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Scale {
    /// Logarithmic: each doubling takes the same distance.
    Doublings,
    /// Logarithmic: each factor of ten takes the same distance.
    Decades,
    /// Linear, from zero on.
    Linear,
    /// Linear, from zero on, with marks at multiples of a power of two: sizes in equal steps.
    LinearSizes,
    /// Words at 1, 2, 3 …
    Words(Vec<String>),
}

/// The values that a logarithmic axis can show. A hostile file may have any.
const SHOWN: std::ops::Range<f64> = 1e-9..1e21;

impl Scale {
    /// Whether the axis can show a value.
    pub(crate) fn shows(&self, value: f64) -> bool {
        match self {
            Scale::Doublings | Scale::Decades => SHOWN.contains(&value),
            Scale::Linear | Scale::LinearSizes | Scale::Words(_) => {
                value.is_finite() && value.abs() < SHOWN.end
            }
        }
    }

    /// The scale that fits positive measured values: logarithmic if they span more than a factor of four,
    /// else linear.
    pub(crate) fn of_values(values: impl Iterator<Item = f64>) -> Scale {
        let (low, high) = ends(values);
        if low > 0.0 && high / low > 4.0 { Scale::Decades } else { Scale::Linear }
    }

    /// The scale that fits the numbers of an axis.
    pub(crate) fn of_numbers(unit: Unit, numbers: &[u64]) -> Scale {
        let doublings =
            unit == Unit::Bytes || numbers.iter().all(|number| number.is_power_of_two());
        if are_steps(numbers) {
            match unit {
                Unit::Bytes => Scale::LinearSizes,
                _ => Scale::Linear,
            }
        } else if numbers.contains(&0) {
            // Zero has no logarithm.
            Scale::Linear
        } else if doublings {
            Scale::Doublings
        } else {
            Scale::Decades
        }
    }
}

/// Whether numbers go up in steps that are equal, or about that: five or more, the largest step at most four
/// times the smallest.
fn are_steps(numbers: &[u64]) -> bool {
    let numbers: BTreeSet<u64> = numbers.iter().copied().collect();
    let numbers: Vec<u64> = numbers.into_iter().collect();
    let steps = || numbers.windows(2).map(|pair| pair[1] - pair[0]);
    let longest = steps().max();
    let is_even = |(least, most): (u64, u64)| most <= least.saturating_mul(4);
    numbers.len() >= 5 && steps().min().zip(longest).is_some_and(is_even)
}

/// The range of values that an axis shows.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Span {
    scale: Scale,
    /// The ends as places: logarithms if the scale is logarithmic.
    low: f64,
    high: f64,
}

impl Span {
    /// The range of an axis that shows these values, with a little room.
    pub(crate) fn new(scale: &Scale, values: impl Iterator<Item = f64>) -> Span {
        let (low, high) = ends(values.map(|value| place(scale, value)));
        let (low, high) = match scale {
            Scale::Words(words) => (0.5, words.len() as f64 + 0.5),
            _ if low > high => (0.0, 1.0),
            Scale::Doublings => (low - 0.3, high + 0.3),
            Scale::Decades => {
                let room = (0.1 * (high - low)).max(0.15);
                (low - room, high + room)
            }
            Scale::Linear | Scale::LinearSizes => {
                let top = if high > 0.0 { high * 1.15 } else { 1.0 };
                (low.min(0.0) * 1.15, top)
            }
        };
        let scale = scale.clone();
        Span { scale, low, high }
    }

    /// Adds room below, as a share of the axis.
    pub(crate) fn widen_below(&mut self, share: f64) {
        self.low -= share * (self.high - self.low);
    }

    /// Adds room above, as a share of the axis.
    pub(crate) fn widen_above(&mut self, share: f64) {
        self.high += share * (self.high - self.low);
    }

    /// The place of a value, from 0 at the low end to 1 at the high one.
    pub(crate) fn share(&self, value: f64) -> f64 {
        (place(&self.scale, value) - self.low) / (self.high - self.low)
    }

    /// The value, or the nearest end if it lies outside.
    pub(crate) fn within(&self, value: f64) -> f64 {
        match place(&self.scale, value) {
            place if place < self.low => self.value(self.low),
            place if place > self.high => self.value(self.high),
            _ => value,
        }
    }

    /// How many words, doublings or decades the axis shows.
    pub(crate) fn steps(&self) -> f64 {
        (self.high - self.low).max(1.0)
    }

    /// The values that label the axis, about `most` of them.
    pub(crate) fn ticks(&self, most: usize) -> Vec<f64> {
        let (low, high, most) = (self.low, self.high, most as f64);
        let multiples = |step: f64| {
            let first = (low / step).ceil() as i64;
            let last = (high / step).floor() as i64;
            (first..=last).map(move |times| times as f64 * step)
        };
        match self.scale {
            Scale::Words(_) => multiples(1.0).collect(),
            Scale::Doublings => {
                let step = ((high - low) / most).ceil().max(1.0);
                multiples(step).map(f64::exp2).collect()
            }
            Scale::Decades if high - low > 2.5 => {
                let step = ((high - low) / most).ceil().max(1.0);
                let decades = multiples(step);
                decades.map(|decade| 10_f64.powf(decade)).collect()
            }
            Scale::Decades => {
                let decades = low.floor() as i32..=high.floor() as i32;
                let each = decades
                    .flat_map(|decade| [1.0, 2.0, 5.0].map(|digit| digit * 10_f64.powi(decade)));
                let is_shown = |value: &f64| (low..=high).contains(&value.log10());
                each.filter(is_shown).collect()
            }
            Scale::LinearSizes => multiples(((high - low) / most).log2().ceil().exp2()).collect(),
            Scale::Linear => {
                let least = (high - low) / most;
                let decade = 10_f64.powf(least.log10().floor());
                let steps = [1.0, 2.0, 2.5, 5.0, 10.0].map(|digit| digit * decade);
                let step = steps.into_iter().find(|step| *step >= least);
                multiples(step.unwrap_or(least)).collect()
            }
        }
    }

    fn value(&self, place: f64) -> f64 {
        match self.scale {
            Scale::Doublings => place.exp2(),
            Scale::Decades => 10_f64.powf(place),
            Scale::Linear | Scale::LinearSizes | Scale::Words(_) => place,
        }
    }
}

/// The place of a value on a scale: equal steps on the scale give equal distances.
fn place(scale: &Scale, value: f64) -> f64 {
    match scale {
        Scale::Doublings => value.log2(),
        Scale::Decades => value.log10(),
        Scale::Linear | Scale::LinearSizes | Scale::Words(_) => value,
    }
}

/// The label of a tick: `1 µs`, `64KiB`, `0.2`.
pub(crate) fn tick(unit: Unit, value: f64) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    match unit {
        Unit::One if value >= 1e3 => {
            let (step, symbol) = match value {
                value if value >= 1e9 => (1e9, "G"),
                value if value >= 1e6 => (1e6, "M"),
                _ => (1e3, "k"),
            };
            format!("{}{symbol}", trimmed(&format!("{:.2}", value / step)))
        }
        Unit::Bytes => display_bytes(value.round() as u64),
        _ => {
            let text = unit.display(value);
            match text.split_once(' ') {
                Some((number, symbol)) => format!("{} {symbol}", trimmed(number)),
                None => trimmed(&text).to_owned(),
            }
        }
    }
}

/// A value of a probe's axis, as a user types it.
pub(crate) fn number(unit: Unit, value: u64) -> String {
    match unit {
        Unit::Bytes => display_bytes(value),
        Unit::Nanoseconds => display_ns(value),
        _ => value.to_string(),
    }
}

/// Removes zeros after the point: `1.00` becomes `1`.
fn trimmed(number: &str) -> &str {
    if number.contains('.') { number.trim_end_matches('0').trim_end_matches('.') } else { number }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_short() {
        let of = |unit: Unit, values: &[f64]| -> Vec<String> {
            values.iter().map(|value| tick(unit, *value)).collect()
        };
        assert_eq!(
            of(Unit::Nanoseconds, &[0.2, 1.0, 1000.0, 2e6]),
            ["0.2 ns", "1 ns", "1 µs", "2 ms"]
        );
        assert_eq!(of(Unit::One, &[0.0, 0.25, 1.0, 20e3, 3e6]), ["0", "0.25", "1", "20k", "3M"]);
        assert_eq!(of(Unit::Bytes, &[65536.0, 3e6]), ["64KiB", "3000000B"]);
    }

    #[test]
    fn nothing_and_what_is_no_number_stand_on_no_logarithmic_axis() {
        for value in [0.0, -1.0, f64::INFINITY, f64::NAN, 1e300, 1e-300] {
            assert!(!Scale::Decades.shows(value), "{value}");
        }
        assert!(Scale::Linear.shows(0.0) && !Scale::Linear.shows(1e300));
    }

    #[test]
    fn ticks_are_round_and_few() {
        let ticks =
            |scale: &Scale, values: &[f64]| Span::new(scale, values.iter().copied()).ticks(7);
        assert_eq!(ticks(&Scale::Linear, &[0.0, 10.0]), [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]);
        assert_eq!(ticks(&Scale::Decades, &[1.0, 1e4]).len(), 5);
        assert_eq!(ticks(&Scale::Decades, &[30.0, 90.0]), [50.0, 100.0]);
        assert_eq!(ticks(&Scale::Doublings, &[64.0, 512.0]), [64.0, 128.0, 256.0, 512.0]);
        let gibibytes = [0.5, 4.0].map(|gibibytes| gibibytes * f64::from(1 << 30));
        let each = [0.0, 1.0, 2.0, 3.0, 4.0].map(|gibibytes| gibibytes * f64::from(1 << 30));
        assert_eq!(ticks(&Scale::LinearSizes, &gibibytes), each);
        let words = Scale::Words(vec!["a".into(), "b".into()]);
        assert_eq!(ticks(&words, &[]), [1.0, 2.0]);
    }

    #[test]
    fn a_value_stands_between_the_ends() {
        let span = Span::new(&Scale::Decades, [10.0, 1000.0].into_iter());
        assert!((span.share(100.0) - 0.5).abs() < 1e-9);
        assert!(span.share(10.0) > 0.0 && span.share(1000.0) < 1.0);
        assert_eq!(span.within(50.0), 50.0);
        assert!((span.share(span.within(1e9)) - 1.0).abs() < 1e-9);
    }

    #[test]
    fn a_scale_follows_its_values() {
        let of = |values: &[f64]| Scale::of_values(values.iter().copied());
        assert_eq!(of(&[1.0, 3.0]), Scale::Linear);
        assert_eq!(of(&[1.0, 30.0]), Scale::Decades);
        assert_eq!(of(&[0.0, 30.0]), Scale::Linear);
        assert_eq!(Scale::of_numbers(Unit::One, &[1, 2, 8]), Scale::Doublings);
        assert_eq!(Scale::of_numbers(Unit::One, &[1000, 5000]), Scale::Decades);
        assert_eq!(Scale::of_numbers(Unit::Bytes, &[0, 64]), Scale::Linear);
        for (numbers, scale) in [
            (&[3, 1, 2, 2, 4, 5][..], Scale::LinearSizes),
            (&[128, 256, 512, 1024, 1536], Scale::LinearSizes),
            (&[1, 2, 4, 8, 16], Scale::Doublings),
            (&[1, 2, 3, 4], Scale::Doublings),
        ] {
            assert_eq!(Scale::of_numbers(Unit::Bytes, numbers), scale, "{numbers:?}");
        }
    }
}
