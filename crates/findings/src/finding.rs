//! A finding: its meaning as a sentence, and the points that are its evidence.

use crate::Kind;
use costof_model::{Point, PointRow};
use std::borrow::Borrow;
use std::collections::HashSet;

/// A conclusion from points of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// The kind of finding.
    pub kind: Kind,
    /// The finding as a sentence, without a full stop.
    pub sentence: String,
    /// What the reader can do about it; none if there is nothing to do.
    pub advice: Option<String>,
    /// The points that it follows from.
    pub evidence: Vec<Point>,
}

impl Finding {
    /// A finding that follows from these rows; a point that is there twice is named once.
    pub(crate) fn new(
        kind: Kind,
        evidence: impl IntoIterator<Item = impl Borrow<PointRow>>,
        sentence: String,
    ) -> Finding {
        let evidence = evidence.into_iter().map(|row| row.borrow().point.clone()).collect();
        Finding::of_points(kind, evidence, sentence)
    }

    /// The same for points.
    pub(crate) fn of_points(kind: Kind, mut evidence: Vec<Point>, sentence: String) -> Finding {
        let mut known = HashSet::new();
        evidence.retain(|point| known.insert(point.clone()));
        Finding { kind, sentence, advice: None, evidence }
    }

    /// Adds what the reader can do about it, unless the text is empty.
    pub(crate) fn advise(self, advice: impl Into<String>) -> Finding {
        let advice = Some(advice.into()).filter(|advice| !advice.is_empty());
        Finding { advice, ..self }
    }

    /// The finding and what the reader can do about it.
    pub fn with_advice(&self) -> String {
        match &self.advice {
            Some(advice) => format!("{}: {advice}", self.sentence),
            None => self.sentence.clone(),
        }
    }
}
