//! Expressions of costs, as users type them: `10 * net.rtt(over lan) + 1MiB / memory.bandwidth`.
//!
//! A number may have a unit: bytes (`1MiB`), bits (`10Gbit`) or a time (`3ms`), each also per second
//! (`10Gbit/s`, `50/s`). `10k` is ten thousand, or 10 KiB where only a size makes sense. A probe's id
//! stands for its primary metric at its defaults; `probe(axis=value, over LINK)` chooses another
//! point, with the link last. The operators are `+`, `*`, `/`, parentheses, and `max(…)` for costs that overlap in time.
//! Costs cannot be subtracted.

mod parser;

use crate::{Point, ProbeInfo, Settings, Unit, nearest};
use parser::Parser;
use std::fmt;

/// A sum of parts, each of which is a cost.
#[derive(Clone, Debug)]
pub struct Expression {
    parts: Vec<Part>,
    /// Every point that it names, once each, in order.
    pub points: Vec<Point>,
    /// The unit of the total.
    pub unit: Unit,
}

#[derive(Clone, Debug)]
struct Part {
    text: String,
    node: Node,
}

#[derive(Clone, Debug)]
enum Node {
    Number(f64),
    /// A position among the points, and the factor that converts its primary metric to nanoseconds
    /// and bytes.
    Point(usize, f64),
    Sum(Vec<Node>),
    /// Factors; those marked `true` are divisors. A list, as a tree could be too deep to walk.
    Product(Vec<(bool, Node)>),
    Max(Vec<Node>),
}

/// The value of a point, in the unit of its primary metric.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value {
    /// Measured: the median, and its 95 % interval, if there were enough launches for one.
    Measured(f64, Option<(f64, f64)>),
    /// Predicted: any value in the range.
    Predicted(f64, f64),
}

/// The value of an expression, in its unit.
#[derive(Clone, Debug, PartialEq)]
pub struct Total {
    /// Computed from the median of each measured point, and the geometric middle of each
    /// prediction.
    pub value: f64,
    /// The range that the intervals of measured points and the ranges of predictions allow; `None`
    /// if a measured point has no interval, or if the range has no end.
    pub interval: Option<(f64, f64)>,
    /// Each part as it was typed, and its value.
    pub parts: Vec<(String, f64)>,
}

/// Exponents of bytes and of nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Dimension(i32, i32);

const NUMBER: Dimension = Dimension(0, 0);

impl Expression {
    /// Parses an expression that uses these probes, named by their ids.
    ///
    /// # Errors
    /// A sentence that says what is wrong and what is allowed there, with the nearest correct name.
    pub fn parse(text: &str, probes: &[&ProbeInfo]) -> Result<Expression, String> {
        Expression::parse_with(text, &mut |id, settings| {
            let info = probes.iter().find(|info| info.id == id);
            info.map(|info| (*info, settings))
                .ok_or_else(|| nearest::no_probe(id, probes, probes.iter().map(|info| &*info.id)))
        })
    }

