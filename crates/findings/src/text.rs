//! How sentences write figures, and what they leave out.

use costof_model::Unit;
use costof_model::link::mark;
use costof_model::unit;

pub(crate) use costof_model::unit::display_bytes as bytes;

pub(crate) fn ns(ns: f64) -> String {
    Unit::Nanoseconds.display(ns)
}

pub(crate) fn rate(bytes_per_s: f64) -> String {
    Unit::BytesPerSecond.display(bytes_per_s)
}

/// A number without a unit, as a whole one.
pub(crate) fn whole(value: f64) -> String {
    format!("{value:.0}")
}

/// A share in percent, without the sign.
pub(crate) fn percent(share: f64) -> String {
    whole(100.0 * share)
}

/// A number with two digits after the point.
pub(crate) fn times(times: f64) -> String {
    format!("{times:.2}")
}

/// A size in bytes with two digits. A whole number of a unit has as many digits as it needs.
pub(crate) fn size(bytes: f64) -> String {
    const UNITS: [&str; 4] = ["B", "KiB", "MiB", "GiB"];
    let (mut value, mut unit) = (bytes, 0);
    while value >= 1000.0 && unit + 1 < UNITS.len() {
        (value, unit) = (value / 1024.0, unit + 1);
    }
    let unit = UNITS[unit];
    if value < 9.95 && (value - value.round()).abs() >= 0.05 {
        return format!("{value:.1}{unit}");
    }
    let step = if value >= 99.5 && value.fract() != 0.0 { 10.0 } else { 1.0 };
    format!("{:.0}{unit}", (value / step).round() * step)
}

/// `12.0 ns to 14.0 ns`; one end if both read the same.
pub(crate) fn range((low, high): (f64, f64), shown: impl Fn(f64) -> String) -> String {
    unit::span(&shown(low), " to ", &shown(high))
}

/// A link, marked if it is emulated.
pub(crate) fn link(link: &str) -> String {
    format!("{link}{}", mark(link))
}

/// A text about a value; empty without one.
pub(crate) fn maybe<T>(value: Option<T>, text: impl FnOnce(T) -> String) -> String {
    value.map(text).unwrap_or_default()
}

/// A text if the condition holds; empty otherwise.
pub(crate) fn when(holds: bool, text: &str) -> &str {
    if holds { text } else { "" }
}

/// The parts after this text, with `between` between them; empty without parts.
pub(crate) fn list(before: &str, parts: &[String], between: &str) -> String {
    maybe((!parts.is_empty()).then_some(parts), |parts| before.to_owned() + &parts.join(between))
}

/// The smallest and the largest value; none without values.
pub(crate) fn span(values: impl IntoIterator<Item = f64>) -> Option<(f64, f64)> {
    let ends = values.into_iter().map(|value| (value, value));
    ends.reduce(|(low, high), (value, _)| (f64::min(low, value), f64::max(high, value)))
}
