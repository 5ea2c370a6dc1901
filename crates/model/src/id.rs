//! Ids: the one place that makes the id of a point, and that takes one apart.
//!
//! An id is `probe(axis=value, over LINK)`. It leaves out the axes that are at their probe's defaults, so a new axis
//! changes the id of no point. It is a name: points are compared by all of their values, never by their ids.

use crate::Point;
use serde::{Serialize, Serializer};

impl Point {
    /// Its id among all points of all runs, as `costof estimate` accepts it: `net.rtt(size=1024, over lan)`.
    pub fn id(&self) -> String {
        let axes = self.axes.besides_defaults();
        let mut arguments: Vec<String> =
            axes.map(|(axis, value)| format!("{axis}={value}")).collect();
        if self.link != "none" {
            arguments.push(format!("over {}", self.link));
        }
        match arguments.as_slice() {
            [] => self.probe.to_string(),
            arguments => format!("{}({})", self.probe, arguments.join(", ")),
        }
    }
}

/// Writes a point into a row, with its id, by which other programs join rows.
///
/// # Errors
/// The errors of the serializer.
pub fn with_id<S: Serializer>(point: &Point, serializer: S) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct WithId<'p> {
        point: String,
        #[serde(flatten)]
        parts: &'p Point,
        emulated: bool,
    }
    let row = WithId { point: point.id(), parts: point, emulated: point.is_emulated() };
    row.serialize(serializer)
}

/// The parts of an id, as they are written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Parts<'t> {
    pub(crate) probe: &'t str,
    pub(crate) axes: Vec<(&'t str, &'t str)>,
    pub(crate) link: Option<&'t str>,
}

impl<'t> Parts<'t> {
    /// The parts of an id; `None` if the text is none.
    pub(crate) fn read(text: &'t str) -> Option<Parts<'t>> {
        let Some((probe, rest)) = text.split_once('(') else {
            return Some(Parts { probe: text, axes: Vec::new(), link: None });
        };
        let (axes, link, rest) = arguments(rest).ok()?;
        (rest == ")").then_some(Parts { probe, axes, link })
    }
}

/// Axes with their values, a link, and what follows.
type Arguments<'t> = (Vec<(&'t str, &'t str)>, Option<&'t str>, &'t str);

/// What stands in the parentheses of an id, up to the closing one: axes with their values, and a link last, which may
/// contain commas. The rest begins with the closing parenthesis.
///
/// # Errors
/// What stands there instead of an axis with its value.
pub(crate) fn arguments(text: &str) -> Result<Arguments<'_>, &str> {
    let mut axes = Vec::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() && !rest.starts_with(')') {
        if let Some(link) = rest.strip_prefix("over ") {
            let (link, rest) = split(link, ")");
            return Ok((axes, Some(link), rest));
        }
        let (argument, after) = split(rest, ",)");
        let (axis, value) = argument.split_once('=').ok_or(argument)?;
        axes.push((axis.trim_end(), value.trim_start()));
        match after.strip_prefix(',') {
            Some(more) => rest = more.trim_start(),
            None => return Ok((axes, None, after)),
        }
    }
    Ok((axes, None, rest))
}

/// The text up to one of these signs without blanks around it, and the rest.
fn split<'t>(text: &'t str, signs: &str) -> (&'t str, &'t str) {
    let end = text.find(|sign| signs.contains(sign)).unwrap_or(text.len());
    let (before, rest) = text.split_at(end);
    (before.trim(), rest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Axes;
    use crate::testing::words_axis;

    #[test]
    fn an_id_leaves_out_defaults_and_a_row_has_all_axes() {
        let axes = [words_axis("over", &["tcp", "udp"]), words_axis("wait", &["block", "spin"])];
        let mut point =
            Point { probe: "net.rtt".into(), axes: Axes::defaults(&axes), link: "none".into() };
        assert_eq!(point.id(), "net.rtt");
        point.axes = point.axes.with("wait", "spin");
        assert_eq!(point.id(), "net.rtt(wait=spin)");
        point.link = "delay=1ms,loss=1%".into();
        assert_eq!(point.id(), "net.rtt(wait=spin, over delay=1ms,loss=1%)");
        let row = with_id(&point, serde_json::value::Serializer).unwrap();
        assert_eq!(row["axes"], serde_json::json!({"over": "tcp", "wait": "spin"}));
        // Of a probe that is not known, nothing can be left out.
        let point = Point { axes: Axes::default().with("over", "tcp"), ..point };
        assert_eq!(point.id(), "net.rtt(over=tcp, over delay=1ms,loss=1%)");
    }

    #[test]
    fn an_id_is_taken_apart() {
        let axes = vec![("over", "udp"), ("size", "8")];
        let parts = Parts { probe: "a.b", axes, link: Some("delay=1ms,loss=1%") };
        assert_eq!(Parts::read("a.b(over=udp, size=8, over delay=1ms,loss=1%)"), Some(parts));
        let bare = Parts { probe: "a.b", axes: Vec::new(), link: None };
        for text in ["a.b", "a.b()"] {
            assert_eq!(Parts::read(text), Some(bare.clone()));
        }
        for text in ["a.b(", "a.b(x)", "a.b(x=1) ", "a.b(x=1, over lan"] {
            assert_eq!(Parts::read(text), None, "{text}");
        }
    }
}
