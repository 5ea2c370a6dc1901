//! The units of published figures, and how a result of costof is converted to them.

use crate::tables::TABLES;
use costof_model::Unit;
use costof_model::unit::grouped;
use serde::Deserialize;

/// A unit of a published figure.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Published {
    /// Its symbol in study files.
    pub(super) symbol: &'static str,
    /// The unit in which costof measures this quantity.
    kind: Unit,
    /// How many of costof's units it is.
    step: f64,
}

/// A time below this has zeros behind its point.
const MIN_SHOWN: f64 = 0.1;

/// The conversion from a number of costof's to the published unit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Conversion {
    /// Multiply by this.
    Times(f64),
    /// Divide this by the number.
    Of(f64),
}

impl Published {
    pub(super) fn parse(symbol: &str) -> Result<Published, String> {
        let found = TABLES.units.iter().copied().find(|unit| unit.symbol == symbol);
        found.ok_or_else(|| {
            let known: Vec<&str> = TABLES.units.iter().map(|unit| unit.symbol).collect();
            format!(
                "there is no unit `{symbol}`{} (units: {})",
                costof_model::nearest::hint(symbol, known.iter().copied()),
                known.join(" ").replace("  ", " ")
            )
        })
    }

    /// Whether the unit counts cycles.
    pub(super) fn is_cycles(self) -> bool {
        self.kind == Unit::Cycles
    }

    /// Whether it is a ratio, or a difference in percent.
    pub(super) fn is_ratio(self) -> bool {
        matches!(self.symbol, "×" | "%")
    }

    /// A ratio in this unit.
    pub(super) fn of_ratio(self, ratio: f64) -> f64 {
        match self.symbol {
            "%" => 100.0 * (ratio - 1.0),
            _ => ratio,
        }
    }

    /// The unit in which to show a value of this one: a smaller one for a time that would have zeros behind its
    /// point, `43.3 µs` for 0.0433 ms.
    pub(super) fn fitting(self, value: f64) -> Published {
        let is_small = value != 0.0 && value.abs() < MIN_SHOWN;
        if self.kind != Unit::Nanoseconds || !is_small {
            return self;
        }
        let smaller = TABLES
            .units
            .iter()
            .copied()
            .filter(|unit| unit.kind == self.kind && unit.step < self.step);
        let fits = |unit: &Published| self.in_unit(*unit, value).abs() >= MIN_SHOWN;
        smaller.rev().find(fits).unwrap_or(TABLES.units[0])
    }

    /// A value of this unit in another one of the same kind.
    pub(super) fn in_unit(self, other: Published, value: f64) -> f64 {
        // Steps are whole numbers: 0.01497 ms are 14.97 µs, not 14.969999999999999.
        let digits = 1e9;
        let converted = value * (self.step / other.step);
        if self == other { value } else { (converted * digits).round() / digits }
    }

    /// A value of another unit in this one, if both measure the same.
    pub(super) fn converted(self, from: Published, value: f64) -> Option<f64> {
        (from.kind == self.kind).then(|| value * (from.step / self.step))
    }

    /// The conversion from costof's `unit` to this one, for a figure that covers `times` operations of
    /// costof's, or this many bytes.
    pub(super) fn from(
        self,
        unit: Unit,
        times: Option<f64>,
        bytes: Option<f64>,
    ) -> Result<Conversion, String> {
        let times = times.unwrap_or(1.0);
        match (unit, self.kind, bytes) {
            (own, kind, None) if own == kind => Ok(Conversion::Times(times / self.step)),
            (Unit::BytesPerSecond, Unit::Nanoseconds, Some(bytes))
            | (Unit::Nanoseconds, Unit::BytesPerSecond, Some(bytes)) => {
                Ok(Conversion::Of(times * bytes * 1e9 / self.step))
            }
            (own, _, None) => Err(format!(
                "costof measures that in {own:?}, which cannot be converted to `{}` without `bytes`",
                self.symbol
            )),
            (own, _, Some(_)) => Err(format!(
                "`bytes` converts between a time and a rate: it gives no `{}` from {own:?}",
                self.symbol
            )),
        }
    }

    /// A figure with three significant digits, and its unit.
    pub(super) fn display(self, value: f64) -> String {
        digits(value) + self.space() + self.symbol
    }

    /// The text between a number and its symbol.
    pub(super) fn space(self) -> &'static str {
        if matches!(self.symbol, "" | "×") { "" } else { " " }
    }
}

