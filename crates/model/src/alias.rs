//! Aliases: the names that points had before a probe, an axis or a value was renamed, or a probe became part of
//! another. A probe declares those of its points; [`Names`](crate::names::Names) uses them.

use crate::Text;
use crate::id::Parts;
use serde::{Deserialize, Serialize};

/// A name that points of a probe had, and their name now: `rudp.rtt(stack=udp)` and `net.rtt(over=udp)`.
///
/// Both are ids. `was` has the values that tell these points from others, or that have another name now; `is` has what
/// they are instead. A `*` stands for any value: each one in `is` for the value at the one of the same number in `was`.
/// Axes that `was` does not name keep their names and values; those that the probe has and neither names get their
/// defaults.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Alias {
    /// The old name.
    pub was: Text,
    /// The present name, of a point of the probe that declares the alias.
    pub is: Text,
    /// The method of the old probe whose numbers are those of this probe, and that method's number here. Points of
    /// other methods keep their old name. `None`: the methods of both have the same numbers.
    pub method: Option<(u32, u32)>,
}

impl Alias {
    /// The old name and the present one.
    pub fn new(was: impl Into<Text>, is: impl Into<Text>) -> Alias {
        Alias { was: was.into(), is: is.into(), method: None }
    }

    /// For the points of the old probe's method `then`, whose numbers are those of method `now` here.
    #[must_use]
    pub fn of_method(self, then: u32, now: u32) -> Alias {
        Alias { method: Some((then, now)), ..self }
    }

    /// The id of the old probe.
    pub fn probe(&self) -> &str {
        self.was.split('(').next().unwrap_or_default()
    }

    /// The axes of the old name, and of the present one.
    pub(crate) fn axes(&self) -> [Vec<(&str, &str)>; 2] {
        [&self.was, &self.is].map(|id| Parts::read(id).map_or_else(Vec::new, |parts| parts.axes))
    }
}
