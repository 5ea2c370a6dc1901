//! The parser of expressions.

use super::{Dimension, Find, NUMBER, Node, Part, dimension, scale};
use crate::unit::{parse_bits_per_second, parse_bytes, parse_count, parse_ns};
use crate::{Link, Point, ProbeInfo, Text, Unit, id, plan};

pub(super) struct Parser<'a, 'f, 'p> {
    pub(super) text: &'a str,
    pub(super) rest: &'a str,
    pub(super) find: Find<'f, 'p>,
    /// Whether `10k` is a size.
    pub(super) k_is_bytes: bool,
    pub(super) points: Vec<Point>,
    /// How many parentheses are open.
    pub(super) depth: usize,
}

/// At most this many parentheses may be open at once.
const MAX_DEPTH: usize = 100;

type Parsed = Result<(Node, Dimension), String>;

impl<'a> Parser<'a, '_, '_> {
    /// Terms and the plus signs between them, up to the first token that is neither.
    pub(super) fn parts(&mut self) -> Result<(Vec<Part>, Dimension), String> {
        let mut parts = Vec::new();
        let mut dimension: Option<Dimension> = None;
        loop {
            let start = self.rest.trim_start();
            let (node, own) = self.term()?;
            let text = start[..start.len() - self.rest.len()].trim().to_owned();
            let first = *dimension.get_or_insert(own);
            if own != first {
                return Err(format!("`{text}` is {own} and cannot be added to {first}"));
            }
            parts.push(Part { text, node });
            if !self.takes('+') {
                return Ok((parts, first));
            }
        }
    }

    /// Factors, with `*` and `/` between them.
    fn term(&mut self) -> Parsed {
        let (first, mut dimension) = self.factor()?;
        let mut factors = vec![(false, first)];
        loop {
            let divides = if self.takes('*') {
                false
            } else if self.takes('/') {
                true
            } else {
                return Ok((Node::Product(factors), dimension));
            };
            let (factor, own) = self.factor()?;
            let sign = if divides { -1 } else { 1 };
            dimension = Dimension(dimension.0 + sign * own.0, dimension.1 + sign * own.1);
            factors.push((divides, factor));
        }
    }

    fn factor(&mut self) -> Parsed {
        if self.takes('(') {
            let sum = self.nested()?;
            self.expect(')')?;
            return Ok(sum);
        }
        let word = self.take_while(is_in_a_name);
        match word.chars().next() {
            Some(first) if first.is_ascii_digit() => {
                let bits = word.strip_suffix("ps").filter(|word| word.ends_with('b'));
                let per_second = bits.is_some() || self.takes_per_second();
                number(bits.unwrap_or(word), per_second, self.k_is_bytes)
            }
            Some(_) if word == "max" => self.max(),
            Some(_) => self.point(word),
            None => Err(self.wrong("a number, a probe or `(`")),
        }
    }

    /// The expression in parentheses, up to a comma or the closing parenthesis.
    fn nested(&mut self) -> Parsed {
        if self.depth == MAX_DEPTH {
            return Err(format!("more than {MAX_DEPTH} parentheses are open"));
        }
        self.depth += 1;
        let (parts, dimension) = self.parts()?;
        self.depth -= 1;
        let nodes = parts.into_iter().map(|part| part.node).collect();
        Ok((Node::Sum(nodes), dimension))
    }

    /// The arguments of `max`.
    fn max(&mut self) -> Parsed {
        self.expect('(')?;
        let mut nodes = Vec::new();
        let mut dimension = None;
        loop {
            let (node, own) = self.nested()?;
            let first = *dimension.get_or_insert(own);
            if own != first {
                return Err(format!("max() cannot compare {first} with {own}"));
            }
            nodes.push(node);
            if !self.takes(',') {
                self.expect(')')?;
                return Ok((Node::Max(nodes), first));
            }
        }
    }

    /// A probe, optionally followed by parentheses with the values that differ from its defaults.
    fn point(&mut self, id: &str) -> Parsed {
        let (settings, link) = self.arguments(id)?;
        let (info, settings) = (self.find)(id, settings)?;
        let axes = plan::points(info, &settings)?;
        let point = Point {
            probe: info.id.clone(),
            axes: axes.into_iter().next().unwrap_or_else(|| info.defaults()),
            link: Text::Owned(link_of(info, link)?),
        };
        let unit = info.metrics.first().map_or(Unit::One, |metric| metric.unit);
        let position = self.points.iter().position(|known| *known == point).unwrap_or_else(|| {
            self.points.push(point);
            self.points.len() - 1
        });
        Ok((Node::Point(position, scale(unit)), dimension(unit)))
    }