impl Conversion {
    pub(super) fn apply(self, value: f64) -> f64 {
        match self {
            Conversion::Times(factor) => value * factor,
            Conversion::Of(whole) => whole / value,
        }
    }

    /// Both ends converted, the lower one first.
    pub(super) fn range(self, (low, high): (f64, f64)) -> (f64, f64) {
        let (one, other) = (self.apply(low), self.apply(high));
        (one.min(other), one.max(other))
    }
}

/// Three significant digits, or more before the point in groups of three, without an exponent.
pub(super) fn digits(value: f64) -> String {
    let digits = match value.abs() {
        0.0 => 0,
        // 9.995 has one digit before the point when it is rounded, and 10.0 two.
        small => (2.0 - (small * 1.0005).log10().floor()).clamp(0.0, 9.0) as usize,
    };
    let text = format!("{value:.digits$}");
    if value.abs() >= 10_000.0 {
        return grouped(&text);
    }
    text
}

/// The number as it was published, with no more digits.
pub(super) fn as_published(value: f64) -> String {
    let whole = format!("{value}");
    if value.abs() >= 10_000.0 && value.fract() == 0.0 {
        return grouped(&whole);
    }
    whole
}

#[cfg(test)]
mod tests {
    use super::*;

    fn converted(
        symbol: &str,
        unit: Unit,
        times: Option<f64>,
        bytes: Option<f64>,
        value: f64,
    ) -> f64 {
        let unit_of = Published::parse(symbol).unwrap();
        unit_of.from(unit, times, bytes).unwrap().apply(value)
    }

    #[test]
    fn a_number_of_costofs_becomes_one_of_theirs() {
        let ns = Unit::Nanoseconds;
        let rate = Unit::BytesPerSecond;
        assert_eq!(converted("µs", ns, None, None, 1500.0), 1.5);
        assert_eq!(converted("µs", ns, Some(0.5), None, 1500.0), 0.75);
        assert_eq!(converted("Gb/s", rate, None, None, 1e9), 8.0);
        assert_eq!(converted("Mib/s", rate, None, None, 1_048_576.0), 8.0);
        // A megabyte at 10 GB/s takes 100 µs; 1000 bytes in 1 µs are 8 Gb/s.
        assert_eq!(converted("µs", rate, None, Some(1e6), 10e9), 100.0);
        assert_eq!(converted("Gb/s", ns, None, Some(1000.0), 1000.0), 8.0);
        assert_eq!(converted("%", Unit::One, None, None, 0.25), 25.0);
        let swapped = Conversion::Of(100.0).range((1.0, 10.0));
        assert_eq!(swapped, (10.0, 100.0));
    }

    #[test]
    fn a_time_has_no_zeros_behind_its_point() {
        let shown = |symbol: &str, value: f64| {
            let unit = Published::parse(symbol).unwrap();
            let fitting = unit.fitting(value);
            fitting.display(unit.in_unit(fitting, value))
        };
        for (symbol, value, text) in [
            ("ms", 0.0433, "43.3 µs"),
            ("µs", 0.0656, "65.6 ns"),
            ("s", 0.000_002, "2.00 µs"),
            ("ms", 0.1, "0.100 ms"),
            ("ns", 0.0433, "0.0433 ns"),
            ("ms", 0.0, "0 ms"),
            ("Gb/s", 0.077, "0.0770 Gb/s"),
        ] {
            assert_eq!(shown(symbol, value), text);
        }
    }

    #[test]
    fn what_is_no_such_unit_is_reported() {
        let text = Published::parse("us").unwrap_err();
        assert!(text.contains("`us`") && text.contains("µs"), "{text}");
        let ms = Published::parse("ms").unwrap();
        assert!(ms.from(Unit::BytesPerSecond, None, None).is_err());
        assert!(ms.from(Unit::Nanoseconds, None, Some(5.0)).is_err());
    }

    #[test]
    fn figures_keep_the_digits_that_they_had() {
        assert_eq!(as_published(0.077), "0.077");
        assert_eq!(as_published(19294.0), "19,294");
        assert_eq!(as_published(312.0), "312");
        let shown = [0.0, 0.001_646, 0.077_1, 9.996, 61.23, 99.96, 1234.5, 3e7].map(digits);
        assert_eq!(shown, ["0", "0.00165", "0.0771", "10.0", "61.2", "100", "1234", "30,000,000"]);
    }
}
