//! Relations: which points of a run cannot cost less than which others, because of what they do.

use crate::axis::{Axes, AxisValue};
use crate::{List, Text};
use serde::{Deserialize, Serialize};
use std::fmt;

/// What holds between points of one run on every machine. Rows that say otherwise contradict each other.
/// A rate costs less where it is greater.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Relation {
    /// Points of the probe that has this relation, by values on some axes.
    #[serde(default)]
    pub these: Axes,
    /// The probe of the points that cost no more; absent: the same one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probe: Option<Text>,
    /// What those have on some axes. On others they have what these have, or else the default.
    #[serde(default)]
    pub those: Axes,
    /// Those are the ones with less on this axis, where there is one, and the same on all others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rises_with: Option<Text>,
    /// Why.
    pub because: Text,
}

impl Relation {
    /// One that holds because of this.
    pub fn because(because: &'static str) -> Relation {
        Relation {
            because: Text::Borrowed(because),
            ..Relation::default()
        }
    }

    /// Of these points.
    #[must_use]
    pub fn these(mut self, axis: &'static str, value: impl Into<AxisValue>) -> Relation {
        self.these = self.these.with(axis, value);
        self
    }

    /// They cost no less than those.
    #[must_use]
    pub fn those(mut self, axis: &'static str, value: impl Into<AxisValue>) -> Relation {
        self.those = self.those.with(axis, value);
        self
    }

    /// Those are of another probe.
    #[must_use]
    pub fn of(mut self, probe: &'static str) -> Relation {
        self.probe = Some(Text::Borrowed(probe));
        self
    }

    /// They cost no less than those with less on this axis.
    #[must_use]
    pub fn rises_with(mut self, axis: &'static str) -> Relation {
        self.rises_with = Some(Text::Borrowed(axis));
        self
    }
}

impl fmt::Display for Relation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Relation {
            these,
            those,
            because,
            ..
        } = self;
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

pub(crate) fn are_none(relations: &List<Relation>) -> bool {
    relations.is_empty()
}
