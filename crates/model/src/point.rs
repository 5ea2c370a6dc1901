//! A point: one value for every axis of a probe.

use crate::Text;
use crate::axis::Axes;
use crate::emulated::mark;
use crate::probe_info::read_id;
use serde::{Deserialize, Serialize, Serializer};
use std::fmt;

/// A point of a probe on a link: what one number measures.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Point {
    /// The probe's id.
    #[serde(deserialize_with = "read_id")]
    pub probe: Text,
    /// A value for every axis.
    pub axes: Axes,
    /// The path between the roles' hosts; `none` where there is one role.
    pub link: Text,
}

/// A point of the latency table, and its common name.
#[derive(Clone, Debug, PartialEq)]
pub struct Headline {
    /// Its common name: `L1 cache reference`.
    pub label: String,
    /// Its values on the axes.
    pub axes: Axes,
    /// The link of the point; `None` for the run's own link, if the probe needs one.
    pub link: Option<&'static str>,
}

impl Headline {
    /// A headline called `label` at `axes`.
    pub fn new(label: impl Into<String>, axes: impl Into<Axes>) -> Headline {
        Headline { label: label.into(), axes: axes.into(), link: None }
    }

    /// The same over this link; the label is marked if the link is emulated.
    #[must_use]
    pub fn over(self, link: &'static str) -> Headline {
        Headline { label: self.label + mark(link), link: Some(link), ..self }
    }
}

/// Implements `Measure::headlines` for a probe whose headlines are the same on every machine: a
/// label, the axes that differ from the defaults, and the link, if the point needs a certain one.
#[macro_export]
macro_rules! headlines {
    ($($label:literal: {$($field:ident: $value:expr),* $(,)?} $(over $link:literal)?),+ $(,)?) => {
        #[allow(clippy::needless_update, reason = "a headline may name every axis")]
        fn headlines(_: &$crate::facts::Facts) -> Vec<$crate::point::Headline> {
            vec![$(
                $crate::point::Headline::new(
                    $label,
                    Self { $($field: $value,)* ..Self::default() },
                )$(.over($link))?
            ),+]
        }
    };
}

/// A point of a probe's own plan.
#[derive(Clone, Debug, PartialEq)]
pub struct Planned {
    /// Its values on the axes.
    pub axes: Axes,
    /// The link of the point; `None` for every link of the run.
    pub link: Option<&'static str>,
}

impl Planned {
    /// These points, over every link of the run.
    pub fn all(points: impl IntoIterator<Item: Into<Axes>>) -> Vec<Planned> {
        let axes = points.into_iter().map(Into::into);
        axes.map(|axes| Planned { axes, link: None }).collect()
    }

    /// One point, over this link only.
    pub const fn over(axes: Axes, link: &'static str) -> Planned {
        Planned { axes, link: Some(link) }
    }
}

/// The layer of a probe, which is its id up to the first dot.
pub(crate) fn layer(probe: &str) -> &str {
    probe.split('.').next().unwrap_or(probe)
}

impl Point {
    /// The layer of its probe: `memory`.
    pub fn layer(&self) -> &str {
        layer(&self.probe)
    }

    /// Its id among all points of all runs, as `costof estimate` accepts it: `net.rtt(over=tcp,
    /// size=56, over lan)`.
    pub fn id(&self) -> String {
        let axes = self.axes.0.iter();
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

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.probe)?;
        if !self.axes.0.is_empty() {
            write!(f, " {}", self.axes)?;
        }
        if self.link != "none" {
            write!(f, " over {}", self.link)?;
        }
        Ok(())
    }
}
