//! Relations: which points of a run cannot cost less than others, because of what they do.

use crate::{Axes, AxisValue, List, Text};
use serde::{Deserialize, Serialize};
use std::fmt;

/// A relation between points of one run that holds on every machine. Rows that violate it
/// contradict each other. For a rate, greater means less cost.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Relation {
    /// The more expensive points, of the probe that has this relation, by values on some axes.
    #[serde(default)]
    pub these: Axes,
    /// The probe of the points that cost no more; absent for the same probe.
    pub probe: Option<Text>,
    /// The values of those points on some axes. On the other axes they have the same values as
    /// these points, or otherwise the default.
    #[serde(default)]
    pub those: Axes,
    /// If present, those points have a smaller value on this axis, and the same values on all
    /// others.
    pub rises_with: Option<Text>,
    /// Why.
    pub because: Text,
}

impl Relation {
    /// A relation with this reason.
    pub fn because(because: &'static str) -> Relation {
        Relation { because: Text::Borrowed(because), ..Relation::default() }
    }

    /// Applies to points with this value.
    #[must_use]
    pub fn these(mut self, axis: &'static str, value: impl Into<AxisValue>) -> Relation {
        self.these = self.these.with(axis, value);
        self
    }

    /// They cost no less than points with this value.
    #[must_use]
    pub fn those(mut self, axis: &'static str, value: impl Into<AxisValue>) -> Relation {
        self.those = self.those.with(axis, value);
        self
    }

    /// Those points belong to another probe.
    #[must_use]
    pub fn of(mut self, probe: &'static str) -> Relation {
        self.probe = Some(Text::Borrowed(probe));
        self
    }

    /// They cost no less than points with a smaller value on this axis.
    #[must_use]
    pub fn rises_with(mut self, axis: &'static str) -> Relation {
        self.rises_with = Some(Text::Borrowed(axis));
        self
    }
}

impl fmt::Display for Relation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Relation { these, those, because, .. } = self;
        match (&self.rises_with, &self.probe) {
            (Some(axis), _) => write!(f, "{these} costs no less than with less {axis}: {because}"),
            (None, None) => write!(f, "{these} costs no less than {those}: {because}"),
            (None, Some(probe)) => {
                let those = Some(those.to_string()).filter(|those| !those.is_empty());
                let those = those.map_or_else(String::new, |those| format!(" {those}"));
                write!(f, "{these} costs no less than {probe}{those}: {because}")
            }
        }
    }
}

pub(crate) fn are_none<T: Clone>(list: &List<T>) -> bool {
    list.is_empty()
}