    /// Parses an expression in which `find` returns the probe for a name, and its settings.
    ///
    /// # Errors
    /// As those of [`Expression::parse`], and those of `find`.
    pub fn parse_with<'a>(text: &str, find: Find<'_, 'a>) -> Result<Expression, String> {
        let first = Expression::parse_once(text, find, false);
        // `64k / memory.bandwidth` is about bytes, `10k * net.rtt` about a number.
        first.or_else(|error| Expression::parse_once(text, find, true).map_err(|_| error))
    }

    fn parse_once(text: &str, find: Find<'_, '_>, k_is_bytes: bool) -> Result<Expression, String> {
        let mut parser =
            Parser { text, rest: text, find, k_is_bytes, points: Vec::new(), depth: 0 };
        let (parts, dimension) = parser.parts()?;
        if !parser.rest.is_empty() {
            return Err(parser.wrong("`+`, `*` or `/`"));
        }
        let unit = match dimension {
            Dimension(0, 1) => Unit::Nanoseconds,
            Dimension(1, 0) => Unit::Bytes,
            Dimension(1, -1) => Unit::BytesPerSecond,
            Dimension(0, -1) => Unit::Hertz,
            NUMBER => Unit::One,
            other => return Err(format!("`{text}` is in {other}, which is not a cost")),
        };
        Ok(Expression { parts, points: parser.points, unit })
    }

    /// Evaluates the expression; `values` are those of [`Expression::points`].
    ///
    /// # Errors
    /// If it divides by zero.
    pub fn total(&self, values: &[Value]) -> Result<Total, String> {
        let middle: Vec<f64> = values.iter().map(|value| value.middle()).collect();
        let parts = self.parts.iter().map(|part| part.text.clone());
        let total = Total {
            value: self.total_of(&middle),
            interval: self.interval(values, &middle),
            parts: parts.zip(self.part_values(&middle)).collect(),
        };
        if total.value.is_finite() {
            return Ok(total);
        }
        Err("the expression divides by zero, or its value is too large".to_owned())
    }

    /// The 95 % interval of the total, if the measured points are independent: how far each alone
    /// changes it, combined as the square root of the sum of squares (MOVER: Zou and Donner,
    /// Statistics in Medicine 27, 2008). Predicted points have a range, not a distribution, so all
    /// of them are at their worst ends at once.
    fn interval(&self, values: &[Value], middle: &[f64]) -> Option<(f64, f64)> {
        let value = self.total_of(middle);
        let mut worst = [middle.to_vec(), middle.to_vec()];
        let mut apart: [f64; 2] = [0.0, 0.0];
        for (position, known) in values.iter().enumerate() {
            let (low, high) = known.ends()?;
            let with = |end| {
                let mut values = middle.to_vec();
                values[position] = end;
                self.total_of(&values)
            };
            // A longer time increases the total; a higher rate decreases it.
            let is_time = with(low) <= with(high);
            let (least, most) = if is_time { (low, high) } else { (high, low) };
            if matches!(known, Value::Predicted(..)) {
                worst[0][position] = least;
                worst[1][position] = most;
            } else {
                // A square of a large number would overflow.
                apart[0] = apart[0].hypot(value - with(least));
                apart[1] = apart[1].hypot(with(most) - value);
            }
        }
        let [low, high] = worst.map(|values| self.total_of(&values));
        // `max` would make zero of what is not a number.
        let ends = [low - apart[0], high + apart[1]];
        let is_known = ends.iter().all(|end| end.is_finite());
        is_known.then(|| (ends[0].max(0.0), ends[1]))
    }

    /// The total with the points at these values.
    fn total_of(&self, points: &[f64]) -> f64 {
        self.part_values(points).sum()
    }

    fn part_values(&self, points: &[f64]) -> impl Iterator<Item = f64> {
        let values = self.parts.iter().map(|part| part.node.value(points));
        values.map(|value| value / scale(self.unit))
    }
}

impl Value {
    /// The number to compute with.
    pub fn middle(&self) -> f64 {
        match *self {
            Value::Measured(median, _) => median,
            Value::Predicted(low, high) if low > 0.0 => (low * high).sqrt(),
            Value::Predicted(low, high) => f64::midpoint(low, high),
        }
    }

    /// Its interval or range; `None` if there is none.
    pub fn ends(&self) -> Option<(f64, f64)> {
        match *self {
            Value::Measured(_, ends) => ends,
            Value::Predicted(low, high) => Some((low, high)),
        }
    }
}

impl Node {
    /// In nanoseconds and bytes.
    fn value(&self, points: &[f64]) -> f64 {
        match self {
            Node::Number(value) => *value,
            Node::Point(position, scale) => points[*position] * scale,
            Node::Sum(nodes) => nodes.iter().map(|node| node.value(points)).sum(),
            Node::Product(factors) => factors.iter().fold(1.0, |value, (divides, node)| {
                if *divides {
                    divided(value, node.value(points))
                } else {
                    value * node.value(points)
                }
            }),
            Node::Max(nodes) => {
                let values = nodes.iter().map(|node| node.value(points));
                // f64::max would leave out what is not a number.
                values.fold(
                    0.0,
                    |most, value| {
                        if value > most || value.is_nan() { value } else { most }
                    },
                )
            }
        }
    }
}

/// The quotient, which is not a number where it divides by zero: infinity would give zero again as a divisor.
fn divided(value: f64, by: f64) -> f64 {
    if by == 0.0 { f64::NAN } else { value / by }
}

/// The factor that converts a value in this unit to nanoseconds and bytes.
fn scale(unit: Unit) -> f64 {
    match unit {
        Unit::BytesPerSecond | Unit::Hertz => 1e-9,
        Unit::Nanoseconds | Unit::Bytes | Unit::Cycles | Unit::Processor | Unit::One => 1.0,
    }
}

