//! Scales: where values stand on an axis, and what is written there.

use costof_model::unit::{Unit, display_bytes, display_ns};

/// How values are spread over an axis.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Scale {
    /// Twice as much is always as far away.
    Doublings,
    /// Ten times as much is always as far away.
    Decades,
    /// From nothing on, evenly.
    Linear,
    /// Words at 1, 2, 3 …
    Words(Vec<String>),
}

/// Values that a logarithmic axis can show. A hostile file may have any.
const SHOWN: std::ops::Range<f64> = 1e-9..1e21;

impl Scale {
    /// Whether a value can be drawn on it.
    pub(crate) fn shows(&self, value: f64) -> bool {
        match self {
            Scale::Doublings | Scale::Decades => SHOWN.contains(&value),
            Scale::Linear | Scale::Words(_) => value.is_finite() && value.abs() < SHOWN.end,
        }
    }

    /// Where a value stands, before the drawing library maps it; that one takes logarithms to the
    /// base of ten itself.
    pub(crate) fn place(&self, value: f64) -> f64 {
        match self {
            Scale::Doublings => value.log2(),
            Scale::Decades | Scale::Linear | Scale::Words(_) => value,
        }
    }

    /// The scale that fits positive measured values: logarithmic where they span more than a
    /// factor of four, else linear.
    pub(crate) fn of_values(values: impl Iterator<Item = f64>) -> Scale {
        let (low, high) = values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
            (low.min(value), high.max(value))
        });
        match low > 0.0 && high / low > 4.0 {
            true => Scale::Decades,
            false => Scale::Linear,
        }
    }

    /// The scale that fits the numbers of an axis.
    pub(crate) fn of_numbers(unit: Unit, numbers: &[u64]) -> Scale {
        let doublings =
            unit == Unit::Bytes || numbers.iter().all(|number| number.is_power_of_two());
        match numbers.contains(&0) {
            // Nothing has no logarithm.
            true => Scale::Linear,
            false if doublings => Scale::Doublings,
            false => Scale::Decades,
        }
    }

    /// The ends of an axis that shows these places, with a little room.
    pub(crate) fn ends(&self, places: impl Iterator<Item = f64>) -> (f64, f64) {
        let (low, high) = places.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), place| {
            (low.min(place), high.max(place))
        });
        match self {
            Scale::Words(words) => (0.5, words.len() as f64 + 0.5),
            _ if low > high => (1.0, 10.0),
            Scale::Doublings => (low - 0.3, high + 0.3),
            Scale::Decades => {
                let room = (high / low).powf(0.05).max(1.25);
                (low / room, high * room)
            }
            Scale::Linear => {
                let top = if high > 0.0 { high * 1.08 } else { 1.0 };
                (low.min(0.0) * 1.08, top)
            }
        }
    }
}

/// What is written beside a tick: `1 µs`, `64KiB`, `0.2`.
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

/// A value of an axis of a probe, as it is typed.
pub(crate) fn number(unit: Unit, value: u64) -> String {
    match unit {
        Unit::Bytes => display_bytes(value),
        Unit::Nanoseconds => display_ns(value),
        _ => value.to_string(),
    }
}

/// `1.00` as `1`.
fn trimmed(number: &str) -> &str {
    match number.contains('.') {
        true => number.trim_end_matches('0').trim_end_matches('.'),
        false => number,
    }
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
        assert_eq!(
            of(Unit::One, &[0.0, 0.25, 1.0, 20e3, 3e6]),
            ["0", "0.25", "1", "20k", "3M"]
        );
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
    fn a_scale_follows_its_values() {
        let of = |values: &[f64]| Scale::of_values(values.iter().copied());
        assert_eq!(of(&[1.0, 3.0]), Scale::Linear);
        assert_eq!(of(&[1.0, 30.0]), Scale::Decades);
        assert_eq!(of(&[0.0, 30.0]), Scale::Linear);
        assert_eq!(Scale::of_numbers(Unit::One, &[1, 2, 8]), Scale::Doublings);
        assert_eq!(Scale::of_numbers(Unit::One, &[1000, 5000]), Scale::Decades);
        assert_eq!(Scale::of_numbers(Unit::Bytes, &[0, 64]), Scale::Linear);
    }
}