    /// The parentheses after a probe, if there are any: its axes, and its link last.
    fn arguments(&mut self, id: &str) -> Result<(plan::Settings, Option<&'a str>), String> {
        if !self.takes('(') {
            return Ok(Default::default());
        }
        let read = id::arguments(self.rest);
        let (axes, link, rest) = read.map_err(|argument| {
            format!("`{argument}`, of {id}, is neither `axis=value` nor `over LINK`")
        })?;
        self.rest = rest;
        self.expect(')')?;
        let axes = axes.into_iter();
        let settings = axes.map(|(axis, value)| (axis.to_owned(), vec![value.to_owned()]));
        Ok((settings.collect(), link))
    }

    fn take_while(&mut self, is_part: impl Fn(char) -> bool) -> &'a str {
        self.rest = self.rest.trim_start();
        let end = self.rest.find(|c| !is_part(c)).unwrap_or(self.rest.len());
        let (taken, rest) = self.rest.split_at(end);
        self.rest = rest;
        taken
    }

    /// Takes `/s`, which makes a rate of the number before it.
    fn takes_per_second(&mut self) -> bool {
        let rest = self.rest.strip_prefix("/s");
        let rest = rest.filter(|rest| !rest.starts_with(is_in_a_name));
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn takes(&mut self, sign: char) -> bool {
        let rest = self.rest.trim_start().strip_prefix(sign);
        self.rest = rest.unwrap_or(self.rest).trim_start();
        rest.is_some()
    }

    fn expect(&mut self, sign: char) -> Result<(), String> {
        if self.takes(sign) {
            return Ok(());
        }
        Err(self.wrong(&format!("`{sign}`")))
    }

    pub(super) fn wrong(&self, wanted: &str) -> String {
        let end = self.text.trim_end();
        let before = end[..end.len() - self.rest.trim_end().len()].trim_end();
        if self.rest.is_empty() {
            format!("`{before}` ends where {wanted} is missing")
        } else {
            format!("`{}` stands where {wanted} is expected", self.rest)
        }
    }
}

/// The link of a point, in its canonical form.
fn link_of(info: &ProbeInfo, asked: Option<&str>) -> Result<String, String> {
    match asked {
        None if info.needs_link() => Ok("loopback".to_owned()),
        None => Ok("none".to_owned()),
        Some(link) if info.needs_link() => Ok(link.parse::<Link>()?.to_string()),
        Some(link) => Err(format!("{} has one end, so no link (`over {link}`)", info.id)),
    }
}

fn is_in_a_name(c: char) -> bool {
    c.is_alphanumeric() || "._µ".contains(c)
}

/// A number, with or without a unit of bytes, of bits or of time. Letters such as `k` alone are thousands, or
/// sizes.
fn number(word: &str, per_second: bool, k_is_bytes: bool) -> Parsed {
    let (node, Dimension(bytes, time)) = amount(word, per_second, k_is_bytes)?;
    Ok(match node {
        Node::Number(number) if per_second => {
            (Node::Number(number * scale(Unit::Hertz)), Dimension(bytes, time - 1))
        }
        node => (node, Dimension(bytes, time)),
    })
}

fn amount(word: &str, per_second: bool, k_is_bytes: bool) -> Parsed {
    if let Ok(number) = word.parse::<f64>() {
        return if number.is_finite() {
            Ok((Node::Number(number), NUMBER))
        } else {
            Err(format!("`{word}` is too large"))
        };
    }
    let split = word.find(|c: char| c.is_alphabetic()).unwrap_or(word.len());
    let (digits, unit) = word.split_at(split);
    let one = format!("1{unit}");
    let bits = parse_bits_per_second(&format!("{one}{}", if per_second { "/s" } else { "" }));
    let count = parse_count(&one).filter(|_| !k_is_bytes);
    let (step, dimension) = if let Some(ns) = parse_ns(&one) {
        (ns as f64, Dimension(0, 1))
    } else if let Some(count) = count {
        (count as f64, NUMBER)
    } else if let Some(bits) = bits {
        (bits / 8.0, Dimension(1, 0))
    } else if let Some(bytes) = parse_bytes(&one) {
        (bytes as f64, Dimension(1, 0))
    } else {
        return Err(format!(
            "`{word}` has no unit of bytes (KiB, MiB, GiB, kB, MB, GB, Mbit, Gbit) or time (ns, us, ms, s)"
        ));
    };
    let number: f64 = digits.parse().map_err(|_| format!("`{word}` is not a number"))?;
    Ok((Node::Number(number * step), dimension))
}
