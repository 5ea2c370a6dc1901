//! Units, and how people read and write quantities.

use serde::{Deserialize, Serialize};

/// The unit of a metric or of an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Unit {
    /// Nanoseconds.
    #[serde(rename = "ns")]
    Nanoseconds,
    /// Processor cycles; the metric's name says which kind.
    #[serde(rename = "cycles")]
    Cycles,
    /// Events per second.
    #[serde(rename = "Hz")]
    Hertz,
    /// Bytes.
    #[serde(rename = "B")]
    Bytes,
    /// Bytes per second.
    #[serde(rename = "B/s")]
    BytesPerSecond,
    /// A CPU by its number, as the kernel counts them.
    #[serde(rename = "processor")]
    Processor,
    /// A count or a ratio.
    #[serde(rename = "1")]
    One,
}

/// Which way a metric improves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Better {
    /// Less is better: a cost, a latency.
    Lower,
    /// More is better: a throughput.
    Higher,
    /// Neither: a clock rate, a count.
    Neither,
}

impl Better {
    /// A deviation as one for the worse: above zero where the value is worse than it should be.
    pub fn worse(self, deviation: f64) -> f64 {
        match self {
            Better::Higher => -deviation,
            Better::Lower | Better::Neither => deviation,
        }
    }
}

impl Unit {
    /// A value of this unit as people write it, with three significant
    /// digits and a unit that fits its size: `3.42 µs`, `256 MiB`, `4.01 GHz`.
    pub fn display(self, value: f64) -> String {
        self.display_with(value, 0)
    }

    /// The same with more digits.
    fn display_with(self, value: f64, more: usize) -> String {
        if self == Unit::Bytes {
            return display_bytes(value as u64);
        }
        let (step, symbol) = self.step(value);
        let space = if symbol.is_empty() { "" } else { " " };
        format!("{}{space}{symbol}", significant(value / step, more))
    }

    /// An interval with a unit at both ends. It has up to three more digits if the ends would
    /// otherwise look alike: `999 ns – 1.31 µs`, `190.1 ms – 190.2 ms`; one end if they do so all the same.
    pub fn display_interval(self, interval: (f64, f64)) -> String {
        let [low, high] = ends(interval, |end, more| self.display_with(end, more));
        span(&low, " – ", &high)
    }

    /// A range in the unit of its upper end: `0.349–1.20 µs`. If the lower end would have fewer than three digits
    /// there, as it may in a range over more than a decade, each end has its own: `73.0 µs – 1.05 ms`. It has up to three more digits
    /// if its ends would otherwise look alike, `190.12–190.18 ms`, and one end if they do so all the same:
    /// `190 ms`.
    pub fn display_range(self, range: (f64, f64)) -> String {
        let (step, symbol) = self.step(range.1);
        // 0.09996 is printed as 0.100.
        let is_short = range.0 > 0.0 && range.0 < step * 0.09995;
        if is_short && self.step(range.0).0 < step {
            return self.display_interval(range);
        }
        let [low, high] = ends(range, |end, more| significant(end / step, more));
        let space = if symbol.is_empty() { "" } else { " " };
        format!("{}{space}{symbol}", span(&low, "–", &high))
    }

    /// The step of this unit in which a value is displayed, and its symbol.
    fn step(self, value: f64) -> (f64, &'static str) {
        let steps: &[(f64, &str)] = match self {
            Unit::Nanoseconds => &[(1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1.0, "ns")],
            Unit::Hertz => &[(1e9, "GHz"), (1e6, "MHz"), (1e3, "kHz"), (1.0, "Hz")],
            Unit::BytesPerSecond => &[(1e9, "GB/s"), (1e6, "MB/s"), (1e3, "kB/s"), (1.0, "B/s")],
            Unit::Bytes => &[(1.0, "B")],
            Unit::Cycles => &[(1.0, "cycles")],
            Unit::Processor | Unit::One => &[(1.0, "")],
        };
        steps
            .iter()
            .copied()
            // 999.6 would be printed as 1000, so the next unit begins there.
            .find(|(step, _)| value.abs() >= step * 0.9995)
            .or(steps.last().copied())
            .unwrap_or((1.0, ""))
    }
}

/// The ends of a range with `to` between them, or one of them where they read the same.
pub fn span(low: &str, to: &str, high: &str) -> String {
    if low == high {
        return low.to_owned();
    }
    format!("{low}{to}{high}")
}

/// The ends of a range as formatted by `written`, with the fewest additional digits that
/// distinguish them.
fn ends((low, high): (f64, f64), written: impl Fn(f64, usize) -> String) -> [String; 2] {
    let shown = |more| [low, high].map(|end| written(end, more));
    let differ = |[low, high]: &[String; 2]| low != high;
    (0..=3).map(shown).find(differ).unwrap_or_else(|| shown(0))
}

