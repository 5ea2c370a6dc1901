//! A point: one value for every axis of a probe. [`id`](crate::id) has its name.

use crate::link::mark;
use crate::{Axes, Text};
use serde::{Deserialize, Serialize};
use std::fmt;

/// A point of a probe on a link: what one number measures.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Point {
    /// The probe's id.
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

    /// Whether it is measured over an emulated link.
    pub fn is_emulated(&self) -> bool {
        !mark(&self.link).is_empty()
    }
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