fn dimension(unit: Unit) -> Dimension {
    match unit {
        Unit::Nanoseconds => Dimension(0, 1),
        Unit::Hertz => Dimension(0, -1),
        Unit::Bytes => Dimension(1, 0),
        Unit::BytesPerSecond => Dimension(1, -1),
        Unit::Cycles | Unit::Processor | Unit::One => NUMBER,
    }
}

impl fmt::Display for Dimension {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |exponent: i32, unit: &str| match exponent {
            0 => None,
            1 => Some(unit.to_owned()),
            exponent => Some(format!("{unit}^{exponent}")),
        };
        match (name(self.0, "bytes"), name(self.1, "time")) {
            (None, None) => f.write_str("a number without a unit"),
            (Some(one), None) | (None, Some(one)) => f.write_str(&one),
            (Some(bytes), Some(time)) => write!(f, "{bytes} × {time}"),
        }
    }
}

/// Returns the probe for a name with these settings, and the settings in its present words, or a sentence that says why
/// there is none.
pub type Find<'f, 'p> =
    &'f mut dyn FnMut(&str, Settings) -> Result<(&'p ProbeInfo, Settings), String>;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::List;
    use crate::Text;
    use crate::testing::{probe_info, words_axis};

    fn probe(id: &'static str, unit: Unit, roles: &[&'static str]) -> ProbeInfo {
        let mut info = probe_info(id);
        info.axes = List::Owned(vec![words_axis("over", &["tcp", "udp"])]);
        info.metrics.to_mut()[0].unit = unit;
        info.roles = roles.iter().map(|role| Text::Borrowed(*role)).collect();
        info
    }

    fn parse(text: &str) -> Result<Expression, String> {
        let rtt = probe("net.rtt", Unit::Nanoseconds, &["server", "client"]);
        let rate = probe("memory.bandwidth", Unit::BytesPerSecond, &["only"]);
        Expression::parse(text, &[&rtt, &rate])
    }

    fn exactly(value: f64) -> Value {
        Value::Measured(value, Some((value, value)))
    }

    #[test]
    fn a_sum_has_its_parts_and_each_point_once() {
        let text = "10 * net.rtt(over lan) + 1MiB / memory.bandwidth + 2*net.rtt(over=udp, over lan) + net.rtt(over lan)";
        let expression = parse(text).unwrap();
        let points: Vec<String> = expression.points.iter().map(Point::to_string).collect();
        assert_eq!(points.len(), 3, "{points:?}");
        assert_eq!(expression.points[0].link, "lan");
        assert_eq!(expression.points[2].axes.to_string(), "over=udp");
        let total = expression.total(&[exactly(1000.0), exactly(1e9), exactly(50.0)]).unwrap();
        assert_eq!(total.value, 10_000.0 + 1_048_576.0 + 100.0 + 1000.0);
        assert_eq!(total.parts[1], ("1MiB / memory.bandwidth".to_owned(), 1_048_576.0));
    }

    #[test]
    fn measured_points_add_their_intervals_as_squares_and_predicted_ones_as_they_are() {
        let expression = parse("net.rtt + net.rtt(over=udp) + 1000B / memory.bandwidth").unwrap();
        let measured = |value: f64, by: f64| Value::Measured(value, Some((value - by, value + by)));
        let total = expression
            .total(&[measured(100.0, 3.0), measured(200.0, 4.0), Value::Predicted(1e9, 4e9)])
            .unwrap();
        assert_eq!(total.value, 800.0);
        assert_eq!(total.interval, Some((550.0 - 5.0, 1300.0 + 5.0)));
    }

    #[test]
    fn without_an_interval_of_each_point_there_is_none() {
        let expression = parse("net.rtt + 1ns").unwrap();
        let total = expression.total(&[Value::Measured(100.0, None)]).unwrap();
        assert_eq!((total.value, total.interval), (101.0, None));
        let division = parse("1B / memory.bandwidth").unwrap();
        let error = division.total(&[exactly(0.0)]).unwrap_err();
        assert!(error.contains("divides by zero"), "{error}");
    }

    #[test]
    fn a_point_is_named_by_its_id() {
        for id in [
            "memory.bandwidth",
            "memory.bandwidth(over=udp)",
            "net.rtt(over=udp, over loopback)",
            "net.rtt(over=udp, over delay=1ms,loss=1%)",
        ] {
            assert_eq!(parse(id).unwrap().points[0].id(), id);
        }
    }

    #[test]
    fn a_link_may_hold_commas() {
        let expression = parse("net.rtt(over=udp, over delay=1ms,loss=1%) * 2").unwrap();
        let point = &expression.points[0];
        assert_eq!(point.link, "delay=1ms,loss=1%");
        assert_eq!(point.axes.to_string(), "over=udp");
        assert_eq!(parse("net.rtt()").unwrap().points[0].link, "loopback");
    }

    #[test]
    fn the_longest_counts_and_parentheses_group() {
        let total =
            |text: &str, values: &[Value]| parse(text).unwrap().total(values).unwrap().value;
        assert_eq!(total("2 * (3us + 1.5ms)", &[]), 3_006_000.0);
        assert_eq!(total("max(net.rtt, 1us + 1us, 5ns)", &[exactly(500.0)]), 2000.0);
        assert_eq!(parse("1GiB / 2s").unwrap().unit, Unit::BytesPerSecond);
        assert_eq!(total("1GB / 1s", &[]).round(), 1e9);
        assert_eq!(total(&("2 / 2 * ".repeat(15_000) + "3"), &[]), 3.0);
    }

    #[test]
    fn numbers_are_read_as_people_write_them() {
        let rtt = exactly(500.0);
        for (text, value, unit) in [
            ("10k * net.rtt", 5e6, Unit::Nanoseconds),
            ("10k / memory.bandwidth", 10_240e9 / 500.0, Unit::Nanoseconds),
            ("10Gbit/s", 1.25e9, Unit::BytesPerSecond),
            ("1.25GB / 10Gbit/s", 1e9, Unit::Nanoseconds),
            ("1.25GB / 10Gbps", 1e9, Unit::Nanoseconds),
            ("8Mbit", 1e6, Unit::Bytes),
            ("50/s", 50.0, Unit::Hertz),
            ("100 / 50/s", 2e9, Unit::Nanoseconds),
            ("100MB/s", 1e8, Unit::BytesPerSecond),
            ("2 / 1s", 2.0, Unit::Hertz),
            ("2M", 2e6, Unit::One),
        ] {
            let expression = parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
            let values = vec![rtt; expression.points.len()];
            let total = expression.total(&values).unwrap();
            assert_eq!(expression.unit, unit, "{text}");
            assert!((total.value / value - 1.0).abs() < 1e-12, "{text}: {total:?}");
        }
    }

    #[test]
    fn what_is_not_finite_is_no_answer() {
        let wide = || Value::Measured(1e5, Some((9e4, 1.1e5)));
        let large = parse("net.rtt * 1e300").unwrap().total(&[wide()]).unwrap();
        let (low, high) = large.interval.unwrap();
        assert!(low > 8e304 && high < 1.2e305, "{large:?}");
        for text in ["1 / (1 / 0) * 1ns", "max(0 / 0 * 1ns, 5ns)", "1ns * 1e300 * 1e300"] {
            let error = parse(text).unwrap().total(&[]).unwrap_err();
            assert!(error.contains("divides by zero"), "{text}: {error}");
        }
        // A divisor that may be zero leaves the total without an upper end.
        let may_be_zero = Value::Measured(5.0, Some((0.0, 9.0)));
        let total = parse("1B / memory.bandwidth").unwrap().total(&[may_be_zero]);
        assert_eq!(total.unwrap().interval, None);
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, named) in [
            ("", "`` ends where"),
            ("3 +", "`3 +` ends where"),
            ("net.rt", "did you mean `net.rtt`?"),
            ("net.rtt(size=3)", "net.rtt has no axis `size`"),
            ("net.rtt(over=tpc)", "values: tcp, udp"),
            ("net.rtt(udp)", "`udp`, of net.rtt, is neither"),
            ("net.rtt + 1MiB", "`1MiB` is bytes"),
            ("net.rtt * net.rtt", "time^2"),
            ("max(1, 1ms)", "without a unit"),
            ("net.rtt - 3ns", "`- 3ns` stands where"),
            ("(3", "`(3` ends where `)` is missing"),
            ("3parsec", "unit of bytes"),
            ("net.rtt(over lna)", "`lna` is not a link"),
            ("memory.bandwidth(over lan)", "memory.bandwidth has one end"),
            (&"(".repeat(200), "more than 100 parentheses"),
            ("1e999", "`1e999` is too large"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(named), "{text}: {error}");
        }
    }
}
