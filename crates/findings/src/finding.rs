//! A finding: its meaning as figures, and the points that are its evidence.

use crate::Kind;
use crate::figures::Figures;
use crate::sentence::render;
use costof_model::point::Point;
use costof_model::rows::PointRow;
use std::borrow::Borrow;
use std::collections::HashSet;

/// A conclusion from points of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// The kind of finding.
    pub kind: Kind,
    /// The computed figures.
    pub figures: Figures,
    /// The points that it follows from.
    pub evidence: Vec<Point>,
}

impl Finding {
    /// A finding that follows from these rows; a point that is there twice is named once.
    pub(crate) fn new(
        kind: Kind,
        evidence: impl IntoIterator<Item = impl Borrow<PointRow>>,
        figures: Figures,
    ) -> Finding {
        let mut evidence: Vec<Point> = evidence
            .into_iter()
            .map(|row| row.borrow().point.clone())
            .collect();
        let mut known = HashSet::new();
        evidence.retain(|point| known.insert(point.clone()));
        Finding {
            kind,
            figures,
            evidence,
        }
    }

    /// The finding as a sentence.
    pub fn sentence(&self) -> String {
        render(self.kind, "sentence", &self.figures).unwrap_or_default()
    }

    /// The finding and what the reader can do about it.
    pub fn with_advice(&self) -> String {
        let advice = self.advice().map(|advice| format!(": {advice}"));
        self.sentence() + &advice.unwrap_or_default()
    }

    /// What the reader can do about it; none if there is nothing to do.
    pub fn advice(&self) -> Option<String> {
        let advice = render(self.kind, "advice", &self.figures)?;
        (!advice.is_empty()).then_some(advice)
    }
}

/// A question that a study asks, with the findings that answer it.
#[derive(Clone, Debug, PartialEq)]
pub struct Question {
    /// The question as a person asks it, with its number.
    pub question: &'static str,
    /// The findings of the run that answer it.
    pub answers: Vec<Finding>,
    /// What the run lacks for an answer, or what disturbed it; none if there is an answer.
    pub lacks: Option<String>,
}