/// Three significant digits and this many more, without an exponent below 10¹⁵.
fn significant(value: f64, more: usize) -> String {
    if value.abs() >= 1e15 {
        return format!("{value:.*e}", 2 + more);
    }
    let digits = match value.abs() {
        v if v >= 99.95 => 0,
        v if v >= 9.995 => 1,
        v if v >= 0.9995 => 2,
        _ => 3,
    };
    let digits = digits + more;
    format!("{value:.digits$}")
}

/// A whole number with a comma before every three digits.
pub fn grouped(whole: &str) -> String {
    let mut text = String::new();
    for (position, digit) in whole.chars().enumerate() {
        let left = whole.len() - position;
        if position > 0 && left.is_multiple_of(3) && !text.ends_with('-') {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `16384` as `16KiB`: the largest binary unit that divides it.
pub fn display_bytes(bytes: u64) -> String {
    let mut units = [(40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")]
        .into_iter()
        .map(|(power, symbol)| (1_u64 << power, symbol));
    let unit = units.find(|(step, _)| bytes >= *step && bytes.is_multiple_of(*step));
    let (step, symbol) = unit.unwrap_or((1, "B"));
    format!("{}{symbol}", bytes / step)
}

/// `16KiB`, `1 MiB`, `64B`, `10kB` or `64` as bytes. `K`, `M`, `G` are binary, as in the tools of this
/// field. `None` if the text is not a size, or is 2⁶⁴ or more.
pub fn parse_bytes(text: &str) -> Option<u64> {
    let (number, suffix) = number_and_unit(text)?;
    let step = match suffix.to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kib" => 1 << 10,
        "m" | "mib" => 1 << 20,
        "g" | "gib" => 1 << 30,
        "t" | "tib" => 1 << 40,
        // `Gb` are bits.
        _ => thousands(suffix.strip_suffix('B')?)?,
    };
    number.checked_mul(step)
}

/// `10k`, `2M` or `50` as a number of things. `None` if the text is not a whole number, or is 2⁶⁴ or more.
pub fn parse_count(text: &str) -> Option<u64> {
    let (number, suffix) = number_and_unit(text)?;
    number.checked_mul(thousands(suffix)?)
}

/// The decimal factor that a letter before a unit stands for.
pub(crate) fn thousands(letter: &str) -> Option<u64> {
    Some(match letter {
        "" => 1,
        "k" | "K" => 1000,
        "m" | "M" => 1_000_000,
        "g" | "G" => 1_000_000_000,
        "t" | "T" => 1_000_000_000_000,
        _ => return None,
    })
}

/// How many bits per second `100Mbit`, `10Gbit/s`, `10Gbps` or `1.5Gb/s` are. `None` if the text is no such
/// rate.
pub fn parse_bits_per_second(text: &str) -> Option<f64> {
    let (text, per_second) = match text.strip_suffix("/s").or_else(|| text.strip_suffix("ps")) {
        Some(text) => (text, true),
        None => (text, false),
    };
    let short = || text.strip_suffix('b').filter(|_| per_second);
    let text = text.strip_suffix("bit").or_else(short)?;
    let letter = text.len()
        - text.chars().next_back().filter(char::is_ascii_alphabetic).map_or(0, char::len_utf8);
    let (digits, letter) = text.split_at(letter);
    let number: f64 = digits.trim().parse().ok()?;
    number.is_finite().then_some(number * thousands(letter)? as f64)
}

/// A whole number and the unit that follows it, without blanks.
fn number_and_unit(text: &str) -> Option<(u64, &str)> {
    let text = text.trim();
    let split = text.find(|c: char| !c.is_ascii_digit());
    let (digits, unit) = text.split_at(split.unwrap_or(text.len()));
    Some((digits.parse().ok()?, unit.trim()))
}

/// `50000` as `50us`: the largest unit that divides it, as it can be typed.
pub fn display_ns(ns: u64) -> String {
    let unit = TIMES.iter().rev().find(|(step, _)| ns.is_multiple_of(*step));
    let (step, symbol) = unit.expect("everything is a number of nanoseconds");
    format!("{}{symbol}", ns / step)
}

/// `50us`, `50 µs`, `1ms` or `50000` as nanoseconds. `None` if the text is not a time, or is 2⁶⁴ or
/// more.
pub fn parse_ns(text: &str) -> Option<u64> {
    let (number, symbol) = number_and_unit(text)?;
    let step = match symbol {
        "" => 1,
        "µs" => 1000,
        symbol => TIMES.iter().find(|(_, known)| *known == symbol)?.0,
    };
    number.checked_mul(step)
}

const TIMES: [(u64, &str); 4] = [(1, "ns"), (1000, "us"), (1_000_000, "ms"), (1_000_000_000, "s")];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_written_with_three_digits_and_a_fitting_unit() {
        assert_eq!(Unit::Nanoseconds.display(0.2514), "0.251 ns");
        assert_eq!(Unit::Nanoseconds.display(111.3), "111 ns");
        assert_eq!(Unit::Nanoseconds.display(999.7), "1.00 µs");
        assert_eq!(Unit::Nanoseconds.display(3_420.0), "3.42 µs");
        assert_eq!(Unit::Nanoseconds.display(-5.0), "-5.00 ns");
        assert_eq!(Unit::Nanoseconds.display(1.74e305), "1.74e296 s");
        assert_eq!(Unit::Hertz.display(4.012e9), "4.01 GHz");
        assert_eq!(Unit::Bytes.display(268_435_456.0), "256MiB");
        assert_eq!(Unit::Cycles.display(7.0), "7.00 cycles");
        assert_eq!(Unit::One.display(2.0), "2.00");
        for (range, shown) in [
            ((349.0, 1.2e3), "0.349–1.20 µs"),
            ((12.0, 1.2e6), "12.0 ns – 1.20 ms"),
            ((73e3, 1.05e6), "73.0 µs – 1.05 ms"),
            ((99.96e3, 1.05e6), "0.100–1.05 ms"),
            ((10.0, 780.0), "10.0–780 ns"),
            // There is no smaller unit.
            ((0.005, 3.0), "0.005–3.00 ns"),
            ((0.0, 1.2e6), "0.000–1.20 ms"),
            ((190.12e6, 190.18e6), "190.1–190.2 ms"),
            ((190.12e6, 190.14e6), "190.12–190.14 ms"),
            ((190e6, 190e6 + 9.0), "190 ms"),
            ((190e6, 190e6), "190 ms"),
        ] {
            assert_eq!(Unit::Nanoseconds.display_range(range), shown);
        }
        for (unit, interval, shown) in [
            (Unit::Nanoseconds, (999.0, 1310.0), "999 ns – 1.31 µs"),
            (Unit::Nanoseconds, (190.12e6, 190.18e6), "190.1 ms – 190.2 ms"),
            (Unit::Bytes, (1024.0, 4096.0), "1KiB – 4KiB"),
            (Unit::One, (0.5, 1.0), "0.500 – 1.00"),
            (Unit::One, (2.0, 2.0), "2.00"),
        ] {
            assert_eq!(unit.display_interval(interval), shown);
        }
    }

    #[test]
    fn times_are_read_as_they_are_written() {
        for (ns, text) in [(1, "1ns"), (1500, "1500ns"), (50_000, "50us"), (1_000_000, "1ms")] {
            assert_eq!(display_ns(ns), text);
            assert_eq!(parse_ns(text), Some(ns));
        }
        assert_eq!(display_ns(2_000_000_000), "2s");
        assert_eq!((parse_ns("7 µs"), parse_ns("12")), (Some(7000), Some(12)));
        for bad in ["", "us", "1h", "-1ms", "1.5ms", "99999999999999999999s"] {
            assert_eq!(parse_ns(bad), None, "{bad}");
        }
    }

    #[test]
    fn digits_stand_in_groups_of_three() {
        let shown = ["0", "999", "1000", "127212", "1234567", "-127212"].map(grouped);
        assert_eq!(shown, ["0", "999", "1,000", "127,212", "1,234,567", "-127,212"]);
    }

    #[test]
    fn sizes_are_read_as_they_are_written() {
        for bytes in [1, 64, 1024, 1536, 16 << 10, 1 << 20, 3 << 30, 1 << 40] {
            assert_eq!(parse_bytes(&display_bytes(bytes)), Some(bytes));
        }
        assert_eq!(parse_bytes("16 kib"), Some(16384));
        assert_eq!(parse_bytes("1M"), Some(1 << 20));
        assert_eq!((parse_bytes("10k"), parse_bytes("10 kB")), (Some(10_240), Some(10_000)));
        assert_eq!((parse_count("10k"), parse_count("2M")), (Some(10_000), Some(2_000_000)));
        assert_eq!((parse_count("10kB"), parse_count("k")), (None, None));
        for text in ["10Gbit", "10Gbit/s", "10Gb/s", "10Gbps", "10000Mbit/s"] {
            assert_eq!(parse_bits_per_second(text), Some(1e10), "{text}");
        }
        for text in ["10Gb", "10GB/s", "10", "Gbit", "10xbit", "infbit", "10G", "10/s"] {
            assert_eq!(parse_bits_per_second(text), None, "{text}");
        }
        assert_eq!(parse_bytes("many"), None);
        assert_eq!(parse_bytes("-1"), None);
        assert_eq!(parse_bytes("99999999999999GiB"), None);
    }
}
