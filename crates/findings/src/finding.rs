//! A finding: what points mean, as figures, with the points that are its evidence.

use crate::Kind;
use crate::figures::Figures;
use crate::sentence::render;
use costof_model::point::Point;
use costof_model::rows::PointRow;
use std::borrow::Borrow;
use std::collections::HashSet;

/// What points mean.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// What kind of finding.
    pub kind: Kind,
    /// What was computed.
    pub figures: Figures,
    /// The points that it follows from.
    pub evidence: Vec<Point>,
}

impl Finding {
    /// One that follows from these rows, each named once.
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

    /// What was found.
    pub fn sentence(&self) -> String {
        render(self.kind, "sentence", &self.figures).unwrap_or_default()
    }

    /// What was found, and what the reader can do about it.
    pub fn with_advice(&self) -> String {
        let advice = self.advice().map(|advice| format!(": {advice}"));
        self.sentence() + &advice.unwrap_or_default()
    }

    /// What the reader can do about it, where there is something to do.
    pub fn advice(&self) -> Option<String> {
        let advice = render(self.kind, "advice", &self.figures)?;
        (!advice.is_empty()).then_some(advice)
    }
}

/// A question that a study asks, with the findings that answer it.
#[derive(Clone, Debug, PartialEq)]
pub struct Question {
    /// As a person asks it, with its number.
    pub question: &'static str,
    /// What answers it, from the run.
    pub answers: Vec<Finding>,
    /// What the run lacks for an answer, or what disturbed it; none where it has one.
    pub lacks: Option<String>,
}
